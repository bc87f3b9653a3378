"""Which CTA tile for one product: waves, edges, feeding, registers, Tensor Memory, shared memory.

    >>> best = search(8192, 8192, 8192, "bf16", on="H200")[0]
    >>> best.m, best.n, best.tiles, best.waves
    (256, 208, 1280, 10)

Every legal tile of the chip's instruction class is counted, and ranked by the product of three
shares:

    edges   M x N / (tiles x tile)                    rows and columns that nobody asked for
    waves   tiles / (ceil(tiles / SMs) x SMs)         SMs that idle in the last wave
    feed    min(1, limit / bytes per clock)           what can be brought to the tensor cores

where a tile needs (m + n) b rate / (2 m n) bytes per clock and SM. On Hopper the limit is what L2
gave shared memory on one H200 while its tensor cores ran: 43 bytes per clock and SM, 41 to 46 in
nine tiles. Elsewhere it is the 128 bytes per clock that shared memory itself delivers, which says
less. The product ranks tiles; it is no time: epilogue, prologue and power are not in it. (On that
H200, 8192^3 in bf16, 256 x 208 was the best of 62 configurations: 92.7 % of the peak at its clock,
against 95.5 % here.)

A tile is legal when its accumulators fit (two warpgroups of up to 208 registers, or two stages of
N columns of Tensor Memory), and three stages of 128-byte rows fit into shared memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.isa import Evidence
from mmalab.plan.asked import asked
from mmalab.plan.chips import Chip, Figure, chip
from mmalab.plan.smem import tile_stages
from mmalab.plan.traffic import SHARED_BYTES_PER_CLOCK

__all__ = ["FEED_LIMIT", "FORMULA", "SOURCE", "CtaTile", "fill_per_clock", "search"]

#: What the question rests on, in one line each.
FORMULA = ("edges = M N / (tiles m n); waves = tiles / (ceil(tiles / SMs) SMs); feed = min(1, "
           "limit / fill), fill = (m + n) b rate / (2 m n) bytes per clock and SM")
SOURCE = "PTX ISA, shapes; data sheets (plan chips); feeding measured on one H200, 2026-11-29"

#: Bytes per clock and SM that L2 brings into shared memory beside running tensor cores.
FEED_LIMIT: Mapping[str, Figure] = {
    "H200": Figure(43, "B/clk/SM", "measured on one H200, 2026-11-29: 41 to 46", Evidence.MEASURED),
    "H100 SXM": Figure(43, "B/clk/SM", "as the H200, the same die", Evidence.INFERRED),
}
_SHARED = Figure(SHARED_BYTES_PER_CLOCK, "B/clk/SM", "32 banks of 4 bytes", Evidence.DOCUMENTED)
#: Accumulator registers of a thread that leave room for the rest of the kernel.
_ACCUMULATORS = 208
_STAGES = 3
_WHERE = "mmalab.plan.tiles"

Unit = Literal["wgmma", "tcgen05"]


@dataclass(frozen=True, slots=True)
class CtaTile:
    """One tile m x n x k (k: 128 bytes of operand) for one product.

    `accumulators` are registers per thread (wgmma) or columns of Tensor Memory (tcgen05, two
    stages); `fill` bytes per clock and SM that it needs, `limit` those that it can get.
    """

    m: int
    n: int
    k: int
    unit: Unit
    tiles: int
    waves: int
    edges: float
    wave_share: float
    fill: float
    limit: float
    accumulators: int
    stages: int

    @property
    def feed(self) -> float:
        """Of the rate, as far as the operands arrive."""
        return min(1.0, self.limit / self.fill)

    @property
    def share(self) -> float:
        """Of the dense peak, as far as edges, waves and feeding decide."""
        return self.edges * self.wave_share * self.feed


def fill_per_clock(m: int, n: int, dtype: str, on: str | Chip, *, cluster: tuple[int, int] = (1, 1)
                   ) -> float:
    """Bytes per clock that an SM's shared memory is filled with while an m x n tile runs at the
    dense rate. `cluster` (along M, along N) CTAs share what they have in common by multicast.

    (m / cluster_n + n / cluster_m) b rate / (2 m n).

    Raises:
        UsageError: unknown chip or type, sizes that are not positive.
    """
    along_m, along_n = cluster
    if min(m, n, along_m, along_n) < 1:
        raise UsageError(f"a tile of {m} x {n}, a cluster of {along_m} x {along_n}", "is none",
                         legal="positive sizes", where=_WHERE)
    fmt = formats.get(dtype)
    rate = chip(on).rate(fmt.name).per_clock
    return (m / along_n + n / along_m) * fmt.bits / 8 * rate / (2 * m * n)


@asked
def search(m: int, n: int, k: int, dtype: str, *, on: str | Chip = "H200",
           cluster: tuple[int, int] = (1, 1)) -> tuple[CtaTile, ...]:
    """Every legal tile for an m x n x k product, the largest share first; of equals the larger
    tile. One persistent CTA on each SM.

    Raises:
        UsageError: a chip without wgmma or tcgen05, unknown types, sizes that are not positive.
    """
    row, fmt = chip(on), formats.get(dtype)
    if min(m, n, k) < 1:
        raise UsageError(f"{m} x {n} x {k}", "is no product", legal="positive sizes", where=_WHERE)
    unit = _unit(row)
    depth = 1024 // fmt.bits
    found = [_count((m, n), tile, depth, unit, row, fmt.name, cluster)
             for tile in _legal(unit)]
    usable = [tile for tile in found if tile.stages >= _STAGES]
    return tuple(sorted(usable, key=lambda tile: (-round(tile.share, 6), -tile.m * tile.n)))


def _unit(row: Chip) -> Unit:
    if row.capability == (9, 0):
        return "wgmma"
    if row.capability[0] in (10, 11):
        return "tcgen05"
    raise UsageError(f"tiles on {row.name}", "are for wgmma and tcgen05",
                     legal="H100, H200, B200, B300 ...", where=_WHERE)


def _legal(unit: Unit) -> Iterator[tuple[int, int, int]]:
    """(m, n, accumulators) of every tile."""
    for n in range(16, 257, 16):
        if unit == "tcgen05":
            yield 128, n, 2 * n
            continue
        for m in (128, 256):  # two warpgroups side by side along M
            registers = m * n // 256
            if registers <= _ACCUMULATORS:
                yield m, n, registers


def _count(product: tuple[int, int], tile: tuple[int, int, int], depth: int, unit: Unit, row: Chip,
           dtype: str, cluster: tuple[int, int]) -> CtaTile:
    m, n, accumulators = tile
    rows, columns = -(-product[0] // m), -(-product[1] // n)
    tiles, sms = rows * columns, int(row.sms)
    waves = -(-tiles // sms)
    fill = fill_per_clock(m, n, dtype, row, cluster=cluster)
    target = f"sm_{10 * row.capability[0] + row.capability[1]}a"
    stages = tile_stages(m, n, depth, dtype, target=target, epilogue=m * 128)
    return CtaTile(
        m=m, n=n, k=depth, unit=unit, tiles=tiles, waves=waves,
        edges=product[0] * product[1] / (tiles * m * n), wave_share=tiles / (waves * sms),
        fill=fill, limit=float(FEED_LIMIT.get(row.name, _SHARED)), accumulators=accumulators,
        stages=stages,
    )
