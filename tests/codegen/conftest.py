from __future__ import annotations

import json
from pathlib import Path

import pytest

from codegen.document import Json
from codegen.generate import render

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def contract() -> str:
    return (ROOT / "openapi.json").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def document(contract: str) -> Json:
    document: Json = json.loads(contract)
    return document


@pytest.fixture(scope="session")
def rendered(contract: str) -> dict[str, str]:
    return render(contract)
