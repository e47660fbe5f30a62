"""From the command line's options to a running server, cheap failures first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import uvloop

from engine.catalog import resolve
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import ModelError
from engine.model_files import read_header
from engine.script import MAX_CONTEXT, SCRIPTED, scripted_source
from mashbox import __version__
from mashbox.app import create_app
from mashbox.console import Console
from mashbox.memory import choose_ctx, free_bytes
from mashbox.serve import AddressInUse, bind, serve


class StartError(Exception):
    """Why the server cannot start, in words for the user."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to run the model, as asked for on the command line; `ctx` None means what fits."""

    ctx: int | None
    slots: int
    device: str
    dtype: str
    tool_format: str | None
    script: Path | None


def start(console: Console, name: str | None, host: str, port: int, options: ModelOptions) -> None:
    """Bind, find the model, check that it fits, then load and serve it; raises StartError."""
    try:
        sock = bind(host, port)
    except AddressInUse as error:
        raise StartError(str(error)) from None
    except OSError as error:
        raise StartError(f"{host}:{port} cannot be bound: {error.strerror}.") from error
    try:
        config = configure(console, name, options)
        engine = Engine(config)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(create_app(engine), engine, sock, console))
    except ModelError as error:
        raise StartError(str(error)) from None


def configure(console: Console, name: str | None, options: ModelOptions) -> EngineConfig:
    """Find the model and settle what depends on it; raises ModelError."""
    if options.script and name != SCRIPTED:
        raise ModelError(f"--script is for the model {SCRIPTED} only.")
    if name == SCRIPTED:
        return _configure_scripted(options)
    source = resolve(name, lambda done, total: console.progress("download", done, total))
    console.clear()
    header = read_header(source.path)
    free = free_bytes(options.device)
    ctx = choose_ctx(source.id, header, options.ctx, options.slots, options.dtype, free)
    console.line(f"mashbox {__version__}   {source.id}   {options.slots} slots × {ctx} tokens")
    return EngineConfig(
        model=source,
        ctx=ctx,
        slots=options.slots,
        device=options.device,
        dtype=options.dtype,
        tool_format=options.tool_format,
    )


def _configure_scripted(options: ModelOptions) -> EngineConfig:
    return EngineConfig(
        model=scripted_source(options.script),
        ctx=options.ctx or MAX_CONTEXT,
        slots=options.slots,
        tool_format=options.tool_format,
    )
