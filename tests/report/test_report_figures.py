"""The numbers of each figure are those of the planner, the unit or the record that it names."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mmalab import isa
from mmalab.numerics import chain_error, probe
from mmalab.plan import banks, tmem
from mmalab.plan.chips import chip
from mmalab.plan.decode import fill
from mmalab.plan.occupancy import occupancy
from mmalab.plan.rates import register_file_ratio
from mmalab.plan.registers import accumulators
from mmalab.plan.tmem import admitted
from mmalab.plan.traffic import traffic
from mmalab.report import Figure, Report, Table
from mmalab.report.charts import Axis, Bar, Line, Mark, bars, lines
from mmalab.report.figures import allocator_code, measured
from mmalab.report.figures.latency import busy
from mmalab.report.figures.traffic import passes_of
from mmalab.report.svg import Scale, Svg

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def figures(made: Report) -> dict[str, Figure]:
    return {figure.id: figure for figure in made.figures}


def rows(figure: Figure) -> list[dict[str, object]]:
    return [dict(zip(figure.table.head, row, strict=True)) for row in figure.table.rows]


def record(name: str) -> dict[str, list[dict[str, object]]]:
    return json.loads((ROOT / "records" / name).read_text(encoding="utf-8"))


def test_register_file(figures: dict[str, Figure]) -> None:
    for row in rows(figures["register-file"]):
        name = str(row["chip"])
        assert row["FP16 FLOP per SM and clock"] == chip(name).rate("f16", "f32").per_clock
        assert row["bytes per FLOP and clock"] == register_file_ratio(name)
        assert row["register file, bytes"] == 4 * 65536


def test_tile(figures: dict[str, Figure]) -> None:
    for row in rows(figures["tile"]):
        m, n = map(int, re.findall(r"m(\d+)n(\d+)", str(row["tile"]))[0])
        assert row["registers per thread"] == accumulators(m, n).per_thread
    assert figures["tile"].table.rows[-1][1:] == (256, 255, "no")


def test_drain(figures: dict[str, Figure]) -> None:
    compiled = {(row["toolkit"], row["num"]): row["registers"]
                for row in record("compiled/tensor_memory.json")["drain"]
                if row["shape"] == "32x32b"}
    for row in rows(figures["drain"]):
        for head, value in row.items():
            if head.startswith("ptxas "):
                assert value == compiled[head.removeprefix("ptxas "), row["N"]]
    assert figures["drain"].table.rows[-1][1] == 134


def test_ledger_and_pool(figures: dict[str, Figure]) -> None:
    shown = {str(row["plan"]): row for row in rows(figures["ledger"])}
    two = tmem.ledger(128, 256, scales="nvfp4", stages=2)
    assert shown["NVFP4 128 x 256, 2 stages"]["columns"] == two.columns
    assert not two.fits
    assert shown["FP16 128 x 256, 2 stages"]["allocations"] == "512"
    for columns, count in figures["pool"].table.rows:
        assert count == admitted(int(columns))


def test_the_stuck_allocator(figures: dict[str, Figure]) -> None:
    told = figures["allocator"].table.column("deadlock")
    assert [bool(words) for words in told] == [False, False, True]


def test_decode(figures: dict[str, Figure]) -> None:
    for row in rows(figures["decode"]):
        batch = int(str(row["batch"]))
        for head, how in (("tokens as M", "plain"), ("tokens as N", "swapped")):
            assert row[f"reserved, {head}"] == fill(batch, "tcgen05", arrangement=how).reserved
    assert rows(figures["decode"])[2]["filled, %"] == 12.5


def test_invariance(figures: dict[str, Figure]) -> None:
    assert {round(float(value), 6) for value in figures["invariance"].table.column("TB/s")} == {
        562.5}
    for row, dtype in zip(rows(figures["invariance"]), ("f16", "e4m3", "e2m1"), strict=True):
        found = traffic(128, 256, dtype, on="B200")
        assert row["bytes per FLOP"] == found.accumulator
        assert row["K"] == found.k


def test_operands(figures: dict[str, Figure]) -> None:
    for row in rows(figures["operands"]):
        n = int(str(row["N"]))
        assert row["64 x N (wgmma, H200)"] == 100 * traffic(64, n, "f16", on="H200").shared_share


def test_scales(figures: dict[str, Figure]) -> None:
    columns = {(name, k): count for name, k, count in figures["scale-columns"].table.rows}
    assert columns["nvfp4", 512] == 2 * int(str(columns["mxfp4", 512]))
    for (name, k), count in columns.items():
        parts = tmem.ledger(128, 256, scales=str(name), k=int(str(k))).parts
        assert count == sum(part.columns for part in parts if part.role == "scales")
    errors = dict(zip(figures["scale-accuracy"].table.column("format"),
                      figures["scale-accuracy"].table.column("relative RMS"), strict=True))
    assert errors["bf16"] < errors["mxfp8"] < errors["nvfp4"] < errors["mxfp4"] < errors["fp4"]


def test_banks(figures: dict[str, Figure]) -> None:
    assert figures["banks"].table.column("wavefronts") == [4, 1, 1]
    plain = banks.ldmatrix(8, 64)
    assert passes_of(plain) == [1, 1, 2, 2, 3, 3, 4, 4]
    assert max(passes_of(plain)) == plain.passes


def test_arithmetic(figures: dict[str, Figure]) -> None:
    for row in rows(figures["accumulator-bits"]):
        assert row["bits"] == probe(str(row["unit"])).bits
    shown = rows(figures["errors"])[-1]
    again = chain_error(str(shown["unit"]), 4096)
    assert shown["from the sums"] == again.from_sums


def test_latency(figures: dict[str, Figure]) -> None:
    """Clocks are the record's; in a chain wgmma takes what its product does from N = 64 on."""
    assert busy(64, 256, "H200") == 128
    taken = record("h200/latency.json")["rows"]
    for row in figures["latency"].table.rows:
        n, product, single, each, from_registers, *_ = row
        known = {each["a"]: each for each in taken if (each["dtype"], each["n"]) == ("bf16", n)}
        assert (single, each) == (known["shared"]["single"], known["shared"]["each"])
        assert from_registers == known["registers"]["single"] < single
        assert each == product if n >= 64 else each > product
        assert single > each
    assert len(figures["latency"].table.rows) == len({row["n"] for row in taken})


