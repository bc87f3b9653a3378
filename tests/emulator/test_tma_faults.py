"""What bulk and tensor copies may not do is a finding with its rule; nothing else is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import run_kernel

from mmalab.errors import UnsupportedInstruction
from mmalab.tensormap import MAP_BYTES, TensorMap
from mmalab.tensormap.encoding import write

MODULE = ".shared .align 1024 .b8 smem[4096];\n.shared .align 8 .b64 bar;\n"
PROLOGUE = """
    mov.u32 %r90, smem; mov.u32 %r91, bar; mov.u32 %r92, %tid.x; setp.ne.u32 %p31, %r92, 0;
    @%p31 bra END;
    mbarrier.init.shared::cta.b64 [%r91], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r91], 4096;
    mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0;
"""
LOAD = ("cp.async.bulk.tensor.{}d.shared::cluster.global.{}.mbarrier::complete_tx::bytes"
        " [{}], [%rd40, {{{}}}], [{}]")
STORE = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd40, {{{}}}], [%r90];"
BULK = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}], {}, [%r91]"

BULK_STORE = "cp.async.bulk.global.shared::cta.bulk_group [{}], [%r90], {};"


def array() -> Any:
    return np.arange(64 * 64, dtype=np.uint32).reshape(64, 64)


def a_map(**options: Any) -> TensorMap:
    return TensorMap.tiled(array(), **{"box": (32, 8)} | options)


def findings(body: str, args: list[Any], **options: Any) -> list[Any]:
    """The findings of one thread's instructions, machine's own."""
    run = run_kernel(PROLOGUE + body + "\nEND: exit;", args, target="sm_90a", module=MODULE,
                     max_steps=10_000, **options)
    return run.findings


def load(where: str = "%r0, %r1", *, to: str = "%r90", bar: str = "%r91", rank: int = 2,
         mode: str = "tile", more: str = "") -> str:
    return LOAD.format(rank, mode, to, where, bar) + more + ";"


CASES = {
    "tensor destination": (load(to="%r90+64"), "misaligned-access", "128-byte aligned"),
    "mbarrier": (load(bar="%r91+4"), "misaligned-access", "8-byte aligned"),
    "map alignment": ("add.s64 %rd40, %rd40, 16;" + load(), "misaligned-access", "64-byte"),
    "map nowhere": ("mov.u64 %rd40, 64;" + load(), "out-of-bounds", "a tensor map"),
    "rank": (load("%r0, %r1, %r2", rank=3), "illegal-value", "rank 2"),
    "mode": (load("%r0, %r1, %r2", rank=3, mode="im2col", more=", {%h0}"), "illegal-value",
             "rank 2"),
    "box beyond shared memory": (load(to="%r90+3968"), "out-of-bounds", "shared memory"),
    "another CTA's shared memory": ("add.u32 %r90, %r90, 0x1000000;" + load(), "out-of-bounds",
                                    "shared memory"),
    "first coordinate": ("mov.u32 %r0, 3;" + load(), "illegal-value", "multiple of 4"),
    "negative store": ("mov.u32 %r1, -1;" + STORE.format("%r0, %r1"), "illegal-value",
                       "inside the tensor"),
    "multicast mask": (load().replace("::bytes", "::bytes.multicast::cluster")[:-1]
                       + ", %h1;", "out-of-bounds", "multicast mask"),
    "bulk size": ("mov.u32 %r3, 24;" + BULK.format("%r90", "%rd41", "%r3") + ";",
                  "illegal-value", "multiple of 16"),
    "bulk destination": (BULK.format("%r90+8", "%rd41", 64) + ";", "misaligned-access",
                         "16-byte aligned"),
    "bulk source": (BULK.format("%r90", "%rd41+8", 64) + ";", "misaligned-access",
                    "16-byte aligned"),
    "bulk source beyond": (BULK.format("%r90", "%rd41+16000", 1024) + ";", "out-of-bounds",
                           "outside every buffer"),
    "bulk destination beyond": (BULK.format("%r90+4000", "%rd41", 1024) + ";", "out-of-bounds",
                                "shared memory"),
    "bulk store beyond": (BULK_STORE.format("%rd41+16000", 1024), "out-of-bounds",
                          "outside every buffer"),
    "prefetch of nothing": ("mov.u64 %rd40, 128; prefetch.tensormap [%rd40];", "out-of-bounds",
                            "a tensor map"),
    "replace misaligned": ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r90+32], %r0;",
                           "misaligned-access", "64-byte"),
    "replace beyond": ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r90+4096], %r0;",
                       "out-of-bounds", "a tensor map"),
    "stride 4": ("tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r90], 4, %rd40;",
                 "illegal-value", "0 to 3"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("schedule", ["eager", "lazy"])
def test_each_rule(name: str, schedule: str) -> None:
    """One finding, with the code and the words; the global arrays stay as they were."""
    body, code, words = CASES[name]
    other = np.arange(4096, dtype=np.uint32)
    made = a_map()
    found = findings("mov.b16 %h0, 0; mov.b16 %h1, 5;" + body, [made, other], schedule=schedule)
    assert [f.code for f in found] == [code], found
    assert words in found[0].message, found[0].message
    assert found[0].where.lane == 0
    np.testing.assert_array_equal(other, np.arange(4096, dtype=np.uint32))
    np.testing.assert_array_equal(made.array, array())


BROKEN = {
    "rank": ({"rank": 7}, "rank"), "type": ({"elemtype": 15}, "element type"),
    "interleave": ({"interleave_layout": 3}, "interleave_layout"),
    "swizzle": ({"swizzle_mode": 1, "swizzle_atomicity": 3}, "do not go together"),
    "inner box": ({"box_dim.0": 3}, "multiple of 16"),
    "address": ({"global_address": 8}, "16-byte aligned"),
    "span": ({"swizzle_mode": 1}, "more than the swizzle's 32"),
    "atoms on Hopper": ({"swizzle_mode": 3, "swizzle_atomicity": 1}, "sm_90a does not have it"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bytes_that_are_no_map(name: str) -> None:
    """A map in memory is held to the driver's limits when a copy reads it."""
    values, words = BROKEN[name]
    data = write(a_map().encode(1 << 44), values)
    found = findings(load(), [np.frombuffer(data, np.uint8).copy()])
    assert [f.code for f in found] == ["illegal-value"]
    assert words in found[0].message


