"""What a planner says when something does not fit: the value, the rule, and what would fit.

A plan that does not fit is an answer and not an exception (exceptions are for requests that no
instruction and no chip knows)::

    >>> print(Misfit("524 columns", "Tensor Memory has 512", ("1 stage", "N = 240"), "PTX ISA"))
    524 columns: Tensor Memory has 512
      fits: 1 stage; N = 240
      see:  PTX ISA
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Misfit"]


@dataclass(frozen=True, slots=True)
class Misfit:
    """`given` breaks `rule`; `nearest` are the closest choices that do not; `source` says where."""

    given: str
    rule: str
    nearest: tuple[str, ...] = ()
    source: str = ""

    def __str__(self) -> str:
        lines = [f"{self.given}: {self.rule}"]
        if self.nearest:
            lines.append("  fits: " + "; ".join(self.nearest))
        if self.source:
            lines.append("  see:  " + self.source)
        return "\n".join(lines)
