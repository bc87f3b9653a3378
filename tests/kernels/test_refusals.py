"""What the kernels refuse, and the words they do it with."""

from __future__ import annotations

import numpy as np
import pytest

import mmalab
from mmalab.errors import UsageError
from mmalab.kernels.reference import full_unit
from mmalab.kernels.sm80_mma import ffma, gemm, textbook

GEMM = "  see:   mmalab.kernels.sm80_mma.gemm"
LADDER = "  see:   mmalab.kernels.sm80_mma"

MAKING = {
    "size": (lambda: gemm(100, 128, 64), [
        "m=100: is no positive multiple of 8", "  legal: 96, 104", LADDER]),
    "nothing": (lambda: gemm(8, 0, 8), [
        "n=0: is no positive multiple of 8", "  legal: 8", LADDER]),
    "no int": (lambda: gemm(8, 8, 8.0), ["k=8.0: is no int", "  legal: 8", LADDER]),
    "textbook": (lambda: textbook(16, 24, 16), [
        "n=24: is no positive multiple of 16", "  legal: 16, 32", LADDER]),
    "ffma": (lambda: ffma(16, 24, 12), [
        "k=12: is no positive multiple of 8", "  legal: 8, 16", LADDER]),
    "dtype": (lambda: gemm(8, 8, 8, "f64"), [
        "dtype 'f64': these kernels do not multiply it",
        "  legal: bf16, f16, tf32, e4m3, s8", LADDER]),
    "accumulator": (lambda: gemm(8, 8, 8, accumulate="f16"), [
        "accumulate='f16': is no accumulator of bf16 products", "  legal: f32",
        "  see:   PTX ISA, mma.sync"]),
    "layout": (lambda: gemm(8, 8, 8, layout="xor"), [
        "layout 'xor': is no layout of the shared tiles", "  legal: swizzled, padded, plain",
        GEMM]),
    "stages": (lambda: gemm(8, 8, 8, layout="padded", stages=5), [
        "stages=5: a padded stage takes 20480 bytes, a block at most 101376", "  legal: 2 to 4",
        GEMM]),
    "warp tile": (lambda: gemm(8, 8, 8, warp_tile=(32, 32)), [
        "warp_tile (32, 32): is no tile of a warp", "  legal: (64, 32), (64, 64)", GEMM]),
    "no tile": (lambda: gemm(8, 8, 8, tile=256), [
        "tile 256: is no pair of rows and columns", "  legal: (256, 128)", GEMM]),
    "no stages": (lambda: gemm(8, 8, 8, stages="4"), [
        "stages='4': is no number of slices", "  legal: 2 or more", GEMM]),
    "block": (lambda: gemm(8, 8, 8, tile=(256, 256)), [
        "tile (256, 256): is no tile of warps of (64, 64) whose sums fit an SM's registers",
        "  legal: (64, 256), (128, 128), (128, 256), (256, 64), (256, 128)", GEMM]),
    "span": (lambda: gemm(8, 8, 8, span=96), [
        "span=96: bytes of a line in a slice", "  legal: 64, 128", GEMM]),
    "beyond coordinates": (lambda: gemm(1 << 70, 8, 8), [
        "m=1180591620717411303424: coordinates have 31 bits", "  legal: 2147483640", LADDER]),
    "band": (lambda: gemm(8, 8, 8, tile=(256, 128), band=0), [
        "band=0: is no number of rows or SMs", "  legal: 1 or more", GEMM]),
    "way in": (lambda: gemm(8, 8, 8, copy="dma"), [
        "copy 'dma': is no way into shared memory", "  legal: threads, tma", GEMM]),
    "TMA with padding": (lambda: gemm(8, 8, 8, copy="tma", layout="padded"), [
        "layout 'padded': is none that TMA writes without bank conflicts",
        "  legal: swizzled, or copy='threads'", GEMM]),
    "TMA of odd rows": (lambda: gemm(8, 8, 8, "s8", copy="tma"), [
        "rows of 8 bytes: cannot be described to TMA",
        "  legal: copy='threads', or K whose rows are multiples of 16 bytes",
        "  see:   PTX ISA, tensor maps: globalStrides"]),
    "TMA and promotion": (lambda: gemm(8, 8, 8, "e4m3", copy="tma", promote_every=64), [
        "promote_every=64: has no kernel that TMA feeds", "  legal: copy='threads'", LADDER]),
    "waves": (lambda: gemm(8, 8, 8, copy="tma", waves="odd"), [
        "waves 'odd': is no way to deal out tiles", "  legal: whole, even", GEMM]),
    "even waves without TMA": (lambda: gemm(8, 8, 8, tile=(256, 128), waves="even"), [
        "waves='even' with copy='threads': has blocks of one tile each",
        "  legal: copy='tma', or waves='whole'", GEMM]),
    "drain": (lambda: gemm(8, 8, 8, copy="tma", drain=5), [
        "drain=5: is no number of k-steps of a slice", "  legal: 1 to 4", GEMM]),
    "TMA's stages": (lambda: gemm(8, 8, 8, copy="tma", stages=5), [
        "stages=5: a swizzled stage takes 49152 bytes, a block at most 231424",
        "  legal: 2 to 4", GEMM]),
    "promotion": (lambda: gemm(8, 8, 8, "e4m3", promote_every=48), [
        "promote_every=48: with 32 values of K an instruction and 64 a slice",
        "  legal: 32, 64, 128, 192, 256, 320, 384, 448, 512", LADDER]),
    "promotion of halves": (lambda: gemm(8, 8, 8, "f16", accumulate="f16", promote_every=32), [
        "promote_every=32: adds partial sums in FP32 registers", "  legal: accumulate='f32'",
        LADDER]),
}


