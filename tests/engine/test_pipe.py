"""The pipe: whole messages out of pieces, sends that never block the server, ends that are told."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from engine.messages import Cancel
from engine.pipe import Frames, LoopPipe, Pipe, framed

Ends = tuple[socket.socket, socket.socket]


class Ear:
    def __init__(self, sock: socket.socket) -> None:
        self.heard: asyncio.Queue[Any] = asyncio.Queue()
        self.pipe = LoopPipe(sock, self.heard.put_nowait, lambda: self.heard.put_nowait("the end"))

    async def next(self) -> Any:
        return await asyncio.wait_for(self.heard.get(), 10)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 10_000])
def test_messages_are_whole_however_they_are_cut(size: int) -> None:
    messages = [Cancel("a"), "x" * 300, (), Cancel("b")]
    wire, frames = b"".join(map(framed, messages)), Frames()
    pieces = [wire[i : i + size] for i in range(0, len(wire), size)]
    assert [message for piece in pieces for message in frames.feed(piece)] == messages


async def test_messages_go_both_ways_in_order(ends: Ends) -> None:
    ear, worker = Ear(ends[0]), Pipe(ends[1])
    for n in range(3):
        worker.send(n)
        ear.pipe.send(-n)
    assert [await ear.next() for _ in range(3)] == [0, 1, 2]
    received = worker.receive()
    assert [next(received) for _ in range(3)] == [0, -1, -2]


async def test_a_message_larger_than_the_buffers_does_not_block_the_server(ends: Ends) -> None:
    ear, worker, large = Ear(ends[0]), Pipe(ends[1]), "x" * 2**24
    ear.pipe.send(large)
    ear.pipe.send("behind it")
    received = worker.receive()
    assert await asyncio.to_thread(lambda: [next(received), next(received)]) == [large, "behind it"]


async def test_a_large_message_from_the_worker_arrives_whole(ends: Ends) -> None:
    ear, large = Ear(ends[0]), "x" * 2**24
    thread = threading.Thread(target=Pipe(ends[1]).send, args=(large,))
    thread.start()
    assert await ear.next() == large
    thread.join()


async def test_the_workers_end_is_told_once_after_its_last_message(ends: Ends) -> None:
    ear = Ear(ends[0])
    Pipe(ends[1]).send("last words")
    ends[1].close()
    assert [await ear.next(), await ear.next()] == ["last words", "the end"]
    ear.pipe.send("too late")
    assert ear.heard.empty()


async def test_a_worker_that_leaves_without_reading_is_told_as_the_end(ends: Ends) -> None:
    ear = Ear(ends[0])
    ear.pipe.send("x" * 2**24)
    ends[1].close()
    assert await ear.next() == "the end"


def test_the_servers_end_ends_the_workers_messages(ends: Ends) -> None:
    ends[0].sendall(framed(1))
    ends[0].close()
    assert list(Pipe(ends[1]).receive()) == [1]
