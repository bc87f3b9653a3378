"""Which built images run on which device: cubins by chip, PTX by what the driver compiles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Coverage", "coverage"]


@dataclass(frozen=True, slots=True)
class Coverage:
    """Whether one image (``sm_100a`` a cubin, ``compute_100f`` PTX) runs on one device."""

    image: str
    device: str
    runs: bool
    reason: str
    instead: tuple[str, ...] = ()


def coverage(images: Iterable[str], devices: Iterable[str] | None = None) -> tuple[Coverage, ...]:
    """Every image on every device (``"10.3"`` or ``"sm_103"``; None: all chips)."""
    raise NotImplementedError
