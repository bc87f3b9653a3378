"""Fragments against the closed formulas of the manual, and against what a chip did."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mmalab import isa
from mmalab.isa.index import all_rows
from mmalab.isa.lookup import spellings

Formula = Callable[[int, int, int], tuple[int, int]]
RECORD = json.loads((Path(__file__).parent / "measured_h200.json").read_text(encoding="utf-8"))
MATRIX = [isa.find(key) for row in all_rows() if row.head in ("mma", "wmma", "ldmatrix",
          "stmatrix", "movmatrix") for key in spellings(row)]

#: (shape, types) -> (A, B): g = lane >> 2, t = lane & 3, i = slot; PTX ISA 9.7.14.5.
A_B: dict[tuple[str, str], tuple[Formula, Formula]] = {
    ("m8n8k4", "f64.f64.f64.f64"): (lambda g, t, i: (g, t), lambda g, t, i: (t, g)),
    ("m16n8k4", "f32.tf32.tf32.f32"): (lambda g, t, i: (g + 8 * i, t), lambda g, t, i: (t, g)),
    ("m16n8k4", "f64.f64.f64.f64"): (lambda g, t, i: (g + 8 * i, t), lambda g, t, i: (t, g)),
    ("m16n8k8", "f32.f16.f16.f32"): (
        lambda g, t, i: (g + 8 * (i >= 2), 2 * t + (i & 1)), lambda g, t, i: (2 * t + i, g)),
    ("m16n8k8", "f32.tf32.tf32.f32"): (
        lambda g, t, i: (g + 8 * (i & 1), t + 4 * (i >= 2)), lambda g, t, i: (t + 4 * i, g)),
    ("m16n8k8", "f64.f64.f64.f64"): (
        lambda g, t, i: (g + 8 * (i & 1), t + 4 * (i >= 2)), lambda g, t, i: (t + 4 * i, g)),
    ("m16n8k16", "f32.bf16.bf16.f32"): (
        lambda g, t, i: (g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >= 4)),
        lambda g, t, i: (2 * t + (i & 1) + 8 * (i >= 2), g)),
    ("m16n8k16", "f64.f64.f64.f64"): (
        lambda g, t, i: (g + 8 * (i & 1), t + 4 * (i >> 1)), lambda g, t, i: (t + 4 * i, g)),
    ("m8n8k16", "s32.s8.u8.s32"): (
        lambda g, t, i: (g, 4 * t + i), lambda g, t, i: (4 * t + i, g)),
    ("m16n8k16", "s32.u8.s8.s32"): (
        lambda g, t, i: (g + 8 * (i >= 4), 4 * t + (i & 3)), lambda g, t, i: (4 * t + i, g)),
    ("m16n8k16", "f32.e4m3.e5m2.f32"): (
        lambda g, t, i: (g + 8 * (i >= 4), 4 * t + (i & 3)), lambda g, t, i: (4 * t + i, g)),
    ("m16n8k32", "s32.s8.s8.s32"): (
        lambda g, t, i: (g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >= 8)),
        lambda g, t, i: (4 * t + (i & 3) + 16 * (i >= 4), g)),
    ("m16n8k32", "f16.e5m2.e4m3.f16"): (
        lambda g, t, i: (g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >= 8)),
        lambda g, t, i: (4 * t + (i & 3) + 16 * (i >= 4), g)),
    ("m16n8k32", "kind::f8f6f4.f32.e2m1.e3m2.f32"): (
        lambda g, t, i: (g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >= 8)),
        lambda g, t, i: (4 * t + (i & 3) + 16 * (i >= 4), g)),
    ("m8n8k32", "s32.s4.u4.s32"): (
        lambda g, t, i: (g, 8 * t + i), lambda g, t, i: (8 * t + i, g)),
    ("m16n8k32", "s32.s4.s4.s32"): (
        lambda g, t, i: (g + 8 * (i >= 8), 8 * t + (i & 7)), lambda g, t, i: (8 * t + i, g)),
    ("m16n8k64", "s32.u4.u4.s32"): (
        lambda g, t, i: (g + 8 * ((i >> 3) & 1), 8 * t + (i & 7) + 32 * (i >= 16)),
        lambda g, t, i: (8 * t + (i & 7) + 32 * (i >= 8), g)),
    ("m16n8k64", "kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0"): (
        lambda g, t, i: (g + 8 * ((i >> 3) & 1), 8 * t + (i & 7) + 32 * (i >= 16)),
        lambda g, t, i: (8 * t + (i & 7) + 32 * (i >= 8), g)),
    ("m8n8k128", "s32.b1.b1.s32.xor.popc"): (
        lambda g, t, i: (g, 32 * t + i), lambda g, t, i: (32 * t + i, g)),
    ("m16n8k128", "s32.b1.b1.s32.and.popc"): (
        lambda g, t, i: (g + 8 * (i >= 32), 32 * t + (i & 31)), lambda g, t, i: (32 * t + i, g)),
    ("m16n8k256", "s32.b1.b1.s32.xor.popc"): (
        lambda g, t, i: (g + 8 * ((i >> 5) & 1), 32 * t + (i & 31) + 128 * (i >= 64)),
        lambda g, t, i: (32 * t + (i & 31) + 128 * (i >= 32), g)),
}


def _coordinates(formula: Formula, slots: int) -> list[list[tuple[int, int]]]:
    return [[formula(lane >> 2, lane & 3, i) for i in range(slots)] for lane in range(32)]


@pytest.mark.parametrize(("shape", "types"), A_B)
def test_inputs_lie_where_the_manual_says(shape: str, types: str) -> None:
    """A and B of each shape and type class follow the manual's formula in every lane and slot."""
    form = isa.find(f"mma.sync.aligned.{shape}.row.col.{types}")
    for name, formula in zip("AB", A_B[shape, types], strict=True):
        fragment = form.fragments[name]
        expected = _coordinates(formula, fragment.slots)
        assert (fragment.coordinates() == np.array(expected)).all(), name


