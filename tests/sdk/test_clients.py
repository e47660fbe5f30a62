"""Clients that generators make of a running server's contract: types, and calls of each route."""

from __future__ import annotations

import json
import re

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.sdk.conftest import DEFAULT_ADDRESS, PAGE, ROOT, Workshop

pytestmark = pytest.mark.sdk

# client.py is the same for every document: its `__exit__` takes arguments of any type.
MYPY = """[mypy]
strict = True
[mypy-mashbox_client.client]
disable_error_code = arg-type
"""
TSCONFIG = {
    "compilerOptions": {
        "strict": True,
        "noUncheckedIndexedAccess": True,
        "noEmitOnError": True,
        # The generated client imports without extensions, which only CommonJS in Node reads.
        "module": "commonjs",
        "target": "es2022",
        "lib": ["es2022", "dom", "dom.iterable", "dom.asynciterable"],
        "types": [],
        "outDir": "built",
    },
    "files": ["page.ts", "calls.ts"],
}


def test_the_python_client_type_checks_and_calls_every_route(workshop: Workshop) -> None:
    workshop.write("client.yaml", workshop.blocks("yaml")[0])
    workshop.run(workshop.commands("openapi-python-client")[0])
    workshop.write("page.py", "".join(workshop.blocks("python")))
    workshop.write("mypy.ini", MYPY)
    workshop.copy("calls.py")
    workshop.run("mypy mashbox_client page.py calls.py")
    whole, streamed = workshop.run("python page.py").splitlines()
    assert whole and whole == streamed
    assert workshop.run(f"python calls.py {workshop.address}") == "all calls made\n"


def test_the_typescript_client_type_checks_and_calls_every_route(workshop: Workshop) -> None:
    told = workshop.run(workshop.commands("npx")[0].removeprefix("npx "))
    assert "warn" not in told.lower()
    workshop.write("main.ts", workshop.blocks("ts")[0])
    workshop.run(workshop.commands("npx tsc")[0].removeprefix("npx "))
    workshop.run("node built/main.js")
    workshop.write("page.ts", workshop.blocks("ts")[0])
    workshop.write("tsconfig.json", json.dumps(TSCONFIG))
    workshop.copy("calls.ts")
    workshop.run("tsc")
    whole, streamed = workshop.run("node built/page.js").splitlines()
    assert whole and whole == streamed
    assert workshop.run(f"node built/calls.js {workshop.address}") == "all calls made\n"
    # A number at the end is how the generator tells two things of the same name apart.
    names = re.findall(r"[\w$]+", (workshop.folder / "mashbox-client" / "index.ts").read_text())
    assert [name for name in names if name[-1].isdigit()] == []


def test_the_page_names_the_versions_that_run_here(workshop: Workshop) -> None:
    assert '"openapi-python-client==0.29.1"' in (ROOT / "pyproject.toml").read_text("utf-8")
    assert workshop.commands("pip") == ["pip install openapi-python-client==0.29.1"]
    pinned = json.loads((ROOT / "tests/node/package.json").read_text("utf-8"))["devDependencies"]
    for package in ("@hey-api/openapi-ts", "typescript"):
        assert f"{package}@{pinned[package]}" in PAGE


def test_the_served_document_is_valid_json_of_3_1(address: str) -> None:
    answer = httpx.get(f"{address}/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    OpenAPIV31SpecValidator(document).validate()
    assert document["openapi"] == "3.1.1"
    assert [server["url"] for server in document["servers"]] == [DEFAULT_ADDRESS]
