"""Decode: a product with few rows, and the tile that it reserves all the same.

    >>> row = fill(8, "tcgen05")
    >>> row.reserved, row.filled
    (64, 0.125)
    >>> fill(8, "tcgen05", arrangement="swapped").filled      # tokens as N, in steps of 8
    1.0

The rows of a decode step are the sequences of the batch (times the tokens that speculation adds).
M is 64 at least for tcgen05 and wgmma (32 with tcgen05.mma.ws), so the accumulator keeps columns of
Tensor Memory, or registers, for rows that nobody fills. Swapping the operands makes the weights M
and the tokens N.

The roofline (:mod:`mmalab.plan.roofline`) says what else binds.

Sources: PTX ISA (shapes); article B, figure 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import legal_sizes
from mmalab.plan.aligned import aligned, bar
from mmalab.plan.asked import asked
from mmalab.plan.chips import chip, chip_of
from mmalab.plan.roofline import Roofline, crossover, knee, roofline

__all__ = ["FORMULA", "SOURCE", "UNITS", "Decode", "Fill", "Grouped", "Roofline", "crossover",
           "decode", "fill", "fill_table", "grouped", "knee", "roofline", "units_of"]

_WHERE = "mmalab.plan.decode"
#: Rows from decode to prefill.
_SWEEP = (1, 8, 32, 128, 512, 2048, 8192)
#: What the question rests on, in one line each.
FORMULA = ("filled = rows / reserved; memory = (weights + activations + results) / bandwidth; "
           "math = 2 M N K / peak; knee = peak x bytes per weight / (2 x bandwidth)")
SOURCE = "PTX ISA, matrix shapes; data sheets (plan chips); lower bounds on time"


@dataclass(frozen=True, slots=True)
class Fill:
    """Rows asked for against rows reserved, of one instruction class and arrangement. `tiles`
    instructions stand below each other."""

    rows: int
    unit: str
    arrangement: str
    reserved: int
    tiles: int = 1

    @property
    def filled(self) -> float:
        """rows / reserved."""
        return self.rows / self.reserved

    def __str__(self) -> str:
        return (f"{self.unit} {self.arrangement}: {self.rows} of {self.reserved} rows "
                f"({100 * self.filled:.1f} %)")


def _up(rows: int, step: int) -> int:
    return -(-rows // step) * step


def _by_tiles(tiles: Sequence[int]) -> Callable[[int], tuple[int, int]]:
    """Rows reserved when M is one of `tiles`: the smallest that holds them, else several."""

    def reserved(rows: int) -> tuple[int, int]:
        for tile in tiles:
            if rows <= tile:
                return tile, 1
        # The last tile may be a smaller one.
        whole, rest = divmod(rows, tiles[-1])
        more = next((tile for tile in tiles if rest <= tile), 0) if rest else 0
        return whole * tiles[-1] + more, whole + bool(rest)

    return reserved


def _by_steps(step: int, most: int) -> Callable[[int], tuple[int, int]]:
    """Rows reserved when they are N, in steps up to `most` an instruction."""
    return lambda rows: (_up(rows, step), -(-rows // most))


_M = {unit: legal_sizes("f16", ws=unit == "tcgen05.ws")[0] for unit in ("tcgen05", "tcgen05.ws")}
_N_STEP = legal_sizes("f16")[1][0]
#: Rows reserved by unit and arrangement: from rows to (reserved, instructions).
UNITS: dict[tuple[str, str], Callable[[int], tuple[int, int]]] = {
    ("tcgen05", "plain"): _by_tiles(_M["tcgen05"]),
    ("tcgen05", "swapped"): _by_steps(_N_STEP, 256),
    ("tcgen05.ws", "plain"): _by_tiles(_M["tcgen05.ws"]),
    ("tcgen05.ws", "swapped"): _by_tiles(legal_sizes("f16", ws=True)[1]),
    ("wgmma", "plain"): _by_tiles((64,)),
    ("wgmma", "swapped"): _by_steps(8, 256),
    ("mma.sync", "plain"): _by_steps(16, 16),
    ("mma.sync", "swapped"): _by_steps(8, 8),
}


def fill(rows: int, unit: str, *, arrangement: str = "plain") -> Fill:
    """Rows reserved by ``tcgen05``, ``tcgen05.ws``, ``wgmma`` or ``mma.sync`` for `rows` tokens.

    `arrangement` plain (tokens are M) or swapped (tokens are N). Reserved: the smallest tile of M
    that holds them (64, 128; ws 32, 64, 128; wgmma 64; mma.sync 16), or rows rounded up to the step
    of N (8; ws 64, 128, 256).

    Raises:
        UsageError: unknown unit or arrangement, no rows.
    """
    reserve = UNITS.get((unit, arrangement))
    if reserve is None:
        raise UsageError(f"{unit} {arrangement}", "is no instruction class and arrangement",
                         legal=[" ".join(pair) for pair in UNITS], where=_WHERE)
    if rows < 1:
        raise UsageError(f"{rows} rows", "is no product", legal="from 1", where=_WHERE)
    reserved, tiles = reserve(rows)
    return Fill(rows, unit, arrangement, reserved, tiles)


def fill_table(unit: str = "tcgen05", *, rows: Sequence[int] = range(1, 257),
               arrangement: str = "plain") -> tuple[Fill, ...]:
    """The curve of article B's figure 9: filled share against batch."""
    return tuple(fill(count, unit, arrangement=arrangement) for count in rows)


