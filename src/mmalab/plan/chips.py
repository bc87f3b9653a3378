"""The chips as products: SMs, clocks, memory, and the tensor rates that data sheets print.

What one SM of a compute capability offers is in :mod:`mmalab.isa.targets`; here stands what a
*product* adds, each value with its source and how well it is known::

    >>> b200 = chip("B200")
    >>> int(b200.sms), b200.sms.evidence.value, b200.sms.source
    (148, 'documented', 'Chips and Cheese, December 2025: two dies with 74 of 80 SMs enabled')

A rate is counted per SM and clock, products and sums apart (2 M N K), for dense operands. A
published row keeps dense and sparse apart; `sparse` is None where the sheet prints none.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from mmalab.errors import UsageError
from mmalab.isa import Evidence, Limits
from mmalab.isa.targets import LIMITS, target

__all__ = ["CHIPS", "Chip", "Figure", "Published", "Rate", "chip", "chip_of"]


class Figure(float):
    """A number that knows its unit, source and evidence. It computes as the float it is."""

    unit: str
    source: str
    evidence: Evidence

    def __new__(cls, value: float, unit: str, source: str,
                evidence: Evidence = Evidence.DOCUMENTED) -> Self:
        """A figure of this value."""
        figure = super().__new__(cls, value)
        figure.unit, figure.source, figure.evidence = unit, source, evidence
        return figure

    def as_dict(self) -> dict[str, object]:
        """Value, unit, source and evidence as JSON-able data."""
        return {"value": float(self), "unit": self.unit, "source": self.source,
                "evidence": self.evidence.value}


@dataclass(frozen=True, slots=True)
class Rate:
    """Dense tensor operations per SM and clock of one operand type and accumulator."""

    dtype: str
    acc: str
    per_clock: int
    evidence: Evidence
    source: str


@dataclass(frozen=True, slots=True)
class Published:
    """One row of a data sheet, in 1e12 operations per second; `clock` in MHz if it is not the
    chip's."""

    dtype: str
    acc: str
    dense: float
    sparse: float | None
    source: str
    clock: float | None = None


#: Types that stand for another one's row.
_SAME_RATE = {"e5m2": "e4m3", "e2m3": "e3m2", "u8": "s8", "u4": "s4"}


@dataclass(frozen=True)
class Chip:
    """One product. `clock` (MHz) is the one that the data sheet's tensor rates count with."""

    name: str
    capability: tuple[int, int]
    sms: Figure
    clock: Figure
    memory: Figure
    bandwidth: Figure
    l2: Figure
    rates: tuple[Rate, ...]
    published: tuple[Published, ...]
    power: Figure | None = None
    notes: tuple[str, ...] = ()


    def rate(self, dtype: str, acc: str = "") -> Rate:
        """The rate of an operand type; of several accumulators the first (f32) unless `acc` says.

        Types of one width and kind share a row: e5m2 has e4m3's rate, u8 that of s8.

        Raises:
            UsageError: the chip's tensor cores have no such rate in the table.
        """
        for row in self.rates:
            if row.dtype in (dtype, _SAME_RATE.get(dtype)) and acc in ("", row.acc):
                return row
        raise UsageError(f"{dtype}{' with ' + acc if acc else ''} on {self.name}",
                         "has no tensor rate in the table",
                         legal=[f"{row.dtype}.{row.acc}" for row in self.rates],
                         where="mmalab.plan.chips")

    @property
    def limits(self) -> Limits | None:
        """What one SM offers; None for Volta, which the instruction table does not reach."""
        return LIMITS.get(self.capability)

    def as_dict(self) -> dict[str, object]:
        """The chip as JSON-able data, every value with its source."""
        figures = {name: getattr(self, name).as_dict()
                   for name in ("sms", "clock", "memory", "bandwidth", "l2")}
        return {
            "name": self.name, "capability": list(self.capability), **figures,
            "power": None if self.power is None else self.power.as_dict(),
            "rates": [asdict(row) for row in self.rates],
            "published": [asdict(row) for row in self.published], "notes": list(self.notes),
        }


