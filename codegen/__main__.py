"""Command line: `python -m codegen` writes `generated`, with `--check` it only compares."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from codegen.generate import differences, render, write

ROOT = Path(__file__).parent.parent


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Generate, or compare, the folder `generated` beside openapi.json; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit 1 if a file is stale")
    check = parser.parse_args(arguments).check
    files = render((root / "openapi.json").read_text(encoding="utf-8"))
    if not check:
        write(files, root / "generated")
        return 0
    stale = differences(files, root / "generated")
    if stale:
        print("generated is stale, run `python -m codegen`:", *stale, sep="\n  ")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