def units_of(target: str) -> tuple[tuple[str, str], ...]:
    """The instruction classes and arrangements that a target has for f16."""
    name = isa.target(target).name
    probes = {"tcgen05": "tcgen05.mma.cta_group::1.kind::f16",
              "tcgen05.ws": "tcgen05.mma.ws.cta_group::1.kind::f16",
              "wgmma": "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
              "mma.sync": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"}
    has = {unit for unit, opcode in probes.items()
           if name in isa.parse_targets(isa.find(opcode).targets)}
    return tuple(pair for pair in UNITS if pair[0] in has)


@dataclass(frozen=True)
class Grouped:
    """Experts with their tokens: rows reserved when each gets its own tiles, and when all get the
    tiles of the largest (one allocation for the worst case)."""

    tokens: tuple[int, ...]
    unit: str
    arrangement: str
    reserved: int
    worst_case: int

    @property
    def filled(self) -> float:
        """Tokens / rows reserved, a tile for each expert."""
        return sum(self.tokens) / self.reserved

    @property
    def filled_worst_case(self) -> float:
        """Tokens / rows reserved, the largest expert's tiles for all."""
        return sum(self.tokens) / self.worst_case


def grouped(tokens: Sequence[int], *, unit: str = "tcgen05", arrangement: str = "plain"
            ) -> Grouped:
    """Experts that each get their own tile, as routing leaves them; experts without tokens get none
    (in the worst case they do).

    Raises:
        UsageError: no token at all, a negative count, an unknown unit.
    """
    if not tokens or min(tokens) < 0 or not sum(tokens):
        raise UsageError(f"tokens {list(tokens)}", "are none", legal="counts from 0, one above 0",
                         where=_WHERE)
    reserved = sum(fill(count, unit, arrangement=arrangement).reserved for count in tokens if count)
    worst = len(tokens) * fill(max(tokens), unit, arrangement=arrangement).reserved
    return Grouped(tuple(tokens), unit, arrangement, reserved, worst)


@dataclass(frozen=True)
class Decode:
    """One decode step: how every instruction class of the target is filled, and the roofline.

    `curve` is the fill of the target's largest unit for 1 to 256 rows; `sweep` the roofline of the
    same weights from one row (decode) to thousands (prefill).
    """

    target: str
    chip: str
    rows: int
    speculative: int
    fills: tuple[Fill, ...]
    roofline: Roofline | None
    curve: tuple[Fill, ...]
    sweep: tuple[Roofline, ...] = ()

    @property
    def best(self) -> Fill:
        """The fullest arrangement."""
        return max(self.fills, key=lambda item: item.filled)

    def table(self) -> str:
        """Classes with their bars, then the roofline."""
        tokens = self.rows * self.speculative
        head = f"{self.rows} sequences x {self.speculative} tokens = {tokens} rows on {self.target}"
        rows = [(item.unit, "M" if item.arrangement == "plain" else "N", item.reserved,
                 f"{100 * item.filled:.1f} %", bar(item.filled)) for item in self.fills]
        lines = [head, aligned(rows, ("instruction", "tokens as", "reserved", "filled", ""))]
        if self.roofline:
            lines.append(str(self.roofline))
        if self.sweep:
            steps = [(line.rows, f"{1e6 * line.memory_seconds:.2f}",
                      f"{1e6 * line.math_seconds:.2f}", line.bound,
                      f"{1e6 * line.seconds / line.rows:.3f}") for line in self.sweep]
            lines.append(aligned(steps, ("rows", "memory us", "math us", "bound", "us a row")))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The step as JSON-able data."""
        def plain(item: Fill) -> dict[str, Any]:
            return {**asdict(item), "filled": item.filled}

        found: dict[str, Any] = {
            "target": self.target, "chip": self.chip, "rows": self.rows,
            "speculative": self.speculative, "fills": [plain(item) for item in self.fills],
            "best": plain(self.best), "curve": [plain(item) for item in self.curve],
            "reserved": self.fills[0].reserved, "filled": self.fills[0].filled,
            "roofline": None, "sweep": [asdict(line) for line in self.sweep],
        }
        if self.roofline:
            found["roofline"] = {**asdict(self.roofline), "bound": self.roofline.bound,
                                 "seconds": self.roofline.seconds,
                                 "l2_share": self.roofline.l2_share}
        return found


@asked
def decode(rows: int, *, target: str, n: int | None = None, k: int | None = None,
           weights: str = "bf16", speculative: int = 1, on: str | None = None) -> Decode:
    """One decode step of `rows` sequences with `speculative` tokens each, on a target's chip.

    The roofline is there when `n` and `k` are (the weights are n x k). `on` names the product where
    the usual one of the target is not meant.

    Raises:
        UsageError: unknown target, chip or format, sizes that are not positive.
    """
    if rows < 1 or speculative < 1 or (n is None) != (k is None):
        raise UsageError(f"{rows} sequences x {speculative} tokens, n = {n}, k = {k}",
                         "is no decode step", legal="counts from 1, n and k together", where=_WHERE)
    product = chip(on) if on else chip_of(target)
    tokens = rows * speculative
    pairs = units_of(target)
    if not pairs:
        raise UsageError(f"f16 products on {target}", "do not exist", legal="sm_75 and later",
                         where=_WHERE)
    line: Roofline | None = None
    sweep: tuple[Roofline, ...] = ()
    if n is not None and k is not None:
        line = roofline(tokens, n, k, weights, on=product)
        sweep = tuple(roofline(count, n, k, weights, on=product) for count in _SWEEP)
    return Decode(
        target=isa.target(target).name, chip=product.name, rows=rows, speculative=speculative,
        fills=tuple(fill(tokens, unit, arrangement=how) for unit, how in pairs), roofline=line,
        curve=fill_table(pairs[0][0]), sweep=sweep,
    )
