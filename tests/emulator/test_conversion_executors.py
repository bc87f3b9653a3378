"""cvt, mov, setp, set, selp and slct against independent models."""

from __future__ import annotations

import math
from fractions import Fraction

import fractions_model as model
import ml_dtypes
import numpy as np
import pytest
from emulation import floats_of, run_instruction, run_kernel, words_of

from mmalab.emulator.types import width

COUNT = 192


def _rng():
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    return np.random.default_rng(seed)


def _value(word, kind):
    if kind[0] in "us" and kind[1:].isdigit():
        bits = width(kind)
        return word - (1 << bits) if kind[0] == "s" and word >> bits - 1 else word
    return model.decode(word, kind)


def _to_integer(x, kind, mode, source):
    bits = width(kind)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    if isinstance(x, float) and math.isnan(x):
        return 1 << bits - 1 if source == "f64" or bits == 64 else 0
    if isinstance(x, float) and math.isinf(x):
        return (high if x > 0 else low) & (1 << bits) - 1
    exact = Fraction(x)
    floor = math.floor(exact)
    rest = exact - floor
    whole = {"rni": round(exact), "rzi": int(exact), "rmi": floor,
             "rpi": floor + (rest > 0)}[mode]
    return max(low, min(high, whole)) & (1 << bits) - 1


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("atype", ["f16", "f32", "f64"])
def test_float_to_integer_rounds_and_clamps(atype, dtype, mode):
    """cvt to an integer rounds as told, clamps, and has the manual's values for NaN."""
    words = floats_of(atype, COUNT, _rng())
    got = run_instruction(f"cvt.{mode}.{dtype}.{atype}", [words])
    want = [_to_integer(model.decode(int(w), atype), dtype, mode, atype) for w in words]
    # Results narrower than 16 bits sit extended in their register; their low bits count.
    mask = (1 << width(dtype)) - 1
    assert [int(g) & mask for g in got] == want


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("atype", ["u32", "s32", "u64", "s64", "s16"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_integer_to_float_rounds_once(dtype, atype, mode):
    """cvt from an integer rounds once in the direction given."""
    words = words_of(atype, COUNT, _rng())
    got = run_instruction(f"cvt.{mode}.{dtype}.{atype}", [words])
    values = [_value(int(w), atype) for w in words]
    want = [model.encode(model.round_to(Fraction(v), dtype, mode) if v else 0.0, dtype)
            for v in values]
    assert got.tolist() == want


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize(("dtype", "atype"), [("f16", "f32"), ("f32", "f64"), ("f16", "f64")])
def test_narrowing_rounds_once(dtype, atype, mode):
    """cvt to a narrower format rounds once, keeps infinities and makes NaN canonical."""
    words = floats_of(atype, COUNT, _rng())
    got = run_instruction(f"cvt.{mode}.{dtype}.{atype}", [words])
    want = []
    for word in words:
        x = model.decode(int(word), atype)
        if not math.isfinite(x) or x == 0:
            want.append(model.encode(x, dtype))
        else:
            result = model.round_to(Fraction(x), dtype, mode)
            want.append(model.encode(math.copysign(result, x), dtype))
    assert got.tolist() == want


@pytest.mark.parametrize(("dtype", "target"), [("e4m3x2", ml_dtypes.float8_e4m3fn),
                                               ("e5m2x2", ml_dtypes.float8_e5m2)])
def test_fp8_pairs_saturate(dtype, target):
    """cvt.rn.satfinite to FP8 puts the first operand in the high byte and clamps."""
    rng = _rng()
    a, b = (rng.normal(0, 200, COUNT).astype(np.float32) for _ in range(2))
    top = float(ml_dtypes.finfo(target).max)
    got = run_instruction(f"cvt.rn.satfinite.{dtype}.f32", [a.view(np.uint32), b.view(np.uint32)])
    high, low = (np.clip(x, -top, top).astype(target).view(np.uint8) for x in (a, b))
    assert got.tolist() == (high.astype(np.uint16) << 8 | low).tolist()


def test_bf16x2_packs_high_first():
    """cvt.rn.bf16x2.f32 d, a, b has a in the high half; relu drops negative values."""
    rng = _rng()
    a, b = (rng.normal(0, 2, COUNT).astype(np.float32) for _ in range(2))
    words = [x.view(np.uint32) for x in (a, b)]
    for relu in ("", ".relu"):
        got = run_instruction(f"cvt.rn{relu}.bf16x2.f32", words).view(np.uint16).reshape(-1, 2)
        for column, x in ((1, a), (0, b)):
            kept = np.maximum(x, 0) if relu else x
            want = kept.astype(ml_dtypes.bfloat16).view(np.uint16)
            assert got[:, column].tolist() == want.tolist()


def test_tf32_rounds_ties_away():
    """cvt.rna.tf32.f32 keeps 10 bits of mantissa and rounds ties away from zero."""
    words = floats_of("f32", COUNT, _rng())
    got = run_instruction("cvt.rna.tf32.f32", [words])
    for word, result in zip(words.tolist(), got.tolist(), strict=True):
        if word & 0x7F800000 == 0x7F800000:
            want = 0x7FFFFFFF if word & 0x7FFFFF else word
            assert result & 0xFFFFE000 == want & 0xFFFFE000
        else:
            assert result == (word + 0x1000) & 0xFFFFE000


def test_integers_are_extended_as_the_source_says():
    """cvt between integers sign- or zero-extends and keeps the low bits; .sat clamps."""
    words = words_of("b16", COUNT, _rng())
    signed = words.view(np.int16).astype(np.int64)
    assert run_instruction("cvt.s64.s16", [words]).view(np.int64).tolist() == signed.tolist()
    assert run_instruction("cvt.u32.u16", [words]).tolist() == words.tolist()
    wide = words_of("s32", COUNT, _rng())
    got = run_instruction("cvt.sat.s16.s32", [wide]).view(np.int16)
    assert got.tolist() == np.clip(wide.view(np.int32), -(2**15), 2**15 - 1).tolist()


def test_narrow_results_fill_their_register():
    """A signed 8-bit result in a 32-bit register is sign-extended."""
    out = np.zeros(1, np.int32)
    run_kernel("""mov.u32 %r1, 0x1F0; cvt.s8.s32 %r2, %r1; st.global.u32 [%rd40], %r2; ret;""",
               [out], block=1)
    assert out.tolist() == [-16]


def test_mov_packs_and_unpacks():
    """mov.b64 {lo, hi} and back keep the words; b128 holds two 64-bit halves."""
    out = np.zeros(4, np.uint64)
    run_kernel("""
    .reg .b128 %w;
    mov.b64 %rd1, {%r90, %r91}; mov.u32 %r1, 0x11112222; mov.u32 %r2, 0x33334444;
    mov.b64 %rd1, {%r1, %r2}; mov.b64 {%r3, %r4}, %rd1; mov.b64 %rd2, {%r4, %r3};
    mov.b128 %w, {%rd1, %rd2}; mov.b128 {%rd3, %rd4}, %w;
    mov.b32 {%h1, %h2}, %r1; mov.b32 %r5, {%h2, %h1}; cvt.u64.u32 %rd5, %r5;
    st.global.u64 [%rd40], %rd3; st.global.u64 [%rd40+8], %rd4; st.global.u64 [%rd40+16], %rd5;
    ret;""", [out], block=1, sanitize=False)
    assert [hex(x) for x in out.tolist()[:3]] == ["0x3333444411112222", "0x1111222233334444",
                                                  "0x22221111"]


RELATIONS = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
             "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b}


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64", "f16",
                                  "bf16"])
