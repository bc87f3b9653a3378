"""Rows of words as aligned text, and bars of a fixed width."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["aligned", "bar"]


def aligned(rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Columns of words, left aligned; numbers (and their heads) to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    everything = ([list(head)] if head else []) + cells
    if not everything:
        return ""
    columns = list(zip(*everything, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(_number(cell) for cell in column[bool(head):]) for column in columns]
    return "\n".join(
        "  ".join(cell.rjust(width) if to_right else cell.ljust(width)
                  for cell, width, to_right in zip(row, widths, right, strict=True)).rstrip()
        for row in everything
    )


def _number(text: str) -> bool:
    plain = text.replace(",", "").replace(".", "", 1).replace("%", "").replace("-", "", 1).strip()
    return plain.isdigit() or text in ("", "-")


def bar(share: float, width: int = 32) -> str:
    """A bar that is full at 1: ``####....``."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "#" * full + "." * (width - full)
