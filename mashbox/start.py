"""From the command line's options to a running server, cheap failures first."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from engine.catalog import resolve
from engine.config import EngineConfig
from engine.engine import Engine
from engine.errors import ModelError
from engine.mock import MockEngine
from engine.model_files import read_header
from engine.script import MAX_CONTEXT, MOCK
from engine.script_reader import scripted_source
from handlers.tenants import Tenants
from mashbox import __version__
from mashbox.console import Console
from mashbox.failures import StartError
from mashbox.hosts import host_names, is_loopback
from mashbox.keys import VARIABLE, BadKeys, exposure, read_keys
from mashbox.listener import AddressInUse, bind
from mashbox.memory import Demand, choose_cache_ram, choose_ctx, describe_memory, find_room
from mashbox.serve import Front, serve

logger = logging.getLogger("mashbox.start")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where to listen, whom to answer, how to stop, and whether to serve the chat page.

    `allowed_hosts` are names besides the server's own; `drain` is in seconds.
    """

    host: str
    port: int
    api_key_file: Path | None
    allowed_hosts: Sequence[str]
    drain: float
    ui: bool = False


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How to run the model, as asked for on the command line.

    `cache_ram` is in MiB. None means what fits.
    """

    ctx: int | None
    slots: int
    cache_ram: int | None
    device: str
    dtype: str
    quant: str
    threads: int | None
    tool_format: str | None
    mock_script: Path | None


def start(console: Console, name: str | None, server: ServerOptions, options: ModelOptions) -> None:
    """Bind, find the model, check that it fits, then load and serve it; raises StartError."""
    # First of all: a port that others reach never opens without keys.
    tenants = _tenants(server)
    try:
        with _bind(server.host, server.port) as sock:
            config = configure(console, name, options)
            engine = MockEngine(config) if config.model.scripted else Engine(config)
            hosts = host_names(server.host, server.allowed_hosts)
            front = Front(hosts, tenants, server.ui)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(serve(engine, sock, console, front, server.drain))
    except ModelError as error:
        raise StartError(str(error)) from None


def _tenants(server: ServerOptions) -> Tenants:
    """Read the keys, which a server that others can reach has to have."""
    path = server.api_key_file
    try:
        tenants = read_keys(path, os.environ.get(VARIABLE))
    except BadKeys as error:
        raise StartError(str(error)) from None
    if path and (warning := exposure(path)):
        logger.warning("%s", warning)
    if not tenants and not is_loopback(server.host):
        raise StartError(
            f"--host {server.host} is reachable by others, so keys are needed: "
            f"pass --api-key-file or set {VARIABLE}.",
            exit_code=2,
        )
    return tenants


def _bind(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except AddressInUse as error:
        raise StartError(str(error)) from None
    except OSError as error:
        raise StartError(f"{host}:{port} cannot be bound: {error.strerror}.") from error


def configure(console: Console, name: str | None, options: ModelOptions) -> EngineConfig:
    """Find the model and settle what depends on it; raises ModelError."""
    if name == MOCK:
        config = _configure_mock(options)
        console.line(f"mashbox {__version__}   {MOCK}")
        return config
    if options.mock_script:
        raise ModelError(f"--mock-script is for the model {MOCK} only.")
    source = resolve(name, lambda done, total: console.progress("download", done, total))
    console.clear()
    room = find_room(options.device)
    demand = Demand.of(source.id, read_header(source.path), room, options.dtype, options.quant)
    ctx = choose_ctx(demand, options.ctx, options.slots, room.free)
    estimate = demand.need(ctx, options.slots)
    console.line(f"mashbox {__version__}   {source.id}")
    console.line(f"  memory    {describe_memory(estimate, options.slots, ctx, room.free)}")
    if options.ctx is None and ctx < demand.longest:
        console.line(f"  context   {ctx} tokens; the model's {demand.longest} do not fit")
    on_host = 0 if room.on_gpu else estimate.total_bytes
    return EngineConfig(
        model=source,
        ctx=ctx,
        slots=options.slots,
        device=options.device,
        dtype=options.dtype,
        quant=options.quant,
        threads=options.threads or 0,
        tool_format=options.tool_format or source.tool_format,
        cache_ram=choose_cache_ram(options.cache_ram, on_host),
    )


def _configure_mock(options: ModelOptions) -> EngineConfig:
    return EngineConfig(
        model=scripted_source(options.mock_script),
        ctx=options.ctx or MAX_CONTEXT,
        slots=options.slots,
        tool_format=options.tool_format,
        # Four bytes a token: more would never be full, only ever slower.
        cache_ram=2**20 if options.cache_ram is None else choose_cache_ram(options.cache_ram, 0),
    )
