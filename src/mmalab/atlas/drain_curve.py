"""The drain curve: registers per thread that ``tcgen05.ld`` of each shape and xN costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = ["DrainPoint", "drain"]


@dataclass(frozen=True, slots=True)
class DrainPoint:
    """One load: `loaded` 32-bit values per thread, `registers` what the kernel then takes."""

    shape: str
    num: int
    loaded: int
    registers: int
    spills: int
    opcodes: Mapping[str, int]
    target: str
    toolkit: str
    ptx: str

    @property
    def overhead(self) -> int:
        """Registers beyond the values."""
        return self.registers - self.loaded


def drain(
    shapes: Iterable[str] | None = None,
    toolkit: str | None = None,
    *,
    target: str = "sm_100a",
    opt_level: int = 3,
) -> tuple[DrainPoint, ...]:
    """Widen the load, store every register, read ``ptxas -v``; shapes None: all five."""
    raise NotImplementedError
