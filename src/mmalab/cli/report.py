"""``mmalab report [-o DIR]``: one self-contained HTML page of all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mmalab.cli.output import Json, print_json, say

__all__ = ["FOLDER", "report"]

#: Where the page goes unless it is said.
FOLDER = Path("mmalab-report")


def report(
    folder: Annotated[Path, typer.Option("-o", "--out", help="folder for the page")] = FOLDER,
    *,
    json: Json = False,
) -> None:
    """Compute the figures and write the page; say what could not be shown here, and why."""
    from mmalab.report import build

    folder.mkdir(parents=True, exist_ok=True)  # what cannot be is said before the work
    made = build()
    path = made.write(folder)
    if json:
        print_json({"path": str(path), "bytes": path.stat().st_size,
                    "figures": [figure.id for figure in made.figures],
                    "claims": made.claims.counts, "missing": made.missing})
        return
    say(f"{path}: {path.stat().st_size / 1e6:.1f} MB, {len(made.figures)} figures, "
        f"{len(made.claims.rows)} claims",
        *(f"not shown here: {words}" for words in made.missing))
