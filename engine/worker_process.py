"""The worker as an operating-system process: starting it, its pipe, and its last words."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing.connection import Connection

from engine.config import EngineConfig
from engine.messages import FromWorker, ToWorker

# A plain subprocess: multiprocessing would import the server's main module in the worker too.
_MAIN = (
    "import sys; sys.path[:] = {path!r}; "
    "from engine.worker_process import worker_main; worker_main({fd})"
)
_LAST_LINES = 20
_SPIN_COUNT = "1000"


class WorkerProcess:
    """One worker process with a thread for each direction of its pipe.

    `on_message(message)` and `on_exit(returncode, last_lines)` are called from the reader thread;
    `on_exit` comes exactly once, after the last message.
    """

    def __init__(
        self,
        config: EngineConfig,
        on_message: Callable[[FromWorker], None],
        on_exit: Callable[[int, list[str]], None],
    ) -> None:
        self._on_message = on_message
        self._on_exit = on_exit
        self._outbox: queue.SimpleQueue[ToWorker | None] = queue.SimpleQueue()
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN.format(path=sys.path, fd=theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_worker_environment(),
        )
        # Only without our copy of its end does the worker's death reach us as EOF.
        theirs.close()
        self._connection = Connection(ours.detach())
        # A worker that is dead by now is reported by the reader, like any that dies.
        with contextlib.suppress(OSError):
            self._connection.send(config)
        self._threads = [
            threading.Thread(target=self._read, name="worker-reader", daemon=True),
            threading.Thread(target=self._write, name="worker-writer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        """Queue a message; never blocks, and is lost when the worker is dead."""
        self._outbox.put(message)

    def kill(self) -> None:
        """End the process at once; its end is reported like any other."""
        self._process.kill()

    def stop(self, patience: float = 5.0) -> None:
        """End the process, kindly at first; blocks until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
        for thread in self._threads:
            thread.join(patience)

    def _read(self) -> None:
        last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        listener = threading.Thread(target=self._listen, args=(last_lines,), daemon=True)
        listener.start()
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._on_message(self._connection.recv())
        self._outbox.put(None)
        returncode = self._process.wait()
        listener.join()
        self._on_exit(returncode, list(last_lines))

    def _listen(self, last_lines: deque[str]) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                last_lines.append(line.decode(errors="replace").rstrip())

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while (message := self._outbox.get()) is not None:
                self._connection.send(message)


def _worker_environment() -> dict[str, str]:
    # By default an arithmetic thread that waits for another spins for milliseconds. Beside any
    # other load that starves the one it waits for: a step then takes ten times as long.
    return {"GOMP_SPINCOUNT": _SPIN_COUNT, **os.environ}


def worker_main(fd: int) -> None:
    """Entry point of the worker process: its end of the pipe is `fd`."""
    connection = Connection(fd)
    # SIGTERM unwinds, so that a half-made conversion is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(EOFError, KeyboardInterrupt):
        config = connection.recv()
        # Imported here: the server imports this module too, and must stay without torch.
        from engine.worker import run_worker

        run_worker(connection, config)
    # Skips interpreter teardown, where a half-imported torch can crash noisily.
    sys.stderr.flush()
    os._exit(0)
