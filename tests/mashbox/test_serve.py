"""The order in which the server's parts are imported."""

from __future__ import annotations

import subprocess
import sys

HTTP_SIDE = {"connexion", "generated", "pydantic", "prometheus_client", "starlette", "uvicorn"}


def test_the_http_side_is_not_imported_before_the_worker_starts() -> None:
    code = "import sys, mashbox.start, mashbox.serve; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HTTP_SIDE.isdisjoint(found.stdout.split())