@pytest.mark.parametrize(("shape", "types"), A_B)
def test_accumulators_lie_where_the_manual_says(shape: str, types: str) -> None:
    """C and D: row g (+ 8 for the upper pair), columns 2t and 2t + 1."""
    form = isa.find(f"mma.sync.aligned.{shape}.row.col.{types}")
    for name in "CD":
        fragment = form.fragments[name]
        expected = _coordinates(
            lambda g, t, i: (g + 8 * (i >= 2), 2 * t + (i & 1)), fragment.slots)
        assert (fragment.coordinates() == np.array(expected)).all()


def test_quad_pairs_run_four_products() -> None:
    """m8n8k4 of f16: every lane and slot of A, B and both accumulators as the manual says."""
    for a, b in ((a, b) for a in ("row", "col") for b in ("row", "col")):
        form = isa.find(f"mma.sync.aligned.m8n8k4.{a}.{b}.f32.f16.f16.f16")
        got = {name: fragment.coordinates() for name, fragment in form.fragments.items()}
        for lane in range(32):
            t, h = lane & 3, 4 * (lane >= 16)
            for i in range(4):
                want_a = (t + h, i) if a == "row" else (i + h, t)
                want_b = (t, i + h) if b == "row" else (i, t + h)
                assert tuple(got["A"][lane, i]) == want_a
                assert tuple(got["B"][lane, i]) == want_b
            for i in range(8):
                assert tuple(got["C"][lane, i]) == (t + h, i)
                row, column = (lane & 1) + (i & 2) + h, (i & 4) + (lane & 2) + (i & 1)
                assert tuple(got["D"][lane, i]) == (row, column)


def test_quad_pair_of_a_lane() -> None:
    """The matrix of an m8n8k4 element is the lane's quad pair: lanes 0-3 and 16-19 the first."""
    form = isa.find("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16")
    for lane in range(32):
        assert isa.layout(form, "A", lane=lane, slot=0).matrix == (lane >> 2) & 3


def test_every_fragment_proves_itself() -> None:
    """Each element is held as often as declared, and the registers' bits are used exactly once."""
    for form in MATRIX:
        for name, fragment in form.fragments.items():
            assert fragment.problem() == "", (form.key, name)
    assert len(MATRIX) > 600


def test_operands_have_the_registers_of_their_fragments() -> None:
    """The {...} of an operand has as many registers as its fragment fills."""
    for form in MATRIX:
        for spec in form.operands:
            fragment = form.fragments.get(spec.name.upper())
            if fragment is not None and spec.role in ("read", "write"):
                assert spec.count == fragment.registers, (form.key, spec.name)
                assert isa.type_bits(spec.type) == fragment.register_bits


def test_a_broken_fragment_says_what_is_wrong() -> None:
    """problem() sees a layout that misses elements and one that does not fill its registers."""
    good = isa.find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32").fragments["D"]
    twice = isa.Fragment(good.layout, 16, 8, "f32", 32, 4, copies=2)
    assert "exactly 2 times" in twice.problem()
    short = isa.Fragment(good.layout, 16, 8, "f32", 32, 2)
    assert "places" in short.problem()
    small = isa.Fragment(good.layout, 8, 8, "f32", 32, 4)
    assert "leaves" in small.problem()


def test_sparse_metadata_covers_each_stored_unit_once() -> None:
    """The metadata layout of every sparse form is a bijection onto the stored units of A."""
    seen = 0
    for form in MATRIX:
        s = form.sparsity
        if s is None or form.shape is None:
            continue
        m, _, k = form.shape
        units = m * k // s.group * s.kept // s.unit
        assert sorted(s.metadata.indices().tolist()) == list(range(units)), form.key
        assert form.fragments["A"].cols == k // 2
        assert s.metadata[0].size == 8 * s.contributors
        assert s.metadata[1].size * s.index_bits == 32
        seen += 1
    assert seen > 60


