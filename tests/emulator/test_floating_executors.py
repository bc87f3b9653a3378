"""f32, f64 and half arithmetic against exact fractions, bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction

import fractions_model as model
import numpy as np
import pytest
from emulation import floats_of, run_instruction

COUNT = 256
ROUNDINGS = ("rn", "rz", "rm", "rp")


def _inputs(kind, operands, seed):
    rng = np.random.default_rng(seed)
    arrays = [floats_of(kind, COUNT, rng) for _ in range(operands)]
    top = np.dtype(arrays[0].dtype).type(1 << 8 * arrays[0].dtype.itemsize - 1)
    if operands >= 2:
        arrays[1][:24] = arrays[0][:24] ^ top  # sums that cancel
    if operands == 3:
        arrays[2][24:48] = arrays[1][24:48] ^ top
        arrays[0][24:48] = floats_of(kind, 1, np.random.default_rng(0))[0]
    return arrays


def _seed():
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    return seed


def _check(got, want, kind, arrays):
    want = np.array([model.encode(x, kind) for x in want], got.dtype)
    nan = np.array([math.isnan(model.decode(int(w), kind)) for w in got])
    if kind == "f64":  # the manual leaves the payload of an f64 NaN open
        got = np.where(nan, np.uint64(0), got)
    bad = np.nonzero(got != want)[0]
    shown = [([hex(int(a[i])) for a in arrays], hex(int(got[i])), hex(int(want[i])))
             for i in bad[:3]]
    assert not len(bad), shown


def _apply(function, arrays, kind, *extra, ftz=False):
    out = []
    for words in zip(*arrays, strict=True):
        numbers = [model.decode(int(w), kind) for w in words]
        if ftz:
            numbers = [model.flush(x, kind) for x in numbers]
        result = function(*numbers, kind, *extra)
        out.append(model.flush(result, kind) if ftz else result)
    return out


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_two_operand_arithmetic_rounds_once(op, kind, rounding):
    """add, sub, mul and div give the exact value rounded once, in each of the four directions."""
    arrays = _inputs(kind, 2, _seed())
    got = run_instruction(f"{op}.{rounding}.{kind}", arrays)
    function = {"add": model.add, "mul": model.multiply, "div": model.divide,
                "sub": lambda a, b, k, m: model.add(a, -b, k, m)}[op]
    _check(got, _apply(function, arrays, kind, rounding), kind, arrays)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fma_rounds_once(kind, rounding):
    """fma has one rounding, also where products overflow, underflow or cancel."""
    arrays = _inputs(kind, 3, _seed())
    got = run_instruction(f"fma.{rounding}.{kind}", arrays)
    _check(got, _apply(model.fma, arrays, kind, rounding), kind, arrays)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_sqrt_and_rcp_round_once(kind, rounding):
    """sqrt and rcp with a rounding are IEEE 754."""
    arrays = _inputs(kind, 1, _seed())
    got = run_instruction(f"sqrt.{rounding}.{kind}", arrays)
    _check(got, _apply(model.sqrt, arrays, kind, rounding), kind, arrays)
    got = run_instruction(f"rcp.{rounding}.{kind}", arrays)
    inverse = _apply(lambda a, k, m: model.divide(1.0, a, k, m), arrays, kind, rounding)
    _check(got, inverse, kind, arrays)


@pytest.mark.parametrize("op", ["add", "mul", "fma"])
def test_ftz_flushes_operands_and_results(op):
    """.ftz makes subnormal operands and results zeros of the same sign."""
    arrays = _inputs("f32", 3 if op == "fma" else 2, _seed())
    got = run_instruction(f"{op}.rn.ftz.f32", arrays)
    function = {"add": model.add, "mul": model.multiply, "fma": model.fma}[op]
    _check(got, _apply(function, arrays, "f32", ftz=True), "f32", arrays)


def test_sat_clamps_and_makes_nan_zero():
    """.sat clamps to [0, 1] and turns NaN into +0."""
    arrays = _inputs("f32", 2, _seed())
    got = run_instruction("add.sat.f32", arrays).view(np.float32)
    want = [0.0 if math.isnan(x) or x <= 0 else min(x, 1.0)
            for x in _apply(model.add, arrays, "f32")]
    assert got.view(np.uint32).tolist() == np.array(want, np.float32).view(np.uint32).tolist()


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "fma"])
def test_half_arithmetic_rounds_once(op, kind):
    """f16 and bf16 arithmetic gives the exact value rounded to nearest even, NaN 0x7FFF."""
    arrays = _inputs(kind, 3 if op == "fma" else 2, _seed())
    got = run_instruction(f"{op}.rn.{kind}", arrays)
    function = {"add": model.add, "mul": model.multiply, "fma": model.fma,
                "sub": lambda a, b, k: model.add(a, -b, k)}[op]
    _check(got, _apply(function, arrays, kind), kind, arrays)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_pairs_are_two_halves(kind):
    """fma of a packed pair is the scalar fma of either half."""
    halves = _inputs(kind, 3, _seed())
    packed = [h.view(np.uint32) for h in halves]
    got = run_instruction(f"fma.rn.{kind}x2", packed).view(np.uint16)
    assert got.tolist() == run_instruction(f"fma.rn.{kind}", halves).tolist()


def test_f32x2_is_two_f32():
    """add.f32x2 adds the two halves of 64-bit registers apart."""
    arrays = _inputs("f32", 2, _seed())
    got = run_instruction("add.rz.f32x2", [a.view(np.uint64) for a in arrays]).view(np.uint32)
    assert got.tolist() == run_instruction("add.rz.f32", arrays).tolist()


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("op", ["min", "max"])
def test_min_and_max_prefer_numbers(op, kind):
    """One NaN loses, two give the canonical NaN, and -0 is less than +0."""
    arrays = _inputs(kind, 2, _seed())

    def choose(a, b, _kind):
        if math.isnan(a) or math.isnan(b):
            return b if math.isnan(a) else a
        low, high = sorted((a, b), key=lambda x: (x, math.copysign(1, x)))
        return low if op == "min" else high

    _check(run_instruction(f"{op}.{kind}", arrays), _apply(choose, arrays, kind), kind, arrays)


def test_min_nan_keeps_nan():
    """.NaN makes any NaN win."""
    a, b = np.array([0x3F800000, 0x7FC00001], np.uint32), np.array([0x7F800001, 0], np.uint32)
    assert run_instruction("min.NaN.f32", [a, b]).tolist() == [0x7FFFFFFF, 0x7FFFFFFF]


def test_negative_infinity_plus_infinity_is_nan_in_every_rounding():
    """Infinities that cancel are NaN, not zero."""
    a, b = np.array([0x7F800000], np.uint32), np.array([0xFF800000], np.uint32)
    for rounding in ROUNDINGS:
        assert run_instruction(f"add.{rounding}.f32", [a, b]).tolist() == [0x7FFFFFFF]


def test_zero_is_a_normal_number_to_testp():
    """testp.normal is true of zeros, as the manual says."""
    words = np.array([0, 0x80000000, 1, 0x00800000, 0x7F800000, 0x7FC00000], np.uint32)
    assert run_instruction("testp.normal.f32", [words]).tolist() == [1, 1, 0, 1, 0, 0]


def test_approximate_functions_are_correctly_rounded():
    """ex2.approx and rsqrt.approx give the nearest f32; fidelity calls them approximate."""
    x = np.linspace(0.1, 9.7, 97, dtype=np.float32)
    got = run_instruction("ex2.approx.f32", [x.view(np.uint32)]).view(np.float32)
    assert got.tolist() == np.exp2(x.astype(np.float64)).astype(np.float32).tolist()
    got = run_instruction("rsqrt.approx.f32", [x.view(np.uint32)]).view(np.float32)
    nearest = [float(Fraction(model.sqrt(1 / float(v), "f64"))) for v in x]
    assert np.abs(got - nearest).max() <= 2**-22


def test_mixed_precision_fma_widens_first():
    """fma.f32.bf16 multiplies bf16 numbers and adds an f32 with one rounding."""
    rng = np.random.default_rng(_seed())
    a, b = floats_of("bf16", COUNT, rng), floats_of("bf16", COUNT, rng)
    c = floats_of("f32", COUNT, rng)
    got = run_instruction("fma.rn.f32.bf16", [a, b, c])
    want = [model.fma(model.decode(int(x), "bf16"), model.decode(int(y), "bf16"),
                      model.decode(int(z), "f32"), "f32") for x, y, z in zip(a, b, c, strict=True)]
    _check(got, want, "f32", [a, b, c])
