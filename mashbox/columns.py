"""Tables as plain text: columns that are as wide as what stands in them."""

from __future__ import annotations

from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Give a line for each row; all rows have as many cells."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
