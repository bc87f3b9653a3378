"""What an unknown opcode gets: the nearest legal spellings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab import isa
from mmalab.errors import UnknownForm


@pytest.mark.parametrize(("wrong", "right"), [
    ("add.f33", "add.f32"),
    ("ld.globl.v4.b32", "ld.global.v4.b32"),
    ("mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32",
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    ("mma.sync.aligned.m16n8k17.row.col.f32.bf16.bf16.f32",
     "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"),
    ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"),
    ("ldmatrix.sync.aligned.m8n8.x3.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b8", "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
    ("cp.async.cb.shared.global", "cp.async.ca.shared.global"),
    ("shfl.sync.bufly.b32", "shfl.sync.bfly.b32"),
    ("cvt.e4m3x2.f32", "cvt.rn.satfinite.e4m3x2.f32"),
    ("mull.lo.s32", "mul.lo.s32"),
    ("bar.synch", "bar.sync"),
])
def test_the_nearest_spelling_comes_first(wrong: str, right: str) -> None:
    """A misspelled, missing or misplaced part leads to the intended instruction."""
    assert right in isa.nearest(wrong)[:2]
    with pytest.raises(UnknownForm) as error:
        isa.find(wrong)
    assert right in error.value.legal


def test_the_message_says_which_part() -> None:
    """The error names the part to change, not just another spelling."""
    with pytest.raises(UnknownForm, match=r"\.global instead of \.globl"):
        isa.find("ld.globl.b32")
    with pytest.raises(UnknownForm, match=r"with \.aligned"):
        isa.find("mma.sync.m16n8k16.row.col.f32.bf16.bf16.f32")


@given(st.text(alphabet="abdf.:0189xms", max_size=24))
def test_any_text_is_found_or_refused(text: str) -> None:
    """find never fails otherwise, and its suggestions are themselves legal."""
    try:
        isa.find(text)
    except UnknownForm as error:
        for spelling in error.legal:
            assert isa.find(spelling).key == spelling
