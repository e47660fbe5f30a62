"""The command line: help, versions, and refusals before anything is loaded."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from mashbox import __version__
from mashbox.cli import app
from tests.mashbox.own_catalogue import write_catalogue


def run(*arguments: str, stdin: bytes = b"") -> Result:
    environment = {"COLUMNS": "200", "NO_COLOR": "1"}
    return CliRunner().invoke(app, list(arguments), input=stdin, env=environment)


def test_alone_it_shows_help() -> None:
    assert "Usage:" in run().output


def test_version() -> None:
    assert run("--version").output == f"mashbox {__version__}\n"


def test_help_names_every_option_and_imports_no_torch() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from mashbox.cli import app;"
        "print(CliRunner().invoke(app, ['run', '--help'], env={'COLUMNS': '200'}).output);"
        "assert not {'torch', 'transformers', 'connexion'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for option in ("--host", "--port", "--ctx", "--slots", "--device", "--dtype", "--mock-script"):
        assert option in done.stdout
    for option in ("--tool-format", "--api-key-file", "--allowed-host", "MASHBOX_API_KEY"):
        assert option in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--host", ""),
        ("--host", "example.com:80"),
        ("--allowed-host", "http://example.com"),
        ("--allowed-host", "example.com:80"),
        ("--allowed-host", "*"),
        ("--port", "65536"),
        ("--ctx", "1"),
        ("--slots", "0"),
        ("--slots", "x"),
        ("--threads", "0"),
        ("--device", "gpu"),
        ("--dtype", "int3"),
        ("--slot", "1"),
        ("--tool-format", "html"),
        ("--mock-script", "/no/such/script.json"),
    ],
)
def test_a_bad_option_is_refused_with_2(arguments: tuple[str, str]) -> None:
    result = run("run", *arguments)
    assert result.exit_code == 2
    assert arguments[0] in result.output


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves log and signals, which belong to the whole process, as they are."""
    monkeypatch.setattr("mashbox.cli.set_up_logging", lambda *_: None)
    monkeypatch.setattr("mashbox.failures.signal.signal", lambda *_: None)


def start(*arguments: str) -> Result:
    return run("run", "--port", "0", *arguments)


