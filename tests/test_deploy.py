"""The examples in deploy/ must fit the server that they are for."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from handlers.metrics import Metrics
from mashbox.cli import app
from tests.handlers.scripted_engine import ScriptedEngine

DEPLOY = Path(__file__).parents[1] / "deploy"
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
    run: Any = typer.main.get_command(app)
    arguments = shlex.split(command)[2:]
    run.commands["run"].make_context("run", arguments)
