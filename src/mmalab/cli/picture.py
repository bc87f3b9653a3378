"""A fragment as an SVG grid: one cell per element, its holder in words, its lane as a colour.

Cells that one quad of lanes holds have one hue, so the pattern shows before the text is read.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from mmalab import isa
from mmalab.errors import UsageError

__all__ = ["fragment_svg"]

_WIDTH, _HEIGHT, _MARGIN = 46, 22, 34
_MAX_CELLS = 1 << 14


def fragment_svg(form: isa.Form, operand: str) -> str:
    """The picture of one operand; several matrices of one instruction stand below each other.

    Raises:
        UsageError: the form has no such fragment, or it has too many cells to draw.
    """
    places = isa.places(form, operand)
    fragment = form.fragments[operand]
    rows, cols, count = fragment.rows, fragment.cols, fragment.batch
    if rows * cols * count > _MAX_CELLS:
        raise UsageError(f"a picture of {count} x {rows} x {cols} cells", "is too large",
                         legal=f"up to {_MAX_CELLS} cells", where="mmalab layout --help")
    width = _MARGIN + cols * _WIDTH + 8
    height = 28 + count * (rows * _HEIGHT + 30)
    title = f"{escape(form.key)} {operand} ({rows} x {cols} {fragment.type}), lane:slot"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">',
        "<style>text { font: 11px monospace; text-anchor: middle; }</style>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{_MARGIN}" y="14" style="text-anchor: start">{title}</text>',
    ]
    parts += [_header(rows, cols, matrix) for matrix in range(count)]
    seen: set[tuple[int, tuple[int, int]]] = set()
    for place in places:
        if (place.matrix, place.at) not in seen:  # of several copies, the first is drawn
            seen.add((place.matrix, place.at))
            parts.append(_cell(place, rows))
    return "\n".join([*parts, "</svg>", ""])


def _top(rows: int, matrix: int) -> int:
    return 44 + matrix * (rows * _HEIGHT + 30)


def _header(rows: int, cols: int, matrix: int) -> str:
    top = _top(rows, matrix)
    columns = "".join(f'<text x="{_MARGIN + c * _WIDTH + _WIDTH // 2}" y="{top - 5}">{c}</text>'
                      for c in range(cols))
    return columns + "".join(
        f'<text x="{_MARGIN // 2}" y="{top + r * _HEIGHT + 15}">{r}</text>' for r in range(rows))


def _cell(place: isa.Place, rows: int) -> str:
    x = _MARGIN + place.at[1] * _WIDTH
    y = _top(rows, place.matrix) + place.at[0] * _HEIGHT
    hue, light = place.thread // 4 * 47 % 360, 78 + place.thread % 4 * 4
    return (f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" '
            f'fill="hsl({hue},70%,{light}%)" stroke="#888"/>'
            f'<text x="{x + _WIDTH // 2}" y="{y + 15}">{place.thread}:{place.slot}</text>')
