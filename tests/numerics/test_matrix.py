"""Compiled matrix kernels: the same bits as the specification, on every kind of input."""

from __future__ import annotations

import numpy as np
import pytest
from adversarial import MIXES, fresh, operands

from mmalab import numerics
from mmalab.numerics import matrix, native, reference

NAMES = ["sm_70.mma.f16.f16", "sm_80.mma.bf16.f32", "sm_80.mma.tf32.f32", "sm_89.mma.e4m3.f32",
         "sm_89.mma.e5m2.e4m3.f16", "sm_90.mma.bf16.f32", "sm_90.mma.f16.f16", "sm_90.mma.f16.f32",
         "sm_90.mma.tf32.f32", "sm_90.mma.e4m3.f32", "sm_90.mma.e4m3.f16", "sm_90.wgmma.e4m3.f32",
         "sm_90.wgmma.e5m2.f16", "sm_100.tcgen05.e5m2.f32", "sm_100.tcgen05.e2m3.e2m1.f16"]


def _processors():
    """AVX2 everywhere, and what this machine has; AVX-512 code is at least compiled."""
    return ["haswell", "host"] if native.processor().has("avx512f") else ["haswell"]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("name", NAMES)
def test_kernel_equals_the_specification(name, mix):
    """Chains of three instructions over odd shapes: every bit, for each vector width that runs."""
    unit, rng = numerics.unit(name), fresh()
    a, b, c = operands(unit, 13, 21, 2 * unit.k + unit.k // 2, mix, rng)
    want = reference.multiply(unit, a, b, c)
    for cpu in _processors():
        np.testing.assert_array_equal(matrix.multiply(unit, a, b, c, cpu=cpu), want)


@pytest.mark.parametrize("name", NAMES[:3])
def test_code_for_wide_vectors_compiles(name):
    """The AVX-512 variant is valid on every machine, run or not."""
    from mmalab.numerics.matrix_ir import matrix_ir

    unit = numerics.unit(name)
    text = matrix_ir(unit, unit.k, native.processor("skylake-avx512").vector_bits // 32)
    assert "<16 x float>" in text
    assert native.object_code(text, cpu="skylake-avx512")[:4] == b"\x7fELF"


def test_wide_exponents_take_the_cold_path():
    """Products far below and far above what floats hold are still cut as the chip cuts them."""
    unit, rng = numerics.unit("sm_90.mma.bf16.f32"), fresh()
    shape = (16, 64)
    field = rng.choice([1, 2, 40, 60, 64, 127, 190, 250, 254], shape)
    a = (field << 7 | rng.integers(0, 128, shape) | rng.integers(0, 2, shape) << 15).astype("u2")
    b = np.ascontiguousarray(a.T[:, ::-1])
    c = rng.integers(0, 1 << 32, (16, 16), dtype=np.uint64).astype(np.uint32)
    want = reference.multiply(unit, a, b, c)
    np.testing.assert_array_equal(matrix.multiply(unit, a, b, c, cpu="haswell"), want)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_and_tails_do_not_matter(threads):
    """More rows than a task and more K than a stretch, on any number of threads."""
    unit, rng = numerics.unit("sm_90.wgmma.e4m3.f32"), fresh()
    a, b, c = operands(unit, 150, 37, 600, "normal", rng)
    want = reference.multiply(unit, a, b, c)
    np.testing.assert_array_equal(matrix.multiply(unit, a, b, c, threads=threads), want)


@pytest.mark.parametrize(("name", "k"), [("sm_80.mma.bf16.f32", 8), ("sm_90.mma.f16.f32", 8),
                                         ("sm_90.mma.e4m3.f32", 16), ("sm_89.mma.e4m3.f32", 16)])
def test_smaller_instructions(name, k):
    """The k8 and k16 forms fuse their own number of products."""
    unit, rng = numerics.unit(name), fresh()
    a, b, c = operands(unit, 8, 16, 64, "normal", rng)
    want = reference.multiply(unit, a, b, c, k=k)
    np.testing.assert_array_equal(matrix.multiply(unit, a, b, c, k=k, cpu="haswell"), want)
    assert unit.block(k) != unit.block(unit.k) or name.startswith(("sm_80", "sm_89"))


def test_inputs_are_left_alone():
    """Neither A, B nor C is written, whatever their order in memory."""
    unit, rng = numerics.unit("sm_90.mma.bf16.f32"), fresh()
    a, b, c = operands(unit, 16, 16, 32, "normal", rng)
    a, b = np.asfortranarray(a), np.asfortranarray(b)
    copies = [x.copy() for x in (a, b, c)]
    matrix.multiply(unit, a, b, c, cpu="haswell")
    for x, copy in zip((a, b, c), copies, strict=True):
        np.testing.assert_array_equal(x, copy)