def start_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mashbox", "run", "--port", "0", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "example.com"])
def test_a_host_that_others_reach_is_refused_without_keys_with_2(
    untouched: None, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MASHBOX_API_KEY", raising=False)
    done = start("--host", host)
    assert done.exit_code == 2
    assert done.stderr == (
        f"--host {host} is reachable by others, so keys are needed: "
        "pass --api-key-file or set MASHBOX_API_KEY.\n"
    )


def test_with_a_key_a_host_that_others_reach_is_taken(
    untouched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASHBOX_API_KEY", "k" * 16)
    # An address of no machine: others must not reach a test.
    done = start("--host", "192.0.2.1")
    assert done.exit_code == 1
    assert done.stderr == "192.0.2.1:0 cannot be bound: Cannot assign requested address.\n"


def test_keys_are_checked_first(untouched: None, tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("too-short\n")
    done = start("no-such-model", "--host", "192.0.2.1", "--api-key-file", str(path))
    assert done.exit_code == 1
    assert done.stderr == f"{path}:1: a key must be at least 16 characters.\n"


def test_a_key_file_that_others_can_read_is_a_warning_even_when_quiet(tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("k" * 16)
    path.chmod(0o644)
    done = start_process("no-such-model", "--quiet", "--api-key-file", str(path))
    assert f"{path} can be read by others (mode 0644). Run: chmod 600 {path}\n" in done.stderr
    assert "kkk" not in done.stderr


def test_an_unknown_model_is_one_sentence_with_a_suggestion() -> None:
    done = start_process("smolm2-135m")
    assert done.returncode == 1
    assert done.stderr == (
        'No model "smolm2-135m". Did you mean smollm2-135m? List them: mashbox models\n'
    )


def test_a_file_that_is_no_gguf_says_what_it_is(untouched: None, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    done = start(str(path))
    assert done.exit_code == 1
    assert done.stderr == f"{path} is not a GGUF file (first bytes 504b0304: a zip).\n"


def test_a_missing_file_says_so(untouched: None) -> None:
    done = start("/no/such/model.gguf")
    assert (done.exit_code, done.stderr) == (1, "/no/such/model.gguf does not exist.\n")


def test_a_script_is_for_the_mock_only(untouched: None, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text("{}")
    done = start("smollm2-135m", "--mock-script", str(tmp_path / "script.json"))
    assert (done.exit_code, done.stderr) == (1, "--mock-script is for the model mock only.\n")


def test_a_wrong_script_names_the_place(untouched: None, tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"answers": [{"text": "Hi"}]}')
    done = start("mock", "--mock-script", str(path))
    assert done.exit_code == 1
    assert done.stderr == f'The script {path} is wrong: answers[0] has no field "text".\n'


def test_a_refusal_does_not_speak_of_pydantic() -> None:
    said = run("run", "--quant", "int4").output
    assert "Invalid value for '--quant': 'int4' is not one of 'auto', 'none', 'int8'." in said


def test_a_fault_of_ours_is_one_line_and_its_traceback_is_for_those_who_ask(
    untouched: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("oops")

    monkeypatch.setattr("mashbox.start.start", broken)
    caplog.set_level(logging.DEBUG, "mashbox")
    result = run("run", "mock")
    assert result.exit_code == 1
    assert result.stderr == (
        "RuntimeError: oops. This is a fault in mashbox; run it with -v to see where.\n"
    )
    (record,) = caplog.records
    assert record.levelno == logging.DEBUG and record.exc_info


@pytest.fixture
def own(untouched: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small catalogue."""
    write_catalogue(tmp_path, monkeypatch)


def test_models_and_where_they_are_go_to_standard_output(own: None, tmp_path: Path) -> None:
    table, array, pulled = run("models"), run("models", "--json"), run("pull", "tiny")
    assert table.exit_code == array.exit_code == pulled.exit_code == 0
    assert table.stdout.startswith("MODEL ") and "\ntiny " in table.stdout
    assert {model["id"] for model in json.loads(array.stdout)} >= {"tiny", "huge"}
    assert pulled.stdout == f"tiny is in {tmp_path / 'tiny'}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pull", "tinny"), 'No model "tinny". Did you mean tiny?'),
        (("check", "huge"), "huge needs about 3600.4 GB"),
        (("check", "/no/such.gguf"), "/no/such.gguf does not exist."),
    ],
)
def test_what_cannot_be_is_one_sentence_on_standard_error_with_1(
    own: None, arguments: tuple[str, str], said: str
) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(said) and result.stderr.count("\n") == 1


def test_a_broken_catalogue_of_ones_own_is_one_sentence(own: None, tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text("{")
    result = run("models")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"{tmp_path / 'models.json'} is not valid JSON")


def test_check_names_a_model_that_fits(own: None) -> None:
    result = run("check", "tiny")
    assert result.exit_code == 0 and result.stdout.startswith("tiny: weights ")


def test_ctrl_c_ends_a_pull_with_130(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mashbox.models.resolve", interrupted)
    result = run("pull", "tiny")
    assert (result.exit_code, result.stderr) == (130, "stopped\n")


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("mashbox run smol", {"smollm2-135m", "smollm2-360m", "smollm2-1.7b", "smollm3-3b"}),
        ("mashbox run mo", {"mock"}),
        ("mashbox check tin", {"tiny"}),
        ("mashbox pu", {"pull"}),
        ("mashbox run --tool", {"--tool-format"}),
    ],
)
def test_the_shell_completes_commands_options_and_models(
    own: None, words: str, completed: set[str]
) -> None:
    variables = {
        "_MASHBOX_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "mashbox"],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | variables,
    )
    assert set(done.stdout.split()) == completed


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which $python stands for this interpreter."""
    environment = {**os.environ, "python": sys.executable}
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("arguments", ["--version", "models"])
def test_output_that_a_full_disk_refuses_is_told_in_one_sentence(arguments: str) -> None:
    done = shell(f"$python -m mashbox {arguments} > /dev/full")
    assert done.returncode == 1
    assert done.stderr == "The output cannot be written: No space left on device.\n"


def test_closed_standard_streams_are_nobody_elses() -> None:
    code = (
        "import os, sys; from mashbox import cli;"
        "cli.app = lambda **options: sys.exit(os.open(os.devnull, os.O_RDONLY) <= 2);"
        "cli.main()"
    )
    assert shell(f'$python -c "{code}" <&- >&- 2>&-').returncode == 0


def test_an_empty_name_is_no_model_for_check_either() -> None:
    done = run("check", "")
    assert done.exit_code == 1 and 'No model ""' in done.output
