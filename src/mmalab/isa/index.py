"""The whole instruction table, by the first part of the opcode.

Rows are strings until somebody asks for an opcode that begins with their head; then the rows of
that head are compiled. ``rows("ld")`` gives the rows of ld.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache

from mmalab.isa.syntax import Row
from mmalab.isa.table import (
    bulk,
    control,
    conversion,
    floating,
    integer,
    logic,
    matrix_moves,
    memory,
    mma,
    synchronisation,
    tcgen05,
    warp,
    wgmma,
    wmma,
)

__all__ = ["LATER_ISSUES", "all_rows", "heads", "rows"]

_CHAPTERS = (
    integer, floating, logic, conversion, memory, warp, synchronisation, control,
    mma, wmma, matrix_moves,
)
#: Large chapters, which make their rows when first asked.
_MAKERS = (wgmma.rows, bulk.rows, tcgen05.rows)

#: Families of the ISA that this table does not hold yet, by how their opcodes begin.
LATER_ISSUES: tuple[str, ...] = (
    "tex", "tld4", "txq", "istypep", "suld", "sust", "sured", "suq", "spcompress",
)


@lru_cache(maxsize=1)
def _by_head() -> Mapping[str, tuple[Row, ...]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in all_rows():
        found[row.head].append(row)
    return {head: tuple(group) for head, group in found.items()}


def all_rows() -> Iterator[Row]:
    """Every row, in table order."""
    for part in _CHAPTERS:
        yield from part.ROWS
    for make in _MAKERS:
        yield from make()


def heads() -> tuple[str, ...]:
    """The first parts of all opcodes."""
    return tuple(_by_head())


def rows(head: str) -> tuple[Row, ...]:
    """The rows whose opcode begins with `head`, in table order; () for an unknown one."""
    return _by_head().get(head, ())
