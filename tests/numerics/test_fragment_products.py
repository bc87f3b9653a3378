"""Instructions on registers: NumPy against whole matrices, compiled code against NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from adversarial import fresh, operands, words

from mmalab import formats, isa, numerics
from mmalab.errors import UnsupportedInstruction, UsageError
from mmalab.numerics import fragment_ir, fragment_mma, has_fragment_ir, native, unit_for
from mmalab.numerics.fragments import from_registers, metadata_indices, to_registers
from mmalab.numerics.reference import multiply

MMA = "mma.sync.aligned."

#: (opcode, targets): each arithmetic and each layout once.
DENSE = [
    (f"{MMA}m16n8k16.row.col.f32.bf16.bf16.f32", "sm_80 sm_90"),
    (f"{MMA}m16n8k8.row.col.f32.bf16.bf16.f32", "sm_90"),
    (f"{MMA}m16n8k16.row.col.f16.f16.f16.f16", "sm_90"),
    (f"{MMA}m16n8k8.row.col.f32.f16.f16.f32", "sm_75"),
    (f"{MMA}m16n8k8.row.col.f32.tf32.tf32.f32", "sm_80 sm_90"),
    (f"{MMA}m16n8k4.row.col.f32.tf32.tf32.f32", "sm_90"),
    (f"{MMA}m16n8k32.row.col.f32.e4m3.e5m2.f32", "sm_89 sm_90 sm_120"),
    (f"{MMA}m16n8k32.row.col.f16.e4m3.e4m3.f16", "sm_89 sm_100"),
    (f"{MMA}m16n8k16.row.col.f32.e4m3.e4m3.f32", "sm_90"),
    (f"{MMA}m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32", "sm_120"),
    (f"{MMA}m16n8k32.row.col.kind::f8f6f4.f16.e2m3.e4m3.f16", "sm_120"),
    (f"{MMA}m16n8k32.row.col.satfinite.s32.s8.u8.s32", "sm_80"),
    (f"{MMA}m8n8k16.row.col.s32.u8.u8.s32", "sm_75"),
    (f"{MMA}m16n8k64.row.col.s32.s4.u4.s32", "sm_90"),
    (f"{MMA}m8n8k32.row.col.satfinite.s32.s4.s4.s32", "sm_80"),
    (f"{MMA}m16n8k256.row.col.s32.b1.b1.s32.xor.popc", "sm_80"),
    (f"{MMA}m8n8k128.row.col.s32.b1.b1.s32.and.popc", "sm_90"),
    (f"{MMA}m8n8k4.row.col.f64.f64.f64.f64", "sm_80"),
    (f"{MMA}m16n8k16.row.col.f64.f64.f64.f64", "sm_90"),
]
CASES = [(opcode, target) for opcode, targets in DENSE for target in targets.split()]


def _registers(form, role, matrices):
    """Registers of matrices of words, [warps, rows, cols]."""
    fragment = form.fragments[role]
    return to_registers(fragment, matrices) << np.uint32(fragment.element_lsb) if (
        fragment.element_lsb) else to_registers(fragment, matrices)


def _inputs(form, unit, rng, mixes):
    """Matrices and their registers, one warp for each mix."""
    m, n, k = form.shape
    stacks = [np.stack(x) for x in zip(*(operands(unit, m, n, k, mix, rng) for mix in mixes),
                                       strict=True)]
    return stacks, [_registers(form, role, x) for role, x in zip("ABC", stacks, strict=True)]


def _call(unit, form, registers, *, mode="exact", alias="", cpu=""):
    """Run the compiled function for each warp; `alias` names the operand that D overlaps."""
    name, text = fragment_ir(unit, form, mode=mode)
    pointer = ctypes.c_void_p
    function = native.load(text, {name: (None, *[pointer] * 4)}, cpu=cpu)[name]
    results = []
    for a, b, c in zip(*registers, strict=True):
        held = {"A": a.copy(), "B": b.copy(), "C": c.copy()}
        shape = (form.fragments["D"].registers, 32)
        d = np.full(shape, 0xDEADBEEF, c.dtype)  # poison: every register must be written
        if alias:
            count = max(shape[0], len(held[alias]))
            d = np.full((count, 32), 0xDEADBEEF, c.dtype)
            d[: len(held[alias])] = held[alias]
            held[alias] = d
        function(d.ctypes.data, *(held[role].ctypes.data for role in "ABC"))
        results.append(d[: shape[0]])
    return np.stack(results)


MIXED = ("normal", "bits", "ladder", "subnormal", "cancel", "ties", "carry", "specials")


@pytest.mark.parametrize(("opcode", "target"), CASES)
def test_registers_hold_the_matrix_product(opcode, target):
    """Elements out of registers, products of the unit, results into registers: nothing moves."""
    form = isa.find(opcode)
    unit, rng = unit_for(target, form.family, form.modifiers), fresh()
    (a, b, c), registers = _inputs(form, unit, rng, MIXED[:4])
    want = multiply(unit, a, b, c, k=form.shape[2])
    got = from_registers(form.fragments["D"], fragment_mma(unit, form, *registers))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("opcode", "target"), CASES)
def test_compiled_functions_equal_numpy(opcode, target):
    """The LLVM function of a form gives the same registers, also where D overlaps C or A."""
    form = isa.find(opcode)
    unit, rng = unit_for(target, form.family, form.modifiers), fresh()
    _, registers = _inputs(form, unit, rng, MIXED)
    want = fragment_mma(unit, form, *registers)
    for alias in ("", "C", "A"):
        np.testing.assert_array_equal(_call(unit, form, registers, alias=alias), want)


@pytest.mark.parametrize("opcode", [DENSE[0][0], DENSE[6][0], DENSE[11][0]])
def test_compiled_functions_for_plain_avx2(opcode):
    """The code for AVX2 alone gives the same registers."""
    form = isa.find(opcode)
    unit, rng = unit_for("sm_89", form.family, form.modifiers), fresh()
    _, registers = _inputs(form, unit, rng, MIXED)
    want = fragment_mma(unit, form, *registers)
    np.testing.assert_array_equal(_call(unit, form, registers, cpu="haswell"), want)


def test_fast_functions_are_near():
    """The fast mode sums in float32: close to the exact product, not equal to the chip."""
    form = isa.find(DENSE[0][0])
    unit, rng = numerics.unit("sm_90.mma.bf16.f32"), fresh()
    (a, b, c), registers = _inputs(form, unit, rng, ["normal"] * 3)
    got = from_registers(form.fragments["D"], _call(unit, form, registers, mode="fast"))
    exact = formats.decode(a, "bf16") @ formats.decode(b, "bf16") + formats.decode(c, "f32")
    np.testing.assert_allclose(formats.decode(got, "f32"), exact, atol=1e-5)


def test_forms_without_a_generator_say_so():
    """Sparse, block-scaled and quad-pair forms are refused by name; fragment_mma serves them."""
    form = isa.find("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
    unit = unit_for("sm_90", form.family, form.modifiers)
    assert not has_fragment_ir(unit, form)
    with pytest.raises(UnsupportedInstruction, match="sparse and block-scaled") as error:
        fragment_ir(unit, form)
    assert "fragment_mma" in str(error.value)


SPARSE = [
    ("m16n8k16", "f32.f16.f16.f32"), ("m16n8k32", "f32.bf16.bf16.f32"),
    ("m16n8k8", "f32.tf32.tf32.f32"), ("m16n8k16", "f32.tf32.tf32.f32"),
    ("m16n8k32", "s32.s8.s8.s32"), ("m16n8k64", "s32.u8.s8.s32"), ("m16n8k64", "s32.s4.s4.s32"),
    ("m16n8k128", "s32.s4.u4.s32"), ("m16n8k64", "f32.e4m3.e5m2.f32"),
]


@pytest.mark.parametrize(("shape", "types"), SPARSE)
def test_sparse_forms_equal_dense_ones_with_zeros_put_in(shape, types):
    """On small integers, where order does not matter: expand A and multiply."""
    form = isa.find(f"mma.sp::ordered_metadata.sync.aligned.{shape}.row.col.{types}")
    unit, rng = unit_for("sm_90", form.family, form.modifiers), fresh()
    m, n, k = form.shape
    stored = k // 2
    a, b, c = (rng.integers(0, 4, s).astype(float) for s in ((2, m, stored), (2, k, n), (2, m, n)))
    nibbles = rng.choice(np.array(form.sparsity.patterns, np.uint32), (2, 32, 8))
    metadata = np.bitwise_or.reduce(nibbles << 4 * np.arange(8, dtype=np.uint32), axis=-1)
    registers = [to_registers(form.fragments[role], formats.encode(x, form.fragments[role].type))
                 for role, x in zip("ABC", (a, b, c), strict=True)]
    for selector in form.sparsity.selectors:
        where = metadata_indices(form.sparsity, stored, metadata, selector)
        assert (np.diff(where, axis=-1) > 0).all()  # ordered, and none twice
        dense = np.zeros((2, m, k))
        np.put_along_axis(dense, where, a, axis=-1)
        got = fragment_mma(unit, form, *registers, metadata=metadata, selector=selector)
        d = formats.decode(from_registers(form.fragments["D"], got), unit.acc)
        np.testing.assert_array_equal(d, dense @ b + c)


def test_metadata_picks_elements_as_the_manual_draws():
    """f16 m16n8k32, selector 0: lane 4g + 1 holds k 16 to 31 of rows g and g + 8."""
    form = isa.find("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32")
    metadata = np.full((1, 32), 0x44444444, np.uint32)  # 0100: positions 0 and 1
    metadata[0, 4 * 3 + 1] = 0xE444_444E  # row 3: k 16..19; row 11: k 28..31: positions 2 and 3
    where = metadata_indices(form.sparsity, 16, metadata, 0)[0]
    assert where[3].tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 18, 19, 20, 21, 24, 25, 28, 29]
    assert where[11].tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 30, 31]
    assert where[0].tolist() == [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29]


def test_sparse_forms_need_metadata():
    """Without its metadata register a sparse form is an error."""
    form = isa.find("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    unit = unit_for("sm_90", form.family, form.modifiers)
    zero = [np.zeros((1, form.fragments[role].registers, 32), np.uint32) for role in "ABC"]
    with pytest.raises(UsageError, match="needs its metadata register"):
        fragment_mma(unit, form, *zero)


def test_block_scales_come_from_the_lanes_that_the_selectors_name():
    """mxf8f6f4: each row and column has a scale of its own; other lanes and bytes are noise."""
    form = isa.find(f"{MMA}m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X"
                    ".f32.e4m3.e4m3.f32.ue8m0")
    unit, rng = unit_for("sm_120a", form.family, form.modifiers), fresh()
    ones = formats.encode(np.ones((1, 16, 32)), "e4m3"), formats.encode(np.ones((1, 32, 8)), "e4m3")
    registers = [to_registers(form.fragments["A"], ones[0]),
                 to_registers(form.fragments["B"], ones[1]), np.zeros((1, 4, 32), np.uint32)]
    sa, sb = (rng.integers(0, 1 << 32, (1, 32), dtype=np.uint64).astype(np.uint32)
              for _ in range(2))
    rows, columns = rng.integers(120, 134, 16), rng.integers(120, 134, 8)
    for g in range(8):
        for lane, value in ((4 * g + 2, rows[g]), (4 * g + 3, rows[g + 8])):
            sa[0, lane] = sa[0, lane] & ~np.uint32(0xFF00) | np.uint32(value << 8)
        lane = 4 * g + 3
        sb[0, lane] = sb[0, lane] & ~np.uint32(0xFF0000) | np.uint32(columns[g] << 16)
    got = fragment_mma(unit, form, *registers, scale_a=sa, byte_a=1, thread_a=1, scale_b=sb,
                       byte_b=2, thread_b=3)
    d = formats.decode(from_registers(form.fragments["D"], got), "f32")[0]
    np.testing.assert_array_equal(d, 32 * 2.0 ** (rows - 127.0)[:, None] * 2.0 ** (columns - 127.0))


def test_quad_pairs_are_four_products():
    """m8n8k4: the quad pairs of a warp multiply on their own."""
    form = isa.find(f"{MMA}m8n8k4.row.col.f32.f16.f16.f32")
    unit, rng = unit_for("sm_80", form.family, form.modifiers), fresh()
    a, b = (formats.encode(rng.integers(-8, 8, s).astype(float), "f16")
            for s in ((1, 4, 8, 4), (1, 4, 4, 8)))
    c = formats.encode(rng.integers(-8, 8, (1, 4, 8, 8)).astype(float), "f32")
    registers = [to_registers(form.fragments[role], x)
                 for role, x in zip("ABC", (a, b, c), strict=True)]
    got = from_registers(form.fragments["D"], fragment_mma(unit, form, *registers))
    exact = formats.decode(a, "f16") @ formats.decode(b, "f16") + formats.decode(c, "f32")
    np.testing.assert_array_equal(formats.decode(got, "f32"), exact)


def test_every_dense_form_finds_code_or_numpy():
    """Of all dense forms of the ISA only those that say why lack a generator."""
    lacking = set()
    for opcode in isa.forms():
        form = isa.find(opcode)
        if form.family != "mma.sync":
            continue
        unit = unit_for("sm_120a", form.family, form.modifiers)
        if not has_fragment_ir(unit, form):
            lacking.add((unit.algorithm, bool(unit.scale), unit.variant))
    assert lacking == {("tfs", True, ""), ("groups", True, ""), ("groups", True, "ue8m0"),
                       ("ffma", False, ""), ("fma", False, "rz"), ("fma", False, "rm"),
                       ("fma", False, "rp")}


def test_words_helper_makes_every_mix():
    """Each mix of inputs contains what its name says, for a type with and without Inf."""
    rng = fresh()
    for kind in ("bf16", "e4m3"):
        nan = formats.decode(words(kind, (4000,), "specials", rng), kind)
        assert np.isnan(nan).any()
        assert (formats.decode(words(kind, (64,), "normal", rng), kind) != 0).any()
