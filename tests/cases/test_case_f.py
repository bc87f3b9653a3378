"""F: registers: accumulators, spills, setmaxnreg, debug builds."""

from __future__ import annotations

import pytest
from cases.pipelines import TWINS

import mmalab
from mmalab import atlas


@pytest.mark.toolkit
def test_f02_predicted_then_seen(ask) -> None:
    """F02: 256 registers of accumulators are more than 255: refused by the plan, spilt by ptxas."""
    assert ask("plan", "registers", "--mma", "64x256", "--count", 2).code == 1
    assert ask("plan", "registers", "--mma", "64x256", "--count", 2, "--threads", 256).code == 0
    made = atlas.build(TWINS["f02_two_accumulators"]())
    assert made.registers == 255
    assert made.spills > 0
    assert any("serialized" in word for word in made.messages)


@pytest.mark.parametrize(("name", "runs"), [("f03_split_504", True), ("f03_split_488", True),
                                            ("f03_split_528", False), ("f03_split_blocked", False)])
@pytest.mark.parametrize("schedule", ["eager", "lazy", 3])
def test_f03_splits_that_run_and_hang(name: str, schedule: str | int, *, runs: bool) -> None:
    """F03: 24 + 240 + 240 is served; 2 x 24 + 2 x 240 of 4 x 128 never; nor a decrease that waits
    for the others' increase."""
    run = mmalab.emulate(TWINS[name](), [], schedule=schedule)
    assert (run.deadlock is None) == runs


def test_f03_who_keeps_its_registers() -> None:
    """F03: every warp of the producer has to decrease first: who did not is named."""
    run = mmalab.emulate(TWINS["f03_split_blocked"](), [])
    said = next(one.message for one in run.findings if one.code == "deadlock")
    assert "warps 0-3 (line" in said
    assert "keep theirs" in said
    assert "setmaxnreg in those warps before they wait for anything" in said


def test_f03_the_advice_of_the_plan(ask) -> None:
    """F03: 24 + 232 + 232 of 3 x 168 fits by arithmetic, and is reported to hang: both are said."""
    said = ask("plan", "registers", "--setmaxnreg", "24,232,232", "--launch", 168)
    assert said.code == 0
    assert "is reported to hang (NVIDIA/cutlass#2007)" in said.text
    assert "every warp of group 0 runs its decrease before" in said.text


@pytest.mark.toolkit
def test_f05_two_builds(ask) -> None:
    """F05: registers, spills and opcodes of two builds, as a diff."""
    row, = ask("atlas", "f02_two_accumulators.ptx", "f02_one_accumulator.ptx", "--what", "builds",
               "--json").json
    found = {change["what"]: (change["old"], change["new"]) for change in row["changes"]}
    assert found["registers"][0] == "255"
    assert found["spills"][1] == found["stack"][1] == "0"


@pytest.mark.toolkit
def test_f06_a_debug_build(ask) -> None:
    """F06: under -g registers, opcodes and messages are another program's."""
    row, = ask("atlas", "c08_product.ptx", "--what", "debug", "--json").json
    assert {"instructions", "registers"} & {change["what"] for change in row["changes"]}


@pytest.mark.parametrize("words", [["c08_product.ptx"], [], ["none.ptx", "c08_product.ptx"]])
def test_f05_wrong_use(ask, words: list[str]) -> None:
    assert ask("atlas", *words, "--what", "builds").code == 2
