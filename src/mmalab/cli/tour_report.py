"""The tour's end: all of it as one page."""

from __future__ import annotations

import tempfile
from pathlib import Path

from mmalab.cli.report import FOLDER
from mmalab.cli.tour_steps import Outcome
from mmalab.report import Report, build

__all__ = ["page"]


def page() -> Outcome:
    """Write the report into the current folder, or where that cannot be written, beside it."""
    made = build()
    path = _write(made)
    known = sum(bool(figure.evidence and figure.command) for figure in made.figures)
    lines = (
        f"{path}: {path.stat().st_size / 1e6:.1f} MB, nothing fetched; open it in a browser",
        (f"{len(made.figures)} figures, {known} with evidence and command; "
         f"{len(made.claims.rows)} claims"),
        *(f"not shown here: {words}" for words in made.missing),
    )
    ok = known == len(made.figures) > 0 and len(made.claims.rows) > 0
    return Outcome(ok, lines, {"path": str(path), "figures": len(made.figures),
                               "missing": made.missing})


def _write(made: Report) -> Path:
    try:
        return made.write(FOLDER)
    except OSError:  # a checkout that is read only
        return made.write(Path(tempfile.mkdtemp(prefix="mmalab-report-")))
