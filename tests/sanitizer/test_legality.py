"""What no assembler takes is not run."""

from __future__ import annotations

import numpy as np
import pytest

import mmalab
from mmalab.errors import UsageError

MMA = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32"
HEAD = ".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 p)\n{{\n"
BODY = ".reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>;\n{line}\nret;\n}}\n"


def text(line: str, target: str = "sm_80") -> str:
    """A kernel with one line of its own."""
    return HEAD.format(target=target) + BODY.format(line=line)


@pytest.mark.parametrize("line", [
    "add.f32 %f1, %rd1, %f2;", "mul.wide.u32 %r1, %r2, 4;", "add.s32 %r1, %r2;",
    f"{MMA} {{%f0,%f1,%f2,%f3}}, {{%r0}}, {{%r1}}, {{%f0,%f1,%f2,%f3}};"])
def test_operands_that_do_not_fit_are_refused(line: str) -> None:
    """A missing register or a register of the wrong kind is an error with its line."""
    with pytest.raises(UsageError, match=r"^line 7: "):
        mmalab.emulate(text(line), [np.zeros(4, np.float32)], block=32)


def test_an_instruction_of_a_later_chip_is_refused() -> None:
    """cp.async does not exist on sm_75, whatever the emulator could do with it."""
    with pytest.raises(UsageError, match=r"sm_80"):
        mmalab.emulate(text("cp.async.commit_group;", "sm_75"), [np.zeros(4)], block=32)


def test_unknown_target_and_numerics_are_refused() -> None:
    """A chip that does not exist, and a word that is no way to sum."""
    with pytest.raises(UsageError):
        mmalab.emulate(text("mov.u32 %r1, 0;"), [np.zeros(4)], block=32, target="sm_999")
    with pytest.raises(UsageError, match=r"^numerics 'foo': "):
        mmalab.emulate(text("mov.u32 %r1, 0;"), [np.zeros(4)], block=32, numerics="foo")


def test_a_small_limit_is_kept() -> None:
    """A loop is stopped near max_steps, not at some larger round number."""
    loop = "L: add.s32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; bra L;"
    start = "ld.param.u64 %rd1, [p]; mov.u32 %r1, 0;"
    with pytest.raises(mmalab.errors.LimitExceeded) as stopped:
        mmalab.emulate(text(start + loop), [np.zeros(4, np.int32)], block=32, max_steps=5000,
                       sanitize=False)
    assert int(str(stopped.value).split()[0]) < 10_000
