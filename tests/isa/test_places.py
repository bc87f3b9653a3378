"""Where an element lives, asked from both sides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab import isa
from mmalab.errors import UsageError

KEY = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


def test_the_required_answer() -> None:
    """Element (9, 5) of D of m16n8k16 is slot 3 of lane 6."""
    place = isa.layout(KEY, "D", at=(9, 5))
    assert (place.lane, place.slot, place.register, place.bits) == (6, 3, 3, (31, 0))
    assert place.as_dict() == {"lane": 6, "warp": 0, "thread": 6, "slot": 3, "register": 3,
                               "bits": [31, 0], "at": [9, 5], "matrix": 0}


@given(st.sampled_from(["A", "B", "C", "D"]), st.integers(0, 31), st.data())
def test_both_questions_agree(operand: str, lane: int, data: st.DataObject) -> None:
    """Asking for the element of a lane and slot, then for its place, leads back."""
    fragment = isa.find(KEY).fragments[operand]
    slot = data.draw(st.integers(0, fragment.slots - 1))
    there = isa.layout(KEY, operand, lane=lane, slot=slot)
    back = isa.layout(KEY, operand, at=there.at)
    assert (back.lane, back.slot) == (lane, slot)


def test_two_halves_share_a_register() -> None:
    """Slot 3 of a bf16 operand is the high half of register 1."""
    place = isa.layout(KEY, "B", lane=6, slot=3)
    assert (place.register, place.bits, place.at) == (1, (31, 16), (13, 1))


def test_narrow_elements_sit_in_the_middle_of_their_byte() -> None:
    """e2m1 under kind::f8f6f4 is bits 2 to 5 of its byte, e3m2 bits 0 to 5."""
    form = "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32"
    assert isa.layout(form, "A", lane=0, slot=1).bits == (13, 10)
    assert isa.layout(form, "B", lane=0, slot=1).bits == (13, 8)
    packed = "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"
    assert isa.layout(packed, "A", lane=0, slot=1).bits == (7, 4)


def test_copies_are_all_named() -> None:
    """A wmma f16 operand that is held twice has two places for each element."""
    key = "wmma.load.a.sync.aligned.row.m16n16k16.global.f16"
    assert len(isa.places(key, "A", at=(3, 5))) == 2


def test_questions_outside_the_fragment_are_errors() -> None:
    """No such operand, element, lane or slot; and half a question."""
    for kwargs in ({"at": (16, 0)}, {"lane": 32, "slot": 0}, {"lane": 0, "slot": 4}, {"lane": 0},
                   {}):
        with pytest.raises(UsageError):
            isa.layout(KEY, "D", **kwargs)
    with pytest.raises(UsageError, match="no fragment"):
        isa.layout(KEY, "E", at=(0, 0))
    with pytest.raises(UsageError, match="matrix instruction"):
        isa.layout("add.f32", "D", at=(0, 0))
    with pytest.raises(UsageError, match="is not in"):
        isa.layout(KEY, "D", at=(9, 5), lane=0, slot=0)


def test_the_picture_shows_each_element_once() -> None:
    """The grid of D has lane 6 slot 3 in row 9, column 5, and 16 rows."""
    lines = isa.show(KEY, "d").splitlines()
    row = next(line for line in lines if line.strip().startswith("9 "))
    assert row.split()[1 + 5] == "6:3"
    assert len(lines) == 2 + 1 + 16
    four = isa.show("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16", "A")
    assert four.count("matrix ") == 4
