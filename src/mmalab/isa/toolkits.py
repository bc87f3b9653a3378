"""Which CUDA release reads which PTX version, and knows which target.

ptxas and drivers speak of PTX versions and users of CUDA releases; this is the table between them::

    >>> version_of("12.6")
    (8, 5)
    >>> first_release((9, 1)), known_since("sm_120f")
    ('13.1', '12.9')
    >>> fallback("sm_120f", "12.8")
    'sm_120a'

A release reads every older version too. A driver compiles PTX up to the version of the CUDA release
that it came with; machine code has no such limit.
"""

from __future__ import annotations

from mmalab.errors import UsageError
from mmalab.isa.targets import TARGETS, runs_on
from mmalab.isa.targets import target as target_row

__all__ = ["RELEASES", "fallback", "first_release", "known_since", "version_of"]

_WHERE = "PTX ISA, Release Notes, PTX Release History"

#: PTX version of each CUDA release, oldest first. 12.5 and 12.6 share one. 13.0 and 13.5 were asked
#: here (ptxas of those releases), 13.2 to 13.4 stand between documented neighbours (inferred).
RELEASES: dict[str, tuple[int, int]] = {
    "10.0": (6, 3), "10.1": (6, 4), "10.2": (6, 5),
    **{f"11.{minor}": (7, minor) for minor in range(9)},
    **{f"12.{minor}": (8, minor) for minor in range(6)},
    "12.6": (8, 5), "12.7": (8, 6), "12.8": (8, 7), "12.9": (8, 8),
    **{f"13.{minor}": (9, minor) for minor in range(6)},
}


def version_of(release: str) -> tuple[int, int]:
    """The newest PTX version that a CUDA release reads.

    Raises:
        UsageError: no such release; the message lists those that are known.
    """
    if release not in RELEASES:
        raise UsageError(f"CUDA {release}", "is no release of the table", legal=list(RELEASES),
                         where=_WHERE)
    return RELEASES[release]


def first_release(version: tuple[int, int]) -> str:
    """The first CUDA release that reads a PTX version.

    Raises:
        UsageError: none of the table does.
    """
    found = next((name for name, has in RELEASES.items() if has >= version), None)
    if found is None or version < (6, 0):
        raise UsageError(f"PTX {version[0]}.{version[1]}", "is in no release of the table",
                         legal="6.3 to 9.5", where=_WHERE)
    return found


def known_since(target: str) -> str:
    """The first CUDA release that knows a target.

    Raises:
        UsageError: no such target.
    """
    return first_release(target_row(target).ptx)


def fallback(target: str, release: str) -> str:
    """The target to build with a release: `target` itself, else the nearest that runs on its chip.

    On the same number ``a`` before plain, then the highest older plain target, whose PTX the driver
    compiles for the chip.

    Raises:
        UsageError: no such target or release, or none that the release knows.
    """
    wanted, version = target_row(target), version_of(release)
    able = [row for row in TARGETS.values() if row.ptx <= version and runs_on(row, wanted)
            and (row.suffix != "a" or wanted.suffix)]
    if wanted in able:
        return wanted.name
    if not able:
        raise UsageError(f"{target} with CUDA {release}", "no target of it runs on that chip",
                         legal=f"CUDA {known_since(target)}", where=_WHERE)
    return max(able, key=lambda row: (row.number, row.suffix != "", row.suffix == "a")).name