def test_the_chip_agrees_with_every_exact_form() -> None:
    """No form was wrong on the recorded chip, and the record covers all forms that it has."""
    assert RECORD["wrong"] == []
    measured = {form.key for form in MATRIX if form.evidence is isa.Evidence.MEASURED
                and form.family in ("mma.sync", "mma.sp")
                and not {"satfinite", "rounding"} & set(form.modifiers)}
    assert measured <= set(RECORD["exact"])


def test_wmma_fragments_are_the_recorded_ones() -> None:
    """Each wmma load and store fragment equals the chip's registers, element by element."""
    seen = 0
    for group in RECORD["wmma"]:
        index = np.array([[int(x) for x in lane.split()] for lane in group["index"]])
        for key in group["forms"]:
            (fragment,) = isa.find(key).fragments.values()
            assert (fragment.indices() == index).all(), key
            seen += 1
    assert seen == 114


def test_ldmatrix_gives_the_operands_of_mma() -> None:
    """An x4 load of the four 8x8 corners of a tile is A of m16n8k16; x2.trans of K rows is B."""
    mma = isa.find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    load = isa.find("ldmatrix.sync.aligned.m8n8.x4.shared.b16").fragments["D"]
    matrix, rest = np.divmod(load.indices(), 64)
    row, column = rest % 8 + 8 * (matrix % 2), rest // 8 + 8 * (matrix // 2)
    assert (row + 16 * column == mma.fragments["A"].indices()).all()
    load = isa.find("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16").fragments["D"]
    matrix, rest = np.divmod(load.indices(), 64)
    assert (rest % 8 + 8 * matrix + 16 * (rest // 8) == mma.fragments["B"].indices()).all()


def test_byte_matrices_follow_their_formulas() -> None:
    """ldmatrix m16n16 and m8n16, stmatrix m16n8: the formulas checked against CuTe."""
    load = isa.find("ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8").fragments["D"]
    store = isa.find("stmatrix.sync.aligned.m16n8.x4.trans.shared.b8").fragments["B"]
    narrow = isa.find("ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b4x16_p64").fragments["D"]
    for lane in range(32):
        g, t = lane >> 2, lane & 3
        for slot in range(load.slots):
            register, e = divmod(slot % 8, 4)
            assert tuple(load.coordinates()[lane, slot]) == (
                2 * t + (e & 1) + 8 * register, g + 8 * (e >> 1))
        for slot in range(store.slots):
            e = slot % 4
            assert tuple(store.coordinates()[lane, slot]) == (2 * t + (e & 1), g + 8 * (e >> 1))
        for slot in range(narrow.slots):
            assert tuple(narrow.coordinates()[lane, slot]) == (g, 4 * t + slot)


#: A of a warpgroup in registers: (row inside the warp's 16, column) of (g, t, slot).
WARPGROUP_A: dict[str, Formula] = {
    "k16.f32.f16.f16": lambda g, t, i: (g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2)),
    "k32.f32.e4m3.e5m2": lambda g, t, i: (
        g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >> 3)),
    "k8.f32.tf32.tf32": lambda g, t, i: (g + 8 * (i & 1), t + 4 * (i >> 1)),
    "k32.s32.s8.u8": lambda g, t, i: (g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >> 3)),
    "k256.s32.b1.b1.and.popc": lambda g, t, i: (
        g + 8 * ((i >> 5) & 1), 32 * t + (i & 31) + 128 * (i >> 6)),
    "k16.f16.f16.f16": lambda g, t, i: (g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2)),
}


@pytest.mark.parametrize("tail", WARPGROUP_A)
@pytest.mark.parametrize("n", [8, 24, 256])
def test_warpgroups_spread_as_the_manual_says(tail: str, n: int) -> None:
    """wgmma: warp w holds rows 16 w on, A by the type's formula, D two columns of every eight."""
    form = isa.find(f"wgmma.mma_async.sync.aligned.m64n{n}{tail}")

    def expected(formula: Formula, slots: int) -> list[list[tuple[int, int]]]:
        inside = [[formula(lane >> 2 & 7, lane & 3, i) for i in range(slots)]
                  for lane in range(128)]
        return [[(row + 16 * (lane >> 5), column) for row, column in places]
                for lane, places in enumerate(inside)]

    a, d = form.fragments["A"], form.fragments["D"]
    assert (a.problem(), d.problem(), a.lanes, d.lanes) == ("", "", 128, 128)
    assert (a.coordinates() == np.array(expected(WARPGROUP_A[tail], a.slots))).all()
    accumulator: Formula = lambda g, t, i: (  # noqa: E731
        g + 8 * ((i >> 1) & 1), 8 * (i >> 2) + 2 * t + (i & 1))
    assert (d.coordinates() == np.array(expected(accumulator, d.slots))).all()
    assert (d.rows, d.cols, d.slots) == (64, n, n // 2)
    place = isa.layout(form, "D", at=(63, n - 1))
    assert (place.warp, place.lane) == (3, 31)
