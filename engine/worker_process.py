"""The worker as an operating-system process: starting it, its pipe, and its last words."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

from engine.config import EngineConfig
from engine.messages import FromWorker, ToWorker
from engine.pipe import LoopPipe, Pipe

# A plain subprocess: multiprocessing would import the server's main module in the worker too.
_MAIN = (
    "import sys; sys.path[:] = {path!r}; "
    "from engine.worker_process import worker_main; worker_main({fd})"
)
_LAST_LINES = 20
_SPIN_COUNT = "1000"


class WorkerProcess:
    """One worker process with its pipe; belongs to the event loop's thread.

    `on_exit(returncode, last_lines)` comes exactly once, after the last `on_message(message)`.
    """

    def __init__(
        self,
        config: EngineConfig,
        on_message: Callable[[FromWorker], None],
        on_exit: Callable[[int, list[str]], None],
    ) -> None:
        self._on_exit = on_exit
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN.format(path=sys.path, fd=theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_worker_environment(),
            # A signal to the server's whole group, as `timeout` sends, is the server's to answer.
            process_group=0,
        )
        # Only without our copy of its end does the worker's death reach us as end of file.
        theirs.close()
        self._listener = threading.Thread(target=self._listen, name="worker-lines", daemon=True)
        self._listener.start()
        self._over = asyncio.get_running_loop().create_future()
        self._pipe = LoopPipe(ours, on_message, self._ended)
        self.send(config)

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    def send(self, message: ToWorker | EngineConfig) -> None:
        """Send a message; never blocks, and is lost when the worker is dead."""
        self._pipe.send(message)

    def kill(self) -> None:
        """End the process at once; its end is reported like any other."""
        self._process.kill()

    async def stop(self, patience: float = 5.0) -> None:
        """End the process, kindly at first; returns when it is gone and that is reported."""
        self._process.terminate()
        try:
            await asyncio.wait_for(asyncio.shield(self._over), patience)
        except TimeoutError:
            self._process.kill()
            await self._over

    def _ended(self) -> None:
        # In a thread: a process may live on for a while without its pipe.
        waiting = asyncio.get_running_loop().run_in_executor(None, self._wait)
        waiting.add_done_callback(self._report)

    def _wait(self) -> int:
        returncode = self._process.wait()
        self._listener.join()
        return returncode

    def _report(self, waiting: asyncio.Future[int]) -> None:
        self._on_exit(waiting.result(), list(self._last_lines))
        self._over.set_result(None)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self._last_lines.append(line.decode(errors="replace").rstrip())


def _worker_environment() -> dict[str, str]:
    # By default an arithmetic thread that waits for another spins for milliseconds. Beside any
    # other load that starves the one it waits for: a step then takes ten times as long.
    return {"GOMP_SPINCOUNT": _SPIN_COUNT, **os.environ}


def worker_main(fd: int) -> None:
    """Entry point of the worker process: its end of the pipe is `fd`."""
    pipe = Pipe(socket.socket(fileno=fd))
    # SIGTERM unwinds, so that a half-made conversion is cleaned up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Before the configuration comes nothing at all if the server is gone.
    with contextlib.suppress(OSError, StopIteration, KeyboardInterrupt):
        config = next(pipe.receive())
        # Imported here: the server imports this module too, and must stay without torch.
        from engine.worker import run_worker

        run_worker(pipe, config)
    # Skips interpreter teardown, where a half-imported torch can crash noisily.
    sys.stderr.flush()
    os._exit(0)
