"""Integer and bit instructions against Python integers, on random and special words."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import run_instruction, run_kernel, words_of

from mmalab.emulator.types import width
from mmalab.isa.lookup import find

COUNT = 192


def _signed(word, bits):
    return word - (1 << bits) if word >> bits - 1 & 1 else word


def _clamp(x, bits=32):
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, x))


def _typed(kind):
    """Reads a word of the type as a number."""
    bits = width(kind)
    return (lambda w: _signed(w, bits)) if kind[0] == "s" else (lambda w: w)


def _quotient(a, b):
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a, b):
    return a if b == 0 else a - b * _quotient(a, b)


def _shift_left(a, n, bits):
    return a << n if n < bits else 0


def _bfe(a, b, c, kind):
    bits, value = width(kind), _typed(kind)(a)
    start, length = b & 255, c & 255
    top = bits - 1
    sign = (a >> min(start + length - 1, top) & 1) if kind[0] == "s" and length else 0
    out = 0
    for i in range(bits):
        bit = a >> start + i & 1 if i < length and start + i <= top else sign
        out |= bit << i
    return out if length else 0 * value


def _bfi(a, b, c, d, bits):
    start, length = c & 255, d & 255
    for i in range(length):
        if start + i < bits:
            b = b & ~(1 << start + i) | (a >> i & 1) << start + i
    return b


def _bfind(a, kind, shift):
    bits, value = width(kind), _typed(kind)(a)
    value = ~value if value < 0 else value
    if value == 0:
        return 0xFFFFFFFF
    return bits - value.bit_length() if shift else value.bit_length() - 1


def _prmt(a, b, c, mode):
    both = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    low = c & 3
    pick = {
        "": [c >> 4 * i & 15 for i in range(4)], "f4e": [low + i for i in range(4)],
        "b4e": [(low - i) % 8 for i in range(4)], "rc8": [low] * 4,
        "ecl": [max(low, i) for i in range(4)], "ecr": [min(low, i) for i in range(4)],
        "rc16": [(low & 1) * 2 + (i & 1) for i in range(4)],
    }[mode]
    out = 0
    for i, s in enumerate(pick):
        byte = both[s & 7]
        out |= ((255 if byte & 128 else 0) if s & 8 else byte) << 8 * i
    return out


def _shf(a, b, c, left, clamp):
    n = min(c, 32) if clamp else c & 31
    both = b << 32 | a
    return both << n >> 32 if left else both >> n


def _by_type(names, kinds):
    return [(f"{name}.{kind}", kind) for name in names for kind in kinds]


INTEGERS = ["u16", "u32", "u64", "s16", "s32", "s64"]
MODELS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "min": min, "max": max,
    "div": _quotient, "rem": _remainder, "mul.lo": lambda a, b: a * b,
    "mad.lo": lambda a, b, c: a * b + c, "sad": lambda a, b, c: c + abs(a - b),
    "mul.wide": lambda a, b: a * b, "mad.wide": lambda a, b, c: a * b + c,
}


def _run(opcode, model, kinds, *, text=""):
    """Compare an instruction with a model on Python integers of the operands' types."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    arrays = [words_of(kind, COUNT, rng) for kind in kinds]
    got = run_instruction(opcode, arrays, text=text)
    out = width(find(opcode).operands[0].type)
    readers = [_typed(k) for k in kinds]
    want = [int(model(*(r(int(w)) for r, w in zip(readers, row, strict=True)))) & ((1 << out) - 1)
            for row in zip(*arrays, strict=True)]
    bad = [i for i in range(COUNT) if int(got[i]) != want[i]]
    assert not bad, [([hex(int(a[i])) for a in arrays], hex(int(got[i])), hex(want[i]))
                     for i in bad[:3]]


@pytest.mark.parametrize(("opcode", "kind"), _by_type(
    ["add", "sub", "min", "max", "div", "rem", "mul.lo", "mad.lo", "sad"], INTEGERS))
def test_arithmetic_wraps(opcode, kind):
    """Plain arithmetic is exact modulo the width."""
    name = opcode.rpartition(".")[0]
    _run(opcode, MODELS[name], [kind] * (len(find(opcode).operands) - 1))


