from __future__ import annotations

from mashbox.columns import columns


def test_a_column_is_as_wide_as_its_widest_cell_and_lines_end_without_blanks() -> None:
    rows = [("NAME", "SIZE"), ("long-name", ""), ("x", "12 GB")]
    assert columns(rows) == ["NAME        SIZE", "long-name", "x           12 GB"]
