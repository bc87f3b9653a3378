"""``mmalab descriptor smem|instr|tensormap VALUE | --encode KEY=VALUE ...``: words explained, made.

Each kind of descriptor is a module beside this one with a function :data:`Reader`; what is printed
is made here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from mmalab.cli.descriptor_kinds import KINDS, Options
from mmalab.cli.output import Json, print_json, say, table
from mmalab.errors import UsageError

__all__ = ["descriptor"]


def descriptor(
    what: Annotated[str, typer.Argument(help=", ".join(KINDS))],
    values: Annotated[list[str] | None, typer.Argument(
        help="a word; with --encode fields: start=0x400 lbo=1 sbo=64 (16 bytes each, or 1024B) "
             "swizzle=128B")] = None,
    *,
    encode: Annotated[bool, typer.Option("--encode", help="make a word of KEY=VALUE")] = False,
    target: Annotated[str, typer.Option(help="the chip: sm_90a, sm_100a ...")] = "",
    kind: Annotated[str, typer.Option(help="instr: the tcgen05.mma kind, f16 ...")] = "",
    sparse: Annotated[bool | None, typer.Option("--sparse/--dense",
                                                help="instr: .sp or not")] = None,
    cta_group: Annotated[int, typer.Option(help="instr: 1 or 2")] = 1,
    tile: Annotated[str, typer.Option(help="smem: MN,K elements; offsets of a tile without gaps,"
                                      " and a word for each step of K")] = "",
    dtype: Annotated[str, typer.Option(help="smem: element type of the tile")] = "bf16",
    major: Annotated[str, typer.Option(help="smem: K or MN, which is contiguous")] = "K",
    json: Json = False,
) -> None:
    """Print every field, what is wrong, and the nearest legal word. Exit 1 if anything is wrong."""
    reader = KINDS.get(what)
    if reader is None:
        raise UsageError(f"descriptor {what}", "is no kind of descriptor", legal=list(KINDS),
                         where="mmalab descriptor --help")
    found = reader(list(values or ()), Options(
        encode=encode, target=target, kind=kind, sparse=sparse, cta_group=cta_group, tile=tile,
        dtype=dtype, major=major))
    if json:
        print_json(found)
    else:
        _print(found)
    if found["problems"]:
        raise typer.Exit(1)


def _print(found: Mapping[str, Any]) -> None:
    say(f"{found['hex']}  {found['what']}")
    say(table([[f["name"], hex(f["value"]) if f["name"] == "start" else f["value"], f["bits"],
                f["meaning"]] for f in found["fields"]], indent="  "))
    for problem in found["problems"]:
        say(f"wrong: {problem['given']}: {problem['rule']}")
        if problem["legal"]:
            say("  legal: " + ", ".join(problem["legal"]))
    if found.get("nearest"):
        say(f"nearest: {found['nearest']}")
    for line in found.get("remarks", ()):
        say(f"note: {line}")
    for line in found.get("lines", ()):
        say(line)