@pytest.mark.parametrize(("make", "lines"), MAKING.values(), ids=MAKING)
def test_kernels_that_cannot_be_made(make, lines):
    """The message names what was given, the rule, and the nearest legal values."""
    with pytest.raises(UsageError) as refused:
        make()
    assert str(refused.value).splitlines() == lines


KERNEL = gemm(16, 8, 32)
A, B, C = np.zeros((16, 32), np.uint16), np.zeros((8, 32), np.uint16), np.zeros((16, 8), np.float32)
READ_ONLY = C.copy()
READ_ONLY.flags.writeable = False
BOTH = np.zeros((16, 32), np.uint16)
NAME = f"  see:   {KERNEL.name}"
CALLING = {
    "count": ([A, B], [
        f"2 arguments: {KERNEL.name} takes 3",
        "  legal: a: bf16[16, 32], b: bf16[8, 32], c: f32[16, 8]", NAME]),
    "number": ([A, 3, C], ["argument 1 (b): int: is no array", "  legal: b: bf16[8, 32]", NAME]),
    "dtype": ([A.astype(np.float32), B, C], [
        "argument 0 (a): float32: the kernel reads it as bf16",
        "  legal: bfloat16, uint16 (raw words)", NAME]),
    "shape": ([A, B.T.copy(), C], [
        "argument 1 (b): shape (32, 8): is not what the kernel was made for", "  legal: (8, 32)",
        NAME]),
    "strides": ([A, np.zeros((32, 8), np.uint16).T, C], [
        ("argument 1 (b): strides (2, 16) of shape (8, 32): rows must lie one behind the other, "
         "elements too"), "  legal: np.ascontiguousarray(...)", NAME]),
    "read-only": ([A, B, READ_ONLY], [
        "argument 2 (c): a read-only array: the kernel writes it", "  legal: array.copy()", NAME]),
    "overlap": ([BOTH, B, BOTH.reshape(-1)[:256].view(np.float32).reshape(16, 8)], [
        "c and a: share memory, and c is written", "  legal: a separate array for c", NAME]),
}


@pytest.mark.parametrize(("args", "lines"), CALLING.values(), ids=CALLING)
def test_arguments_that_do_not_fit(args, lines):
    """Emulating with wrong arrays says which argument, what about it, and what would do."""
    with pytest.raises(UsageError) as refused:
        mmalab.emulate(KERNEL, args)
    assert str(refused.value).splitlines() == lines


def test_a_reference_of_another_unit_is_refused():
    """A bf16 kernel has no reference by an FP8 unit; a chip alone names its own unit."""
    assert full_unit("sm_90", "mma.bf16.f32") == "sm_90.mma.bf16.f32"
    for unit in ("sm_100a", "sm_100.wgmma.bf16.f32"):  # of a Hopper kernel
        with pytest.raises(UsageError, match=r"runs on wgmma.bf16.f32, which .*\n  legal: sm_90\n"):
            full_unit(unit, "wgmma.bf16.f32")
    with pytest.raises(UsageError, match="legal: sm_80, sm_89, sm_90"):
        full_unit("sm_75", "mma.bf16.f32")
    with pytest.raises(UsageError, match=r"sm_90\.mma\.e4m3\.f32"):
        full_unit("sm_90.mma.e4m3.f32", "mma.bf16.f32")
