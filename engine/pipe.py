"""Messages between server and worker: pickled, each behind its length, over a socket pair."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

_LENGTH = struct.Struct("!Q")
_PIECE = 2**18


def framed(message: object) -> bytes:
    """Write a message as it goes over the pipe."""
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


class Frames:
    """Puts messages together from the pieces in which they arrive; both ends are ours."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the messages that `piece` completes."""
        self._buffer += piece
        while (end := self._next_end()) <= len(self._buffer):
            body = self._buffer[_LENGTH.size : end]
            del self._buffer[:end]
            yield pickle.loads(body)

    def _next_end(self) -> int:
        """Where the first message ends, or at least its length."""
        if len(self._buffer) < _LENGTH.size:
            return _LENGTH.size
        length: int = _LENGTH.unpack_from(self._buffer)[0]
        return _LENGTH.size + length


class Pipe:
    """The worker's end, whose calls block; each direction belongs to one thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._frames = Frames()

    def send(self, message: object) -> None:
        """Deliver one message; raises OSError when the server is gone."""
        self._socket.sendall(framed(message))

    def receive(self) -> Iterator[Any]:
        """Yield messages as they come; ends with the server, or raises OSError then."""
        # What came together with the messages that an earlier call gave.
        yield from self._frames.feed(b"")
        while piece := self._socket.recv(_PIECE):
            yield from self._frames.feed(piece)


class LoopPipe:
    """The server's end, which never blocks; belongs to the event loop's thread.

    `on_message` is called with each message that comes, `on_end` once, when the worker's end is
    closed. The loop itself reads: a thread would cost each step two switches.
    """

    def __init__(
        self,
        sock: socket.socket,
        on_message: Callable[[Any], None],
        on_end: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._on_message = on_message
        self._on_end = on_end
        self._frames = Frames()
        self._unsent = bytearray()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(sock, self._read)

    def send(self, message: object) -> None:
        """Deliver one message, as soon as there is room; it is lost when the worker is gone."""
        waiting = bool(self._unsent)
        self._unsent += framed(message)
        if not waiting:
            self._write()

    def _read(self) -> None:
        try:
            piece = self._socket.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            return self._close()
        for message in self._frames.feed(piece):
            self._on_message(message)

    def _write(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            # The reader sees the end too, and tells it once.
            self._unsent.clear()
        if self._unsent:
            self._loop.add_writer(self._socket, self._write)
        elif self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket)

    def _close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._on_end()
