"""Numbers as people read them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Write a count with its noun, which takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(count: int | None) -> str:
    """Write bytes as MB or GB; unknown ones as a dash."""
    if count is None:
        return "-"
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """Write a duration in its two largest units."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def rounded(count: int) -> str:
    """Write a count with a letter for thousands (k) or millions (M)."""
    if count < 10_000:
        return f"{count}"
    # From here on it would read 1000 k.
    return f"{count / 1e3:.0f} k" if count < 999_500 else f"{count / 1e6:.1f} M"
