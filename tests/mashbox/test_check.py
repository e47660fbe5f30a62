"""`mashbox check`: the machine, and what fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.machine import Machine
from mashbox import check
from mashbox.check import machine_report, model_report
from mashbox.memory import Room
from tests.mashbox.own_catalogue import write_catalogue

MACHINE = Machine("2.13.0", [], 2, True, "", "c++: g++ 12.2.0")
FREE = 20 * 10**9


def free_is(free: int, monkeypatch: pytest.MonkeyPatch, on_gpu: bool = False) -> None:
    monkeypatch.setattr(check, "find_room", lambda device: Room(free, on_gpu))
    monkeypatch.setattr(check, "host_free", lambda: free)


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_catalogue(tmp_path, monkeypatch)
    monkeypatch.setattr(check, "ask_machine", lambda: MACHINE)
    free_is(FREE, monkeypatch)
    (tmp_path / "cpuinfo").write_text(
        "processor : 0\nmodel name\t: Some CPU\nflags\t\t: fpu avx avx2 avx512_vnni\n\n"
        "processor : 1\nmodel name\t: Some CPU\nflags\t\t: fpu avx avx2 avx512_vnni\n"
    )
    monkeypatch.setattr(check, "_CPU_INFO", tmp_path / "cpuinfo")
    (tmp_path / "cache" / "models").mkdir(parents=True)
    (tmp_path / "cache" / "models" / "x").write_bytes(bytes(3_000_000))


def facts() -> dict[str, str]:
    """The lines before the table, by their first word."""
    lines = list(machine_report())
    return {line[:11].strip(): line[11:] for line in lines[: lines.index("")]}


def test_the_machine_is_told_in_lines(tmp_path: Path) -> None:
    told = facts()
    assert told["mashbox"].endswith(", torch 2.13.0")
    assert told["device"] == "cpu"
    assert told["cpu"] == "Some CPU, 2 threads"
    assert told["features"] == "avx, avx2, avx512_vnni"
    assert told["kernels"] == "native"
    assert told["compiler"] == "c++: g++ 12.2.0"
    assert told["memory"].startswith("20.0 GB of ") and told["memory"].endswith(" free")
    assert told["cache"] == f"{tmp_path / 'cache'}, 3 MB"


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    poor = Machine("2.13.0", ["H200", "H200"], 1, True, "No native kernels: no compiler.", None)
    monkeypatch.setattr(check, "ask_machine", lambda: poor)
    monkeypatch.setattr(check, "_CPU_INFO", tmp_path / "nowhere")
    free_is(FREE, monkeypatch, on_gpu=True)
    told = facts()
    assert told["kernels"] == "No native kernels: no compiler."
    assert (told["compiler"], told["device"]) == ("none", "cuda (H200, H200)")
    assert told["cpu"] == "unknown, 1 thread"
    assert told["features"] == "none that kernels use"
    assert told["memory"].endswith("; 20.0 GB free on the graphics card")


def test_every_known_model_is_judged() -> None:
    fits = {line.split()[0]: line for line in machine_report() if line}
    assert fits["tiny"].endswith("   yes")
    assert fits["middle"].split(maxsplit=2)[2] == "32.4 GB       with --dtype bfloat16"
    assert fits["huge"].endswith("   no")
    assert fits["vague"].split() == ["vague", "-", "-", "?"]


def test_on_a_graphics_card_a_known_model_is_judged_in_half_the_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free_is(FREE, monkeypatch, on_gpu=True)
    fits = {line.split()[0]: line for line in machine_report() if line}
    assert fits["middle"].split(maxsplit=2)[2] == "16.4 GB       yes"


def test_a_model_that_is_here_gets_the_estimate_of_its_files() -> None:
    said = model_report("tiny")
    assert said.startswith("tiny: weights 0.00 GB · cache 4 slots × 128 tokens 0.00 GB · needs ")
    assert said.endswith(" of 20.0 GB free")


def test_a_model_that_is_here_and_does_not_fit_gets_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    free_is(10**6, monkeypatch)
    with pytest.raises(ModelError, match=r"tiny needs about .* is free"):
        model_report("tiny")


def test_a_model_that_is_not_here_is_judged_by_its_size() -> None:
    assert model_report("middle") == (
        "middle needs about 32.4 GB, 20.0 GB is free. It is not on this machine yet (16.0 GB to "
        "fetch); it will fit with --dtype bfloat16. Fetch it: mashbox pull middle"
    )
    with pytest.raises(ModelError, match=r"will not fit\. Take a smaller model\."):
        model_report("huge")


def test_what_the_catalogue_does_not_know_of_a_model_is_not_told() -> None:
    assert model_report("vague") == (
        "What vague needs is not known, 20.0 GB is free. It is not on this machine yet. "
        "Fetch it: mashbox pull vague"
    )


def test_an_unknown_model_and_the_mock_are_refused() -> None:
    for name, said in (
        ("tinny", "Did you mean tiny"),
        ("org/x", "pull org/x"),
        ("mock", "run mock"),
    ):
        with pytest.raises(ModelError, match=said):
            model_report(name)
