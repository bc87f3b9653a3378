"""Copies by hostile kernels: wild addresses, sizes, coordinates and maps touch nothing else.

The arrays lie inside larger ones; what is around them has to stay. Any error is one of ours, any
run is short, whatever the registers hold.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from emulation import run_kernel

from mmalab.errors import LimitExceeded, UnsupportedInstruction
from mmalab.tensormap import TensorMap
from mmalab.tensormap.encoding import TABLE, write

MODULE = ".shared .align 1024 .b8 smem[2048];\n.shared .align 8 .b64 bar;\n"
PROLOGUE = """
    mov.u32 %r90, smem; mov.u32 %r91, bar; mov.u32 %r92, %tid.x; setp.ne.u32 %p31, %r92, 0;
    @!%p31 mbarrier.init.shared::cta.b64 [%r91], 1;
    bar.sync 0; @%p31 bra E;
"""
BYTES = "mbarrier::complete_tx::bytes"
TO, FROM, FIVE = "shared::cluster.global", "global.shared::cta", "%r3, %r4, %r5, %r6, %r7"
OPCODES = tuple(line.strip() for line in f"""
cp.async.bulk.shared::cluster.global.{BYTES} [%r0], [%rd0], %r1, [%r2];
cp.async.bulk.shared::cluster.global.{BYTES}.multicast::cluster [%r0], [%rd0], %r1, [%r2], %h0;
cp.async.bulk.shared::cta.global.{BYTES}.ignore_oob [%r0], [%rd0], %r1, %r3, %r4, [%r2];
cp.async.bulk.shared::cluster.shared::cta.{BYTES} [%r0], [%r5], %r1, [%r2];
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r0], %r1;
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r0], %r1, %h0;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd0], [%r0], %r1;
cp.reduce.async.bulk.shared::cluster.shared::cta.{BYTES}.inc.u32 [%r0], [%r5], %r1, [%r2];
cp.async.bulk.prefetch.L2.global [%rd0], %r1;
cp.async.bulk.tensor.2d.{TO}.tile.{BYTES} [%r0], [%rd1, {{%r3, %r4}}], [%r2];
cp.async.bulk.tensor.3d.{TO}.im2col.{BYTES} [%r0], [%rd1, {{%r3, %r4, %r5}}], [%r2], {{%h0}};
cp.async.bulk.tensor.2d.{TO}.tile::gather4.{BYTES} [%r0], [%rd1, {{{FIVE}}}], [%r2];
cp.async.bulk.tensor.2d.{FROM}.tile.bulk_group [%rd1, {{%r3, %r4}}], [%r0];
cp.async.bulk.tensor.3d.{FROM}.im2col_no_offs.bulk_group [%rd1, {{%r3, %r4, %r5}}], [%r0];
cp.async.bulk.tensor.2d.{FROM}.tile::scatter4.bulk_group [%rd1, {{{FIVE}}}], [%r0];
cp.reduce.async.bulk.tensor.2d.{FROM}.min.tile.bulk_group [%rd1, {{%r3, %r4}}], [%r0];
cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {{%r3, %r4}}];
prefetch.tensormap [%rd1];
tensormap.replace.tile.global_dim.global.b1024.b32 [%rd1], 2, %r3;
tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r0], %rd0;
fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
red.async.relaxed.cluster.shared::cluster.{BYTES}.add.u64 [%r0], %rd0, [%r2];
st.async.shared::cluster.{BYTES}.v4.b32 [%r0], {{%r3, %r4, %r5, %r6}}, [%r2];
""".strip().splitlines())


class Wild:
    """Random words, many of them nearly right; the first value of each kind is."""

    def __init__(self, seed: int, opcode: str = "") -> None:
        self.rng, self.opcode = np.random.default_rng(seed), opcode
        self.mapped = "im2col" if "im2col" in opcode else "tile"
        #: Of a calm kernel all is right.
        self.calm = False

    def pick(self, *values: int) -> int:
        return values[0] if self.calm else values[int(self.rng.integers(len(values)))]

    def shared(self) -> int:
        """A shared address: 1024 is where the array starts."""
        return self.pick(1024, 1024, 1024 + 128 * int(self.rng.integers(20)), 0, 3088, 3072,
                         1024 + (1 << 24), 1032, int(self.rng.integers(1 << 32)))

    def pointer(self, base: int) -> int:
        return self.pick(base, base + 16 * int(self.rng.integers(40)), base + 8, base - 16, 0,
                         base + (1 << 40), int(self.rng.integers(1 << 62)))

    def number(self) -> int:
        return self.pick(0, 4, 16, 64, 0, 128, 1024, 2048, -4, -16, 8, 7, 1 << 31, -1, 65536,
                         int(self.rng.integers(1 << 32)))

    def map(self, array: Any) -> bytes:
        """A legal map with some fields replaced by anything."""
        if self.mapped == "tile":
            rows = 1 if "4." in self.opcode or self.rng.random() < 0.5 else 4
            made = TensorMap.tiled(array, box=(8, rows), dims=(16, 16), strides=(64,),
                                   dtype=str(self.rng.choice(["u32", "s32"])))
        else:
            made = TensorMap.im2col(array, [0], [0], channels=8, pixels=8, dims=(16, 8, 2),
                                    strides=(64, 512), dtype="u32")
        data = made.encode(17 << 40)
        names = self.rng.choice([*TABLE], 0 if self.calm else int(self.rng.integers(0, 4)))
        return write(data, {str(name): self.number() for name in names})

    def registers(self, base: int) -> str:
        lines = [f"mov.u32 %r{i}, {self.number() & 0xFFFFFFFF};" for i in range(8)]
        lines += [f"mov.u32 %r0, {self.shared()};",
                  f"mov.u32 %r1, {self.pick(64, self.number()) & 0xFFFFFFFF};"]
        if "[%r5]" in self.opcode:
            lines.append(f"mov.u32 %r5, {self.shared()};")
        if self.calm or self.rng.random() < 0.8:
            lines.append("mov.u32 %r2, %r91;")
        lines.append(f"mov.u64 %rd0, {self.pointer(base)};")
        lines.append("mov.u64 %rd1, %rd41;" if self.calm or self.rng.random() < 0.8 else
                     f"mov.u64 %rd1, {self.pointer(18 << 40)};")
        lines.append(f"mov.b16 %h0, {self.pick(1, self.number()) & 0xFFFF};")
        return "\n".join(lines)


@pytest.mark.parametrize("opcode", OPCODES)
def test_wild_operands(opcode: str) -> None:
    """Thirty kernels of each form, of which ten are right."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    wild, ran = Wild(seed, opcode), 0
    for number in range(30):
        wild.calm = number % 3 == 0
        around = wild.rng.integers(0, 256, 4096, dtype=np.uint8)
        before = around.copy()
        inner, maps = around[1024:2048], np.zeros(256, np.uint8)
        maps[64:192] = np.frombuffer(wild.map(inner), np.uint8)
        # buffers: 16 a stranger, 17 the tensor, 18 the map
        body = PROLOGUE + "add.s64 %rd41, %rd42, 64;" + wild.registers(17 << 40) + f"""
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r91], 64;
    {opcode}
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
E:  ret;
"""
        with suppress(LimitExceeded, UnsupportedInstruction):
            done = run_kernel(body, [np.zeros(4, np.uint32), inner, maps], target="sm_100a",
                              module=MODULE, max_steps=2000,
                              schedule=wild.pick(0, 1) if wild.rng.random() < 0.5 else "lazy")
            errors = {f.code for f in done.findings if f.severity == "error"}
            ran += errors <= {"uninitialised-read"}
        np.testing.assert_array_equal(around[:1024], before[:1024])
        np.testing.assert_array_equal(around[2048:], before[2048:])
    assert ran > 0


