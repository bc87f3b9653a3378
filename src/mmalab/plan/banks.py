"""Bank conflicts of shared-memory accesses, counted before a kernel is written.

``ldmatrix`` answers the question of every matmul: eight rows of 16 bytes, some pitch apart, do they
fall into eight different bank groups? Three layouts of a tile with 32 BF16 values a row:

    >>> print(ldmatrix(8, 64).line())
    rows 0-7 -> bank groups [0, 4, 0, 4, 0, 4, 0, 4]  passes needed: 4
    >>> print(ldmatrix(8, 64, pad=16).line())
    rows 0-7 -> bank groups [0, 5, 2, 7, 4, 1, 6, 3]  passes needed: 1
    >>> print(ldmatrix(8, 64, swizzle=Swizzle(2, 3, 3), dtype="bf16").line())
    rows 0-7 -> bank groups [0, 4, 1, 5, 2, 6, 3, 7]  passes needed: 1

A load of 32-bit fragments takes four values of each of eight rows:

    >>> [ldmatrix(8, 4 * pitch, size=4, columns=4).passes for pitch in (32, 36, 40)]
    [8, 1, 2]

A bank group is as many banks as one access is wide: 16 bytes are 4 of the 32 banks, so there are
8 groups. ``access`` takes any addresses of a warp, and ``wavefronts`` many accesses at once; the
model itself is in :mod:`mmalab.layouts.banks`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.layouts import Swizzle
from mmalab.layouts.banks import BANK_BYTES, BANKS, lanes_together, wavefronts
from mmalab.plan.asked import asked

#: Accesses and bytes of one question: more than any SM has.
_LANES, _BYTES = 1 << 16, 1 << 30

__all__ = ["BankAccess", "access", "byte_swizzle", "ldmatrix", "wavefronts"]


@dataclass(frozen=True)
class BankAccess:
    """What shared memory does with one column of rows (or with one warp's addresses).

    `groups` has the bank group of every row, `phases` the passes of every set of lanes that are
    served together, `passes` their sum and `ideal` what conflict-free rows would take.
    """

    size: int
    addresses: tuple[int, ...]
    groups: tuple[int, ...]
    phases: tuple[int, ...]
    ideal: int
    pitch: int | None = None
    swizzle: str | None = None
    #: Neighbouring accesses of each row, by neighbouring lanes.
    columns: int = 1

    @property
    def passes(self) -> int:
        """Wavefronts for all rows."""
        return sum(self.phases)

    @property
    def ways(self) -> int:
        """The worst conflict: 1 is none, 4 is a 4-way conflict."""
        return max(self.phases, default=0)

    def line(self) -> str:
        """The first set of rows in one line: its bank groups and its passes."""
        together = min(lanes_together(self.size), len(self.groups))
        return (
            f"{self._what}s 0-{together - 1} -> bank groups {list(self.groups[:together])}  "
            f"passes needed: {self.phases[0]}"
        )

    @property
    def _what(self) -> str:
        return "row" if self.columns == 1 else "lane"

    def table(self) -> str:
        """Every row or lane: address, bank group, banks, and the passes of its phase."""
        together = lanes_together(self.size)
        span = max(1, self.size // BANK_BYTES)
        lines = [f"{self._what:<4} address  group  banks   phase  passes"]
        for row, (at, group) in enumerate(zip(self.addresses, self.groups, strict=True)):
            first = at // BANK_BYTES % BANKS
            banks = f"{first}-{first + span - 1}" if span > 1 else str(first)
            phase = row // together
            passes = self.phases[phase] if row % together == 0 else ""
            lines.append(f"{row:>3}  {at:>7}  {group:>5}  {banks:<6}  {phase:>5}  {passes:>6}")
        lines.append(f"passes {self.passes}, without conflicts {self.ideal}")
        return "\n".join(line.rstrip() for line in lines)

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """The result as JSON-able data."""
        return {**asdict(self), "passes": self.passes, "ways": self.ways}


def access(addresses: ArrayLike, size: int, *, pitch: int | None = None,
           swizzle: Swizzle | None = None, columns: int = 1) -> BankAccess:
    """What happens to `addresses` (bytes, one for each lane or row) of `size` bytes each.

    More than 32 of them are several instructions. `pitch`, `swizzle` and `columns` are only noted.
    """
    at = np.asarray(addresses, np.int64)
    if at.ndim != 1 or not at.size:
        raise UsageError(
            f"addresses of shape {at.shape}", "not one row of lanes", legal="a non-empty list",
            where="mmalab.plan.banks",
        )
    together = lanes_together(size)
    # Each phase alone: the sum over the phases of an instruction is what the instruction takes.
    parts = [wavefronts(at[i : i + together], size) for i in range(0, len(at), together)]
    return BankAccess(
        size=size,
        addresses=tuple(at.tolist()),
        groups=tuple((at // max(size, BANK_BYTES) % _groups(size)).tolist()),
        phases=tuple(int(passes) for passes, _ in parts),
        ideal=sum(int(ideal) for _, ideal in parts),
        pitch=pitch,
        swizzle=None if swizzle is None else str(swizzle),
        columns=columns,
    )


def _groups(size: int) -> int:
    return BANKS * BANK_BYTES // max(size, BANK_BYTES)


@asked
def ldmatrix(
    rows: int,
    pitch: int,
    *,
    size: int = 16,
    chunk: int = 0,
    pad: int = 0,
    swizzle: Swizzle | None = None,
    dtype: str | formats.Format | None = None,
    base: int = 0,
    columns: int = 1,
) -> BankAccess:
    """One column of a tile: chunk `chunk` of each of `rows` rows, `size` bytes each.

    With `columns`, that many chunks from there on of each row, by neighbouring lanes.

    Row r starts at byte ``base + r * (pitch + pad)``. A `swizzle` counts elements of `dtype`
    (bytes if no dtype is given) on the address relative to `base`, which is what matters when the
    base is a multiple of the swizzle's period.
    """
    if columns < 1:
        raise UsageError(f"{columns} columns", "no access at all", legal="columns from 1",
                         where="mmalab.plan.banks")
    if rows < 1 or chunk < 0 or pad < 0:
        raise UsageError(
            f"{rows} rows, chunk {chunk}, padding {pad}", "negative, or no row at all",
            legal="rows from 1, chunk and padding from 0", where="mmalab.plan.banks",
        )
    if pitch < (chunk + columns) * size:
        raise UsageError(
            f"chunk {chunk + columns - 1} of {size} bytes", f"outside a row of {pitch} bytes",
            legal=(f"0 to {pitch // size - 1}" if pitch >= size
                   else f"a pitch from {(chunk + columns) * size}"), where="mmalab.plan.banks",
        )
    if rows * columns > _LANES or rows * (pitch + pad) + abs(base) > _BYTES:
        raise UsageError(
            f"{rows} rows of {columns} accesses, {pitch + pad} bytes apart",
            "more than shared memory ever had", where="mmalab.plan.banks",
            legal=f"up to {_LANES} accesses in {_BYTES} bytes",
        )
    at = (np.arange(rows, dtype=np.int64)[:, None] * (pitch + pad)
          + (chunk + np.arange(columns)) * size).reshape(-1)
    if swizzle is not None:
        at = byte_swizzle(swizzle, dtype, size)(at)
    return access(at + base, size, pitch=pitch + pad, swizzle=swizzle, columns=columns)


def byte_swizzle(swizzle: Swizzle, dtype: str | formats.Format | None, size: int) -> Swizzle:
    """`swizzle`, which counts elements of `dtype`, on byte addresses; it must not tear an access.

    Raises UsageError if the swizzle moves parts of `size` bytes apart.
    """
    if not isinstance(swizzle, Swizzle):
        raise UsageError(f"swizzle {swizzle!r}", "is none", legal="Swizzle(2, 3, 3)",
                         where="mmalab.plan.banks")
    swizzle = swizzle if dtype is None else swizzle.recast(formats.get(dtype).bits, 8)
    if swizzle.bits and 1 << swizzle.base < size:
        raise UsageError(
            f"{swizzle} on bytes", f"it tears accesses of {size} bytes",
            legal=f"a base of {size.bit_length() - 1} or more on byte addresses"
                  + ("" if dtype else "; dtype (--dtype bf16) for one that counts elements"),
            where="mmalab.plan.banks",
        )
    return swizzle

