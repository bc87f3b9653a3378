"""J: writing a tensor-core instruction from Python, checked."""

from __future__ import annotations

import pytest

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.ptx.builder import KernelBuilder

_OPCODE = ("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32"
           ".ue8m0")


def test_j02_a_checked_writer() -> None:
    """J02: pick shape and types, get text with the right counts; a wrong count is refused."""
    form = isa.find(_OPCODE)
    assert [(spec.name, spec.count) for spec in form.operands] == [
        ("d", 4), ("a", 4), ("b", 2), ("c", 4), ("sa", 1), ("ida", 2), ("sb", 1), ("idb", 2)]
    b = KernelBuilder("scaled", target="sm_120a", version=(8, 7), arity=isa.find)
    sums, left, right, scales = b.regs("f32", 4), b.regs("b32", 4), b.regs("b32", 2), b.regs(
        "b32", 2)
    b.emit(_OPCODE, sums, left, right, sums, scales[0], [0, 0], scales[1], [0, 0])
    with pytest.raises(UsageError, match="4"):
        b.emit(_OPCODE, sums, right, right, sums, scales[0], [0, 0], scales[1], [0, 0])
    b.emit("ret")
    assert b.text().count(_OPCODE) == 1
