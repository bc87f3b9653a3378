"""A ledger of Tensor Memory as a strip of characters, in colour where the terminal has any."""

from __future__ import annotations

from mmalab.plan.tmem import Ledger

__all__ = ["draw_ledger"]

_WIDTH = 64
_COLOURS = ("green", "cyan", "magenta", "yellow", "blue", "red", "bright_green", "bright_cyan")


def draw_ledger(ledger: Ledger) -> None:
    """Two rows for the two halves of the lanes (one where no part is a half), 8 columns a cell.

    A part is drawn with the letter of the legend, allocations end at ``|``, allocated columns that
    nothing uses are ``-``, free ones ``.``.
    """
    from rich.console import Console
    from rich.text import Text

    if ledger.packing is None:
        return
    console = Console(highlight=False, soft_wrap=True)
    letters = [chr(ord("A") + at % 26) for at in range(len(ledger.parts))]
    halves = (0, 16) if any(place.part.half for place in ledger.packing.placements) else (0,)
    for lane in halves:
        line = Text("lanes  0-15 " if halves == (0, 16) and not lane else
                    "lanes 16-31 " if lane else "")
        for cell in range(_WIDTH):
            at = _part_at(ledger, cell * ledger.capacity // _WIDTH, lane)
            if at is None:
                line.append("-" if cell * ledger.capacity // _WIDTH < ledger.allocated else ".")
            else:
                line.append(letters[at], style=_COLOURS[at % len(_COLOURS)])
        console.print(line)
    legend = Text()
    for at, part in enumerate(ledger.parts):
        legend.append(f"{letters[at]} {part.name}  ", style=_COLOURS[at % len(_COLOURS)])
    width = ledger.capacity // _WIDTH
    legend.append(f"- allocated, unused  . free; a character is {width} columns")
    console.print(legend)


def _part_at(ledger: Ledger, column: int, lane: int) -> int | None:
    """The part that has most of the cell's columns."""
    width = ledger.capacity // _WIDTH
    found: tuple[int, int] | None = None
    for at, place in enumerate(ledger.packing.placements if ledger.packing else ()):
        if place.part.half and place.lane != lane:
            continue
        shared = min(column + width, place.column + place.part.columns) - max(column, place.column)
        if shared > 0 and (found is None or shared > found[0]):
            found = shared, at
    return None if found is None else found[1]
