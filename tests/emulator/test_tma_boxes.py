"""Boxes that many lanes load together, against the same boxes loaded lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmalab.emulator import emulate
from mmalab.emulator.execute import tensor_copy
from mmalab.emulator.execute.tensor_boxes import load_boxes
from mmalab.tensormap import ELEMENTS, TensorMap

IMAGE, CTAS = 8192, 12
#: Thread 0 of every CTA loads the box at coordinates of its own; all threads store the image.
KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry boxes(.param .align 64 .b8 map[128], .param .u64 at, .param .u64 out) {
  .reg .b32 %r<20>; .reg .b64 %rd<8>; .reg .b16 %h; .reg .pred %p<4>;
  .shared .align 1024 .b8 image[8192];
  .shared .align 8 .b8 bar[8];
  mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, image; mov.u32 %r3, bar;
  setp.ne.u32 %p0, %r0, 0;
  @%p0 bra READY;
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
READY:
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  @%p0 bra WAIT;
  ld.param.u64 %rd0, [at];
  mul.wide.u32 %rd1, %r1, 20;
  add.u64 %rd0, %rd0, %rd1;
  ld.global.u32 %r10, [%rd0]; ld.global.u32 %r11, [%rd0+4]; ld.global.u32 %r12, [%rd0+8];
  ld.global.u32 %r13, [%rd0+12]; ld.global.u32 %r14, [%rd0+16];
  mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], EXPECTED;
  mov.b16 %h, 3;
  LOAD
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0;
  @!%p1 bra WAIT;
  ld.param.u64 %rd3, [out];
  mul.wide.u32 %rd4, %r1, 8192;
  add.u64 %rd3, %rd3, %rd4;
  shl.b32 %r4, %r0, 2;
NEXT:
  add.u32 %r5, %r2, %r4;
  ld.shared.u32 %r6, [%r5];
  cvt.u64.u32 %rd5, %r4;
  add.u64 %rd6, %rd3, %rd5;
  st.global.u32 [%rd6], %r6;
  add.u32 %r4, %r4, 256;
  setp.lt.u32 %p2, %r4, 8192;
  @%p2 bra NEXT;
  barrier.cluster.arrive.release.aligned;
  barrier.cluster.wait.acquire.aligned;
  ret;
}
"""
SPANS = {"none": 256, "32B": 32, "64B": 64, "128B": 128}


