"""The kinds of chart that several figures share: bars with a limit, lines, dots with intervals.

Each takes plain values and a width and returns SVG text. Labels stand beside what they name: there
is no legend to look up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mmalab.report.svg import Scale, Svg

__all__ = ["Axis", "Bar", "Dot", "Line", "Mark", "bars", "dots", "lines"]

_ROW = 26
#: Share of the width that names may take beside their bars; longer ones stand above.
_NAMES = 0.42
#: Pixels of a letter of the page's small text, as a bound.
_LETTER = 7.2


def _wide(words: str) -> float:
    return _LETTER * len(words)


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, value, what is written at its end, and its class."""

    name: str
    value: float
    words: str
    kind: str = "soft"


@dataclass(frozen=True, slots=True)
class Mark:
    """A limit across all bars or a level across lines."""

    value: float
    words: str


def bars(width: int, label: str, rows: Sequence[Bar], *, limit: Mark | None = None) -> str:
    """Horizontal bars from zero, one row each; `limit` is a line through all of them."""
    names = 8 + max(_wide(row.name) for row in rows)
    above = names > _NAMES * width
    left, step = (0.0, _ROW + 16) if above else (names, _ROW)
    room = 10 + max(_wide(row.words) for row in rows)
    top = 22 if limit else 4
    most = max([row.value for row in rows] + ([limit.value] if limit else []))
    scale = Scale(0, most, left, width - room)
    bottom = top + step * len(rows)
    drawing = Svg(width, bottom + 4, label)
    for at, row in enumerate(rows):
        y = top + step * at + (16 if above else 0)
        drawing.text(0 if above else left - 8, y - 2 if above else y + 15, row.name,
                     anchor="" if above else "end")
        drawing.box(left, y + 3, scale(row.value) - left, _ROW - 9, row.kind,
                    f"{row.name}: {row.words}")
        drawing.text(scale(row.value) + 7, y + 15, row.words, "number")
    if limit:
        x = scale(limit.value)
        drawing.line(x, top - 4, x, bottom, "limit")
        drawing.text(x, 11, limit.words, "muted", anchor="end" if x > width / 2 else "")
    return str(drawing)


@dataclass(frozen=True, slots=True)
class Axis:
    """The values with a tick, how they are written, and what they count."""

    ticks: tuple[float, ...]
    words: str
    log: bool = False
    write: Callable[[float], str] = "{:g}".format
    low: float | None = None
    high: float | None = None

    def scale(self, start: float, end: float) -> Scale:
        """Onto pixels."""
        low = self.ticks[0] if self.low is None else self.low
        high = self.ticks[-1] if self.high is None else self.high
        return Scale(low, high, start, end, self.log)


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its points, its class, its name at its end, `lift` pixels higher."""

    name: str
    points: tuple[tuple[float, float], ...]
    kind: str = "stroke accent"
    lift: float = 0
    dots: bool = True
    steps: bool = False


def lines(width: int, label: str, x: Axis, y: Axis, rows: Sequence[Line], *, height: int = 250,
          marks: Sequence[Mark] = ()) -> str:
    """Lines over two axes, names at their right ends, horizontal marks across."""
    names = max(_wide(row.name) for row in rows)
    left = 12 + max(_wide(y.write(tick)) for tick in y.ticks)
    across = x.scale(left, width - 12 - names)
    up = y.scale(height - 40, 24)
    drawing = Svg(width, height, label)
    drawing.text(0, 11, y.words, "muted")
    for tick in y.ticks:
        drawing.line(left, up(tick), across.end, up(tick), "grid")
        drawing.text(left - 6, up(tick) + 4, y.write(tick), "muted", anchor="end")
    for tick in x.ticks:
        drawing.text(across(tick), height - 22, x.write(tick), "muted", anchor="middle")
    drawing.text((left + across.end) / 2, height - 4, x.words, "muted", anchor="middle")
    for mark in marks:
        drawing.line(left, up(mark.value), across.end, up(mark.value), "limit")
        drawing.text(left + 6, up(mark.value) + 15, mark.words, "muted")
    for row in rows:
        points = [(across(px), up(py)) for px, py in row.points]
        drawing.path(_stepped(points) if row.steps else points, row.kind)
        if row.dots:
            kind = row.kind.split()[-1]
            for (px, py), (vx, vy) in zip(points, row.points, strict=True):
                drawing.dot(px, py, 3, kind, f"{row.name}: {x.write(vx)}, {y.write(vy)}")
        drawing.text(points[-1][0] + 8, points[-1][1] + 4 - row.lift, row.name,
                     f"words {row.kind.split()[-1]}")
    return str(drawing)


def _stepped(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The corners of a staircase that keeps each value until the next point."""
    found = [points[0]]
    for (_, before), (x, y) in pairwise(points):
        found += [(x, before), (x, y)]
    return found


@dataclass(frozen=True, slots=True)
class Dot:
    """One value with its interval; `low` and `high` equal to it where there is none."""

    name: str
    value: float
    words: str
    low: float
    high: float
    kind: str = "accent"


def dots(width: int, label: str, rows: Sequence[Dot], axis: Axis, *,
         mark: Mark | None = None) -> str:
    """A row for each value: name, dot and interval on a common axis, words at the right.

    On a narrow page names stand above their rows.
    """
    narrow = width < 420
    step = 40 if narrow else _ROW
    left = 8.0 if narrow else min(0.5 * width, 10 + max(_wide(row.name) for row in rows))
    scale = axis.scale(left, width - 14 - max(_wide(row.words) for row in rows))
    top = 22
    bottom = top + step * len(rows)
    drawing = Svg(width, bottom + 38, label)
    for tick in axis.ticks:
        drawing.line(scale(tick), top - 4, scale(tick), bottom, "grid")
        drawing.text(scale(tick), bottom + 14, axis.write(tick), "muted", anchor="middle")
    if mark:
        drawing.line(scale(mark.value), top - 4, scale(mark.value), bottom, "limit")
        drawing.text(scale(mark.value), 11, mark.words, "muted", anchor="middle")
    for at, row in enumerate(rows):
        y = top + step * at + (26 if narrow else 13)
        if narrow:
            drawing.text(left, y - 13, row.name)
        else:
            drawing.text(left - 10, y + 4, row.name, anchor="end")
        drawing.line(scale(row.low), y, scale(row.high), y, f"interval {row.kind}")
        drawing.dot(scale(row.value), y, 4, row.kind, f"{row.name}: {row.words}")
        drawing.text(width, y + 4, row.words, "number", anchor="end")
    drawing.text((left + scale.end) / 2, bottom + 32, axis.words, "muted", anchor="middle")
    return str(drawing)