_V100 = "NVIDIA Tesla V100 architecture whitepaper"
_T4 = "NVIDIA Turing architecture whitepaper"
_A100 = "NVIDIA A100 architecture whitepaper"
_GA102 = "NVIDIA GA102 architecture whitepaper, RTX 3090 column"
_ORIN = "NVIDIA Jetson AGX Orin technical brief, 64 GB module"
_ADA = "NVIDIA Ada architecture whitepaper, RTX 4090 column"
_H100 = "NVIDIA H100 architecture whitepaper"
_H200 = "NVIDIA H200 data sheet"
_B200 = "NVIDIA HGX B200 data sheet"
_GB200 = "NVIDIA GB200 NVL72 data sheet, one GPU"
_B300 = "NVIDIA HGX B300 data sheet"
_RTX5090 = "NVIDIA RTX Blackwell architecture whitepaper"
_SPARK = "NVIDIA DGX Spark data sheet"
_THOR = "NVIDIA Jetson T5000 data sheet"
_OURS = "own measurement, one H200, 2026-11-29"
_ARTICLE_A = "article A, its machine"
_SAME_DIE = "NVIDIA H100 architecture whitepaper (the same die, and the same rates on the sheet)"
_DIES = "Chips and Cheese, December 2025: two dies with 74 of 80 SMs enabled"


def _rates(source: str, evidence: Evidence, text: str) -> tuple[Rate, ...]:
    """Rates from ``dtype.acc=number`` words."""
    found = []
    for word in text.split():
        name, number = word.split("=")
        dtype, acc = name.split(".")
        found.append(Rate(dtype, acc, int(number), evidence, source))
    return tuple(found)


def _sheet(source: str, text: str) -> tuple[Published, ...]:
    """Data-sheet rows from ``dtype.acc=dense[/sparse][@MHz]`` words."""
    found = []
    for word in text.split():
        name, numbers = word.split("=")
        numbers, _, clock = numbers.partition("@")
        dtype, acc = name.split(".")
        dense, _, sparse = numbers.partition("/")
        found.append(Published(dtype, acc, float(dense), float(sparse) if sparse else None, source,
                               float(clock) if clock else None))
    return tuple(found)


def _product(name: str, capability: tuple[int, int], source: str, sizes: Sequence[float],
             rates: tuple[Rate, ...], published: str, **changed: Any) -> Chip:
    """A row: `sizes` are SMs, MHz, GB of memory, GB/s, MB of L2 and W, all out of `source`."""
    units = ("SMs", "MHz", "GB", "GB/s", "MB", "W")
    sms, clock, memory, bandwidth, l2, power = (
        Figure(value, unit, source) for value, unit in zip(sizes, units, strict=True))
    row = Chip(name, capability, sms, clock, memory, bandwidth, l2, rates,
               _sheet(source, published), power)
    return replace(row, **changed)


_HOPPER = ("f16.f32=4096 f16.f16=4096 bf16.f32=4096 tf32.f32=2048 e4m3.f32=8192 e4m3.f16=8192 "
           "s8.s32=8192")
_HOPPER_FP64 = "f64.f64=256"
_BLACKWELL = ("f16.f32=8192 bf16.f32=8192 tf32.f32=4096 e4m3.f32=16384 e3m2.f32=16384 "
              "e2m1.f32=32768 s8.s32=16384")
_GEFORCE = ("f16.f32=512 f16.f16=1024 bf16.f32=512 tf32.f32=256 e4m3.f32=1024 e4m3.f16=2048 "
            "s8.s32=2048")
_HOPPER_SHEET = ("f16.f32=989.4/1978.9 bf16.f32=989.4/1978.9 tf32.f32=494.7/989.4 "
                 "e4m3.f32=1978.9/3957.8 s8.s32=1978.9/3957.8 f64.f64=66.9@1980")
_BACKWARDS = "data-sheet rate over 148 SMs and 1.86 GHz (no document states it)"
_IMPLIED = Figure(1856, "MHz", "2250e12 / (148 * 8192)", Evidence.INFERRED)

