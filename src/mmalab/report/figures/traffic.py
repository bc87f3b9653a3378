"""Bytes: what the accumulator and the operands move, and what shared memory's banks do with it."""

from __future__ import annotations

from mmalab.layouts import Swizzle
from mmalab.plan import banks, traffic
from mmalab.plan.banks import BankAccess
from mmalab.plan.chips import chip
from mmalab.plan.traffic import invariance
from mmalab.report.charts import Axis, Line, Mark, lines
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.svg import Scale, Svg

__all__ = ["bank_groups", "invariant", "operand_share", "passes_of"]

#: The rows of the invariance that follow the rule of 256 bits, by the name that people use.
_LADDER = {"f16 (f16)": "FP16", "e4m3 (f8f6f4)": "FP8", "e2m1 (mxf4)": "FP4"}


def invariant() -> Figure:
    """Bytes per FLOP halve as the rate doubles: the product stays."""
    rows = [row for row in invariance(128, 256, on="B200") if row.name in _LADDER]
    table = tuple((_LADDER[row.name], row.k, row.accumulator, row.peak / 1e15, row.accumulator_tb_s)
                  for row in rows)

    def draw(width: int) -> str:
        heads = ("bytes per FLOP", "PFLOP/s, dense", "TB/s of accumulator")
        left, gap = 44.0, 16.0
        each = (width - left - 2 * gap) / 3
        drawing = Svg(width, 40 + 34 * len(table), "accumulator traffic by number format")
        for column, head in enumerate(heads):
            x = left + column * (each + gap)
            words = head.split(",")[0].split(" of ")[0] if width < 420 else head
            drawing.text(x, 12, words, "muted")
            values = [float(row[2 + column]) for row in table]
            scale = Scale(0, max(values), 0, each - 48)
            for at, value in enumerate(values):
                y = 26 + 34 * at
                drawing.box(x, y, scale(value), 16, "accent" if column == 2 else "soft")
                drawing.text(x + scale(value) + 6, y + 13, f"{value:.4g}", "number")
        for at, row in enumerate(table):
            drawing.text(0, 26 + 34 * at + 13, row[0])
        return str(drawing)

    sms = float(chip("B200").sms)
    return Figure(
        "invariance", "The invariance: one bandwidth for every number format",
        "An instruction reads and writes its accumulator: 4 / K bytes per FLOP. K is 256 bits of "
        f"operand, so halving the width halves the traffic just as the rate doubles: "
        f"{rows[0].accumulator_tb_s:.1f} TB/s on a B200, "
        f"{rows[0].accumulator_tb_s / sms:.2f} in each SM, in all three.",
        draw, Table(("format", "K", "bytes per FLOP", "PFLOP/s", "TB/s"), table),
        (Evidence("derived", traffic.FORMULA),
         Evidence("recorded elsewhere", traffic.SOURCE)),
        "mmalab plan traffic --mma 128x256 --dtype f16", "B, figure 5")


_EDGES = (64, 96, 128, 160, 192, 224, 256)


def operand_share() -> Figure:
    """Operand bytes per clock of one SM against what shared memory delivers."""
    shapes = {"64 x N (wgmma, H200)": (64, "H200"), "128 x N (tcgen05, B200)": (128, "B200")}
    found = {name: [(n, traffic.traffic(m, n, "f16", on=on)) for n in _EDGES]
             for name, (m, on) in shapes.items()}

    def draw(width: int) -> str:
        return lines(
            width, "share of shared memory's bandwidth that operands take",
            Axis(_EDGES[::2], "N of the instruction"),
            Axis((0, 50, 100, 150, 200), "% of 128 bytes per clock"),
            [Line(f"M = {shapes[name][0]}, {shapes[name][1]}",
                  tuple((float(n), 100 * row.shared_share) for n, row in rows), kind, lift=lift)
             for (name, rows), kind, lift in zip(found.items(), ("stroke ink", "stroke accent"),
                                                 (-8, 4), strict=True)],
            marks=(Mark(100, "all that shared memory delivers"),), height=230)

    return Figure(
        "operands", "Why tiles grew: the operands' way through shared memory",
        "FP16 operands that an instruction reads from shared memory at its peak rate, as a share "
        "of the 128 bytes that shared memory delivers in a clock: above 100 % the tensor core "
        "waits.",
        draw,
        Table(("N", *found), tuple((n, *(100 * dict(rows)[n].shared_share
                                         for rows in found.values())) for n in _EDGES)),
        (Evidence("derived", "(M + N) b / (2 M N) bytes per FLOP x FLOP per clock / 128"),),
        "mmalab plan traffic --mma 128x256 --dtype f16", "B, section 5")