def test_a_map_whose_bytes_leave_the_buffer() -> None:
    """Where the tensor's box is not in the buffer that its address is in, nothing is read."""
    made = a_map()
    for values in ({"global_dim.1": 4096}, {"global_stride.0": 1 << 30},
                   {"global_address": (16 << 40) + (1 << 20)}, {"global_address": 1 << 30}):
        data = np.frombuffer(write(made.encode(16 << 40), values), np.uint8).copy()
        body = "mov.u32 %r1, 60;" + load()
        found = findings(body, [data, made.array])
        assert [f.code for f in found] == ["out-of-bounds"], values


def test_a_store_to_constant_memory_is_refused() -> None:
    """Read-only arrays stay as they are."""
    values = array()
    values.flags.writeable = False
    made = TensorMap.tiled(values, box=(32, 8))
    found = findings(STORE.format("%r0, %r1"), [made])
    assert [f.code for f in found] == ["read-only-write"]
    bulk = BULK_STORE.format("%rd40", 64)
    assert [f.code for f in findings(bulk, [values])] == ["read-only-write"]


def test_im2col_maps_take_no_tiles() -> None:
    """The map's mode is the copy's."""
    made = TensorMap.im2col(np.zeros((4, 8, 16), np.float32), [0], [0], channels=16, pixels=4)
    found = findings(load("%r0, %r1, %r2", rank=3), [made])
    assert [f.code for f in found] == ["illegal-value"]
    assert "im2col" in found[0].message