#: Every product by name.
CHIPS: Mapping[str, Chip] = {
    row.name: row
    for row in (
        _product("V100", (7, 0), _V100, (80, 1530, 32, 900, 6, 300),
                 _rates(_V100, Evidence.DOCUMENTED, "f16.f32=1024 f16.f16=1024"), "f16.f32=125"),
        _product("T4", (7, 5), _T4, (40, 1590, 16, 320, 4, 70),
                 _rates(_T4, Evidence.DOCUMENTED,
                        "f16.f32=1024 f16.f16=1024 s8.s32=2048 s4.s32=4096"),
                 "f16.f32=65 s8.s32=130 s4.s32=260"),
        _product("A100", (8, 0), _A100, (108, 1410, 80, 2039, 40, 400),
                 _rates(_A100, Evidence.DOCUMENTED,
                        "f16.f32=2048 f16.f16=2048 bf16.f32=2048 tf32.f32=1024 s8.s32=4096 "
                        "s4.s32=8192 b1.s32=32768 f64.f64=128"),
                 "f16.f32=312/624 bf16.f32=312/624 tf32.f32=156/312 s8.s32=624/1248 "
                 "s4.s32=1248/2496 b1.s32=4992 f64.f64=19.5"),
        _product("RTX 3090", (8, 6), _GA102, (82, 1695, 24, 936, 6, 350),
                 _rates(_GA102, Evidence.DOCUMENTED,
                        "f16.f32=512 f16.f16=1024 bf16.f32=512 tf32.f32=256 s8.s32=2048 "
                        "s4.s32=4096"),
                 "f16.f32=71/142 f16.f16=142/284 bf16.f32=71/142 tf32.f32=35.6/71 s8.s32=284/568 "
                 "s4.s32=568/1136"),
        _product("AGX Orin", (8, 7), _ORIN, (16, 1300, 64, 204.8, 4, 60),
                 _rates(_ORIN, Evidence.DOCUMENTED,
                        "f16.f32=2048 f16.f16=2048 bf16.f32=2048 tf32.f32=1024 s8.s32=4096"),
                 "s8.s32=85/170"),
        _product("RTX 4090", (8, 9), _ADA, (128, 2520, 24, 1008, 72, 450),
                 _rates(_ADA, Evidence.DOCUMENTED, f"{_GEFORCE} s4.s32=4096"),
                 "f16.f32=165.2/330.4 f16.f16=330.3/660.6 bf16.f32=165.2/330.4 "
                 "tf32.f32=82.6/165.2 e4m3.f32=330.3/660.6 e4m3.f16=660.6/1321.2 "
                 "s8.s32=660.6/1321.2 s4.s32=1321.2/2642.4"),
        _product("RTX 4060 Laptop", (8, 9), "published specifications (third party)",
                 (24, 1672, 8, 256, 32, 40), _rates(_ADA, Evidence.DOCUMENTED, _GEFORCE), "",
                 sms=Figure(24, "SMs", _ARTICLE_A), memory=Figure(8, "GB", _ARTICLE_A),
                 power=Figure(40, "W", _ARTICLE_A),
                 clock=Figure(1672, "MHz", "article A: held by the swizzled BF16 kernel at 40 W"),
                 notes=("article A's machine; its clock is the one that its kernel ran at",)),
        _product("H100 SXM", (9, 0), _H100, (132, 1830, 80, 3352, 50, 700),
                 _rates(_H100, Evidence.DOCUMENTED, f"{_HOPPER} {_HOPPER_FP64}"), _HOPPER_SHEET,
                 notes=("FP64 counts with 1980 MHz, all other tensor rates with 1830 MHz",)),
        _product("H100 PCIe", (9, 0), _H100, (114, 1620, 80, 2000, 50, 350),
                 _rates(_H100, Evidence.DOCUMENTED, _HOPPER),
                 "f16.f32=756/1513 bf16.f32=756/1513 tf32.f32=378/756 e4m3.f32=1513/3026 "
                 "s8.s32=1513/3026"),
        _product("H200", (9, 0), _H200, (132, 1830, 141, 4800, 50, 700),
                 _rates(_OURS, Evidence.MEASURED, _HOPPER)
                 + _rates(_H100, Evidence.DOCUMENTED, _HOPPER_FP64), _HOPPER_SHEET,
                 sms=Figure(132, "SMs", _OURS, Evidence.MEASURED),
                 clock=Figure(1830, "MHz", _SAME_DIE), l2=Figure(50, "MB", _SAME_DIE),
                 notes=("wgmma reached 100.0 % of its rates (N >= 64), mma.sync 66.7 % of bf16",
                        "copies reached 4.28 TB/s, reads 4.57 TB/s",
                        "the driver reports 60 MB of L2, the sheet 50")),
        _product("B200", (10, 0), _B200, (148, 1856, 180, 8000, 126, 1000),
                 _rates(_BACKWARDS, Evidence.INFERRED, _BLACKWELL),
                 "f16.f32=2250/4500 bf16.f32=2250/4500 tf32.f32=1125/2250 e4m3.f32=4500/9000 "
                 "e3m2.f32=4500/9000 e2m1.f32=9000/18000 s8.s32=4500/9000",
                 sms=Figure(148, "SMs", _DIES), clock=_IMPLIED,
                 l2=Figure(126, "MB", "device queries by others; no sheet prints it",
                           Evidence.INFERRED),
                 notes=("article B counts 8.0 TB/s; newer sheets print 7.7 TB/s",)),
        _product("GB200", (10, 0), _GB200, (148, 2062, 186, 8000, 126, 1200),
                 _rates(_BACKWARDS, Evidence.INFERRED, _BLACKWELL),
                 "f16.f32=2500/5000 bf16.f32=2500/5000 tf32.f32=1250/2500 e4m3.f32=5000/10000 "
                 "e3m2.f32=5000/10000 e2m1.f32=10000/20000 s8.s32=5000/10000",
                 sms=Figure(148, "SMs", _DIES),
                 clock=Figure(2062, "MHz", "2500e12 / (148 * 8192)", Evidence.INFERRED),
                 l2=Figure(126, "MB", "device queries by others; no sheet prints it",
                           Evidence.INFERRED),
                 notes=("one GPU of the superchip",)),
        _product("B300", (10, 3), _B300, (148, 1856, 288, 8000, 126, 1100),
                 _rates(_BACKWARDS, Evidence.INFERRED,
                        "f16.f32=8192 bf16.f32=8192 tf32.f32=4096 e4m3.f32=16384 e3m2.f32=16384 "
                        "e2m1.f32=49152"),
                 "f16.f32=2250/4500 bf16.f32=2250/4500 tf32.f32=1125/2250 e4m3.f32=4500/9000 "
                 "e3m2.f32=4500/9000 e2m1.f32=13500/18000",
                 sms=Figure(148, "SMs", _DIES, Evidence.INFERRED), clock=_IMPLIED,
                 l2=Figure(126, "MB", "as B200", Evidence.INFERRED),
                 notes=("dense FP4 is 1.5 times B200's: K = 96 instructions",
                        "INT8 is 0.15 POPS dense: no tensor rate worth planning with")),
        _product("Thor T5000", (11, 0), _THOR, (20, 1579, 128, 273, 32, 130),
                 _rates("B200's rates; 2070e12 sparse FP4 then needs 1.58 GHz",
                        Evidence.INFERRED, "f16.f32=8192 bf16.f32=8192 e4m3.f32=16384 "
                        "e2m1.f32=32768"),
                 "e2m1.f32=1035/2070",
                 sms=Figure(20, "SMs", "NVIDIA developer forum 356355: driver query"),
                 l2=Figure(32, "MB", "NVIDIA developer forum 356355: driver query"),
                 clock=Figure(1579, "MHz", "1035e12 / (20 * 32768)", Evidence.INFERRED)),
        _product("RTX 5090", (12, 0), _RTX5090, (170, 2407, 32, 1792, 96, 575),
                 _rates(_RTX5090, Evidence.DOCUMENTED, f"{_GEFORCE} e2m1.f32=4096"),
                 "f16.f32=209.5/419 f16.f16=419/838 bf16.f32=209.5/419 tf32.f32=104.8/209.5 "
                 "e4m3.f32=419/838 e4m3.f16=838/1676 s8.s32=838/1676 e2m1.f32=1676/3352"),
        _product("GB10", (12, 1), _SPARK, (48, 2525, 128, 273, 24, 140),
                 _rates("as RTX 5090, the same SM", Evidence.INFERRED,
                        f"{_GEFORCE} e2m1.f32=4096"),
                 "e2m1.f32=500/1000",
                 l2=Figure(24, "MB", "device queries by others", Evidence.INFERRED),
                 clock=Figure(2525, "MHz", "about 31 TFLOPS of FP32 over 48 * 256",
                              Evidence.INFERRED)),
    )
}


