"""One self-contained HTML page of what mmalab knows: figures, claims, an explorer, the sanitizer.

    >>> from mmalab import report
    >>> page = report.build()                                                 # doctest: +SKIP
    >>> page.write(Path("out"))                                               # doctest: +SKIP

Figures are computed from the planners, the arithmetic and committed records while the page is
built, each with how its numbers are known and the command that remakes them. The explorer's answers
are computed here and embedded, so the page itself knows no rule of any chip.
"""

from mmalab.report.figure import Evidence, Figure, Section, Table
from mmalab.report.page import FILE, Report, build

__all__ = ["FILE", "Evidence", "Figure", "Report", "Section", "Table", "build"]
