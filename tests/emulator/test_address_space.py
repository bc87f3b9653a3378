"""Memory: bounds, alignment, aliasing, windows, atomics, and what is reported about them."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import run_kernel
from hypothesis import given
from hypothesis import strategies as st

from mmalab.emulator.memory import FIRST_BUFFER_TAG, TAG_SHIFT, AddressSpace
from mmalab.errors import LimitExceeded

ROWS = np.array([0])
ALL = np.ones((1, 32), bool)


def _space(**sizes):
    space = AddressSpace()
    space.resize(2, 2, shared=1024 + sizes.get("shared", 256), shared_start=1024,
                 local=sizes.get("local", 64), track=True)
    return space


def test_the_same_array_is_one_buffer_and_written_in_place():
    """An array given twice has one address; stores land in the caller's memory."""
    space, x = AddressSpace(), np.zeros(32, np.uint32)
    base = space.add(x, "x")
    assert space.add(x, "again") == base
    addresses = base + 4 * np.arange(32, dtype=np.uint64)[None]
    assert not space.store("global", addresses, 4, np.arange(32, dtype=np.uint32)[None, None], ALL,
                           ROWS)
    assert x.tolist() == list(range(32))


def test_strided_arrays_are_copied_back():
    """A view with strides is read and, after flush, written."""
    space, whole = AddressSpace(), np.zeros((8, 8), np.uint16)
    view = whole[:, ::2]
    base = space.add(view, "view")
    addresses = base + 2 * np.arange(32, dtype=np.uint64)[None]
    space.store("global", addresses, 2, np.arange(32, dtype=np.uint16)[None, None], ALL, ROWS)
    space.flush()
    assert view.reshape(-1).tolist() == list(range(32))
    assert whole[:, 1::2].sum() == 0


@given(size=st.integers(0, 70), offset=st.integers(-8, 80), width=st.sampled_from([1, 2, 4, 8]))
def test_bounds_and_alignment_are_exact(size, offset, width):
    """A lane is in bounds exactly if all its bytes are, and faulted exactly if misaligned."""
    space = AddressSpace()
    data = np.arange(size, dtype=np.uint8)
    base = space.add(data, "data")
    addresses = np.full((1, 32), (base + offset) & (2**64 - 1), np.uint64)
    words, faults = space.load("global", addresses, width, ALL, ROWS)
    if offset % width:
        assert [f.kind for f in faults] == ["misaligned-access"]
    elif offset >= 0 and offset + width <= size:
        assert not faults
        want = int.from_bytes(data[offset:offset + width].tobytes(), "little")
        assert int(words[0, 0, 0]) == want
    else:
        assert [f.kind for f in faults] == ["out-of-bounds"]
        assert not words.any()


def test_all_lanes_off_touch_nothing():
    """A load or store without lanes does nothing and finds nothing."""
    space, x = AddressSpace(), np.zeros(4, np.uint32)
    space.add(x, "x")
    wild = np.full((1, 32), 2**63, np.uint64)
    assert space.load("global", wild, 4, ~ALL, ROWS)[1] == []
    assert space.store("", wild, 4, np.ones((1, 1, 32), np.uint32), ~ALL, ROWS) == []


def test_spaces_do_not_reach_each_other():
    """A buffer's address is nothing in shared memory, and the first KiB of shared is nobody's."""
    space = _space()
    x = np.zeros(4, np.uint32)
    base = space.add(x, "x")
    for kind, address in (("shared", base), ("local", base), ("const", base), ("global", 0),
                          ("global", 1 << TAG_SHIFT), ("shared", 1020), ("shared", 1280),
                          ("local", 64), ("", 99 << TAG_SHIFT)):
        faults = space.load(kind, np.full((1, 32), address, np.uint64), 4, ALL, ROWS)[1]
        assert [f.kind for f in faults] == ["out-of-bounds"], (kind, address)


