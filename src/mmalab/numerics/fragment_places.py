"""Where a fragment's elements lie in its registers, as the sums of offsets that code needs.

Fragments of ``m8n8`` and ``m16n8`` shapes are separable: the register and lane of element (row, k)
are those of (row, 0) plus those of (0, k), and eight rows differ by four lanes each. That is what
lets one loop walk over groups of four rows, adding a constant number of lanes. It is read off the
fragment here, and a fragment for which it does not hold is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from mmalab.isa.form import Form, Fragment

__all__ = ["COLUMNS", "LANES", "Places", "Side", "places_of"]

LANES = 32

#: N of every warp-level shape.
COLUMNS = 8


@dataclass(frozen=True, slots=True)
class Side:
    """An operand: its fragment, and (register, slot in register, lane) of each (row, column)."""

    fragment: Fragment
    where: dict[tuple[int, int], tuple[int, int, int]] = field(compare=False)

    @property
    def registers(self) -> int:
        """Registers of each lane."""
        return self.fragment.registers

    @property
    def per(self) -> int:
        """Elements in a register."""
        return self.fragment.register_bits // self.fragment.bits

    def offset(self, row: int, column: int) -> int:
        """Of an element in an array [register][slot][lane]."""
        register, slot, lane = self.where[row, column]
        return (register * self.per + slot) * LANES + lane

    def word(self, row: int, column: int) -> int:
        """Of an element's register word in an array [register][lane]."""
        register, _, lane = self.where[row, column]
        return register * LANES + lane


@lru_cache(maxsize=256)
def _side(fragment: Fragment) -> Side:
    per = fragment.register_bits // fragment.bits
    where = {}
    for lane, slots in enumerate(fragment.indices().tolist()):
        for slot, index in enumerate(slots):
            column, row = divmod(index, fragment.rows)
            where[row, column] = (slot // per, slot % per, lane)
    return Side(fragment, where)


class Places:
    """Offsets of A, B and D of one form, for groups of four rows."""

    def __init__(self, a: Fragment, b: Fragment, d: Fragment) -> None:
        self.a, self.b, self.d = _side(a), _side(b), _side(d)
        # Two rows of the upper and two of the lower half, or four of eight: next group, next lanes.
        self.group = (0, 1, 8, 9) if a.rows == 16 else (0, 1, 2, 3)
        self.step = 2 if a.rows == 16 else 4
        self.groups = 8 // self.step

    @property
    def group_lanes(self) -> int:
        """Lanes from one group to the next."""
        return 4 * self.step

    def a_row(self, row: int) -> int:
        """Offset of row `row` of a group in [register][slot][lane]."""
        return self.a.offset(self.group[row], 0)

    def a_step(self, k: int) -> int:
        """What k adds to it."""
        return self.a.offset(0, k)

    def a_word_row(self, row: int) -> int:
        """Offset of row `row` of a group in [register][lane]."""
        return self.a.word(self.group[row], 0)

    def a_word_step(self, k: int) -> int:
        """What k adds to it."""
        return self.a.word(0, k)

    def d_offset(self, row: int, odd: int) -> int:
        """Offset of the even or odd columns of a row in [register][lane] of D."""
        return self.d.word(self.group[row], odd)

    def holds(self) -> bool:
        """Whether the fragments are as the generated code supposes."""
        return self._rows_hold() and self._columns_hold() and self._results_hold()

    def _rows_hold(self) -> bool:
        """Elements of A are separable, and groups follow each other by lanes."""
        a = self.a
        return all(
            a.offset(base + self.step * i, k)
            == a.offset(base, 0) + a.offset(0, k) + self.group_lanes * i
            and a.word(base + self.step * i, k)
            == a.word(base, 0) + a.word(0, k) + self.group_lanes * i
            and (a.where[base, k][1] == k % a.per)
            for base in self.group for i in range(self.groups) for k in range(a.fragment.cols)
        )

    def _columns_hold(self) -> bool:
        """B's k words are (register, lane of quad), its columns the quads."""
        b = self.b
        return b.fragment.cols == COLUMNS and all(
            b.where[k, n] == (k // b.per // 4, k % b.per, 4 * n + k // b.per % 4)
            for k in range(b.fragment.rows) for n in range(COLUMNS)
        )

    def _results_hold(self) -> bool:
        """A row of D lies in one quad: even columns in one register, odd ones beside them."""
        d = self.d
        packed = d.per == 2
        return all(
            d.where[base + self.step * i, n] == (
                d.where[base, n % 2][0], n % 2 if packed else 0,
                d.where[base, 0][2] + self.group_lanes * i + n // 2)
            for base in self.group for i in range(self.groups) for n in range(COLUMNS)
        )


def places_of(form: Form) -> Places | None:
    """The places of a dense form's operands, None where they do not fit the code."""
    frag = form.fragments
    plain = all(f.batch == f.copies == 1 and f.lanes == LANES for f in frag.values())
    if not plain or frag["A"].rows not in (8, 16) or np.prod(form.shape or ()) == 0:
        return None
    places = Places(frag["A"], frag["B"], frag["D"])
    return places if places.holds() else None
