"""WorkerProcess: a real process, its pipe, its death and its last words."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine import worker_process
from engine.config import EngineConfig, ModelSource
from engine.messages import FromWorker, StartFailed
from engine.worker_process import WorkerProcess

PATIENCE = 60.0


class Ear:
    """Hears what a worker says, in order; its end is the tuple (returncode, last lines)."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[FromWorker | tuple[int, list[str]]] = asyncio.Queue()

    def start(self, path: Path) -> WorkerProcess:
        config = EngineConfig(ModelSource("m", path), ctx=64)
        return WorkerProcess(
            config,
            self.heard.put_nowait,
            lambda code, lines: self.heard.put_nowait((code, lines)),
        )

    async def next(self) -> FromWorker | tuple[int, list[str]]:
        return await asyncio.wait_for(self.heard.get(), PATIENCE)


@pytest.fixture
def blocked_model(tmp_path: Path) -> Path:
    """A model file that nobody ever writes: a worker that opens it waits."""
    path = tmp_path / "never.gguf"
    os.mkfifo(path)
    return path


async def test_a_model_that_cannot_be_loaded_is_reported_and_the_process_ends(
    tmp_path: Path,
) -> None:
    ear = Ear()
    ear.start(tmp_path / "missing.gguf")
    failed = await ear.next()
    assert isinstance(failed, StartFailed)
    assert "missing.gguf does not exist" in failed.message
    assert await ear.next() == (0, [])


async def test_a_killed_worker_is_noticed_with_its_signal(blocked_model: Path) -> None:
    ear = Ear()
    worker = ear.start(blocked_model)
    os.kill(worker.pid, signal.SIGKILL)
    assert await ear.next() == (-signal.SIGKILL, [])


async def test_a_worker_that_dies_before_it_is_told_anything_is_reported(
    monkeypatch: pytest.MonkeyPatch, blocked_model: Path
) -> None:
    class Dead(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.wait()

    monkeypatch.setattr(worker_process, "_MAIN", "raise SystemExit('no library')")
    monkeypatch.setattr(subprocess, "Popen", Dead)
    ear = Ear()
    ear.start(blocked_model)
    assert await ear.next() == (1, ["no library"])


async def test_kill_ends_it_and_is_reported_like_any_end(blocked_model: Path) -> None:
    ear = Ear()
    ear.start(blocked_model).kill()
    assert await ear.next() == (-signal.SIGKILL, [])


async def test_sending_to_a_dead_worker_is_harmless(blocked_model: Path) -> None:
    ear = Ear()
    worker = ear.start(blocked_model)
    os.kill(worker.pid, signal.SIGKILL)
    await ear.next()
    await worker.stop()


async def test_stop_ends_a_worker_that_is_loading(blocked_model: Path) -> None:
    ear = Ear()
    await ear.start(blocked_model).stop()
    returncode, lines = await ear.next()  # type: ignore[misc]
    # By the signal itself if it comes before the worker has set up its own end.
    assert returncode in (0, -signal.SIGTERM)
    assert lines == []


async def test_stop_kills_a_worker_that_does_not_heed_it(tmp_path: Path) -> None:
    deaf = tmp_path / "deaf"
    os.mkfifo(deaf)
    (tmp_path / "sitecustomize.py").write_text(
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(deaf)!r}, 'w').close(); signal.pause()"
    )
    ear = Ear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        worker = ear.start(tmp_path / "missing.gguf")
    await asyncio.to_thread(deaf.read_text)
    await worker.stop(patience=0.1)
    assert await ear.next() == (-signal.SIGKILL, [])


async def test_the_workers_last_lines_are_kept(blocked_model: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; print('a last word', file=sys.stderr)")
    ear = Ear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        worker = ear.start(tmp_path / "missing.gguf")
    assert isinstance(await ear.next(), StartFailed)
    assert await ear.next() == (0, ["a last word"])
    assert worker.pid != os.getpid()
