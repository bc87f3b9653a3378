"""``mmalab atlas``: what the installed assemblers accept, and what they make of it.

Every answer is assembled on the spot (or read from the cache of an earlier one) and carries its
PTX. ``--json`` is a list of objects that all have `form`, `ptx`, `toolkit`, `targets` and
`messages` (target: ptxas's words), and what else the question is about.
"""

from __future__ import annotations

import json as json_module
import sys
from pathlib import Path
from typing import Annotated

import typer

from mmalab.cli.output import Json, plain, say
from mmalab.errors import UsageError

__all__ = ["QUESTIONS", "atlas"]

#: Every ``--what``, with the question it answers.
QUESTIONS: dict[str, str] = {
    "targets": "which forms assemble for which targets, and why not",
    "opcodes": "what matrix forms become: SASS, native, emulated or absent, chip by chip",
    "versions": "the first PTX version of each form",
    "ports": "what does a form's job on --target",
    "why": "why a FILE is rejected: its neighbours assembled",
    "images": "which built images (sm_100a, compute_100f) run on which --target devices",
    "allocator": "the SASS of tcgen05.alloc, relinquish and dealloc",
    "guardrails": "trap handlers around them by toolkit and -O, and column counts",
    "drain": "registers that tcgen05.ld costs, by shape and count",
    "registers": "ceilings, accumulators, setmaxnreg; with numbers, the budget of that split",
    "diff": "what changed between two --toolkit: of a FILE, or of the forms they accept",
    "builds": "what differs between two FILEs: registers, spills, opcodes, messages",
    "debug": "what -g makes of a FILE: another program",
    "toolkits": "which CUDA release reads a PTX version, and first knows a target",
    "macros": "which preprocessor macros tell one --target from another",
    "messages": "ptxas's messages explained, with the numbers that each toolkit gives them",
}


def atlas(
    words: Annotated[list[str] | None, typer.Argument(
        help="forms (a glob, words, an opcode), a FILE or two, images or numbers: as --what "
             "asks")] = None,
    *,
    what: Annotated[str, typer.Option(help=" | ".join(QUESTIONS))] = "targets",
    target: Annotated[list[str] | None, typer.Option(help="chip; may be given again")] = None,
    toolkit: Annotated[list[str] | None, typer.Option(
        help="release of ptxas: 12.9, 13; may be given again; all")] = None,
    output: Annotated[Path | None, typer.Option(
        "-o", help="write what --what targets found as a small record")] = None,
    json: Json = False,
) -> None:
    """Ask the installed assemblers. Exit 1 where `why` or `images` find that something fails."""
    if output is not None and what != "targets":
        raise UsageError(f"-o with --what {what}", "is not recorded", legal="--what targets",
                         where="mmalab atlas --help")
    if what not in QUESTIONS:
        raise UsageError(f"--what {what}", "is no question of the atlas", legal=list(QUESTIONS),
                         where="mmalab atlas --help")
    from mmalab.cli import (
        atlas_builds,
        atlas_compiled,
        atlas_language,
        atlas_numbers,
        atlas_toolkits,
    )
    from mmalab.cli.atlas_view import Asked, show

    asked = Asked(tuple(words or ()), tuple(target or ()), tuple(toolkit or ()), output)
    views = {**atlas_language.VIEWS, **atlas_compiled.VIEWS, **atlas_numbers.VIEWS,
             **atlas_builds.VIEWS, **atlas_toolkits.VIEWS}
    view = views[what](asked)
    if json:
        # A line for each row: the whole matrix is eleven thousand of them.
        lines = (json_module.dumps(plain(row) if view.nested else row, ensure_ascii=False)
                 for row in view.rows)
        say("[" + ",\n ".join(lines) + "]")
    else:
        show(view, sys.stdout)
    if view.code:
        raise typer.Exit(view.code)