def test_portability(figures: dict[str, Figure]) -> None:
    """Every cell says what the row's targets say."""
    for row in rows(figures["portability"]):
        targets = isa.parse_targets(isa.find(str(row["instruction"])).targets)
        for head, how in row.items():
            if head.startswith("sm_"):
                assert (how != "-") == (head in targets), (row["family"], head)


def test_measured(figures: dict[str, Figure]) -> None:
    """Every ratio, clock and joule is a cell of a record, and none is left out."""
    known = [row[regime] for path in sorted((ROOT / "records/h200/bench").glob("*.json"))
             for row in json.loads(path.read_text(encoding="utf-8"))["rows"]
             for regime in ("burst", "sustained") if "ratio" in row.get(regime, {})]
    shown = rows(figures["measured"])
    assert len(shown) == len(known)
    cells = [(each["ratio"]["median"], each["ratio"]["low"], each["ours"]["tflops"],
              each["baseline"]["joules_per_tflop"] or "") for each in known]
    for row in shown:
        assert (row["ratio"], row["low"], row["ours, TFLOP/s"], row["cublasLt, J/TFLOP"]) in cells


def test_agreement(figures: dict[str, Figure]) -> None:
    shown = {str(row["kernels"]): row for row in rows(figures["agreement"])}
    ladder = json.loads((ROOT / "records/h200/equality.json").read_text(encoding="utf-8"))
    assert shown["both ladders, whole products"]["compared"] == ladder["outputs"]
    assert shown["both ladders, whole products"]["different"] == ladder["mismatches"]


def test_guardrails(figures: dict[str, Figure]) -> None:
    """Article B's count, and the newest assembler's."""
    compiled = record("compiled/tensor_memory.json")["allocators"]
    shown = rows(figures["guardrails"])
    assert [(row["ptxas"], row["instructions"], row["lines that name a handler"])
            for row in shown] == [(each["toolkit"], each["instructions"], each["references"])
                                  for each in compiled]
    assert shown[3]["instructions"] == 152


def test_binding(figures: dict[str, Figure]) -> None:
    for name, (registers, shared, threads, columns) in allocator_code.KERNELS.items():
        found = occupancy(registers=registers, shared=shared, threads=threads, tmem=columns,
                          target="sm_100a")
        own = [row for row in rows(figures["binding"]) if row["kernel"] == name]
        assert {row["resource"]: row["CTAs"] for row in own} == found.limits
        assert {row["resource"] for row in own if row["binds"]} == set(found.binding)
    assert found.ctas == 1


def test_inner_loops(figures: dict[str, Figure]) -> None:
    """Every rung of the record is in the table; those that are drawn are among them."""
    rungs = {str(rung["rung"]): rung for rung in record("compiled/sm80_mma_ladder.json")["rungs"]}
    shown = {str(row["rung"]): row for row in rows(figures["inner-loops"])}
    assert list(shown) == list(rungs)
    drawn, _ = figures["inner-loops"].pictures()
    assert drawn.count("<rect") == len(measured.RUNGS)
    for name in measured.RUNGS:
        work = rungs[name]["operations_per_instruction"]
        assert shown[name]["operations per instruction"] == work
        assert f"{name}: {work:,}" in drawn


# --- what draws -----------------------------------------------------------------------------------

def test_scales_of_drawings() -> None:
    assert Scale(0, 10, 0, 100)(5) == 50
    assert Scale(1, 16, 0, 100, log=True)(4) == 50


def test_words_are_escaped_and_hints_are_titles() -> None:
    drawing = Svg(10, 10, 'a "b"')
    drawing.text(0, 0, "<x>")
    drawing.box(0, 0, -1, 2, "soft", "1 < 2")
    text = str(drawing)
    assert "&lt;x&gt;" in text
    assert "<title>1 &lt; 2</title>" in text
    assert 'width="0"' in text
    assert "&quot;b&quot;" in text


def test_colours_are_left_to_the_page() -> None:
    text = bars(300, "x", [Bar("a", 1, "one")], limit=Mark(2, "two")) + lines(
        300, "y", Axis((0, 1), ""), Axis((0, 1), ""), [Line("l", ((0, 0), (1, 1)), steps=True)])
    assert not re.search(r"fill=|stroke=|style=|#[0-9a-f]{3}", text)


def test_long_names_stand_above_their_bars() -> None:
    beside = bars(560, "x", [Bar("short", 1, "1")])
    above = bars(330, "x", [Bar("a name of some length, longer", 1, "1")])
    assert 'text-anchor="end">short' in beside
    assert 'x="0"' in above.partition("a name of")[0].rpartition("<text")[2]


def test_a_column_of_a_table() -> None:
    assert Table(("a", "b"), ((1, 2), (3, 4))).column("b") == [2, 4]
