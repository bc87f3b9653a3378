"""Endless, huge and malformed kernels end in an error that says where, in bounded work."""

from __future__ import annotations

import numpy as np
import pytest
from hostile import compiled, interpreted, kernel

from mmalab import emulate
from mmalab.errors import LimitExceeded, MmalabError, UnsupportedInstruction, UsageError

ENDLESS = {
    "arithmetic": "mov.u32 %r1,0; L: add.u32 %r1,%r1,1; bra L;",
    "store": "mov.u32 %r1,0; L: add.u32 %r1,%r1,1; st.global.u32 [%rd40],%r1; bra L;",
    "barrier": "mov.u32 %r1,0; L: add.u32 %r1,%r1,1; bar.sync 0; bra L;",
    "named barrier": "mov.u32 %r1,0; L: add.u32 %r1,%r1,1; bar.sync 1; bra L;",
    "atomic": "L: atom.global.add.u32 %r1,[%rd40],1; bra L;",
    "swap": "L: atom.global.cas.b32 %r1,[%rd40],0,1; setp.ne.u32 %p1,%r1,77; @%p1 bra L;",
    "clock": "L: mov.u64 %rd1,%clock64; bra L;",
    "divergent": "mov.u32 %r1,%laneid; L: setp.eq.u32 %p1,%r1,3; @%p1 bra L;"
                 " add.u32 %r1,%r1,1; bra L;",
}


@pytest.mark.parametrize("body", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.parametrize("execute", [interpreted, compiled])
def test_endless_loops_end(body, execute):
    """By their steps or as a deadlock, whatever they loop through."""
    text = kernel(body)
    x = np.zeros(64, np.uint32)
    with pytest.raises(LimitExceeded, match="max_steps") as caught:
        execute(text, [x], block=64, max_steps=600)
    assert "lane 0, line 9" in caught.value.where
    assert caught.value.legal


def test_a_loop_of_slow_instructions_has_a_budget_of_its_own(monkeypatch):
    """NumPy operations count too: a default run cannot take hours of them."""
    monkeypatch.setattr("mmalab.emulator.native.driver.ThreadedScheduler.least_work", 2000)
    monkeypatch.setattr("mmalab.emulator.interpret._MAX_PER_WARP", 1 << 12)
    with pytest.raises(LimitExceeded, match="NumPy operations"):
        compiled(kernel(ENDLESS["named barrier"]), [np.zeros(64, np.uint32)], block=64)


def test_small_grids_have_a_small_default(monkeypatch):
    """One warp that loops for ever ends long before the largest limit."""
    monkeypatch.setattr("mmalab.emulator.interpret._MAX_PER_WARP", 1 << 12)
    with pytest.raises(LimitExceeded, match="is 4096"):
        compiled(kernel(ENDLESS["arithmetic"]), [np.zeros(64, np.uint32)], block=32)


REFUSED = {
    "predicate as a number": ("add.u32 %r1,%p1,%p2;", ""),
    "number as a predicate": ("selp.u32 %r1,%r1,%r2,%r3;", ""),
    "written literal": ("mov.u32 5,%r1;", ""),
    "written special register": ("mov.u32 %tid.x,%r1;", ""),
    "narrow destination": ("ld.global.u64 %r1,[%rd40];", ""),
    "too many registers": ("ld.global.v2.u32 {%r1,%r2,%r3},[%rd40];", ""),
    "predicate argument": (".param .b32 a; call f,(%p1);", ".func f(.param .b32 a) {ret;}"),
    "label twice": ("A: A: bra A;", ""),
    "variable twice": ("mov.u64 %rd1,x;", ".global .u8 x; .global .u8 x;"),
    "too many values": ("mov.u64 %rd1,x;", ".global .u32 x[2]={1,2,3};"),
    "odd alignment": ("st.shared.u8 [x],%r1;", ".shared .align 3 .b8 x[2];"),
    "unknown name in data": ("mov.u64 %rd1,x;", ".global .u64 x[1]={nope};"),
}


@pytest.mark.parametrize(("body", "module"), REFUSED.values(), ids=REFUSED.keys())
def test_operands_that_compiled_code_could_not_survive_are_refused(body, module):
    """A predicate's 4 bytes read as a vector of 128 ended the process once."""
    for execute in (interpreted, compiled):
        with pytest.raises((UsageError, UnsupportedInstruction)):
            execute(kernel(body, module=module), [np.zeros(64, np.uint32)], block=32)


@pytest.mark.parametrize("space", ["global", "const", "shared", "local"])
@pytest.mark.parametrize("size", [1 << 40, 1 << 62, (1 << 64) - 1])
def test_giant_variables_are_refused(space, size):
    """No size wraps around to a small one."""
    declared = f".{space} .align 4 .b8 big[{size}];"
    body = "mov.u64 %rd1,big;" if space in ("global", "const") else f"st.{space}.u32 [big],1;"
    inside = declared if space in ("shared", "local") else ""
    with pytest.raises((LimitExceeded, UsageError)):
        compiled(kernel(inside + body, module="" if inside else declared),
                 [np.zeros(4, np.uint32)], block=32)


def test_too_many_parameter_bytes_are_refused():
    """A launch carries 32764 bytes."""
    text = (".version 8.0\n.target sm_80\n.address_size 64\n"
            ".entry k(.param .b8 x[99999999999]){ret;}")
    with pytest.raises(UsageError, match="parameters"):
        emulate(text, [b""], block=1)


def test_deep_calls_end_in_a_limit():
    """Two thousand functions that call each other do not exhaust Python's stack."""
    chain = ".func f2000(){ret;}\n" + "\n".join(
        f".func f{i}() {{ call f{i + 1}; ret; }}" for i in reversed(range(2000)))
    with pytest.raises(LimitExceeded, match="call each other"):
        compiled(kernel("call f0;", 0, module=chain), [], block=1)


def test_two_kernels_of_one_name_are_refused():
    """Neither silently wins."""
    head = ".version 8.0\n.target sm_80\n.address_size 64\n"
    with pytest.raises(MmalabError):
        interpreted(head + ".entry a() {ret;}\n.entry a() {ret;}", [], block=1)
