"""Selection, checks and duels on a bed without a GPU: who wins, in which order, what is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fake_bed import FakeBed, FakeSubject

from mmalab.bench import duel as module
from mmalab.bench.bed import BURST, SUSTAINED, Block
from mmalab.bench.duel import Plan, duel
from mmalab.bench.power import Reading
from mmalab.bench.problem import Problem
from mmalab.bench.record import candidates_of, markdown, rows_of, save
from mmalab.bench.scales import PLAIN
from mmalab.bench.select import select
from mmalab.bench.subject import Refused
from mmalab.bench.summary import steady
from mmalab.bench.verify import Check
from mmalab.device.driver import DriverError
from mmalab.errors import ToolError

PROBLEM = Problem(8192, 8192, 8192)


def trusted(arena: Any, subject: Any, seed: int) -> Check:
    return Check(subject.name, 1e-3, 4e-3, 2304, 0, None)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stands for verify; the names that it was asked about."""
    names: list[str] = []

    def verify(arena: Any, subject: Any, seed: int) -> Check:
        names.append(subject.name)
        return trusted(arena, subject, seed)

    monkeypatch.setattr(module, "verify", verify)
    return names


def test_each_regime_has_its_own_winner() -> None:
    """What is fastest on a cool chip need not be so under the power cap."""
    sprinter, stayer = FakeSubject("sprinter", 1.00e-3, hot=1.3), FakeSubject("stayer", 1.03e-3)
    bed = FakeBed(PROBLEM)
    chosen = select(bed, [sprinter, stayer, FakeSubject("slow", 2e-3)],  # type: ignore[arg-type]
                    [BURST, SUSTAINED])
    assert {name: each.name for name, each in chosen.winners.items()} == {
        "burst": "sprinter", "sustained": "stayer"}
    slow = chosen.rows[2]
    assert slow["look_seconds"] == pytest.approx(2e-3)
    assert "burst_seconds" not in slow


def test_who_cannot_run_is_named_and_left_out() -> None:
    bed = FakeBed(PROBLEM)
    refused, good = FakeSubject("refused", 1e-3, refuses=True), FakeSubject("good", 1e-3)
    chosen = select(bed, [refused, good], [BURST])  # type: ignore[arg-type]
    assert "not supported" in chosen.rows[0]["problem"]
    assert chosen.winners["burst"] is good
    with pytest.raises(ToolError, match="none could be run"):
        select(bed, [refused], [BURST])  # type: ignore[arg-type]


def test_looks_go_forward_and_backward() -> None:
    bed = FakeBed(PROBLEM)
    select(bed, [FakeSubject(name, 1e-3) for name in "abc"], [BURST])  # type: ignore[arg-type]
    assert "".join(name for kind, name in bed.log if kind == "look") == "abccba"


def test_a_duel_is_interleaved_and_recorded(checked: list[str]) -> None:
    """A B B A A B in both regimes, everything that is timed checked before, ratios as they are."""
    bed = FakeBed(PROBLEM, drift=0.001)
    ours = [FakeSubject("ours", 1.5e-3, hot=1.1)]
    theirs = [FakeSubject("#0 theirs", 1.6e-3, hot=1.2)]
    found = duel(bed, ours, [lambda: theirs], Plan(burst=3, sustained=2), seed=1)  # type: ignore[arg-type]
    assert checked[:2] == ["ours", "#0 theirs"]
    assert checked[2:] == ["ours"]  # once more afterwards
    blocks = [name for kind, name in bed.log if kind == "burst"][-6:]
    assert blocks == ["ours", "#0 theirs", "#0 theirs", "ours", "ours", "#0 theirs"]
    assert found["burst"]["ratio"]["median"] == pytest.approx(1.6 / 1.5, rel=2e-3)
    assert found["sustained"]["ratio"]["median"] == pytest.approx(1.92 / 1.65, rel=2e-3)
    side = found["sustained"]["ours"]
    rate = PROBLEM.flops / side["seconds"] / 1e12
    assert side["tflops"] == pytest.approx(rate)
    assert side["share"] == pytest.approx(rate * 1e12 / (132 * 4096 * 1400e6))
    assert side["joules_per_tflop"] == pytest.approx(700 / rate)
    assert side["reasons"] == ["software power cap"]
    assert len(side["blocks"]) == 2
    assert found["burst"]["ours"]["joules_per_tflop"] is None


