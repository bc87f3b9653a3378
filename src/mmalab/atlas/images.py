"""Which built images run on which device: cubins by chip, PTX by what the driver compiles.

A build holds machine code (``sm_100a``) and PTX (``compute_100f``). Machine code runs on its chip
and on later minor revisions of the same major (plain), of the family (``f``), or on that chip alone
(``a``); PTX is compiled by the driver for any later chip (plain), one of the family, or that chip::

    >>> [row.runs for row in coverage(["sm_100a", "sm_100f"], ["10.3"])]
    [False, True]
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mmalab.errors import UsageError
from mmalab.isa.targets import LIMITS, TARGETS, Target, runs_on
from mmalab.isa.targets import target as target_row

__all__ = ["Coverage", "coverage", "device_of"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether one image runs on one device; `instead` are images that would, nearest first."""

    image: str
    device: str
    runs: bool
    reason: str
    instead: tuple[str, ...] = ()


def coverage(images: Iterable[str], devices: Iterable[str] | None = None) -> tuple[Coverage, ...]:
    """Every image on every device.

    Args:
        images: ``sm_90a`` machine code, ``compute_90a`` PTX.
        devices: compute capabilities, ``"10.3"`` or ``"sm_103"``; None for every chip.

    Raises:
        UsageError: no such image or device.
    """
    chips = [device_of(name) for name in devices] if devices is not None else [
        TARGETS[f"sm_{major}{minor}"] for major, minor in LIMITS]
    return tuple(_cover(image, chip) for image in images for chip in chips)


def device_of(name: str) -> Target:
    """The chip of a compute capability: ``10.3``, ``sm_103``, ``103``.

    Raises:
        UsageError: no such chip.
    """
    number = name.removeprefix("sm_").replace(".", "")
    chip = TARGETS.get(f"sm_{number}")
    if chip is None:
        raise UsageError(f"device {name!r}", "is not a compute capability of the table",
                         legal=[f"{major}.{minor}" for major, minor in LIMITS],
                         where="a device reports two numbers, never a letter")
    return chip


def _cover(image: str, chip: Target) -> Coverage:
    if not image.startswith(("sm_", "compute_")):
        raise UsageError(f"image {image!r}", "is neither machine code nor PTX",
                         legal=["sm_100a", "compute_100f"], where="nvcc -gencode")
    row, compiled = target_row(image), image.startswith("sm_")
    runs = runs_on(row, chip) and not (
        compiled and not row.suffix and row.number // 10 != chip.number // 10)
    device = f"{chip.number // 10}.{chip.number % 10}"
    kind = "machine code" if compiled else "PTX"
    instead = () if runs else _instead(row, chip, compiled)
    return Coverage(image, device, runs, f"{kind} {_rule(row, compiled)}", instead)


def _rule(row: Target, compiled: bool) -> str:
    number = f"{row.number // 10}.{row.number % 10}"
    match row.suffix:
        case "a":
            return f"with suffix a runs on {number} and on nothing else"
        case "f":
            return f"with suffix f runs on {number} and later chips of its family"
    if compiled:
        return f"runs on {number} and later minor revisions of {row.number // 10}.x"
    return f"is compiled by the driver for {number} and everything later"


def _instead(row: Target, chip: Target, compiled: bool) -> tuple[str, ...]:
    """What to build as well: the family where both are of one, then the chip itself."""
    word = "sm" if compiled else "compute"
    found = []
    if row.family and row.family == chip.family:
        found.append(f"{word}_{min(row.number, chip.number)}f")
    found.append(f"{word}_{chip.number}{row.suffix if row.suffix == 'a' else ''}")
    return tuple(name for name in dict.fromkeys(found)
                 if name.partition("_")[2] in {t.removeprefix("sm_") for t in TARGETS})
