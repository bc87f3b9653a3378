"""Tensor Memory as a resource: the ledger, what the pool admits, its allocator at work, scales,
decode (article B's figures 3, 6, 8, 9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mmalab.isa.tensor_memory import COLUMNS
from mmalab.plan import block_formats, tmem
from mmalab.plan.block_formats import format_plan
from mmalab.plan.decode import fill_table
from mmalab.plan.pool import Script, Simulation, simulate
from mmalab.plan.tmem import Ledger, admitted, ledger
from mmalab.report.charts import Axis, Bar, Line, bars, lines
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.svg import Scale, Svg

__all__ = ["allocator", "decode", "ledgers", "pool", "scale_accuracy", "scale_columns", "strip"]

#: Plans in the ledger figure: what is written, and the question.
_PLANS: tuple[tuple[str, dict[str, object]], ...] = (
    ("FP16 128 x 256, 2 stages", {"n": 256, "stages": 2}),
    ("FP16 128 x 256, 1 stage", {"n": 256}),
    ("NVFP4 128 x 256, 1 stage", {"n": 256, "scales": "nvfp4"}),
    ("NVFP4 128 x 256, 2 stages", {"n": 256, "scales": "nvfp4", "stages": 2}),
    ("NVFP4 128 x 192, 2 stages", {"n": 192, "scales": "nvfp4", "stages": 2}),
    ("MXFP8 128 x 128, 3 stages", {"n": 128, "scales": "mxfp8", "stages": 3}),
)
_KINDS = {"accumulator": "accent", "scales": "ink"}
#: Two CTAs: each takes both halves at once, one half after the other, or frees before it goes on.
_SCRIPTS = {
    "one allocation each: the second waits": ("alloc 512; work 8; free 0",) * 2,
    "half of the pool each: side by side": ("alloc 256; work 8; free 0",) * 2,
    "two halves one after the other": ("alloc 256; work 2; alloc 256; work 6; free 1; free 0",) * 2,
}


def strip(drawing: Svg, plan: Ledger, y: float, scale: Scale, height: float) -> None:
    """The 512 columns of one plan: allocations as outlines, parts as boxes, half-lane parts half
    as high."""
    drawing.box(scale(0), y, scale(COLUMNS) - scale(0), height, "well")
    if plan.packing is None:
        start = 0
        for part in plan.parts:
            drawing.box(scale(start), y, scale(start + part.columns) - scale(start), height, "warn",
                        f"{part.name}: {part.columns} columns")
            start += part.columns
        return
    for base, size in zip(plan.packing.bases, plan.allocations, strict=True):
        drawing.box(scale(base), y, scale(base + size) - scale(base), height, "held",
                    f"allocation of {size} columns")
    for place in plan.packing.placements:
        x, end = scale(place.column), scale(place.column + place.part.columns)
        top = y + (height / 2 if place.lane >= 16 else 0)
        drawing.box(x, top, end - x, height / 2 if place.part.half else height,
                    f"{_KINDS.get(place.part.role, 'soft')} edge",
                    f"{place.part.name}: {place.part.columns} columns at {place.column}")


def ledgers() -> Figure:
    """Plans carved out of 512 columns."""
    found = [(name, ledger(128, **asked)) for name, asked in _PLANS]  # type: ignore[arg-type]

    def draw(width: int) -> str:
        step = 48
        most = max(plan.columns for _, plan in found)
        scale = Scale(0, max(COLUMNS, most), 0, width)
        drawing = Svg(width, step * len(found) + 18, "columns of Tensor Memory by plan")
        for at, (name, plan) in enumerate(found):
            y = step * at
            drawing.text(0, y + 14, name)
            drawing.text(width, y + 14, f"{plan.columns} of {COLUMNS}" + (
                "" if plan.fits else ": does not fit"), "number" if plan.fits else "words warn",
                anchor="end")
            strip(drawing, plan, y + 20, scale, 18)
            drawing.line(scale(COLUMNS), y + 18, scale(COLUMNS), y + 40, "limit")
        for tick in range(0, COLUMNS + 1, 128):
            drawing.text(scale(tick), step * len(found) + 12, tick, "muted",
                         anchor="middle" if tick else "")
        return str(drawing)

    return Figure(
        "ledger", "The ledger of 512 columns",
        "Accumulators (coloured) and block-scale factors (grey) of a CTA, packed as the allocation "
        "rules allow: powers of two from 32. Two full accumulators leave nothing for scales.",
        draw,
        Table(("plan", "columns", "allocations", "free", "fits", "instead"),
              tuple((name, plan.columns, " + ".join(map(str, plan.allocations)), plan.free,
                     "yes" if plan.fits else "no",
                     "; ".join(plan.misfit.nearest[:3]) if plan.misfit else "")
                    for name, plan in found)),
        (Evidence("derived", tmem.FORMULA), Evidence("recorded elsewhere", tmem.SOURCE)),
        "mmalab plan tmem --mma 128x256 --dtype f16 --stages 2", "B, figure 3")


def pool() -> Figure:
    """CTAs that the pool admits, by columns of each."""
    rows = [(columns, admitted(columns)) for columns in (32, 64, 128, 256, 512)]

    def draw(width: int) -> str:
        return bars(width, "CTAs that the pool admits", [
            Bar(f"{columns} columns", count, f"{count} CTA{'s' * (count > 1)}",
                "accent" if columns == 256 else "soft") for columns, count in rows])

    return Figure(
        "pool", "What the pool admits",
        "CTAs that can hold an allocation at the same time: a bound from the allocation rule. How "
        "many a B200 makes resident is not measured here. 256 columns is one full accumulator.",
        draw, Table(("columns each", "CTAs"), tuple(rows)),
        (Evidence("derived", "aligned powers of two in 512 columns"),
         Evidence("recorded elsewhere", "PTX ISA, tcgen05.alloc")),
        "mmalab plan tmem --mma 128x256 --dtype f16", "B, figure 6")


def allocator() -> Figure:
    """Two CTAs at the allocator: waiting, sharing, and waiting for ever."""
    found = [(name, simulate([Script.parse(text) for text in scripts]))
             for name, scripts in _SCRIPTS.items()]

    def draw(width: int) -> str:
        step, height = 104, 64
        drawing = Svg(width, step * len(found), "two CTAs at the allocator of Tensor Memory")
        for at, (name, run) in enumerate(found):
            y = step * at
            drawing.text(0, y + 12, name)
            drawing.text(width, y + 12, "deadlock" if run.deadlock else f"{run.ticks} ticks",
                         "words warn" if run.deadlock else "number", anchor="end")
            _timeline(drawing, run, y + 20, height, width)
        return str(drawing)

    stuck = list(_SCRIPTS.values())[-1]
    return Figure(
        "allocator", "The allocator at work, and stuck",
        "Columns (down) over time (across) for two CTAs on one SM. Allocating in two steps while "
        "another CTA does the same ends with each holding what the other waits for.",
        draw,
        Table(("case", "ticks", "peak columns", "waited, CTA 0", "waited, CTA 1", "deadlock"),
              tuple((name, run.ticks, run.peak, *run.waited, run.deadlock or "")
                    for name, run in found)),
        (Evidence("derived", "first fit, an allocation aligned to its size; a model of the code "
                             "that ptxas emits, not of a scheduler"),),
        "mmalab plan tmem " + " ".join(f"--script {text!r}" for text in stuck),
        "B, section 6")


def _timeline(drawing: Svg, run: Simulation, y: float, height: float, width: int) -> None:
    across = Scale(0, max(run.ticks, 16), 0, width)
    down = Scale(0, run.capacity, y, y + height)
    drawing.box(0, y, width, height, "well")
    for span in run.spans:
        end = across(max(run.ticks, 16) if span.end is None else span.end)
        x, top = across(span.start), down(span.column)
        drawing.box(x, top, end - x, down(span.column + span.columns) - top,
                    f"{'accent' if span.cta else 'soft'} edge",
                    f"CTA {span.cta}: {span.columns} columns at {span.column}")
        drawing.text(x + 6, (top + down(span.column + span.columns)) / 2 + 4,
                     f"CTA {span.cta}: {span.columns}", "on-accent" if span.cta else "")


# --- formats --------------------------------------------------------------------------------------

_BLOCKED = ("mxfp8", "mxfp6", "mxfp4", "nvfp4")
_DEPTHS = (64, 128, 256, 512)


def scale_columns() -> Figure:
    """Columns of scale factors by format and depth of K, for a 128 x 256 tile."""
    counted = []
    for name in _BLOCKED:
        for k in _DEPTHS:
            parts = ledger(128, 256, scales=name, k=k).parts
            counted.append((name, k, sum(p.columns for p in parts if p.role == "scales")))

    def draw(width: int) -> str:
        return lines(
            width, "columns of scale factors by depth of K",
            Axis(_DEPTHS, "K whose scales are held at once", log=True),
            Axis((0, 24, 48, 72, 96), "columns of 512"),
            [Line(label, tuple((float(k), float(c)) for n, k, c in counted if n == name), kind)
             for name, label, kind in (("nvfp4", "block 16", "stroke accent"),
                                       ("mxfp4", "block 32", "stroke ink"))], height=230)

    return Figure(
        "scale-columns", "Scale factors take columns of the same pool",
        "Scale factors of A and B for a 128 x 256 tile. NVFP4 shares a scale among 16 elements, MX "
        "formats among 32, so NVFP4 takes twice the columns.",
        draw, Table(("format", "K", "columns"), tuple(counted)),
        (Evidence("derived", tmem.FORMULA),),
        "mmalab plan tmem --mma 128x256 --scales nvfp4 --stages 1", "B, figure 8")


#: Writes the numbers that are rounded.
_SAMPLE = ("python -c 'import numpy as n; n.save(\"x.npy\", n.random.default_rng(0)"
           ".standard_normal((256, 1024)))'")


def scale_accuracy() -> Figure:
    """Bits of an element against the error of rounding normal data to the format."""
    data = np.random.default_rng(0).standard_normal((256, 1024))
    rows = []
    for name in ("bf16", "fp8", "mxfp8", "mxfp6", "nvfp4", "mxfp4", "fp4"):
        plan = format_plan(name, rows=256, cols=1024, data=data)
        if plan.error is not None:
            rows.append((name, plan.bits_per_element, plan.error.relative_rms, plan.scale_columns))

    def draw(width: int) -> str:
        return bars(width, "error of formats on normal data", [
            Bar(f"{name}, {bits:g} bits", error, f"{100 * error:.2g} %",
                "accent" if name == "nvfp4" else "soft") for name, bits, error, _ in rows])

    return Figure(
        "scale-accuracy", "What finer scales buy",
        "Relative RMS error of rounding 262,144 standard normal numbers to each format. NVFP4's "
        "block of 16 and its scale with a mantissa beat MXFP4 for a quarter of a bit more.",
        draw, Table(("format", "bits per element", "relative RMS", "scale columns of 256 x 1024"),
                    tuple(rows)),
        (Evidence("computed here", "seed 0; " + block_formats.FORMULA),),
        f"{_SAMPLE} && mmalab plan formats nvfp4 --rows 256 --cols 1024 --data x.npy",
        "B, figure 8")


_CURVES = (("tcgen05", "plain", "tokens as M", "stroke accent"),
           ("tcgen05", "swapped", "tokens as N", "stroke ink"))


def decode() -> Figure:
    """Filled share of the reserved rows by batch, tokens as M and as N."""
    batches: Sequence[int] = range(1, 129)
    curves = {how: fill_table(unit, rows=batches, arrangement=how) for unit, how, _, _ in _CURVES}

    def draw(width: int) -> str:
        return lines(
            width, "filled share of the reserved accumulator by batch",
            Axis((1, 2, 4, 8, 16, 32, 64, 128), "sequences in the batch", log=True),
            Axis((0, 25, 50, 75, 100), "% of reserved rows filled", write="{:g}".format),
            [Line(words, tuple((f.rows, 100 * f.filled) for f in curves[how]), kind, dots=False,
                  lift=-12 if how == "plain" else 8)
             for _, how, words, kind in _CURVES], height=250)

    shown = (1, 4, 8, 16, 32, 48, 64, 65, 96, 128)
    pick = {how: {f.rows: f for f in curve} for how, curve in curves.items()}
    return Figure(
        "decode", "The decode penalty, and the way around it",
        "With tokens as M a tile has at least 64 rows, so a batch of 8 fills an eighth of what it "
        "reserves. With the operands swapped tokens are N, in steps of 8, and the same batch fills "
        "all of it.",
        draw,
        Table(("batch", "reserved, tokens as M", "filled, %", "reserved, tokens as N",
               "filled (N), %"),
              tuple((batch, pick["plain"][batch].reserved, 100 * pick["plain"][batch].filled,
                     pick["swapped"][batch].reserved, 100 * pick["swapped"][batch].filled)
                    for batch in shown)),
        (Evidence("derived", "rows / rows reserved"),
         Evidence("recorded elsewhere", "PTX ISA, tcgen05 matrix shapes")),
        "mmalab plan decode --rows 8 --target sm_100a", "B, figure 9")
