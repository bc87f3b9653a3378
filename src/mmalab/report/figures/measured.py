"""What was measured on a chip, from committed records: products against cublasLt, bits that agree,
work in the inner loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mmalab.claims.records import load
from mmalab.errors import ToolError
from mmalab.report.charts import Axis, Bar, Dot, Mark, bars, dots
from mmalab.report.figure import Evidence, Figure, Table

__all__ = ["BENCHES", "LADDER", "agreement", "device_line", "inner_loops", "products", "rows_of"]

#: Records of timed products, in the order shown.
BENCHES = tuple(f"records/h200/bench/{name}.json" for name in (
    "square_4096", "squares_8192", "llm_deepseek", "unaligned_4092"))
LADDER = "records/compiled/sm80_mma_ladder.json"
_EQUAL = {
    "mma.sync ladder, whole GEMMs": ("records/h200/equality.json", "outputs", "mismatches"),
    "wgmma, every form": ("records/h200/wgmma_equality.json", "outputs", "mismatches"),
}
_COPIES = "records/h200/tma_equality.json"
_REGIMES = ("burst", "sustained")


def device_line(record: Mapping[str, Any]) -> str:
    """The device, driver and day of a record, as it has them."""
    device = record.get("device", "")
    if isinstance(device, Mapping):
        return (f"{device['name']}, driver {device['driver']}, CUDA {device['cuda']}, "
                f"{record['date']}")
    return f"{device}, {record.get('date', '')}".strip(", ")


def rows_of(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(case, regime, figures) of every product that was compared, in order."""
    found = []
    for record in records:
        for row in record["rows"]:
            title = str(row["row"]["title"])
            if "problem_size" in row and title.count("x") == 2 and title[0].isdigit():
                title = str(row["problem_size"]["title"])
            found += [(title, regime, row[regime]) for regime in _REGIMES
                      if "ratio" in row.get(regime, {})]
    return found


def _present(names: Sequence[str]) -> list[Any]:
    """The records that travel with this installation; one at least."""
    found, missing = [], None
    for name in names:
        try:
            found.append(load(name))
        except ToolError as absent:
            missing = absent
    if not found and missing:
        raise missing
    return found


def products() -> Figure:
    """Ratio to cublasLt with its interval, clock and energy, by product."""
    records = _present(BENCHES)
    found = rows_of(records)

    def draw(width: int) -> str:
        values = [r["ratio"] for _, _, r in found]
        low, high = min(r["low"] for r in values), max(r["high"] for r in values)
        ticks = tuple(t for t in (0.5, 0.75, 1, 1.5, 2, 3, 4) if 0.8 * low <= t <= 1.25 * high)
        return dots(width, "rate of ours over cublasLt's", [
            Dot(f"{case}, {regime}", r["ratio"]["median"],
                f"{r['ratio']['median']:.3f}x", r["ratio"]["low"], r["ratio"]["high"],
                "accent" if r["ratio"]["median"] >= 1 else "ink") for case, regime, r in found],
            Axis(ticks, "ours / best cublasLt algorithm", log=True, low=0.9 * low,
                 high=1.1 * high), mark=Mark(1, "equal"))

    return Figure(
        "measured", "Measured: our kernels against the best of cublasLt",
        "Rates as ratios of interleaved pairs, with 95 % intervals where there are three pairs or "
        "more. Burst starts from a rested chip; sustained runs into the power limit, where fewer "
        "joules are more speed. Clocks are counted inside the kernels.",
        draw,
        Table(("product", "regime", "ratio", "low", "high", "pairs", "ours, TFLOP/s",
               "cublasLt, TFLOP/s", "MHz", "cublasLt, MHz", "J/TFLOP", "cublasLt, J/TFLOP"),
              tuple(_cells(case, regime, r) for case, regime, r in found)),
        tuple(Evidence("measured", device_line(record)) for record in records[:1]),
        records[-1]["command"] if len(records) == 1 else str(records[1]["command"]),
        "A, step 2", wide=True)


def _cells(case: str, regime: str, r: Mapping[str, Any]) -> tuple[Any, ...]:
    ours, theirs, ratio = r["ours"], r["baseline"], r["ratio"]
    return (case, regime, ratio["median"], ratio["low"], ratio["high"], ratio["pairs"],
            ours["tflops"], theirs["tflops"], ours["mhz"] or "", theirs["mhz"] or "",
            ours["joules_per_tflop"] or "", theirs["joules_per_tflop"] or "")


def agreement() -> Figure:
    """Outputs of a chip that were compared with the emulator, bit for bit."""
    rows = []
    records = {}
    for name, (path, total, wrong) in _EQUAL.items():
        records[path] = record = load(path)
        rows.append((name, record[total], record[wrong], record["date"], record["command"]))

    compared = tuple(rows)
    total, wrong = sum(row[1] for row in compared), sum(row[2] for row in compared)

    def draw(width: int) -> str:
        return bars(width, "outputs compared bit for bit", [
            Bar(name, outputs, f"{outputs / 1e6:.1f} M, {differ} differ",
                "warn" if differ else "accent") for name, outputs, differ, _, _ in compared])

    copies = load(_COPIES)
    told = copies.get("since", "")
    tried = sum(copies["kernels"].values()) * copies["cases_each"]
    rows.append(("tensor copies, cases", tried, sum(copies["differ"].values()), copies["date"],
                 copies["command"]))
    return Figure(
        "agreement", "The emulator against a chip, bit for bit",
        f"{total:,} outputs of products on an H200, {wrong} different. Of {tried:,} cases of "
        f"tensor copies {rows[-1][2]} differed when they were recorded"
        + (f": {told}." if told else "."),
        draw, Table(("kernels", "compared", "different", "date", "command"), tuple(rows)),
        tuple(Evidence("measured", device_line(record)) for record in records.values()),
        str(rows[0][4]))


def inner_loops() -> Figure:
    """Work per issued instruction of the main loop, rung by rung."""
    record = load(LADDER)
    rows = [(rung["rung"], rung["operations_per_instruction"], rung["instructions"],
             rung["registers"], rung["shared_bytes"]) for rung in record["rungs"]]

    def draw(width: int) -> str:
        return bars(width, "operations per instruction", [
            Bar(name, work, f"{work:,}", "accent" if name == "swizzled_3" else "soft")
            for name, work, *_ in rows])

    return Figure(
        "inner-loops", "Work per instruction in the inner loop",
        "Floating-point operations per warp instruction of each rung's main loop, read back from "
        "the machine code. The article counts 57 for FP32 and 1,365 for the swizzled BF16 kernel.",
        draw,
        Table(("rung", "operations per instruction", "instructions per slice", "registers",
               "shared bytes"), tuple(rows)),
        (Evidence("compiled", f"{record['toolkit']} for {record['target']}"),),
        str(record["command"]), "A, step 4")
