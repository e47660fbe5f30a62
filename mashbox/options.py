"""The arguments and options of the commands, and what is refused of them at once."""

from __future__ import annotations

import contextlib
import re
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from engine.model_format import FORMATS
from engine.script import MOCK
from mashbox.hosts import host_name
from mashbox.logs import LogFormat

# The groups of --help, each in one piece, as docs/cli_tables.py wants them.
_server = partial(typer.Option, rich_help_panel="Server")
_model = partial(typer.Option, rich_help_panel="Model")
_logs = partial(typer.Option, rich_help_panel="Logs")
# A flag takes no value, which its row of --help would name otherwise.
_FLAG = ""

_DEVICE = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


class Command(TyperCommand):
    """A command that words its refusals for people: without the names of pydantic's errors."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; raises BadParameter."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise


class Dtype(StrEnum):
    """Arithmetic of the weights."""

    auto = "auto"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class Quant(StrEnum):
    """Rounding of the weights."""

    auto = "auto"
    none = "none"
    int8 = "int8"


def _check_host(host: str) -> str:
    try:
        name = host_name(host).strip("[]")
    except ValueError as error:
        raise typer.BadParameter(f"{error}. Use 127.0.0.1, or the address to listen on.") from None
    return "127.0.0.1" if name == "localhost" else name


def _check_names(names: list[str]) -> list[str]:
    try:
        return [host_name(name) for name in names]
    except ValueError as error:
        raise typer.BadParameter(f"{error}. Give it without scheme and port.") from None


def _check_device(device: str) -> str:
    if not _DEVICE.fullmatch(device):
        raise typer.BadParameter(f"{device} is no device. Use auto, cpu, cuda, cuda:N or mps.")
    return device


def _check_tool_format(name: str | None) -> str | None:
    if name is not None and name not in FORMATS:
        raise typer.BadParameter(f"{name} is no tool format. Use one of {', '.join(FORMATS)}.")
    return name


def _model_names(incomplete: str) -> list[str]:
    """Complete a model's name, for the shell."""
    from engine.catalog import model_ids
    from engine.errors import ModelError

    # A broken catalogue is told by the command, not between the words of a line being typed.
    with contextlib.suppress(ModelError):
        return [name for name in (*model_ids(), MOCK) if name.startswith(incomplete)]
    return []


Model = Annotated[
    str | None,
    typer.Argument(
        help="A known model's id, a .gguf file, a folder with safetensors, a hub id, or "
        "mock. Default: smollm2-135m.",
        autocompletion=_model_names,
    ),
]
WantedModel = Annotated[
    str, typer.Argument(help="A known model's id, or a hub id.", autocompletion=_model_names)
]
CheckedModel = Annotated[
    str | None,
    typer.Argument(
        help="A known model's id, a .gguf file, a folder with safetensors, or a hub id. Default: "
        "the machine and all known models.",
        autocompletion=_model_names,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", metavar=_FLAG, help="Print a JSON array instead of a table.")
]
Host = Annotated[
    str,
    _server(
        help="Address to listen on; one that others can reach needs keys.",
        callback=_check_host,
        metavar="ADDRESS",
    ),
]
Port = Annotated[
    int, _server(help="Port to listen on; 0 takes a free one.", min=0, max=65535, metavar="PORT")
]
ApiKeyFile = Annotated[
    Path | None,
    _server(
        help="File with the keys that open the server, one a line, each optionally followed by "
        "a tenant's name. MASHBOX_API_KEY in the environment is a key too.",
        metavar="FILE",
    ),
]
AllowedHost = Annotated[
    list[str],
    _server(
        help="Host name that the server answers to besides its own, as behind a proxy; "
        "can be given repeatedly.",
        callback=_check_names,
        metavar="NAME",
    ),
]
Ui = Annotated[bool, _server("--ui", metavar=_FLAG, help="Serve a chat page at /.")]
Drain = Annotated[
    float,
    _server(
        help="Seconds that running answers get to end when the server is told to stop.",
        min=0,
        metavar="SECONDS",
    ),
]
Ctx = Annotated[
    int | None,
    _model(
        help="Tokens of one request, prompt and answer together. Default: what fits in "
        "memory, at most the model's maximum.",
        min=16,
        metavar="TOKENS",
    ),
]
Slots = Annotated[
    int, _model(help="Requests decoded together; others wait.", min=1, max=256, metavar="N")
]
CacheRam = Annotated[
    int | None,
    _model(
        help="MiB of host memory for prompts that no slot holds any more; 0 for none. Default: "
        "2048, at most a quarter of what the model leaves.",
        min=0,
        metavar="MiB",
    ),
]
Device = Annotated[
    str, _model(help="auto, cpu, cuda, cuda:N or mps.", callback=_check_device, metavar="DEVICE")
]
DtypeOption = Annotated[
    Dtype,
    _model(help="Arithmetic of the weights: auto, float32, bfloat16 or float16.", metavar="DTYPE"),
]
QuantOption = Annotated[
    Quant,
    _model(
        help="Rounding of the weights: none, int8, or auto (int8 where native kernels run, unless "
        "--dtype is given).",
        metavar="QUANT",
    ),
]
Threads = Annotated[
    int | None,
    _model(
        help="Threads of arithmetic on the CPU. Default: one for each physical core.",
        min=1,
        max=1024,
        metavar="N",
    ),
]
ToolFormat = Annotated[
    str | None,
    _model(
        help="How the model writes tool calls, where its chat template does not tell: "
        f"{', '.join(FORMATS)}.",
        callback=_check_tool_format,
        metavar="FORMAT",
    ),
]
MockScript = Annotated[
    Path | None,
    _model(
        help="JSON file with the answers of the model mock. Default: a greeting or a call.",
        exists=True,
        dir_okay=False,
        metavar="FILE",
    ),
]
LogFormatOption = Annotated[
    LogFormat, _logs(help="How log lines are written: text or json.", metavar="FORMAT")
]
Verbose = Annotated[
    bool,
    _logs(
        "--verbose",
        "-v",
        metavar=_FLAG,
        help="Log polls of health and metrics too, and where a fault of mashbox arose.",
    ),
]
Quiet = Annotated[bool, _logs("--quiet", metavar=_FLAG, help="Log warnings and errors only.")]
Recording = Annotated[
    typer.FileBinaryRead,
    typer.Argument(help="HAR file, or JSON lines with an exchange each; - reads standard input."),
]
