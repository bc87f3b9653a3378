"""Where an element of a fragment lives, asked from both sides, and a picture of the whole.

    >>> place = layout("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "D", at=(9, 5))
    >>> place.lane, place.slot, place.register, place.bits
    (6, 3, 3, (31, 0))

A slot is the element's index in its lane's fragment, with element 0 in the low bits of the first
register; `at` is (row, column) as the ISA defines the operand: A is M x K, B is K x N, C and D are
M x N.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmalab.errors import UsageError
from mmalab.isa.form import Form, Fragment
from mmalab.isa.lookup import form_of

__all__ = ["Place", "layout", "places", "show"]

_WHERE = "mmalab.isa.layout"
#: Bits that carry a value where its container is wider.
_FIELD_BITS = {"e2m1": 4, "e2m3": 6, "e3m2": 6}


@dataclass(frozen=True, slots=True)
class Place:
    """One element of one operand in one lane.

    `warp` and `thread` count within the group that executes the instruction (one warp: warp 0).
    `bits` are (high, low) within `register`, an index into the operand's register list. `matrix`
    tells the products or tiles of one instruction apart (m8n8k4, ldmatrix).
    """

    lane: int
    warp: int
    thread: int
    slot: int
    register: int
    bits: tuple[int, int]
    at: tuple[int, int]
    matrix: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "lane": self.lane, "warp": self.warp, "thread": self.thread, "slot": self.slot,
            "register": self.register, "bits": list(self.bits), "at": list(self.at),
            "matrix": self.matrix,
        }


def places(
    form: Form | str,
    operand: str,
    at: tuple[int, int] | None = None,
    lane: int | None = None,
    slot: int | None = None,
) -> list[Place]:
    """All places that match, by lane, then slot: one for a bijective fragment and a full question.

    Raises:
        UsageError: the form has no such fragment; a coordinate, lane or slot outside of it.
    """
    fragment = _fragment(form, operand)
    _check(fragment, operand, at, lane, slot)
    coordinates = fragment.coordinates()
    wanted = np.ones(coordinates.shape[:2], dtype=np.bool_)
    if at is not None:
        wanted &= (coordinates == np.asarray(at)).all(axis=-1)
    if lane is not None:
        wanted &= np.arange(fragment.lanes)[:, None] == lane
    if slot is not None:
        wanted &= np.arange(fragment.slots) == slot
    return [_place(fragment, int(t), int(s)) for t, s in np.argwhere(wanted)]


def layout(
    form: Form | str,
    operand: str,
    at: tuple[int, int] | None = None,
    lane: int | None = None,
    slot: int | None = None,
) -> Place:
    """The place of element `at`, or the element at `lane` and `slot`; of several copies the first.

    Raises:
        UsageError: as :func:`places`, and when neither `at` nor both others are given.
    """
    if at is None and (lane is None or slot is None):
        raise UsageError(f"layout of {operand}", "needs the element, or the lane and the slot",
                         legal=["at=(0, 0)", "lane=0, slot=0"], where=_WHERE)
    found = places(form, operand, at, lane, slot)
    if not found:
        raise UsageError(f"{operand} at {at}", f"is not in lane {lane}, slot {slot}",
                         legal="at= alone, which names both", where=_WHERE)
    return found[0]


def _fragment(form: Form | str, operand: str) -> Fragment:
    form = form_of(form)
    fragment = form.fragments.get(operand.upper()) if isinstance(operand, str) else None
    if fragment is None:
        raise UsageError(f"operand {operand!r} of {form.key}", "has no fragment",
                         legal=list(form.fragments) or "a matrix instruction of a warp",
                         where=_WHERE)
    return fragment


def _check(
    fragment: Fragment, operand: str, at: tuple[int, int] | None, lane: int | None,
    slot: int | None,
) -> None:
    if at is not None and not _within(at, (fragment.rows, fragment.cols)):
        raise UsageError(f"{operand} at {at}", f"the fragment is {fragment.rows} x {fragment.cols}",
                         legal=f"(0, 0) to {fragment.rows - 1, fragment.cols - 1}", where=_WHERE)
    for name, value, count in (("lane", lane, fragment.lanes), ("slot", slot, fragment.slots)):
        if value is not None and not _within((value,), (count,)):
            raise UsageError(f"{name} {value} of {operand}", f"there are {count}",
                             legal=f"0 to {count - 1}", where=_WHERE)


def _within(indices: Sequence[int], sizes: tuple[int, ...]) -> bool:
    """Whether they are so many integers, each below its size."""
    try:
        return all(0 <= operator.index(index) < size
                   for index, size in zip(indices, sizes, strict=True))
    except (TypeError, ValueError):
        return False


def _place(fragment: Fragment, thread: int, slot: int) -> Place:
    index = int(fragment.indices()[thread, slot])
    register, bit = divmod(slot * fragment.bits, fragment.register_bits)
    low = bit + fragment.element_lsb
    width = _FIELD_BITS.get(fragment.type, fragment.bits)
    column, matrix = index // fragment.rows % fragment.cols, index // (
        fragment.rows * fragment.cols)
    return Place(
        lane=thread % 32,
        warp=thread // 32,
        thread=thread,
        slot=slot,
        register=register,
        bits=(low + min(width, fragment.bits) - 1, low),
        at=(index % fragment.rows, column),
        matrix=matrix,
    )


def show(form: Form | str, operand: str) -> str:
    """The fragment as a grid: at each row and column ``lane:slot`` of the first that holds it."""
    fragment = _fragment(form, operand)
    key = form if isinstance(form, str) else form.key
    head = (f"{key}\n{operand.upper()}: {fragment.rows} x {fragment.cols} {fragment.type}, "
            f"{fragment.registers} registers a lane, (lane, slot) -> row + {fragment.rows} column "
            f"= {fragment.layout}")
    if fragment.copies > 1:
        head += f"; each element is held {fragment.copies} times"
    index = fragment.indices()
    grids = []
    for matrix in range(fragment.batch):
        cells = np.full(fragment.rows * fragment.cols, "", dtype=object)
        base = matrix * fragment.rows * fragment.cols
        for thread, slot in reversed(np.argwhere(index // cells.size == matrix).tolist()):
            cells[index[thread, slot] - base] = f"{thread}:{slot}"
        title = [f"matrix {matrix}"] if fragment.batch > 1 else []
        grids.append("\n".join(title + _grid(cells.reshape(fragment.cols, fragment.rows).T)))
    return "\n".join([head, *grids])


def _grid(cells: Any) -> list[str]:
    width = max(len(str(cell)) for cell in cells.flat)
    columns = "      " + " ".join(f"{c:>{width}}" for c in range(cells.shape[1]))
    return [columns.rstrip()] + [
        f"{r:>4}  " + " ".join(f"{cell:>{width}}" for cell in line)
        for r, line in enumerate(cells)
    ]