def test_what_nobody_measured_is_refused_by_name() -> None:
    """im2col::w, the 96-byte swizzle, sums of f64 and of f32.ftz: exit 2, not a guess."""
    wide = TensorMap.im2col(np.zeros((4, 8, 32), np.float32), [0], [0], channels=16, pixels=4,
                            swizzle="64B", wide="w")
    small = TensorMap.tiled(array(), box=(24, 8), swizzle="96B")
    double = TensorMap.tiled(np.zeros((8, 8)), box=(8, 8))
    flushed = TensorMap.tiled(np.zeros((8, 8), np.float32), box=(8, 8), dtype="f32.ftz")
    add = STORE.replace("cp.async", "cp.reduce.async").replace("tile", "add.tile")
    for made, body, words in (
            (wide, load("%r0, %r1, %r2", rank=3, mode="im2col::w", more=", {%h0, %h0}"), "::w"),
            (small, load(), "96B"), (double, add.format("%r0, %r1"), "sum of f64"),
            (flushed, add.format("%r0, %r1"), "sum of f32.ftz")):
        with pytest.raises(UnsupportedInstruction, match=words):
            run_kernel(PROLOGUE + "mov.b16 %h0, 0;" + body + "\nEND: exit;", [made],
                       target="sm_103a", module=MODULE, max_steps=1000)


def test_uninitialised_sources_are_told() -> None:
    """A store of shared memory that nobody wrote is found, and goes on."""
    for body in (STORE.format("%r0, %r1"),
                 BULK_STORE.format("%rd41", 64)):
        found = findings(body, [a_map(), np.zeros(64, np.uint32)])
        assert [f.code for f in found] == ["uninitialised-read"]


def test_a_store_at_the_edge_writes_whole_chunks() -> None:
    """The chip writes 16 bytes where the first lies inside: beyond the array that is a finding."""
    rows = np.zeros((8, 40), np.uint32)
    inside = TensorMap.tiled(rows, (32, 4), dims=(37, 8), strides=(160,))
    fill = "mov.u32 %r4, 0x11111111;" + "".join(
        f"st.shared.u32 [%r90+{4 * i}], %r4;" for i in range(128))
    body = fill + "mov.u32 %r0, 32;" + STORE.format("%r0, %r1")
    assert findings(body, [inside]) == []
    assert (rows[:4, 32:40] == 0x11111111).all()
    assert not rows[4:].any()
    short = np.zeros(37, np.uint32)
    tight = TensorMap.tiled(short, (32,))
    body = fill + ("mov.u32 %r0, 32; cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group"
                   " [%rd40, {%r0}], [%r90];")
    assert [f.code for f in findings(body, [tight])] == ["out-of-bounds"]
    assert not short.any()


def test_maps_have_the_size_that_they_have() -> None:
    """128 bytes, whatever the buffer; a shorter one is out of bounds."""
    found = findings(load(), [np.zeros(MAP_BYTES - 16, np.uint8)])
    assert [f.code for f in found] == ["out-of-bounds"]


WAIT = """
W: mbarrier.try_wait.parity.shared::cta.b64 %p30, [%r91], 0; @!%p30 bra W;
   ld.shared.u32 %r5, [%r90]; st.global.u32 [%rd41], %r5;
"""


@pytest.mark.parametrize("field", ["box_dim", "global_address"])
def test_a_map_that_changes_in_flight(field: str) -> None:
    """The copy uses the map as it is when it runs: another box is a finding."""
    other, out = array() + 5000, np.zeros(1, np.uint32)
    data = np.frombuffer(a_map(box=(32, 32)).encode(18 << 40), np.uint8).copy()
    change = {"box_dim": "b32 [%rd40], 1, 16", "global_address": "b64 [%rd40], %rd43"}[field]
    body = load() + f"""
    mov.u32 %r6, 16; tensormap.replace.tile.{field}.global.b1024.{change};""".replace(
        "1, 16;", "1, %r6;") + WAIT
    for schedule, first, codes in (("eager", 0, []), ("lazy", 5000, ["illegal-value"])):
        copy = data.copy()
        found = findings(body, [copy, out, array(), other], schedule=schedule)
        assert [f.code for f in found] == (codes if field == "box_dim" else [])
        if not found:
            assert int(out[0]) == (first if field == "global_address" else 0)
