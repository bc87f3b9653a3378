"""``mmalab sass FILE.cubin``: a binary read back as instructions and loops."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say
from mmalab.errors import UsageError

__all__ = ["sass"]


def sass(
    file: Annotated[Path, typer.Argument(help="a cubin")],
    *,
    function: Annotated[str, typer.Option(help="only this function")] = "",
    summary: Annotated[bool, typer.Option("--summary", help="counts and loops only")] = False,
    json: Json = False,
) -> None:
    """Print the instructions of a cubin: address, PTX line, loop bars, text; then its summary."""
    from mmalab.cli.listing import (
        function_data,
        instruction_data,
        listing_lines,
        resource_data,
        summary_lines,
    )
    from mmalab.toolchain import load_cubin

    cubin = load_cubin(file)
    functions = [f for f in cubin.sass.functions if function in ("", f.name)]
    if not functions:
        raise UsageError(f"function {function!r}", f"is not in {file}",
                         legal=[f.name for f in cubin.sass.functions])
    if json:
        print_json({
            "target": cubin.target, "resources": resource_data(cubin),
            "functions": [function_data(f) | {
                "listing": [] if summary else [instruction_data(i) for i in f.instructions]}
                for f in functions]})
        return
    for each in functions:
        if not summary:
            say(f"{each.name} ({cubin.target})", *listing_lines(each), "")
        say(*summary_lines(each))
        if row := cubin.resources.get(each.name):
            say(f"  {row.registers} registers, {row.shared} bytes shared, {row.stack} bytes stack")
