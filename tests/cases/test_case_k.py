"""K: Tensor Memory: counts, lanes, quarters."""

from __future__ import annotations

import pytest
from cases.pipelines import TWINS

from mmalab import atlas
from mmalab.isa.tensor_memory import data_path


@pytest.mark.parametrize(("name", "code"), [
    ("k02_columns_48", "tmem-size"), ("k02_columns_48_immediate", "operand-mismatch"),
    ("k02_columns_64", "")])
def test_k02_counts_in_registers(ask, name: str, code: str) -> None:
    """K02: the assembler refuses 48 as an immediate and takes it in a register; check does not."""
    found = ask("check", f"{name}.ptx", "--json").json
    assert [one["code"] for one in found["findings"]] == [code] * bool(code)


@pytest.mark.toolkit
@pytest.mark.parametrize(("name", "taken"), [("k02_columns_48", True),
                                             ("k02_columns_48_immediate", False)])
def test_k02_what_the_assembler_takes(name: str, *, taken: bool) -> None:
    assert atlas.build(TWINS[name]()).accepted is taken


def test_k04_lanes_of_m64(ask) -> None:
    """K04: M = 64 takes 16 of every 32 lanes, 0-15, 32-47, 64-79, 96-111; M = 128 all of them."""
    lanes = [data_path(64, 64).place(row, 0, m=64, n=64)[1] for row in range(64)]
    assert lanes == [*range(16), *range(32, 48), *range(64, 80), *range(96, 112)]
    for row in (0, 15, 16, 63):
        found = ask("plan", "tmem", "--mma", "64x64", "--at", f"{row},7", "--json").json
        assert (found["lane"], found["column"], found["cta"]) == (lanes[row], 7, 0)
        whole = ask("plan", "tmem", "--mma", "128x64", "--at", f"{row},7", "--json").json
        assert whole["lane"] == row
    pair = ask("plan", "tmem", "--mma", "256x64", "--cta-group", 2, "--at", "200,3", "--json").json
    assert (pair["cta"], pair["lane"], pair["column"]) == (1, 72, 3)


@pytest.mark.parametrize("warp", range(12))
def test_k05_quarters(ask, warp: int) -> None:
    """K05: warp w reaches lanes 32 (w mod 4) on, whatever the number of epilogue warps."""
    found = ask("plan", "tmem", "--mma", "128x64", "--warp", warp, "--json").json
    first = 32 * (warp % 4)
    assert found["lanes"] == [first, first + 31]
    assert found["rows"] == list(range(first, first + 32))


@pytest.mark.parametrize("words", [["--at", "64,0"], ["--at", "1"], ["--warp", "-1"]])
def test_k04_k05_wrong_use(ask, words: list[str]) -> None:
    assert ask("plan", "tmem", "--mma", "64x64", *words).code == 2
