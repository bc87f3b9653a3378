"""Every wgmma form against the slow reference: element by element fetch, reference product."""

from __future__ import annotations

import secrets
from itertools import product

import numpy as np
import pytest
from wgmma_cases import CODES, PREFIX, Setup, Tile, arguments, dense, expected

import mmalab
from mmalab import formats
from mmalab.errors import MmalabError
from mmalab.isa import find
from mmalab.kernels.one_wgmma import one_wgmma

#: (D, A, B, K of the dense shape, tail).
TYPES = [
    *((d, "f16", "f16", 16, "") for d in ("f16", "f32")), ("f32", "bf16", "bf16", 16, ""),
    ("f32", "tf32", "tf32", 8, ""),
    *((d, a, b, 32, "") for d in ("f16", "f32") for a, b in product(("e4m3", "e5m2"), repeat=2)),
    *(("s32", a, b, 32, tail) for tail in ("", ".satfinite")
      for a, b in product(("s8", "u8"), repeat=2)),
    ("s32", "b1", "b1", 256, ".and.popc"),
]
B_AT = 16384


def spelled(types: tuple[str, str, str, int, str]) -> str:
    """The id of a parameter."""
    return "-".join(map(str, types[:3])) + types[4]


def key(types: tuple[str, str, str, int, str], n: int, *, sparse: bool = False) -> str:
    """The opcode."""
    d, a, b, k, tail = types
    prefix = PREFIX.replace("mma_async.", "mma_async.sp.") if sparse else PREFIX
    return f"{prefix}m64n{n}k{2 * k if sparse else k}.{d}.{a}.{b}{tail}"


def compare(setup: Setup, mix: str, *, cases: int = 2, **options: object) -> None:
    """Emulate and compare all words; a failure names the seed."""
    seed = secrets.randbits(32)
    args = arguments(setup, cases, np.random.default_rng(seed), mix)
    run = mmalab.emulate(setup.kernel(cases), args, sanitize=False, **options)  # type: ignore[arg-type]
    assert not run.findings, seed
    wrong = np.argwhere(args[4] != expected(setup, args))
    assert not len(wrong), f"seed {seed}, {setup}: {len(wrong)} words differ, first {wrong[0]}"


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("types", TYPES, ids=spelled)
def test_every_type(types: tuple[str, str, str, int, str], *, sparse: bool) -> None:
    """Random bits, normal numbers and ladders of exponents, A in both places, signs, selectors."""
    if sparse and types[1] == "b1":
        pytest.skip("wgmma has no sparse b1")
    rng = np.random.default_rng()
    bits, floating = formats.get(types[1]).bits, types[0] != "s32"
    form = find(key(types, 16, sparse=sparse))
    for turn, (mix, registers) in enumerate(product(("bits", "normal", "ladder"), (False, True))):
        n = int(rng.choice((8, 16, 24)))
        k = types[3] * (2 if sparse else 1)
        swizzles = rng.choice(list(CODES), 2)
        options: dict[str, object] = {}
        if floating:
            options = {"negate_a": turn % 2 == 0, "negate_b": turn % 3 == 0}
        if form.sparsity is not None:
            options["selector"] = turn % len(form.sparsity.selectors) if bits > 8 else 0
        a = None if registers else dense("K", swizzles[0], 0, 64, types[3], bits)
        compare(Setup(key(types, n, sparse=sparse), a,
                      dense("K", swizzles[1], B_AT, n, k, bits), B_AT + 8192, options),
                mix, cases=1 if bits == 1 else 2)


@pytest.mark.parametrize("types", [TYPES[2], TYPES[0], TYPES[5], TYPES[13]], ids=spelled)
def test_wide_products(types: tuple[str, str, str, int, str]) -> None:
    """N up to 256, all of them for one type: whole vectors of columns and rests."""
    bits = formats.get(types[1]).bits
    for n in range(8, 257, 8) if types[1] == "bf16" else (64, 256):
        setup = Setup(key(types, n), dense("K", "128B", 0, 64, types[3], bits),
                      dense("K", "128B", B_AT, n, types[3], bits), B_AT + 32768)
        compare(setup, "bits", cases=1)