def test_nothing_wrong_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong candidate is left out and its check kept; when all are wrong nothing runs."""
    def verify(arena: Any, subject: Any, seed: int) -> Check:
        if subject.name == "refuses":
            raise Refused("cublasLtMatmul", "not supported (status 15)")
        wrong = "7 of 64 outputs were never written" if subject.name == "wrong" else ""
        return Check(subject.name, 0.0, 1e-3, 2304, 7 if wrong else 0, None, wrong)

    monkeypatch.setattr(module, "verify", verify)
    bed = FakeBed(PROBLEM)
    wrong, right = FakeSubject("wrong", 1e-4), FakeSubject("right", 1e-3)
    theirs = [FakeSubject("refuses", 1e-4), FakeSubject("theirs", 1e-3)]
    found = duel(bed, [wrong, right], [lambda: theirs], Plan(1, 0), seed=1)  # type: ignore[arg-type]
    assert {name for _, name in bed.log} == {"right", "theirs"}
    assert found["burst"]["ours"]["subject"] == "right"
    assert [bool(check["problem"]) for check in found["checks"]] == [True, False, True, False]
    with pytest.raises(ToolError, match="wrong: 7 of 64 outputs were never written"):
        duel(FakeBed(PROBLEM), [wrong], [], Plan(1, 0), seed=1)  # type: ignore[arg-type]


def test_what_turns_wrong_under_load_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(arena: Any, subject: Any, seed: int) -> Check:
        return Check(subject.name, 0.0, 1e-3, 4, 0, None, "" if seed == 1 else "4 samples differ")

    monkeypatch.setattr(module, "verify", verify)
    with pytest.raises(ToolError, match="and is wrong now: 4 samples differ"):
        duel(FakeBed(PROBLEM), [FakeSubject("ours", 1e-3)], [],  # type: ignore[arg-type]
             Plan(1, 0), seed=1)


def block(seconds: float, *reasons: str) -> Block:
    return Block("x", "sustained", seconds, 1, 1400.0, Reading(700.0, 700.0, 1400.0, reasons, 9))


def test_pairs_in_another_state_of_the_chip_do_not_count() -> None:
    """Throttled for another reason, in either block: the pair is left out; idle says nothing."""
    cap, hot = "software power cap", "hardware thermal"
    ours = [block(1, cap), block(1, cap), block(1, cap, "idle"), block(1, cap)]
    theirs = [block(1, cap), block(1, cap, hot), block(1, cap), block(1, cap)]
    assert steady({"ours": ours, "baseline": theirs}) == [0, 2, 3]
    assert steady({"ours": [block(1)], "baseline": [block(1, hot)]}) == [0]


def test_another_baseline_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody of the first offer is right, or it cannot be made: the next one, and why."""
    def verify(arena: Any, subject: Any, seed: int) -> Check:
        wrong = "9 of 64 samples are wrong" if subject.name == "scaled" else ""
        return Check(subject.name, 0.0, 1e-3, 64, 0, None, wrong)

    def refuse() -> Any:
        raise Refused("cublasLtMatmulAlgoGetHeuristic", "not supported (status 15)")

    monkeypatch.setattr(module, "verify", verify)
    bare = FakeSubject("#0 bare", 1e-3, facts={"kind": "cublasLt", "rank": 0, "scales": PLAIN})
    for first, why in ((lambda: [FakeSubject("scaled", 1e-4)], "9 of 64 samples are wrong"),
                       (refuse, "not supported (status 15)")):
        bed = FakeBed(Problem(4096, 4096, 4096, "e4m3", promote=True, scaled=True))
        found = duel(bed, [FakeSubject("ours", 1e-3)],  # type: ignore[arg-type]
                     [first, lambda: [bare]], Plan(1, 0), seed=1)  # type: ignore[list-item]
        assert why in found["baseline_instead"]
        assert found["burst"]["baseline"]["subject"] == "#0 bare"
        (cells,) = rows_of([{"row": {"title": "x"}, **found}])
        assert cells[3].endswith("(#0, without scales)")
    with pytest.raises(Refused):
        duel(bed, [FakeSubject("ours", 1e-3)], [refuse], Plan(1, 0), seed=1)  # type: ignore[arg-type]


def test_a_lost_device_has_no_other_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> Any:
        raise DriverError("cuStreamQuery", "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal access")

    monkeypatch.setattr(module, "verify", trusted)
    with pytest.raises(DriverError):
        duel(FakeBed(PROBLEM), [FakeSubject("ours", 1e-3)],  # type: ignore[arg-type]
             [lost, list], Plan(1, 0), seed=1)


