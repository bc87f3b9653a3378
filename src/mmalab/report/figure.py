"""What a figure is: a picture at any width, its numbers, how they are known, what remakes them.

A picture is drawn twice, for a wide column and for a phone, so its text has the size of the page's
text on both. The numbers travel as a table: it is what a screen reader reads and what the tests
compare with the planners.

    >>> Evidence("derived", "N + 6").line()
    'derived: N + 6'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["NARROW", "WIDE", "Evidence", "Figure", "Kind", "Section", "Table"]

#: Pixels that a picture has in a column and on a phone.
WIDE, NARROW = 560, 330

#: How a number is known.
Kind = Literal["measured", "compiled", "derived", "computed here", "recorded elsewhere"]
Cell = str | int | float


@dataclass(frozen=True, slots=True)
class Evidence:
    """How the numbers of a figure are known: `what` names device and date, toolkit, formula or
    document."""

    kind: Kind
    what: str

    def line(self) -> str:
        """Kind and source in one line."""
        return f"{self.kind}: {self.what}"


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a figure."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, name: str) -> list[Cell]:
        """All cells below a heading."""
        at = self.head.index(name)
        return [row[at] for row in self.rows]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `says` is the sentence under the title, `draw` makes its SVG for a width in
    pixels, `origin` is where an article has it."""

    id: str
    title: str
    says: str
    draw: Callable[[int], str]
    table: Table
    evidence: tuple[Evidence, ...]
    command: str
    origin: str = ""
    wide: bool = False

    def pictures(self) -> tuple[str, str]:
        """For a column, and for a phone."""
        return self.draw(WIDE * (2 if self.wide else 1)), self.draw(NARROW)


@dataclass(frozen=True, slots=True)
class Section:
    """Figures that belong together, under one question."""

    id: str
    title: str
    says: str
    figures: Sequence[Figure]