def test_maps_of_random_bytes() -> None:
    """Any 128 bytes: a finding, or a copy that stays in its buffer."""
    rng = np.random.default_rng()
    for _ in range(150):
        data = rng.integers(0, 256, 128, dtype=np.uint8)
        if rng.random() < 0.7:  # less wild: small sizes, an address that exists
            values = {"global_address": 17 << 40, "rank": 2, "elemtype": int(rng.integers(14)),
                      "swizzle_mode": int(rng.integers(4)), "swizzle_atomicity": 0,
                      "interleave_layout": 0, "im2col": 0, "tf32": 0,
                      "global_stride.0": 16 * int(rng.integers(8))}
            values |= {f"{name}.{i}": int(rng.integers(1, 40)) for i in range(5)
                       for name in ("box_dim", "global_dim")}
            data[:] = np.frombuffer(write(data.tobytes(), values), np.uint8)
        body = PROLOGUE + """
    mov.u32 %r0, 1024; mov.u32 %r3, 0; mov.u32 %r2, %r91;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r0], [%rd40, {%r3, %r3}], [%r2];
E:  ret;
"""
        with suppress(UnsupportedInstruction):
            done = run_kernel(body, [data, np.zeros(512, np.uint8)], target="sm_100a",
                              module=MODULE, max_steps=2000)
            codes = {f.code for f in done.findings}
            assert codes <= {"illegal-value", "out-of-bounds", "tx-mismatch"}