def test_generic_addresses_find_their_window():
    """Tags 1, 2 and 3 lead to shared, local and parameter memory, lane by lane."""
    space = _space()
    space.set_params((77).to_bytes(4, "little"))
    x = np.array([5], np.uint32)
    base = space.add(x, "x")
    space.shared.view(4)[1024 // 4] = 6
    space.local.view(4)[2 * space.local_stride // 4] = 7
    addresses = np.full((1, 32), base, np.uint64)
    addresses[0, 1:4] = [(1 << TAG_SHIFT) + 1024, 2 << TAG_SHIFT, 3 << TAG_SHIFT]
    words, _ = space.load("", addresses, 4, np.arange(32)[None] < 4, ROWS)
    assert words[0, 0, :4].tolist() == [5, 6, 7, 77]


def test_each_cta_has_its_own_shared_memory():
    """Rows of different CTAs see different bytes at one shared address."""
    space = _space()
    rows = np.array([0, 2])
    addresses = np.full((2, 32), 1024, np.uint64)
    words = np.stack([np.full(32, 1, np.uint32), np.full(32, 2, np.uint32)])[None]
    space.store("shared", addresses, 4, words, np.ones((2, 32), bool), rows)
    got, _ = space.load("shared", addresses, 4, np.ones((2, 32), bool), np.array([1, 3]))
    assert got[0, :, 0].tolist() == [1, 2]


def test_host_table_lists_buffers_by_tag():
    """Compiled code gets pointer, size and permission of each buffer, nothing below tag 16."""
    space, x = AddressSpace(), np.zeros(5, np.uint32)
    frozen = np.zeros(3, np.uint8)
    frozen.flags.writeable = False
    space.add(x, "x")
    space.add(frozen, "frozen")
    table = space.host_table()
    assert int(table.pointers[FIRST_BUFFER_TAG]) == x.ctypes.data
    assert table.sizes[FIRST_BUFFER_TAG:].tolist() == [20, 3]
    assert table.writable[FIRST_BUFFER_TAG:].tolist() == [1, 0]
    assert not table.sizes[:FIRST_BUFFER_TAG].any()


def test_memory_budget_is_an_error():
    """More local memory than the budget is refused before it is allocated."""
    with pytest.raises(LimitExceeded, match="memory budget"):
        AddressSpace(memory_budget=1 << 20).resize(8, 8, shared=1024, shared_start=1024,
                                                   local=4096, track=False)


# --- in kernels -----------------------------------------------------------------------------------

@pytest.mark.parametrize(("body", "code"), [
    ("ld.global.u32 %r1, [%rd40+16];", "out-of-bounds"),
    ("st.global.u32 [%rd40+2], 1;", "misaligned-access"),
    ("ld.global.v4.u32 {%r1,%r2,%r3,%r4}, [%rd40+4];", "misaligned-access"),
    ("mov.u64 %rd1, 0; ld.u32 %r1, [%rd1];", "out-of-bounds"),
    ("st.shared.u32 [smem+64], 1;", "out-of-bounds"),
    ("atom.global.add.u32 %r1, [%rd40+16], 1;", "out-of-bounds"),
    ("trap;", "trap"),
])
def test_fatal_accesses_are_findings_with_their_place(body, code):
    """A bad access ends the run with one finding that names CTA, warp, lane and line."""
    x = np.zeros(4, np.uint32)
    run = run_kernel(f".shared .align 4 .b8 smem[64];\n mov.u32 %r9, 5;\n{body}\n"
                     "st.global.u32 [%rd40], %r9; ret;", [x], block=1)
    assert [f.code for f in run.findings] == [code]
    where = run.findings[0].where
    assert (where.cta, where.warp, where.lane) == ((0, 0, 0), 0, 0)
    assert where.line is not None
    assert run.verdict == "findings"
    assert x[0] == 0


def test_uninitialised_reads_are_found():
    """Shared and local memory and registers read before they are written are findings."""
    body = """
    .shared .align 4 .b8 smem[64]; .local .align 4 .b8 loc[16];
    ld.shared.u32 %r1, [smem]; ld.local.u32 %r2, [loc]; add.u32 %r3, %r4, %r1; ret;"""
    run = run_kernel(body, [], block=1)
    assert {(f.code, f.severity) for f in run.findings} == {
        ("uninitialised-read", "error"), ("uninitialised-read", "warning")}
    assert len(run.findings) == 3
    assert run_kernel(body, [], block=1, sanitize=False).findings == []


def test_a_guarded_write_defines_only_its_lanes():
    """A register written under a guard is undefined in the other lanes only."""
    body = """
    mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 8; @%p1 mov.u32 %r1, 3;
    @%p1 st.global.u32 [%rd40], %r1; {} ret;"""
    x = np.zeros(1, np.uint32)
    assert run_kernel(body.format(""), [x]).findings == []
    found = run_kernel(body.format("st.global.u32 [%rd40], %r1;"), [x]).findings
    assert [f.witness["lanes"] for f in found] == [0xFFFFFF00]


# --- atomics --------------------------------------------------------------------------------------

def _atomic(op, kind, initial, values, bits=32):
    dtype = f"u{bits // 8}"
    target, data = np.array([initial], dtype), np.array(values, dtype)
    old = np.zeros(len(data), dtype)
    register = "%r1" if bits == 32 else "%rd5"
    result = "%r2" if bits == 32 else "%rd6"
    run = run_kernel(f"""
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, {bits // 8};
    add.s64 %rd2, %rd41, %rd1; ld.global.b{bits} {register}, [%rd2];
    atom.global.{op}.{kind} {result}, [%rd40], {register};
    add.s64 %rd3, %rd42, %rd1; st.global.b{bits} [%rd3], {result}; ret;""",
                     [target, data, old], block=len(data))
    assert run.findings == []
    return target[0], old


def test_colliding_lanes_take_turns_in_lane_order():
    """atom.add by 40 lanes on one word sums them all, each seeing its predecessors."""
    values = np.arange(1, 41, dtype=np.uint32)
    total, old = _atomic("add", "u32", 100, values)
    assert total == 100 + values.sum()
    assert old.tolist() == (100 + np.cumsum(values) - values).tolist()


def test_inc_and_dec_wrap_at_their_operand():
    """inc counts to its operand and starts over; dec counts down and starts at it."""
    assert _atomic("inc", "u32", 5, [6] * 4)[1].tolist() == [5, 6, 0, 1]
    assert _atomic("dec", "u32", 1, [6] * 4)[1].tolist() == [1, 0, 6, 5]


@pytest.mark.parametrize(("op", "kind", "want"), [
    ("min", "s32", 0xFFFFFFFE), ("max", "s32", 9), ("min", "u32", 3), ("max", "u32", 0xFFFFFFFE),
    ("and", "b32", 0), ("or", "b32", 0xFFFFFFFF), ("exch", "b32", 9), ("xor", "b32", 0xFFFFFFF0),
])
def test_atomic_operations(op, kind, want):
    """Each operation combines as its type says."""
    assert _atomic(op, kind, 7, [3, 0xFFFFFFFE, 3, 9])[0] == want & 0xFFFFFFFF


def test_atomic_double_add_and_wide_words():
    """f64 and u64 atomics work on 8 bytes."""
    values = np.array([0.5, 0.25, 2.0], np.float64)
    total, _ = _atomic("add", "f64", np.float64(1.0).view(np.uint64), values.view(np.uint64), 64)
    assert np.uint64(total).view(np.float64) == 3.75
    assert _atomic("add", "u64", 2**63, [2**63 - 1, 5], 64)[0] == 4


def test_float_atomics_flush_in_global_memory_only():
    """atom.add.f32 flushes subnormals in global memory and keeps them in shared memory."""
    out = np.array([0, 0], np.uint32)
    run_kernel("""
    .shared .b32 word; mov.b32 %f1, 0f00000001; mov.u32 %r1, 0; st.shared.u32 [word], %r1;
    atom.global.add.f32 %f2, [%rd40], %f1; atom.shared.add.f32 %f3, [word], %f1;
    ld.shared.u32 %r2, [word]; st.global.u32 [%rd40+4], %r2; ret;""", [out], block=1)
    assert out.tolist() == [0, 1]


def test_compare_and_swap_of_three_widths():
    """cas stores only where the old value matches, in 16, 32 and 64 bits."""
    x = np.array([0x0002000100000009, 5], np.uint64)
    run_kernel("""
    mov.u16 %h1, 9; mov.u16 %h2, 7; atom.global.cas.b16 %h3, [%rd40], %h1, %h2;
    mov.u32 %r1, 4; atom.global.cas.b32 %r2, [%rd40+4], %r1, 99;
    mov.u64 %rd1, 5; mov.u64 %rd2, 6; atom.global.cas.b64 %rd3, [%rd40+8], %rd1, %rd2; ret;
    """, [x], block=1)
    assert [hex(v) for v in x.tolist()] == ["0x2000100000007", "0x6"]


def test_red_of_half_pairs_rounds_each_half():
    """red.add.noftz.f16x2 adds both halves."""
    x = np.array([1.5, -2.0], np.float16)
    run_kernel("mov.b32 %r1, 0x3C003C00; red.global.add.noftz.f16x2 [%rd40], %r1; ret;", [x],
               block=3)
    assert x.tolist() == [4.5, 1.0]
