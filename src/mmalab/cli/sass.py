"""``mmalab sass FILE.cubin``: a binary read back as instructions and loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mmalab.cli.output import Json, print_json, say
from mmalab.errors import UsageError

if TYPE_CHECKING:
    from mmalab.toolchain import Cubin, Function

__all__ = ["sass"]


def sass(
    file: Annotated[Path, typer.Argument(help="a cubin")],
    *,
    function: Annotated[str, typer.Option(help="only this function")] = "",
    summary: Annotated[bool, typer.Option("--summary", help="counts and loops only")] = False,
    expect: Annotated[list[str] | None, typer.Option(
        help="an opcode that has to be there, and how often: QMMA.SF:2; may be given again")]
        = None,
    json: Json = False,
) -> None:
    """Print the instructions of a cubin: address, PTX line, loop bars, text; then its summary.

    Exit 1 when an opcode of --expect is missing.
    """
    from mmalab.cli.expected import missing
    from mmalab.cli.listing import (
        function_data,
        instruction_data,
        resource_data,
    )
    from mmalab.toolchain import load_cubin

    cubin = load_cubin(file)
    functions = [f for f in cubin.sass.functions if function in ("", f.name)]
    if not functions:
        raise UsageError(f"function {function!r}", f"is not in {file}",
                         legal=[f.name for f in cubin.sass.functions], where="mmalab sass --help")
    lacking = missing(expect or (), Counter(i.mnemonic for f in functions for i in f.instructions))
    if json:
        print_json({
            "target": cubin.target, "missing": lacking, "resources": resource_data(cubin),
            "functions": [function_data(f) | {
                "listing": [] if summary else [instruction_data(i) for i in f.instructions]}
                for f in functions]})
    else:
        _print(cubin, functions, summary=summary)
        say(*lacking)
    if lacking:
        raise typer.Exit(1)


def _print(cubin: Cubin, functions: Iterable[Function], *, summary: bool) -> None:
    from mmalab.cli.listing import listing_lines, summary_lines

    for each in functions:
        if not summary:
            say(f"{each.name} ({cubin.target})", *listing_lines(each), "")
        say(*summary_lines(each))
        if row := cubin.resources.get(each.name):
            say(f"  {row.registers} registers, {row.shared} bytes shared, {row.stack} bytes stack")
