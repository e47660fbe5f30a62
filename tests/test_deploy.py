"""The examples in deploy/ must fit the server that they are for."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from handlers.metrics import Metrics
from mashbox.cli import app
from tests.handlers.scripted_engine import ScriptedEngine

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
EXPRESSIONS = [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])
]


def exposed() -> set[str]:
    """The names of all samples."""
    text = Metrics(ScriptedEngine()).text().decode()
    return set(re.findall(r"^(mashbox:\w+)", text, re.MULTILINE))


def variable(name: str) -> dict[str, Any]:
    (found,) = (v for v in DASHBOARD["templating"]["list"] if v["name"] == name)
    return dict(found)


@pytest.mark.parametrize("expression", [*EXPRESSIONS, variable("model_name")["query"]["query"]])
def test_the_dashboard_asks_for_metrics_that_exist(expression: str) -> None:
    assert set(re.findall(r"mashbox:\w+", expression)) & exposed()
    assert set(re.findall(r"mashbox:\w+", expression)) <= exposed()


def test_the_dashboard_shows_every_histogram_and_lets_model_and_source_be_chosen() -> None:
    shown = set(re.findall(r"mashbox:\w+", " ".join(EXPRESSIONS)))
    histograms = {name.removesuffix("_count") for name in exposed() if name.endswith("_count")}
    assert all(any(name.startswith(histogram) for name in shown) for histogram in histograms)
    assert variable("datasource")["type"] == "datasource"
    sources = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"] if "targets" in panel}
    assert sources == {"${datasource}"}


def test_the_dashboard_s_panels_do_not_overlap() -> None:
    places = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_prometheus_is_shown_with_and_without_a_key() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus.yml").read_text("utf-8"))["scrape_configs"]
    with_key = [job for job in jobs if "authorization" in job]
    assert len(jobs) == 2 and len(with_key) == 1
    assert with_key[0]["authorization"]["credentials_file"].startswith("/")


def test_the_unit_uses_options_that_exist() -> None:
    unit = (DEPLOY / "mashbox.service").read_text("utf-8")
    (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    _parse_run(shlex.split(command)[1:])


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None and not os.environ.get("CI"):
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / "mashbox.service"
    # The one thing that a checkout lacks is the installed command.
    text = (DEPLOY / "mashbox.service").read_text("utf-8")
    unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    found = subprocess.run([str(verify), "verify", unit], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


def test_the_image_gets_everything_that_the_wheel_is_made_of() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    project = settings["project"]
    needed = {"pyproject.toml", project["readme"], *project["license-files"]}
    needed |= set(settings["tool"]["setuptools"]["packages"])
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == needed


def test_the_image_s_command_and_health_check_fit_the_server() -> None:
    instructions = dict(
        re.findall(r"^([A-Z]+) (.*)$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)
    )
    assert json.loads(instructions["ENTRYPOINT"]) == ["mashbox"]
    _parse_run(json.loads(instructions["CMD"]))
    assert f":{instructions['EXPOSE']}/health" in instructions["HEALTHCHECK"]
    assert instructions["USER"].split(":")[0] in DOCKERFILE.split("useradd", 1)[1]


def test_the_image_s_torch_is_the_one_that_mashbox_asks_for() -> None:
    pattern = re.findall(r"grep -o '([^']+)' pyproject.toml", DOCKERFILE)[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = re.findall(pattern, (ROOT / "pyproject.toml").read_text("utf-8"))
    assert found == [one for one in project["dependencies"] if one.startswith("torch")]


def test_compose_starts_the_server_with_the_secret_s_keys() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    service = compose["services"]["mashbox"]
    options = _parse_run(service["command"])
    assert options["api_key_file"] == Path("/run/secrets") / service["secrets"][0]
    assert float(service["stop_grace_period"].rstrip("s")) > options["drain"]
    (volume,) = service["volumes"]
    assert volume.split(":")[1] in re.findall(r"MASHBOX_CACHE_DIR=(\S+)", DOCKERFILE)
    # Plain HTTP: the port is the machine's own.
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_compose_for_cuda_changes_the_same_service() -> None:
    compose, cuda = (
        yaml.safe_load((ROOT / name).read_text("utf-8"))["services"]
        for name in ("compose.yaml", "compose.cuda.yaml")
    )
    assert cuda.keys() == compose.keys()
    (argument,) = cuda["mashbox"]["build"]["args"]
    assert f"ARG {argument}=" in DOCKERFILE


def _parse_run(command: list[str]) -> dict[str, Any]:
    """The options of `mashbox run` as the command line reads them."""
    run: Any = typer.main.get_command(app)
    context = run.commands[command[0]].make_context("run", command[1:])
    return dict(context.params)
