"""Why the accumulator left the registers: article B's figures 1, 2 and 4."""

from __future__ import annotations

from typing import Any

from mmalab.claims.records import load
from mmalab.plan.chips import chip
from mmalab.plan.rates import register_file_ratio
from mmalab.plan.registers import accumulators
from mmalab.report.charts import Axis, Bar, Line, Mark, bars, lines
from mmalab.report.figure import Evidence, Figure, Table

__all__ = ["DRAIN", "drain", "rates", "tiles"]

#: What ptxas made of the loads of Tensor Memory.
DRAIN = "records/compiled/tensor_memory.json"
_CHIPS = ("V100", "A100", "H200", "B200")
#: M, N of one instruction's accumulator, FP32, spread over a warpgroup.
_TILES = (("wgmma", 64, 64), ("wgmma", 64, 128), ("wgmma", 64, 256),
          ("tcgen05", 128, 128), ("tcgen05", 128, 192), ("tcgen05", 128, 256))


def rates() -> Figure:
    """Register file and tensor rate of an SM, both as multiples of Volta's."""
    rows = []
    for name in _CHIPS:
        row, ratio = chip(name), register_file_ratio(name)
        rate = row.rate("f16", "f32")
        rows.append((name, round(ratio * rate.per_clock), rate.per_clock, ratio,
                     rate.evidence.value))
    first = rows[0]

    def draw(width: int) -> str:
        at = range(len(rows))
        return lines(
            width, "register file and tensor rate of an SM, relative to Volta",
            Axis(tuple(at), "", write=lambda i: _CHIPS[int(i)]),
            Axis((1, 2, 4, 8), "times Volta", log=True, low=0.8, write="{:g}x".format),
            [Line("tensor rate", tuple((i, rows[i][2] / first[2]) for i in at), lift=0),
             Line("register file", tuple((i, rows[i][1] / first[1]) for i in at),
                  "stroke ink")], height=240)

    known = {chip(name).rate("f16", "f32") for name in _CHIPS}
    return Figure(
        "register-file", "The register file stood still while the tensor core doubled",
        "Every SM since Volta has 65,536 registers. Dense FP16 operations per SM and clock doubled "
        "with each data-centre generation, so bytes of register file per operation and clock fell "
        "from 256 to 32.",
        draw,
        Table(("chip", "register file, bytes", "FP16 FLOP per SM and clock",
               "bytes per FLOP and clock", "rate is"), tuple(rows)),
        (Evidence("derived", "262,144 bytes / dense FP16 rate of the SM"),
         Evidence("recorded elsewhere",
                  "; ".join(sorted({rate.source for rate in known if "own" not in rate.source}))),
         *(Evidence("measured", f"H200's rate: {rate.source}") for rate in known
           if rate.evidence == "measured")),
        "mmalab plan traffic --mma 128x256 --dtype f16", "B, figure 1")


def tiles() -> Figure:
    """Registers that an accumulator takes of each thread of a warpgroup, against 255."""
    found = [(f"{unit} m{m}n{n}", accumulators(m, n)) for unit, m, n in _TILES]
    limit = found[0][1].limit

    def draw(width: int) -> str:
        return bars(width, "registers of an accumulator per thread", [
            Bar(name, row.per_thread, str(row.per_thread), "soft" if row.fits else "warn")
            for name, row in found], limit=Mark(limit, f"a thread has {limit}"))

    last = found[-1][1]
    return Figure(
        "tile", "The tile that cannot exist",
        f"FP32 accumulators spread over a warpgroup. Hopper's largest takes half of a thread's "
        f"registers; Blackwell's largest would take {last.per_thread}, one more than there are.",
        draw,
        Table(("tile", "registers per thread", "limit", "fits"),
              tuple((name, row.per_thread, row.limit, "yes" if row.fits else "no")
                    for name, row in found)),
        (Evidence("derived", "M x N x 32 bits / 32 / 128 threads"),
         Evidence("compiled", "ptxas 12.9 and 13.5 refuse -maxrregcount=256")),
        "mmalab plan registers --mma 128x256", "B, figure 2")


def drain() -> Figure:
    """Registers per thread against the values that one load brings back, as compiled."""
    record = load(DRAIN)
    points = [row for row in record["drain"] if row["shape"] == "32x32b"]
    releases = sorted({row["toolkit"] for row in points})
    by_release = {release: {row["num"]: row["registers"] for row in points
                            if row["toolkit"] == release} for release in releases}
    nums = sorted({row["num"] for row in points})

    def draw(width: int) -> str:
        alike: dict[tuple[tuple[float, float], ...], list[str]] = {}
        for release in releases:
            alike.setdefault(tuple(by_release[release].items()), []).append(release)
        everywhere = [
            Line(f"ptxas {' and '.join(names)}", points, kind, lift=12 - 24 * at)
            for at, ((points, names), kind) in enumerate(zip(
                alike.items(), ("stroke accent", "stroke ink"), strict=False))]
        return lines(
            width, "registers per thread of a drain", Axis(tuple(nums), "values loaded per thread",
                                                           log=True),
            Axis((4, 8, 16, 32, 64, 128, 256), "registers per thread", log=True), everywhere,
            marks=(Mark(255, "a thread has 255"),), height=270)

    most = by_release[releases[0]][nums[-1]]
    return Figure(
        "drain", "What bringing the accumulator back costs",
        f"Registers that ptxas gives a kernel which loads N columns with tcgen05.ld.32x32b.xN and "
        f"stores them all: N + 6. At x128 that is {most} registers, "
        f"{128 * most * 4 / 1024:.0f} KiB in a warpgroup.",
        draw,
        Table(("N", *(f"ptxas {release}" for release in releases), "N + 6"),
              tuple((num, *(by_release[release][num] for release in releases), num + 6)
                    for num in nums)),
        (_compiled(record),), "mmalab atlas --what drain", "B, figure 4")


def _compiled(record: Any) -> Evidence:
    kits = ", ".join(sorted({row["toolkit"] for row in record["drain"]}))
    return Evidence("compiled", f"ptxas {kits} for {record['target']}, {record['date']}; "
                                f"{record['command']}")