@pytest.mark.parametrize(("major", "swizzle"), list(product(("K", "MN"), CODES)))
def test_every_layout(major: str, swizzle: str) -> None:
    """Both majors and all swizzles for A and B, dense and with gaps, 40 columns."""
    for b_major, b_swizzle in product(("K", "MN"), CODES):
        a, b = dense(major, swizzle, 0, 64, 16, 16), dense(b_major, b_swizzle, B_AT, 40, 16, 16)
        wide = 16 if b_swizzle == "none" else 1024
        across = 8 * wide if b_major == "MN" else wide
        gaps = Tile(b.start, b.lbo + across, b.sbo + 2 * wide, b_swizzle, b_major)
        for tile in (b, gaps):
            compare(Setup(PREFIX + "m64n40k16.f32.f16.f16", a, tile, 3 * B_AT), "normal", cases=1)


@pytest.mark.parametrize(("swizzle", "phases"), [("32B", 2), ("64B", 4), ("128B", 8)])
@pytest.mark.parametrize("major", ["K", "MN"])
def test_base_offset(swizzle: str, phases: int, major: str) -> None:
    """A pattern that begins at each of its phases, with the base offset that says so."""
    for phase in range(1, phases):
        b = dense(major, swizzle, B_AT + 128 * phase, 24, 16, 16)
        b.base_offset = phase
        setup = Setup(PREFIX + "m64n24k16.f32.bf16.bf16", None, b, 3 * B_AT)
        compare(setup, "normal", cases=1)


def test_sparse_b_in_rows_of_32_bytes() -> None:
    """Its other half is LBO away, as an H200 reads it (see mmalab.descriptors.canonical)."""
    for lbo, sbo in ((256, 512), (512, 256), (2048, 256)):
        b = Tile(B_AT, lbo, sbo, "32B", "K")
        setup = Setup(key(TYPES[2], 16, sparse=True), None, b, 2 * B_AT, {"selector": 1})
        compare(setup, "normal", cases=1)


@pytest.mark.parametrize("schedule", ["eager", "lazy", 1, 2])
def test_schedules_agree(schedule: str | int) -> None:
    """A correct kernel gives the same words whenever the products happen."""
    setup = Setup(PREFIX + "m64n24k16.f32.bf16.bf16", dense("K", "64B", 0, 64, 16, 16),
                  dense("MN", "128B", B_AT, 24, 16, 16), 2 * B_AT)
    compare(setup, "bits", schedule=schedule)


def test_fast_numerics_are_exact() -> None:
    """numerics="fast" has nothing to gain here, and the run says what was done."""
    setup = Setup(PREFIX + "m64n64k16.f32.bf16.bf16", dense("K", "128B", 0, 64, 16, 16),
                  dense("K", "128B", B_AT, 64, 16, 16), 2 * B_AT)
    args = arguments(setup, 2, np.random.default_rng(), "normal")
    run = mmalab.emulate(setup.kernel(2), args, sanitize=False, numerics="fast")
    assert run.fidelity[setup.key] == "exact"
    assert (args[4] == expected(setup, args)).all()


def test_a_in_registers_has_no_transpose() -> None:
    """Literals for an operand list that the form does not have are refused."""
    text = one_wgmma(
        PREFIX + "m64n8k16.f32.bf16.bf16", cases=1, image=2048, a_in_registers=True).ptx
    line = next(one for one in text.splitlines() if "mma_async" in one)
    with pytest.raises(MmalabError):
        mmalab.emulate(text.replace(line, line.replace(";", ", 0, 0;")),
                       [np.zeros(4, np.uint8)] * 6, grid=1, block=128)
