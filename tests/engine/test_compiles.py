from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from engine.compiles import compiled_programs


def test_without_a_compiler_there_are_no_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    assert compiled_programs() == 0
    assert "torch._dynamo.utils" not in sys.modules


def test_the_compiler_s_count_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    dynamo = SimpleNamespace(counters={"stats": {"unique_graphs": 3}})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", dynamo)
    assert compiled_programs() == 3


def test_each_compiled_shape_counts() -> None:
    torch = pytest.importorskip("torch")

    @torch.compile(backend="eager", dynamic=False)  # type: ignore[untyped-decorator]
    def double(x: object) -> object:
        return x * 2  # type: ignore[operator]

    before = compiled_programs()
    double(torch.ones(2))
    double(torch.ones(2))
    assert compiled_programs() - before == 1
    double(torch.ones(3))
    assert compiled_programs() - before == 2
