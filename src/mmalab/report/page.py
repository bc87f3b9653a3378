"""The page: one HTML file with its style, scripts, figures and data inside; nothing is fetched.

A content-security policy in the page forbids what the build already leaves out: no address outside
the file is ever asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mmalab
from mmalab import isa
from mmalab.errors import ToolError
from mmalab.report.claims_table import ClaimsTable, claims_table
from mmalab.report.explorer import explorer_data
from mmalab.report.figure import Figure, Section
from mmalab.report.figures import sections
from mmalab.report.pipeline import Pipeline, pipeline

__all__ = ["FILE", "Report", "build"]

#: Name of the file that the command writes.
FILE = "mmalab.html"
_PAGE = Path(__file__).parent / "page"
_SCRIPTS = ("theme.js", "claims.js", "look.js", "fragments.js", "access.js", "plans.js", "boxes.js")


@dataclass(frozen=True)
class Report:
    """Everything that the page shows, and the page. `missing` says what could not be shown here."""

    html: str = field(repr=False)
    sections: tuple[Section, ...]
    claims: ClaimsTable
    pipeline: Pipeline | None
    explorer: Mapping[str, Any] = field(repr=False)
    missing: tuple[str, ...]

    @property
    def figures(self) -> list[Figure]:
        """All figures in the order of the page."""
        return [figure for section in self.sections for figure in section.figures]

    def write(self, folder: Path) -> Path:
        """Write the page into a folder (made if it is not there)."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        path.write_text(self.html, encoding="utf-8")
        return path


def build() -> Report:
    """Compute all figures and data, and put the page together.

    Raises:
        ToolError: jinja2 is not installed (the extra ``report``).
    """
    environment = _environment()
    found, missing = sections()
    table = claims_table()
    try:
        faults = pipeline()
    except ToolError as absent:
        faults = None
        missing.append(f"{absent.given} {absent.rule}")
    data = explorer_data()
    html = environment.get_template("page.html").render(
        sections=found, claims=table, pipeline=faults, missing=missing, data=_inline(data),
        style=(_PAGE / "style.css").read_text("utf-8"), version=mmalab.__version__,
        scripts="\n".join((_PAGE / name).read_text("utf-8") for name in _SCRIPTS),
        forms=len(isa.forms()), figures=sum(len(section.figures) for section in found))
    return Report(html, tuple(found), table, faults, data, tuple(missing))


def _environment() -> Any:
    """The template engine, escaping by default."""
    try:
        import jinja2  # noqa: PLC0415 - an extra
    except ImportError:
        raise ToolError("jinja2", "is not installed", legal="pip install 'mmalab[report]'",
                        where="mmalab report") from None
    made = jinja2.Environment(loader=jinja2.FileSystemLoader(_PAGE), autoescape=True,
                              trim_blocks=True, lstrip_blocks=True,
                              undefined=jinja2.StrictUndefined)
    made.filters["cell"] = _cell
    return made


def _cell(value: object) -> str:
    """A number of a table as people write it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:.3e}" if abs(value) < 1e-3 else f"{value:.4g}"


def _inline(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