def test_setp_compares_as_the_type_does(kind):
    """Signed, unsigned and floating comparisons; unordered ones are true of NaN."""
    rng = _rng()
    make = floats_of if "f" in kind else words_of
    a, b = make(kind, COUNT, rng), make(kind, COUNT, rng)
    b[:40] = a[:40]
    for name, relation in RELATIONS.items():
        got = run_instruction(f"setp.{name}.{kind}", [a, b], text="%out0, %in0, %in1")
        pairs = [(_value(int(x), kind), _value(int(y), kind)) for x, y in zip(a, b, strict=True)]
        nan = [any(isinstance(v, float) and math.isnan(v) for v in p) for p in pairs]
        want = [relation(*p) and not n for p, n in zip(pairs, nan, strict=True)]
        assert got.tolist() == want
        if "f" in kind:
            got = run_instruction(f"setp.{name}u.{kind}", [a, b], text="%out0, %in0, %in1")
            assert got.tolist() == [w or n for w, n in zip(want, nan, strict=True)]


def test_setp_gives_both_outcomes_combined():
    """setp.lt.and d|q combines the comparison and its negation with a predicate."""
    out = np.zeros((4, 2), np.uint32)
    run_kernel("""
    mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 1; shr.u32 %r2, %r0, 1; setp.ne.u32 %p1, %r2, 0;
    setp.eq.and.u32 %p2|%p3, %r1, 1, !%p1;
    selp.u32 %r3, 1, 0, %p2; selp.u32 %r4, 1, 0, %p3;
    mul.wide.u32 %rd1, %r0, 8; add.s64 %rd2, %rd40, %rd1; st.global.v2.u32 [%rd2], {%r3, %r4};
    ret;""", [out], block=4)
    assert out.tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]


def test_setp_of_half_pairs_sets_one_predicate_per_half():
    """setp.gt.f16x2 p|q: p from the low half, q from the high one."""
    out = np.zeros(2, np.uint32)
    run_kernel("""
    mov.b32 %r1, 0x40003C00; mov.b32 %r2, 0x3C003C00; setp.gt.f16x2 %p1|%p2, %r1, %r2;
    selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 1, 0, %p2; st.global.v2.u32 [%rd40], {%r3, %r4}; ret;
    """, [out], block=1)
    assert out.tolist() == [0, 1]


def test_set_gives_ones_or_one():
    """set to an integer type gives all ones, to a floating type 1.0."""
    a, b = np.array([1, 5], np.uint32), np.array([2, 2], np.uint32)
    assert run_instruction("set.lt.u32.u32", [a, b]).tolist() == [0xFFFFFFFF, 0]
    assert run_instruction("set.lt.f32.s32", [a, b]).tolist() == [0x3F800000, 0]


def test_slct_looks_at_the_sign():
    """slct takes a where c is not negative; NaN and negative take b."""
    a, b = np.full(5, 7, np.uint32), np.full(5, 9, np.uint32)
    c = np.array([0.0, -0.0, -1.0, np.nan, 3.0], np.float32).view(np.uint32)
    assert run_instruction("slct.u32.f32", [a, b, c]).tolist() == [7, 7, 9, 9, 7]
