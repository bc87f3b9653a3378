"""Article B's probe: one allocation, one product, one drain, as text."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["probe"]


def probe(
    mma: str | None = None,
    *,
    columns: int | str = 128,
    without: Iterable[str] = (),
    cta_group: int = 1,
    load: str = "32x32b.x1",
    version: str = "8.6",
    target: str = "sm_100a",
) -> str:
    """The probe's PTX. `mma` replaces the product's whole line; `without` leaves instructions out
    ("alloc", "relinquish", "mma", "commit", "ld", "dealloc")."""
    raise NotImplementedError