def chip(name: str | Chip) -> Chip:
    """The product called `name` (any case, with or without spaces), or the usual one of a target.

    Raises:
        UsageError: no such product; the message lists those that exist.
    """
    if isinstance(name, Chip):
        return name
    plain = _plain(name) if isinstance(name, str) else ""
    for row in CHIPS.values():
        if plain in (_plain(row.name), _plain(row.name).removeprefix("rtx")):
            return row
    if plain.startswith(("sm", "compute")):
        return chip_of(name)
    aliases = {_plain(row.name): row.name for row in CHIPS.values()}
    near = difflib.get_close_matches(plain, aliases, n=3, cutoff=0.4)
    raise UsageError(f"chip {name!r}", "is not in the table",
                     legal=[aliases[n] for n in near] or list(CHIPS), where="mmalab.plan.chips")


def _plain(name: str) -> str:
    return "".join(ch for ch in name.lower() if ch.isalnum()).removesuffix("sxm")


def chip_of(name: str) -> Chip:
    """The usual product of a target: H200 for sm_90a, B200 for sm_100a.

    Raises:
        UsageError: no such target, or no product with its capability in the table.
    """
    capability = target(name).capability
    usual = {(9, 0): "H200"}.get(capability)
    found = usual or next((c.name for c in CHIPS.values() if c.capability == capability), None)
    if found is None:
        known = sorted({f"sm_{10 * a + b}" for a, b in (c.capability for c in CHIPS.values())})
        raise UsageError(f"target {name}", "has no product in the table", legal=known,
                         where="mmalab.plan.chips")
    return CHIPS[found]