@pytest.mark.usefixtures("checked")
def test_alone_there_is_no_ratio() -> None:
    bed = FakeBed(PROBLEM)
    found = duel(bed, [FakeSubject("ours", 1e-3)], [], Plan(2, 1), seed=1)  # type: ignore[arg-type]
    assert "ratio" not in found["burst"]
    assert len(found["burst"]["ours"]["blocks"]) == 4


@pytest.mark.usefixtures("checked")
def test_few_rows_are_measured_by_bytes() -> None:
    """The share is of what memory delivers to readers, where that is nearer than the peak."""
    for m, seconds, rate, share in ((64, 36e-6, "36.0 us, 3.79 TB/s", "84.1% of DRAM"),
                                    (8192, 1.5e-3, "733 TFLOP/s", "68.5%")):
        bed = FakeBed(Problem(m, 8192, 8192))
        ours = FakeSubject("ours", seconds)
        found = duel(bed, [ours], [], Plan(1, 0), seed=1)  # type: ignore[arg-type]
        assert found["burst"]["ours"]["read_share"] == pytest.approx(
            found["burst"]["ours"]["bandwidth"] / 4.5)
        (cells,) = rows_of([{"row": {"title": "x"}, **found}])
        assert (cells[2], cells[6]) == (rate, share)


@pytest.mark.usefixtures("checked")
def test_few_rows_under_load() -> None:
    """Both regimes, whatever M is; their energy is of bytes, 700 W at 4 TB/s."""
    bed = FakeBed(Problem(1, 8192, 8192))
    seconds = bed.arena.problem.bytes / 4e12
    found = duel(bed, [FakeSubject("ours", seconds)],  # type: ignore[arg-type]
                 [lambda: [FakeSubject("theirs", seconds * 1.25)]],  # type: ignore[list-item]
                 Plan(1, 2), seed=1)
    burst, sustained = rows_of([{"row": {"title": "x"}, **found}])
    assert (burst[1], sustained[1]) == ("burst", "sustained")
    assert burst[7] == "- / -"
    assert sustained[7] == "0.175 J/GB / 0.219 J/GB"
    launches = found["sustained"]["ours"]["blocks"][0]["launches"]
    assert launches * seconds == pytest.approx(SUSTAINED.graph, rel=0.01)


def test_a_record_says_what_its_regimes_are() -> None:
    said = Plan(burst=4, sustained=0).described()
    assert said["burst"] == {
        "pairs": 4, "shows": BURST.shows, "rest_seconds": 0.3, "lead_seconds": 0.0,
        "work_seconds": 0.003, "graph_seconds": 0.003, "warm_seconds": 0.0}
    assert said["sustained"]["left_out"] == "no pairs were asked for"
    assert Plan().described()["sustained"]["work_seconds"] == 1.5


@pytest.mark.usefixtures("checked")
def test_records_become_tables(tmp_path: Path) -> None:
    """What the table says is in the record; a row that failed says why."""
    bed = FakeBed(PROBLEM)
    theirs = FakeSubject("#3 cublasLt", 1.6e-3, facts={"kind": "cublasLt", "rank": 3})
    good = {"row": {"title": "BF16 8192^3"},
            **duel(bed, [FakeSubject("ours", 1.5e-3)], [lambda: [theirs]],  # type: ignore[arg-type]
                   Plan(3, 2), seed=1)}
    bad = {"row": {"title": "TF32"}, "problem": "no such kernel\n  legal: another"}
    save({"rows": [good, bad], "seed": 1}, tmp_path / "record.json")
    read = json.loads((tmp_path / "record.json").read_text())
    assert read == json.loads(json.dumps({"rows": [good, bad], "seed": 1}))
    text = markdown(read["rows"])
    assert ("| BF16 8192^3 | burst | 733 TFLOP/s | 687 TFLOP/s (#3) | "
            "1.067 [1.067, 1.067] (n=3) | 1980 / 1980 |") in text
    assert "| 1.067 (n=2) | 1400 / 1400 |" in text
    assert "| TF32 | not measured | no such kernel |" in text
    assert {len(line) for line in rows_of(read["rows"])} == {8}
    assert candidates_of(good) == [("ours", "1500.00", "1500.00", "1500.00", "")]
    assert candidates_of(bad) == []