@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32"])
def test_wide_products_are_whole(kind):
    """mul.wide and mad.wide keep all bits."""
    wide = f"{kind[0]}{2 * width(kind)}"
    _run(f"mul.wide.{kind}", MODELS["mul.wide"], [kind, kind])
    _run(f"mad.wide.{kind}", MODELS["mad.wide"], [kind, kind, wide])


@pytest.mark.parametrize("kind", INTEGERS)
def test_high_halves(kind):
    """mul.hi and mad.hi take the upper half of the product."""
    bits = width(kind)
    _run(f"mul.hi.{kind}", lambda a, b: a * b >> bits, [kind] * 2)
    _run(f"mad.hi.{kind}", lambda a, b, c: (a * b >> bits) + c, [kind] * 3)


@pytest.mark.parametrize(("opcode", "model", "kinds"), [
    ("add.sat.s32", lambda a, b: _clamp(a + b), ["s32"] * 2),
    ("sub.sat.s32", lambda a, b: _clamp(a - b), ["s32"] * 2),
    ("mad.hi.sat.s32", lambda a, b, c: _clamp((a * b >> 32) + c), ["s32"] * 3),
    ("abs.s32", abs, ["s32"]), ("abs.s64", abs, ["s64"]), ("neg.s16", lambda a: -a, ["s16"]),
    ("popc.b64", lambda a: a.bit_count(), ["b64"]),
    ("clz.b32", lambda a: 32 - a.bit_length(), ["b32"]),
    ("clz.b64", lambda a: 64 - a.bit_length(), ["b64"]),
    ("brev.b32", lambda a: int(f"{a:032b}"[::-1], 2), ["b32"]),
    ("brev.b64", lambda a: int(f"{a:064b}"[::-1], 2), ["b64"]),
    ("not.b16", lambda a: ~a, ["b16"]), ("cnot.b32", lambda a: int(a == 0), ["b32"]),
    ("shl.b32", lambda a, b: _shift_left(a, b, 32), ["b32", "u32"]),
    ("shl.b16", lambda a, b: _shift_left(a, b, 16), ["b16", "u32"]),
    ("shl.b64", lambda a, b: _shift_left(a, b, 64), ["b64", "u32"]),
    ("shr.u64", lambda a, b: a >> min(b, 64), ["u64", "u32"]),
    ("shr.s32", lambda a, b: a >> min(b, 31), ["s32", "u32"]),
    ("shr.s16", lambda a, b: a >> min(b, 15), ["s16", "u32"]),
    ("mul24.lo.u32", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF), ["u32"] * 2),
    ("mul24.hi.s32", lambda a, b: _signed(a & 0xFFFFFF, 24) * _signed(b & 0xFFFFFF, 24) >> 16,
     ["s32"] * 2),
    ("max.relu.s32", lambda a, b: max(a, b, 0), ["s32"] * 2),
])
def test_single_instructions(opcode, model, kinds):
    """Saturation, counting, shifts beyond the width, 24-bit products."""
    _run(opcode, model, kinds)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_fields(kind):
    """bfe extends with the field's sign, beyond the word with the word's; bfind counts from it."""
    bits = width(kind)
    _run(f"bfe.{kind}", lambda a, b, c: _bfe(a & (1 << bits) - 1, b, c, kind),
         [kind, "u32", "u32"])
    _run(f"bfi.b{bits}", lambda a, b, c, d: _bfi(a, b, c, d, bits), [f"b{bits}"] * 2 + ["u32"] * 2)
    _run(f"bfind.{kind}", lambda a: _bfind(a & (1 << bits) - 1, kind, False), [kind])
    _run(f"bfind.shiftamt.{kind}", lambda a: _bfind(a & (1 << bits) - 1, kind, True), [kind])


@pytest.mark.parametrize("mode", ["", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])
def test_prmt_selects_bytes(mode):
    """prmt picks bytes, or replicates their signs."""
    _run(f"prmt.b32{'.' + mode if mode else ''}", lambda a, b, c: _prmt(a, b, c, mode), ["b32"] * 3)


@pytest.mark.parametrize("wrapping", ["clamp", "wrap"])
@pytest.mark.parametrize("left", [True, False])
def test_funnel_shift(left, wrapping):
    """shf shifts a 64-bit pair."""
    _run(f"shf.{'l' if left else 'r'}.{wrapping}.b32",
         lambda a, b, c: _shf(a, b, c, left, wrapping == "clamp"), ["b32", "b32", "u32"])