class Case:
    """A random map, and coordinates inside it (one box in a few leaves it, if `beyond`)."""

    def __init__(self, seed: int, kind: str, *, beyond: bool) -> None:
        rng = np.random.default_rng(seed)
        size, rank = ELEMENTS[kind].bits // 8, int(rng.integers(1, 6))
        swizzle = str(rng.choice([*SPANS]))
        inner = 16 * int(rng.integers(1, SPANS[swizzle] // 16 + 1)) // size
        steps = [1, *(int(rng.choice([1, 1, 2])) for _ in range(rank - 1))]
        box = [inner, *(int(rng.integers(1, 5 if axis else 9)) for axis in range(rank - 1))]
        while np.prod(box[1:]) * max(inner * size, SPANS[swizzle] % 256) > 2048:
            box[int(np.argmax(box[1:])) + 1] //= 2
        dims = [n * step + int(rng.integers(2, 20)) for n, step in zip(box, steps, strict=True)]
        pitch, strides = dims[0] * size, []
        for extent in dims[1:]:
            pitch = -(-pitch // 16) * 16 + 16 * int(rng.integers(3))
            strides.append(pitch)
            pitch *= extent
        array = rng.integers(0, 256, -(-pitch // 16) * 16, dtype=np.uint8)
        self.map = TensorMap.tiled(array, box, dims=dims, strides=strides, dtype=kind,
                                   element_strides=steps, swizzle=swizzle)
        self.at = np.zeros((CTAS, 5), np.int32)
        for axis, (dim, n, step) in enumerate(zip(dims, self.map.counts, steps, strict=True)):
            most = dim - 1 - (n - 1) * step
            self.at[:, axis] = rng.integers(-2 if beyond else 0, most + (3 if beyond else 1), CTAS)
        self.at[:, 0] -= self.at[:, 0] % (16 // size)
        self.rank, self.bytes = rank, int(np.prod(self.map.counts)) * size
        self.phase = 128 * int(rng.integers(0, 8))

    def text(self, *, multicast: bool) -> str:
        """The kernel of these boxes."""
        names = ", ".join(f"%r{10 + axis}" for axis in range(self.rank))
        place = f"%r2+{self.phase}"
        load = "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        if multicast:  # the CTA of rank r fills the part r of both
            place = f"%r5+{self.phase}"
            load = ("mov.u32 %r5, %cluster_ctarank; shl.b32 %r5, %r5, 12; add.u32 %r5, %r5, %r2; "
                    + load + ".multicast::cluster [{}], [%rd2, {{{}}}], [%r3], %h;")
        else:
            load += " [{}], [%rd2, {{{}}}], [%r3];"
        expected = self.bytes * (2 if multicast else 1)
        return KERNEL.replace("LOAD", load.format(self.rank, place, names)).replace(
            "EXPECTED", str(expected))

    def image(self, *, multicast: bool, **options: Any) -> tuple[bytes, Any]:
        """What all CTAs find, and the run."""
        out = np.full(CTAS * IMAGE // 4, 0xDEADBEEF, np.uint32)
        run = emulate(self.text(multicast=multicast), [self.map, self.at, out], grid=CTAS, block=64,
                      cluster=2, sanitize=False, **options)
        return out.tobytes(), run


@pytest.mark.parametrize("multicast", [False, True])
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("kind", ["u8", "bf16", "f32", "s32", "u64", "tf32"])
def test_together_and_one_by_one(kind: str, *, beyond: bool, multicast: bool,
                                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Four random maps each: all bytes, findings and counters are the same."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    done: list[bool] = []

    def together(*args: Any) -> bool:
        done.append(load_boxes(*args))
        return done[-1]

    for number in range(4):
        case = Case(seed + number, kind, beyond=beyond)
        results = []
        for load in (together, lambda *_: False):
            monkeypatch.setattr(tensor_copy, "load_boxes", load)
            image, run = case.image(multicast=multicast)
            results.append((image, [f.code for f in run.findings], run.counters))
        lazy, _ = case.image(multicast=multicast, schedule="lazy")
        assert results[0] == results[1]
        assert lazy == results[0][0]
        assert beyond or results[0][1] == []
    assert beyond or done == [kind != "tf32"] * 4


@pytest.mark.parametrize("name", ["destination", "mbarrier"])
@pytest.mark.parametrize("address", [1 << 63 | 1024, (1 << 64) - (1 << 24) + 1024, 1 << 40 | 1024,
                                     2 << 24 | 1024, 1024 + 64, 0, (1 << 24) - 128])
def test_wild_addresses(name: str, address: int) -> None:
    """Places outside the cluster's shared memory, or misaligned, are told and nothing is moved."""
    case = Case(7, "bf16", beyond=False)
    text = case.text(multicast=False).replace("%rd<8>", "%rd<9>")
    old = f"[%r2+{case.phase}]" if name == "destination" else "[%r3];\nWAIT"
    assert text.count(old) == 1
    text = text.replace(old, "[%rd8]" + ";\nWAIT" * (name == "mbarrier"))
    text = text.replace("READY:", f"READY: mov.u64 %rd8, {address};")
    out = np.full(CTAS * IMAGE // 4, 0xDEADBEEF, np.uint32)
    run = emulate(text, [case.map, case.at, out], grid=CTAS, block=64, cluster=2, sanitize=False)
    assert {f.code for f in run.findings} <= {
        "out-of-bounds", "misaligned-access", "illegal-value", "mbarrier-uninitialised"}
    assert run.findings
    assert (out == 0xDEADBEEF).all()
