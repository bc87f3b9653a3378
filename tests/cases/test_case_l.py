"""L: bank conflicts of fragments, writes and other people's formulas."""

from __future__ import annotations

import pytest

from mmalab.cli.formula import formula
from mmalab.errors import UsageError
from mmalab.layouts import Swizzle
from mmalab.plan import banks


@pytest.mark.parametrize(("pitch", "swizzle", "passes"), [
    (256, None, 8), (256, "3,3,3", 2), (256, "3,3,4", 1), (64, None, 4), (64, "2,3,3", 1),
    (128, None, 8), (128, "3,3,3", 1)])
def test_l01_swizzles_of_an_m_major_tile(ask, pitch: int, swizzle: str | None, passes: int) -> None:
    """L01: a swizzle from a K-major example on an M-major tile: passes by swizzle."""
    words = ["banks", "--rows", 8, "--pitch", pitch, "--dtype", "f16", "--json"]
    found = ask(*words, *(["--swizzle", swizzle] if swizzle else [])).json
    assert found["passes"] == passes


@pytest.mark.parametrize(("pitch", "by_row", "by_column"), [(32, 8, 4), (36, 1, 2), (40, 2, 1)])
def test_l03_opposite_paddings(ask, pitch: int, by_row: int, by_column: int) -> None:
    """L03: TF32 fragments: (lane/4, lane%4) wants a pitch of 36, (lane%4, lane/4) one of 40."""
    for rows, columns, passes in ((8, 4, by_row), (4, 8, by_column)):
        found = ask("banks", "--rows", rows, "--columns", columns, "--access", 4, "--pitch",
                    4 * pitch, "--json").json
        assert found["passes"] == passes
    lanes = [(lane // 4) * 4 * pitch + 4 * (lane % 4) for lane in range(32)]
    assert banks.access(lanes, 4).passes == by_row


@pytest.mark.parametrize(("pitch", "swizzle", "passes"), [
    (64, None, 4), (64, Swizzle(2, 3, 3), 4), (64, Swizzle(2, 3, 4), 4), (80, None, 8),
    (128, None, 8)])
def test_l04_writes(pitch: int, swizzle: Swizzle | None, passes: int) -> None:
    """L04: 32 lanes write 16 bytes, a quarter warp at a time: four passes are ideal, and what frees
    the reads (a pitch of 80 bytes) can break the writes."""
    found = banks.ldmatrix(8, pitch, columns=4, swizzle=swizzle, dtype="bf16")
    assert found.ideal == 4
    assert found.passes == passes
    if pitch == 80:
        assert banks.ldmatrix(8, pitch).passes == 1


@pytest.mark.parametrize(("text", "code", "says"), [
    ("chunk ^ (row >> 1 & 3)", 0, "reads 64/64"), ("chunk ^ (row & 3)", 0, "reads 128/64"),
    ("(chunk + row) % 4", 0, "a bijection"), ("chunk & row", 1, "no bijection: chunks 0 and 1"),
    ("3 - chunk", 0, "a bijection"), ("chunk + 1", 2, "outside of its row"),
])
def test_l06_formulas(ask, text: str, code: int, says: str) -> None:
    """L06: what a formula in a sample does: a bijection? how many passes?"""
    said = ask("swizzle", "--tile", "128,32", "--dtype", "bf16", "--formula", text)
    assert (said.code, says in said.text) == (code, True), said.text


@pytest.mark.parametrize("text", [
    "__import__('os')", "chunk.real", "row ** row", "lane", "1.5", "", "chunk ^", "True", "[1][0]",
    "(lambda: 1)()", "1 << 99", "chunk // (row - row)", "9999999999", "+".join(["row"] * 200),
    "-chunk", "(" * 500, "chunk << chunk << 31"])
def test_l06_what_is_no_formula(text: str) -> None:
    """Nothing runs that is no arithmetic of row and chunk, and no number grows without bound."""
    with pytest.raises(UsageError):
        [formula(text)(row, chunk) for row in range(8) for chunk in range(8)]
