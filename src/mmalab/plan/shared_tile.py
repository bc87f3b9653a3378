"""How large a tile of shared memory may be here: what no SM holds is a slip of the keyboard.

    >>> check_tile(128, 64, "mmalab.plan.swizzle")
    >>> check_tile(100_000_000, 64, "mmalab.plan.swizzle")
    Traceback (most recent call last):
      ...
    mmalab.errors.UsageError: a tile of 100000000 rows of 64 bytes: more than shared memory ever had
      legal: up to 1048576 bytes
      see:   mmalab.plan.swizzle
"""

from __future__ import annotations

from mmalab.errors import UsageError

__all__ = ["check_tile"]

#: Four times the shared memory of the largest SM.
_MOST = 1 << 20


def check_tile(rows: int, row_bytes: int, where: str) -> None:
    """Refuse a tile that no SM holds; every byte of one is looked at, some many times.

    Raises:
        UsageError: more than 1 MiB.
    """
    if rows * row_bytes > _MOST:
        raise UsageError(f"a tile of {rows} rows of {row_bytes} bytes",
                         "more than shared memory ever had", legal=f"up to {_MOST} bytes",
                         where=where)