# --- banks ----------------------------------------------------------------------------------------

#: Three layouts of a tile with 32 BF16 values a row.
_LAYOUTS: dict[str, dict[str, object]] = {
    "plain": {}, "padded by 16 bytes": {"pad": 16},
    "Swizzle<2,3,3>": {"swizzle": Swizzle(2, 3, 3), "dtype": "bf16"},
}


def passes_of(access: BankAccess) -> list[int]:
    """In which wavefront each row is served: rows that meet in a bank group go one by one."""
    seen: dict[int, int] = {}
    found = []
    for group in access.groups:
        seen[group] = seen.get(group, 0) + 1
        found.append(seen[group])
    return found


def bank_groups() -> Figure:
    """Where the eight rows of an ldmatrix fall in the eight bank groups."""
    found = {name: banks.ldmatrix(8, 64, **how)  # type: ignore[arg-type]
             for name, how in _LAYOUTS.items()}

    def draw(width: int) -> str:
        narrow = width < 420
        across = 1 if narrow else 3
        each = (width - 24 * (across - 1)) / across
        cell = min(30.0, (each - 30) / 8)
        block = 8 * cell + 66
        rows = -(-len(found) // across)
        drawing = Svg(width, block * rows, "bank groups of eight rows in three layouts")
        for at, (name, access) in enumerate(found.items()):
            x = (at % across) * (each + 24)
            _groups(drawing, name, access, x, (at // across) * block, cell)
        return str(drawing)

    return Figure(
        "banks", "Bank conflicts: plain, padded, swizzled",
        "Eight rows of 16 bytes that one ldmatrix reads (down), and the bank group that each falls "
        "into (across). Rows that share a group are served one after the other; the number is the "
        "wavefront.",
        draw,
        Table(("layout", "bank groups of rows 0 to 7", "wavefronts", "ideal"),
              tuple((name, " ".join(map(str, access.groups)), access.passes, access.ideal)
                    for name, access in found.items())),
        (Evidence("derived", "the bank group of a byte address is address / 16 mod 8"),
         Evidence("measured", "NVIDIA H200, 2026-11-29, Nsight Compute: 16, 4 and 4 wavefronts for "
                              "each ldmatrix.x4 on these layouts")),
        "mmalab banks --rows 8 --pitch 64 --swizzle 2,3,3 --dtype bf16", "A, step 3", wide=True)


def _groups(drawing: Svg, name: str, access: BankAccess, x: float, y: float, cell: float) -> None:
    """One layout as a grid of rows by bank groups."""
    drawing.text(x, y + 12, name)
    drawing.text(x + 24 + 8 * cell, y + 12, f"{access.passes} wavefront{'s' * (access.passes > 1)}",
                 "words warn" if access.passes > access.ideal else "number", anchor="end")
    turns = passes_of(access)
    for row, (group, turn) in enumerate(zip(access.groups, turns, strict=True)):
        top = y + 22 + row * cell
        drawing.text(x + 16, top + cell / 2 + 4, row, "muted", anchor="end")
        for column in range(8):
            hit = column == group
            kind = ("warn" if turn > 1 else "accent") if hit else "well"
            drawing.box(x + 24 + column * cell, top, cell - 2, cell - 2, kind,
                        f"row {row}: bank group {group}, wavefront {turn}" if hit else "", radius=2)
        drawing.text(x + 24 + group * cell + (cell - 2) / 2, top + cell / 2 + 3, turn, "on-accent",
                     anchor="middle")
    for column in range(8):
        drawing.text(x + 24 + column * cell + (cell - 2) / 2, y + 36 + 8 * cell, column, "muted",
                     anchor="middle")
