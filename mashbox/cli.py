"""The command line."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer

from engine.config import DEFAULT_SLOTS
from mashbox import __version__
from mashbox import options as given
from mashbox.logs import LogFormat, set_up_logging

# Everything heavy is imported where it is used: `mashbox --help` answers at once.

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog="Example: mashbox run\n\nExample: mashbox check",
)

_STDERR = 2
_RUN_EXAMPLES = """Example: mashbox run smollm2-135m --port 9000

Example: mashbox run ./model.gguf --ctx 8192 --slots 1"""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mashbox {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            metavar="",
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Serve one language model over OpenAI's and Anthropic's APIs."""


@app.command(cls=given.Command, epilog=_RUN_EXAMPLES)
def run(  # noqa: PLR0913 - one parameter an option
    model: given.Model = None,
    host: given.Host = "127.0.0.1",
    port: given.Port = 8000,
    api_key_file: given.ApiKeyFile = None,
    allowed_host: given.AllowedHost = [],  # noqa: B006 - typer reads it and hands over a new list
    ui: given.Ui = False,
    drain: given.Drain = 10.0,
    ctx: given.Ctx = None,
    slots: given.Slots = DEFAULT_SLOTS,
    cache_ram: given.CacheRam = None,
    device: given.Device = "auto",
    dtype: given.DtypeOption = given.Dtype.auto,
    quant: given.QuantOption = given.Quant.auto,
    threads: given.Threads = None,
    tool_format: given.ToolFormat = None,
    mock_script: given.MockScript = None,
    log_format: given.LogFormatOption = LogFormat.text,
    verbose: given.Verbose = False,
    quiet: given.Quiet = False,
) -> None:
    """Load a model and serve it."""
    from mashbox.console import Console
    from mashbox.failures import StartError, in_one_sentence
    from mashbox.start import ModelOptions, ServerOptions, start
    from mashbox.terminal_log import TerminalHandler

    console = Console(quiet and not verbose, as_log=log_format is LogFormat.json)
    handler = TerminalHandler(console) if console.is_terminal else None
    set_up_logging(log_format, _level(verbose, quiet), handler)
    server = ServerOptions(host, port, api_key_file, allowed_host, drain, ui)
    options = ModelOptions(
        ctx, slots, cache_ram, device, dtype.value, quant.value, threads, tool_format, mock_script
    )
    with in_one_sentence(console):
        try:
            start(console, model, server, options)
        except StartError:
            raise
        except Exception as error:
            # For who asks with -v; to others a traceback says nothing.
            logging.getLogger("mashbox").debug("Where it broke:", exc_info=error)
            said = f"{type(error).__name__}: {error}. This is a fault in mashbox; "
            raise StartError(f"{said}run it with -v to see where.") from None


def _level(verbose: bool, quiet: bool) -> int:
    return logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO


@app.command("models", epilog="Example: mashbox models --json")
def list_models(as_json: given.AsJson = False) -> None:
    """List the known models, and which of them are on this machine."""
    from mashbox.console import Console
    from mashbox.failures import in_one_sentence
    from mashbox.models import model_json, model_table

    with in_one_sentence(Console()):
        typer.echo(model_json() if as_json else "\n".join(model_table()))


@app.command(epilog="Example: mashbox pull smollm2-135m")
def pull(model: given.WantedModel) -> None:
    """Fetch a model's weights, and say where they are."""
    from mashbox.console import Console
    from mashbox.failures import in_one_sentence
    from mashbox.models import pull

    console = Console()
    with in_one_sentence(console):
        typer.echo(pull(model, console))


@app.command(epilog="Example: mashbox check smollm2-135m")
def check(model: given.CheckedModel = None) -> None:
    """Tell what this machine is and which models fit into it, or what one of them needs.

    Ends with 1 when the model does not fit.
    """
    from mashbox.check import machine_report, model_report
    from mashbox.console import Console
    from mashbox.failures import in_one_sentence

    console = Console()
    with in_one_sentence(console):
        console.wait("looking")
        lines = [model_report(model)] if model is not None else list(machine_report())
        console.clear()
        typer.echo("\n".join(lines))


@app.command("check-traffic", epilog="Example: mashbox check-traffic recording.har")
def check_recorded_traffic(file: given.Recording) -> None:
    """Check recorded requests and responses against openapi.json.

    Ends with 0 when all keep to it, 1 when some do not, 2 when the file cannot be used.
    """
    from mashbox.check_traffic import check_traffic
    from mashbox.recordings import UnusableRecording

    try:
        found = check_traffic(file, typer.echo)
    except UnusableRecording as error:
        typer.echo(f"{file.name}: {error}", err=True)
        raise typer.Exit(2) from None
    raise typer.Exit(1 if found else 0)


def main() -> None:
    """Run the command line."""
    _occupy_standard_streams()
    try:
        # The same in help and completion, however it was started.
        app(prog_name="mashbox")
    except OSError as error:
        # Only what is printed comes so far; a full disk, as a rule.
        typer.echo(f"The output cannot be written: {error.strerror or error}.", err=True)
        sys.stdout = None
        sys.exit(1)


def _occupy_standard_streams() -> None:
    """Open streams that the caller closed, lest a socket or file gets their number."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(descriptor)
