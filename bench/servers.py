"""The servers under comparison: how each is started on the same weights."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.install import llama_server_program, transformers_program
from bench.peers import Peer
from bench.weights import Weights


@dataclass(frozen=True, slots=True)
class Room:
    """What a server gets: `slots` contexts of `ctx` tokens, and threads for arithmetic."""

    ctx: int
    slots: int
    threads: int


def mashbox(name: str, weights: Weights, port: int, room: Room, *how: str) -> Peer:
    """This server, as it starts by default or `how` it is told to."""
    size = ("--ctx", str(room.ctx), "--slots", str(room.slots), "--threads", str(room.threads))
    options = ("--port", str(port), *size, *how, "--quiet")
    command = (sys.executable, "-m", "mashbox", "run", str(weights.folder), *options)
    return Peer(name, command, port, weights.folder.name)


def transformers_serve(program: Path, weights: Weights, port: int, room: Room) -> Peer:
    """`transformers serve` with continuous batching in float32; it takes no size of contexts."""
    options = ("--continuous-batching", "--dtype", "float32", "--device", "cpu")
    command = (str(program), "serve", str(weights.folder), "--port", str(port), *options)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(room.threads))
    return Peer("transformers", command, port, str(weights.folder), threads)


def llama_server(name: str, program: Path, gguf: Path, port: int, room: Room) -> Peer:
    """llama.cpp's server; its context is shared out among the slots."""
    size = ("--ctx-size", str(room.ctx * room.slots), "--parallel", str(room.slots))
    threads = ("--threads", str(room.threads), "--threads-batch", str(room.threads))
    command = (str(program), "--model", str(gguf), "--port", str(port), *size, *threads)
    return Peer(name, command, port, gguf.stem)


OURS = ("mashbox", "mashbox-f32")
# Installing happens when a server is asked for, so that one peer does not need the others.
SERVERS: dict[str, Callable[[Weights, int, Room], Peer]] = {
    "mashbox": lambda w, port, room: mashbox("mashbox", w, port, room),
    "mashbox-f32": lambda w, port, room: mashbox("mashbox-f32", w, port, room, "--quant", "none"),
    "transformers": lambda w, port, room: transformers_serve(transformers_program(), w, port, room),
    "llama-f32": lambda w, port, room: llama_server(
        "llama-f32", llama_server_program(), w.gguf_f32, port, room
    ),
    "llama-q8": lambda w, port, room: llama_server(
        "llama-q8", llama_server_program(), w.gguf_q8, port, room
    ),
}
