"""``mmalab layout FORM -A|-B|-C|-D``: where an element lives, both ways, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmalab.cli.output import Json, print_json, say
from mmalab.errors import UsageError

if TYPE_CHECKING:
    from mmalab.isa import Form

__all__ = ["layout"]

_WHERE = "mmalab layout --help"


def layout(
    form: Annotated[str, typer.Argument(help="a matrix instruction")],
    *,
    a: Annotated[bool, typer.Option("-A", help="operand A, M x K")] = False,
    b: Annotated[bool, typer.Option("-B", help="operand B, K x N")] = False,
    c: Annotated[bool, typer.Option("-C", help="operand C, M x N")] = False,
    d: Annotated[bool, typer.Option("-D", help="operand D, M x N")] = False,
    at: Annotated[str | None, typer.Option(help="row,column of an element")] = None,
    lane: Annotated[int | None, typer.Option(help="lane (thread of a warpgroup: 0 to 127)")] = None,
    slot: Annotated[int | None, typer.Option(help="element of the lane's fragment")] = None,
    svg: Annotated[Path | None, typer.Option(help="draw the fragment into this file")] = None,
    json: Json = False,
) -> None:
    """Print who holds an element, what a lane holds, or (with neither) the whole grid.

    A slot is the element's index in its lane's fragment, element 0 in the low bits of the first
    register. With --json: one object for one question, a list where several places answer.
    """
    from mmalab import isa
    from mmalab.cli.picture import fragment_svg

    chosen = [name for name, given in zip("ABCD", (a, b, c, d), strict=True) if given]
    if len(chosen) != 1:
        raise UsageError(f"layout of {form}", "name one operand", legal="-A, -B, -C, -D",
                         where=_WHERE)
    operand = chosen[0]
    _check_place(isa.find(form), operand)
    found = isa.places(form, operand, _pair(at), lane, slot)
    if at is not None and (lane is not None or slot is not None) and not found:
        raise UsageError(f"{operand} at {at}", f"is not in lane {lane}, slot {slot}",
                         legal="--at alone, which names both", where=_WHERE)
    if svg is not None:
        svg.write_text(fragment_svg(isa.find(form), operand), encoding="utf-8")
    single = len(found) == 1 or (at is not None and lane is None and slot is None)
    if json:
        rows = [place.as_dict() for place in found]
        print_json({"form": form, "operand": operand, **rows[0], "copies": len(rows)}
                   if single else rows)
        return
    if at is None and lane is None and slot is None:
        say(isa.show(form, operand))
        return
    for place in found:
        high, low = place.bits
        matrix = f", matrix {place.matrix}" if place.matrix else ""
        say(f"{operand}[{place.at[0]}][{place.at[1]}]{matrix}: lane {place.lane}"
            + (f" of warp {place.warp}" if place.warp else "")
            + f", slot {place.slot} (register {place.register}, bits {high}:{low})")


def _check_place(form: Form, operand: str) -> None:
    """What lies in no register has a place of another kind.

    Raises:
        UsageError: with the command that tells it.
    """
    if operand in form.fragments:
        return
    if form.family == "tcgen05.mma" and operand in "CD":
        raise UsageError(f"operand {operand} of {form.key}", "lies in Tensor Memory",
                         legal="mmalab plan tmem --mma 128x256 --at 9,5", where=str(form.source))
    if form.family in ("wgmma.mma_async", "tcgen05.mma") and operand in "AB":
        raise UsageError(f"operand {operand} of {form.key}", "lies in shared memory, behind a "
                         "descriptor", where=str(form.source),
                         legal="mmalab descriptor smem --encode swizzle=128B --tile 64,64")


def _pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    row, comma, column = text.partition(",")
    if not comma or not row.strip().isdigit() or not column.strip().isdigit():
        raise UsageError(f"--at {text}", "is not row,column", legal="9,5", where=_WHERE)
    return int(row), int(column)
