"""The steps of the tour about Tensor Memory: what its allocator became, and its 512 columns."""

from __future__ import annotations

from mmalab.atlas import allocator, column_counts, probe
from mmalab.checker import check
from mmalab.cli.output import table
from mmalab.cli.tour_steps import Outcome
from mmalab.plan import tmem

__all__ = ["columns", "guardrails"]

#: Columns that tcgen05.alloc does not give: no powers of two, or too few, or too many.
_ILLEGAL = (16, 48, 96, 1024)


def guardrails() -> Outcome:
    """Article B's probe as compiled: the allocator, its guardrails, and what they leave to us."""
    built = allocator()
    counts = column_counts((*_ILLEGAL, 64))
    rows = []
    for count in counts:
        found = check(probe(columns=count.columns, through="register"))
        codes = dict.fromkeys(one.code for one in found if one.severity == "error")
        rows.append((count.columns, "refused" if count.immediate else "accepted",
                     "refused" if count.register else "accepted", ", ".join(codes) or "-"))
    ours = {row[0] for row in rows if "tmem-size" in row[3]}
    lines = (
        f"the probe for {built.target}, ptxas {built.toolkit}: {built.instructions} instructions",
        f"guardrails: {', '.join(built.handlers) or 'none'} ({built.references} references)",
        *table(rows, ("columns", "as a constant", "in a register", "mmalab check")).splitlines())
    silent = all(not count.register for count in counts)
    return Outcome(bool(built.handlers) and silent and ours == set(_ILLEGAL), lines,
                   {"handlers": dict(built.handlers), "found": sorted(ours)})


def columns() -> Outcome:
    """The 512 columns of an SM: what a block-scaled tile takes, and one that does not fit."""
    fits = tmem.ledger(128, 256, scales="nvfp4")
    too_many = tmem.ledger(128, 256, scales="nvfp4", stages=2)
    lines = (*fits.table().splitlines(), "", "with two accumulators:",
             *too_many.table().splitlines()[-4:])
    return Outcome(fits.fits and not too_many.fits, lines,
                   {"columns": fits.columns, "allocated": fits.allocated,
                    "two accumulators": too_many.columns})
