"""``mmalab swizzle``: which one frees a tile of conflicts; whether writer and reader agree."""

from __future__ import annotations

from typing import Annotated

import typer

from mmalab.cli.numbers import numbers
from mmalab.cli.output import Json, print_json, say
from mmalab.errors import UsageError

__all__ = ["swizzle"]


def swizzle(
    *,
    tile: Annotated[str, typer.Option(help="rows,columns in elements; the "
        "table has passes/ideal of ldmatrix reads and of 16-byte writes")],
    dtype: Annotated[str, typer.Option(help="element type: bf16, e4m3 ...")],
    find: Annotated[bool, typer.Option("--find", help="search all swizzles and paddings")] = False,
    written: Annotated[str | None, typer.Option(
        help="mode of the writer (a tensor map): none, 32B, 64B, 128B; with --read: which chunks "
             "come out wrong")] = None,
    read: Annotated[str | None, typer.Option(help="mode of the reader (a descriptor)")] = None,
    base: Annotated[int, typer.Option(help="byte address of the tile")] = 0,
    relative: Annotated[bool, typer.Option(
        "--relative", help="the reader swizzles offsets in the tile, not addresses")] = False,
    step: Annotated[int, typer.Option(
        help="bytes of K that the reader adds behind the swizzle, not before")] = 0,
    part: Annotated[str | None, typer.Option(
        help="rows,columns of a warp's part: does it cut the atoms of a mode")] = None,
    formula: Annotated[str | None, typer.Option(
        help="somebody's XOR of row and chunk (of 16 bytes): 'chunk ^ (row >> 1 & 3)'")] = None,
    json: Json = False,
) -> None:
    """Print passes of reads and writes: plain and TMA's modes, or (--find) the best found.

    With --written and --read: do both sides agree (exit 1: no, with the chunks that move).
    """
    from mmalab.plan import swizzle_search, swizzle_table
    from mmalab.plan.swizzle import arrangements_text

    rows, cols = numbers("--tile", tile, 2)
    if written or read:
        _compare(rows, cols, dtype, (written, read), base=base, relative=relative, step=step,
                 json=json)
    elif formula:
        _try(rows, cols, dtype, formula, json=json)
    elif part:
        _cut(dtype, part, json=json)
    elif find:
        found = swizzle_search(rows, cols, dtype)
        if json:
            print_json(found.as_dict())
        else:
            say(found.table())
    else:
        modes = swizzle_table(rows, cols, dtype)
        if not any(mode.free for mode in modes):  # what the hardware's modes cannot
            found = swizzle_search(rows, cols, dtype)
            modes += [one for one in (found.swizzle, found.padding) if one is not None]
        if json:
            print_json([mode.as_dict() for mode in modes])
        else:
            say(arrangements_text(modes))


def _compare(rows: int, cols: int, dtype: str, modes: tuple[str | None, str | None], *,
             base: int, relative: bool, step: int, json: bool) -> None:
    from mmalab.plan.misread import misread

    written, read = modes
    if not written or not read:
        raise UsageError("swizzle with one mode", "a comparison has a writer and a reader",
                         legal="--written 128B --read 128B", where="mmalab swizzle --help")
    found = misread(rows, cols, dtype, written=written, read=read, base=base, relative=relative,
                    step=step)
    if json:
        print_json(found.as_dict())
    else:
        say(found.text())
    if found.right != found.chunks:
        raise typer.Exit(1)


def _cut(dtype: str, part: str, *, json: bool) -> None:
    from mmalab.plan.misread import atoms

    rows, cols = numbers("--part", part, 2)
    found = atoms(rows, cols, dtype)
    if json:
        print_json([{"mode": one.mode, "whole": one.whole, "rows": one.rows, "inner": one.inner,
                     "span": one.span} for one in found])
    else:
        say(*(one.text() for one in found))
    if not any(one.whole for one in found):
        raise typer.Exit(1)


def _try(rows: int, cols: int, dtype: str, text: str, *, json: bool) -> None:
    """A formula on the tile's chunks: a permutation or not, passes, its name."""
    from mmalab import formats
    from mmalab.cli.formula import formula
    from mmalab.plan.permutation import permutation

    chunks, rest = divmod(cols * formats.get(dtype).bits, 128)
    if rest:
        raise UsageError(f"rows of {cols} {dtype}", "are no whole 16-byte chunks",
                         legal=f"columns in multiples of {128 // formats.get(dtype).bits}",
                         where="mmalab swizzle --help")
    found = permutation(formula(text), rows=rows, chunks=chunks)
    if json:
        print_json({"bijective": found.bijective, "reads": found.reads, "writes": found.writes,
                    "swizzle": str(found.swizzle) if found.swizzle else None,
                    "clashes": found.clashes[:8]})
    else:
        name = f": {found.swizzle} of byte addresses" if found.swizzle else ""
        verdict = f"a bijection{name}"
        if found.clashes:
            (row, one), (_, other) = found.clashes[0]
            verdict = f"no bijection: chunks {one} and {other} of row {row} want one place"
        say(verdict, f"passes/ideal: reads {found.reads[0]}/{found.reads[1]}, "
            f"writes {found.writes[0]}/{found.writes[1]}", found.picture())
    if not found.bijective:
        raise typer.Exit(1)
