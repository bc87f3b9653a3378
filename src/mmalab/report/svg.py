"""A small writer of SVG: shapes with classes, no colours.

Colours, strokes and fonts are the page's: every shape has a class (``accent``, ``soft``, ``warn``,
``line``, ``muted`` ...) that its style sheet maps to variables, so one drawing serves light and
dark.

    >>> drawing = Svg(40, 20, "a bar")
    >>> drawing.box(0, 0, 30, 10, "accent")
    >>> str(drawing).count("<rect")
    1
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from math import log2

__all__ = ["Scale", "Svg"]


@dataclass(slots=True)
class Svg:
    """A drawing of `width` x `height` pixels; `label` says in words what it shows."""

    width: float
    height: float
    label: str
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, width: float, height: float, kind: str, hint: str = "",
            *, radius: float = 0) -> None:
        """A filled rectangle; `hint` is its tooltip."""
        round_ = f' rx="{radius:g}"' if radius else ""
        self._add("rect", f'x="{x:.5g}" y="{y:.5g}" width="{max(0.0, width):.5g}" '
                          f'height="{max(0.0, height):.5g}"{round_}', kind, hint)

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str = "line") -> None:
        """A straight line."""
        self._add("line", f'x1="{x1:.5g}" y1="{y1:.5g}" x2="{x2:.5g}" y2="{y2:.5g}"', kind)

    def path(self, points: Iterable[tuple[float, float]], kind: str) -> None:
        """A line through points."""
        joined = " ".join(f"{x:.5g},{y:.5g}" for x, y in points)
        self._add("polyline", f'points="{joined}"', kind)

    def dot(self, x: float, y: float, radius: float, kind: str, hint: str = "") -> None:
        """A disc."""
        self._add("circle", f'cx="{x:.5g}" cy="{y:.5g}" r="{radius:g}"', kind, hint)

    def text(self, x: float, y: float, words: object, kind: str = "", *, anchor: str = "") -> None:
        """Words with their base line at `y`; `anchor` is middle or end where not the start."""
        where = f' text-anchor="{anchor}"' if anchor else ""
        name = f' class="{kind}"' if kind else ""
        self.parts.append(f'<text x="{x:.5g}" y="{y:.5g}"{where}{name}>{escape(str(words))}</text>')

    def _add(self, shape: str, where: str, kind: str, hint: str = "") -> None:
        inner = f"><title>{escape(hint)}</title></{shape}>" if hint else "/>"
        self.parts.append(f'<{shape} {where} class="{kind}"{inner}')

    def __str__(self) -> str:
        size = f'width="{self.width:g}" height="{self.height:g}"'
        return (f'<svg {size} viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
                f'aria-label="{escape(self.label)}">' + "".join(self.parts) + "</svg>")


@dataclass(frozen=True, slots=True)
class Scale:
    """From values `low` to `high` onto pixels `start` to `end`, by ratio where `log`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        if self.log:
            share = log2(value / self.low) / log2(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)
