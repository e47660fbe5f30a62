"""What a process with torch finds on this machine."""

from __future__ import annotations

import subprocess

import pytest

from engine import machine
from engine.errors import ModelError
from engine.machine import ask_machine


def test_torch_is_asked_in_a_process_of_its_own() -> None:
    found = ask_machine()
    assert found.torch.startswith("2.")
    assert found.threads >= 1
    assert bool(found.why_not_native) == ("No native kernels" in found.why_not_native)


def test_a_torch_that_breaks_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 1, "", "Traceback\nImportError: libtorch.so\n")

    monkeypatch.setattr(machine.subprocess, "run", broken)
    with pytest.raises(ModelError) as refusal:
        ask_machine()
    assert str(refusal.value) == (
        "torch cannot be used: ImportError: libtorch.so. Install mashbox again."
    )