@pytest.mark.parametrize("lut", [0x96, 0xE8, 0xCA, 0x00, 0xFF, 0x17])
def test_lop3_is_its_truth_table(lut):
    """lop3 looks up the bits (a, b, c) in its table."""
    def model(a, b, c):
        return sum((lut >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i
                   for i in range(32))
    _run("lop3.b32", model, ["b32"] * 3, text=f"%out0, %in0, %in1, %in2, {lut}")


@pytest.mark.parametrize("a_kind", ["u32", "s32"])
@pytest.mark.parametrize("b_kind", ["u32", "s32"])
def test_dot_products_of_bytes(a_kind, b_kind):
    """dp4a and dp2a multiply bytes (and halves) with their own signs."""
    def part(word, i, bits, kind):
        piece = word >> i * bits & (1 << bits) - 1
        return _signed(piece, bits) if kind[0] == "s" else piece

    def four(a, b, c):
        return c + sum(part(a, i, 8, a_kind) * part(b, i, 8, b_kind) for i in range(4))

    def two(a, b, c):
        return c + sum(part(a, i, 16, a_kind) * part(b, i + 2, 8, b_kind) for i in range(2))

    _run(f"dp4a.{a_kind}.{b_kind}", four, ["b32", "b32", "s32"])
    _run(f"dp2a.hi.{a_kind}.{b_kind}", two, ["b32", "b32", "s32"])


@pytest.mark.parametrize("wrapping", ["clamp", "wrap"])
def test_bmsk_and_szext(wrapping):
    """bmsk makes a run of ones; szext extends from a bit."""
    def mask(a, b):
        a, b = (a & 31, b & 31) if wrapping == "wrap" else (a, b)
        return 0 if a >= 32 else ((1 << min(b, 32)) - 1) << a

    def extend(a, b):
        n = b & 31 if wrapping == "wrap" else min(b, 32)
        return _signed(a & (1 << n) - 1, n) if n else 0

    _run(f"bmsk.{wrapping}.b32", mask, ["b32", "b32"])
    _run(f"szext.{wrapping}.s32", lambda a, b: extend(a & 0xFFFFFFFF, b), ["s32", "u32"])


def test_packed_halves_add_apart():
    """add.u16x2 carries nothing from the low half to the high one."""
    _run("add.u16x2", lambda a, b: ((a + b) & 0xFFFF)
         | ((a >> 16) + (b >> 16) & 0xFFFF) << 16, ["b32", "b32"])


def test_carry_chains_make_wide_sums():
    """add.cc/addc, sub.cc/subc and mad.lo.cc/madc.hi give 64-bit results from 32-bit parts."""
    rng = np.random.default_rng()
    a, b = (words_of("u64", 64, rng) for _ in range(2))
    total, rest, product = (np.zeros(64, np.uint64) for _ in range(3))
    body = """
    mov.u32 %r0, %tid.x; mul.wide.u32 %rd0, %r0, 8;
    add.s64 %rd1, %rd43, %rd0; ld.global.v2.u32 {%r1, %r2}, [%rd1];
    add.s64 %rd2, %rd44, %rd0; ld.global.v2.u32 {%r3, %r4}, [%rd2];
    add.cc.u32 %r5, %r1, %r3; addc.u32 %r6, %r2, %r4;
    sub.cc.u32 %r7, %r1, %r3; subc.u32 %r8, %r2, %r4;
    mul.lo.u32 %r9, %r1, %r3; mul.hi.u32 %r10, %r1, %r3;
    mad.lo.cc.u32 %r9, %r1, %r3, %r2; madc.hi.u32 %r10, %r1, %r3, 0;
    add.s64 %rd3, %rd40, %rd0; st.global.v2.u32 [%rd3], {%r5, %r6};
    add.s64 %rd3, %rd41, %rd0; st.global.v2.u32 [%rd3], {%r7, %r8};
    add.s64 %rd3, %rd42, %rd0; st.global.v2.u32 [%rd3], {%r9, %r10};
    ret;"""
    run_kernel(body, [total, rest, product, a, b], block=64)
    low = np.uint64(0xFFFFFFFF)
    assert np.array_equal(total, a + b)
    assert np.array_equal(rest, a - b)
    assert np.array_equal(product, (a & low) * (b & low) + (a >> np.uint64(32)))
