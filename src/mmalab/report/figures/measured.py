"""What was measured on a chip, from committed records: products against cublasLt, bits that agree,
work in the inner loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mmalab.claims.records import listed, load
from mmalab.errors import ToolError
from mmalab.report.charts import Bar, bars
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.svg import Scale, Svg

__all__ = ["BENCHES", "EQUAL_RECORDS", "LADDER", "RUNGS", "agreement", "compared", "device_line",
           "inner_loops", "products", "rows_of"]

#: The folder of timed products; all its records are shown.
BENCHES = "records/h200/bench"
LADDER = "records/compiled/sm80_mma_ladder.json"
_EQUAL = {
    "both ladders, whole products": ("records/h200/equality.json", "outputs", "mismatches"),
    "wgmma, every form": ("records/h200/wgmma_equality.json", "outputs", "mismatches"),
}
_COPIES = "records/h200/tma_equality.json"
#: The rungs that are drawn; the table has all.
RUNGS = ("ffma", "textbook", "plain_2", "padded_3", "swizzled_3", "swizzled_3_64x64", "tf32",
          "e4m3", "e4m3_promoted")
_REGIMES = ("burst", "sustained")


def device_line(record: Mapping[str, Any]) -> str:
    """The device, driver and day of a record, as it has them."""
    device = record.get("device", "")
    if isinstance(device, Mapping):
        return (f"{device['name']}, driver {device['driver']}, CUDA {device['cuda']}, "
                f"{record['date'].split()[0]}")
    return f"{device}, {record.get('date', '')}".strip(", ")


def rows_of(records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, Mapping[str, Any]]]:
    """(case, regime, figures) of every product that was compared, in order; a case that several
    records have is told apart by its number."""
    found = []
    runs: Counter[str] = Counter()
    for record in records:
        for row in record["rows"]:
            title = str(row["row"]["title"])
            if "problem_size" in row and title.count("x") == 2 and title[0].isdigit():
                title = str(row["problem_size"]["title"])
            runs[title] += 1
            title += f", run {runs[title]}" * (runs[title] > 1)
            found += [(title, regime, row[regime]) for regime in _REGIMES
                      if "ratio" in row.get(regime, {})]
    return found


def _timed() -> list[Any]:
    """The records that travel with this installation.

    Raises:
        ToolError: there is none.
    """
    found = [load(name) for name in listed(BENCHES)]
    if not found:
        raise ToolError(BENCHES, "is not installed", legal="a checkout, or the package's records")
    return found


def products() -> Figure:
    """Ratio to cublasLt with its interval, clock and energy, by product."""
    records = _timed()
    found = rows_of(records)
    return Figure(
        "measured", "Our kernels against the best of cublasLt",
        "Rates as ratios of interleaved pairs, with 95 % intervals where there are three pairs or "
        "more; one pair has none. Burst starts from a rested chip; sustained runs into the power "
        "limit, where fewer joules are more speed. Clocks are counted inside the kernels; of two "
        "figures the first is ours.",
        lambda width: _ratios(width, found),
        Table(("product", "regime", "ratio", "low", "high", "pairs", "ours, TFLOP/s",
               "cublasLt, TFLOP/s", "MHz", "cublasLt, MHz", "J/TFLOP", "cublasLt, J/TFLOP"),
              tuple(_cells(case, regime, r) for case, regime, r in found)),
        tuple(Evidence("measured", words) for words in dict.fromkeys(map(device_line, records))),
        str(max(records, key=lambda record: len(record["rows"]))["command"]), "A, step 2",
        wide=True)


#: Columns right of the dots on a wide page: heading, pixels, what they say of (burst, sustained).
_WIDE_COLUMNS = ("MHz, burst", "MHz, sustained", "J/TFLOP, sustained")
_COLUMN = 122
#: Pixels of the columns of the two ratios.
_SHORT = (54.0, 72.0)


def _ratios(width: int, found: Sequence[tuple[str, str, Mapping[str, Any]]]) -> str:
    """A row for each product: a disc for burst, a ring for sustained, each with its interval."""
    cases: dict[str, dict[str, Mapping[str, Any]]] = {}
    for case, regime, r in found:
        cases.setdefault(case, {})[regime] = r
    narrow = width < _COLUMN * 5
    columns = () if narrow else _WIDE_COLUMNS
    left, step, top = (0.0, 42, 44) if narrow else (250.0, 27, 44)
    edge = width - _COLUMN * len(columns) - _SHORT[0] - _SHORT[1]
    ratios = [r["ratio"] for _, _, r in found]
    low, high = min(r["low"] for r in ratios), max(r["high"] for r in ratios)
    scale = Scale(0.93 * low, 1.07 * high, left, edge, log=True)
    bottom = top + step * len(cases)
    drawing = Svg(width, bottom + 36, "rate of ours over cublasLt's, by product")
    for tick in (t for t in (0.5, 0.75, 1, 1.5, 2, 3, 4) if scale.low <= t <= scale.high):
        drawing.line(scale(tick), top - 6, scale(tick), bottom, "limit" if tick == 1 else "grid")
        drawing.text(scale(tick), bottom + 14, f"{tick:g}", "muted", anchor="middle")
    drawing.text((left + edge) / 2, bottom + 31, "ours / best cublasLt algorithm", "muted",
                 anchor="middle")
    heads = ("burst", "sustained", *columns)
    second = edge + _SHORT[0] + _SHORT[1]
    places = [edge + _SHORT[0], second, *(second + _COLUMN * (at + 1)
                                          for at in range(len(columns)))]
    drawing.dot(places[0] - 5, 14, 4, "accent")
    drawing.dot(places[1] - 5, 14, 3.2, "ring")
    for place, head in zip(places, heads, strict=True):
        drawing.text(place, 32, head, "muted", anchor="end")
    for at, (case, regimes) in enumerate(cases.items()):
        y = top + step * at + (27 if narrow else 12)
        drawing.text(left if narrow else left - 12, y - 13 if narrow else y + 4, case,
                     anchor="" if narrow else "end")
        _marks(drawing, scale, regimes, y)
        cells = _row_cells(regimes)
        for place, words in zip(places, cells[:len(places)], strict=True):
            drawing.text(place, y + 4, words, "number", anchor="end")
    return str(drawing)


def _marks(drawing: Svg, scale: Scale, regimes: Mapping[str, Mapping[str, Any]], y: float) -> None:
    for regime in reversed(_REGIMES):
        if regime in regimes:
            r = regimes[regime]["ratio"]
            drawing.line(scale(r["low"]), y, scale(r["high"]), y, "interval accent")
            kind, radius = ("accent", 4.0) if regime == "burst" else ("ring", 3.2)
            drawing.dot(scale(r["median"]), y, radius, kind,
                        f"{regime}: {r['median']:.3f}, {r['low']:.3f} to {r['high']:.3f}, "
                        f"{r['pairs']} pairs")


def _row_cells(regimes: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """The ratios, then clocks in burst and sustained, then energy."""
    def pair(regime: str, name: str, how: str) -> str:
        if regime not in regimes:
            return ""
        sides = (regimes[regime]["ours"][name], regimes[regime]["baseline"][name])
        return "" if None in sides else " / ".join(how.format(side) for side in sides)

    return (*(f"{regimes[regime]['ratio']['median']:.3f}" if regime in regimes else ""
              for regime in _REGIMES),
            pair("burst", "mhz", "{:,.0f}"), pair("sustained", "mhz", "{:,.0f}"),
            pair("sustained", "joules_per_tflop", "{:.3f}"))


def _cells(case: str, regime: str, r: Mapping[str, Any]) -> tuple[Any, ...]:
    ours, theirs, ratio = r["ours"], r["baseline"], r["ratio"]
    return (case, regime, ratio["median"], ratio["low"], ratio["high"], ratio["pairs"],
            ours["tflops"], theirs["tflops"], ours["mhz"] or "", theirs["mhz"] or "",
            ours["joules_per_tflop"] or "", theirs["joules_per_tflop"] or "")


#: The records of compared outputs.
EQUAL_RECORDS = tuple(path for path, _, _ in _EQUAL.values())


def compared() -> tuple[int, int]:
    """(outputs of products that were compared with the chip's, those that differed).

    Raises:
        ToolError: a record is not here.
    """
    counts = [(load(path)[total], load(path)[wrong]) for path, total, wrong in _EQUAL.values()]
    return sum(total for total, _ in counts), sum(wrong for _, wrong in counts)


def agreement() -> Figure:
    """Outputs of a chip that were compared with the emulator, bit for bit."""
    rows = []
    records = {}
    for name, (path, outputs, mismatches) in _EQUAL.items():
        records[path] = record = load(path)
        rows.append((name, record[outputs], record[mismatches], record["date"],
                     record["command"]))

    drawn = tuple(rows)
    total, wrong = compared()

    def draw(width: int) -> str:
        return bars(width, "outputs compared bit for bit", [
            Bar(name, outputs, f"{outputs / 1e6:.1f} M, {differ} differ",
                "warn" if differ else "accent") for name, outputs, differ, _, _ in drawn])

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
        tuple(Evidence("measured", words) for words in dict.fromkeys(
            map(device_line, records.values()))),
        str(rows[0][4]), wide=True)


def inner_loops() -> Figure:
    """Work per issued instruction of the main loop, rung by rung."""
    record = load(LADDER)
    rows = [(rung["rung"], rung["operations_per_instruction"], rung["instructions"],
             rung["registers"], rung["shared_bytes"]) for rung in record["rungs"]]

    def draw(width: int) -> str:
        return bars(width, "operations per instruction", [
            Bar(name, work, f"{work:,}", "accent" if name == "swizzled_3" else "soft")
            for name, work, *_ in rows if name in RUNGS])

    return Figure(
        "inner-loops", "Work per instruction in the inner loop",
        "Floating-point operations per warp instruction of each rung's main loop, read back from "
        "the machine code. The article counts 57 for FP32 and 1,365 for the swizzled BF16 kernel.",
        draw,
        Table(("rung", "operations per instruction", "instructions per slice", "registers",
               "shared bytes"), tuple(rows)),
        (Evidence("compiled", f"{record['toolkit']} for {record['target']}"),),
        str(record["command"]), "A, step 4")
