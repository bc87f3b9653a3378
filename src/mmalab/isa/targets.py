"""The chips: which targets exist, which code runs where, and how much of everything an SM has.

A target is a number and perhaps a suffix. Plain code (``sm_90``) runs on every later chip; ``f``
code (``sm_100f``) on later chips of its family; ``a`` code (``sm_90a``) on that one chip. What an
instruction needs is a *target set*, written the way the ISA speaks::

    >>> blackwell = parse_targets("sm_100f sm_110f sm_120f")
    >>> "sm_103a" in blackwell, "sm_100" in blackwell
    (True, False)
    >>> str(parse_targets("sm_80+") & blackwell)
    'sm_100f sm_110f sm_120f'

``sm_100f`` in a set stands for the family from 10.0 on: sm_100f, sm_100a, sm_103f ... sm_107a.
Whatever compiles for sm_103f compiles for sm_103a, so a set that holds the one holds the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from mmalab.errors import UsageError
from mmalab.isa.form import Evidence

__all__ = [
    "LIMITS",
    "TARGETS",
    "Limits",
    "Target",
    "TargetSet",
    "limits",
    "parse_targets",
    "runs_on",
    "target",
]


@dataclass(frozen=True, slots=True)
class Target:
    """One ``.target`` name. `ptx` is the first PTX version that knows it."""

    name: str
    number: int
    suffix: str
    ptx: tuple[int, int]

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability, (major, minor)."""
        return divmod(self.number, 10)

    @property
    def family(self) -> str:
        """``10x``, ``11x`` or ``12x``; empty before families existed."""
        return f"{self.number // 10}x" if self.number >= 100 else ""

    def __str__(self) -> str:
        return self.name


# number, suffixes with their first PTX version. sm_101 was renamed sm_110 in PTX 9.0.
_TARGET_ROWS: tuple[tuple[int, dict[str, tuple[int, int]]], ...] = (
    (75, {"": (6, 3)}),
    (80, {"": (7, 0)}),
    (86, {"": (7, 1)}),
    (87, {"": (7, 4)}),
    (88, {"": (9, 0)}),
    (89, {"": (7, 8)}),
    (90, {"": (7, 8), "a": (8, 0)}),
    (100, {"": (8, 6), "f": (8, 8), "a": (8, 6)}),
    (103, {"": (8, 8), "f": (8, 8), "a": (8, 8)}),
    (107, {"": (9, 4), "f": (9, 4), "a": (9, 4)}),
    (110, {"": (9, 0), "f": (9, 0), "a": (9, 0)}),
    (120, {"": (8, 7), "f": (8, 8), "a": (8, 7)}),
    (121, {"": (8, 8), "f": (8, 8), "a": (8, 8)}),
)

#: Every target, oldest first, plain before ``f`` before ``a``.
TARGETS: dict[str, Target] = {
    f"sm_{number}{suffix}": Target(f"sm_{number}{suffix}", number, suffix, ptx)
    for number, suffixes in _TARGET_ROWS
    for suffix, ptx in suffixes.items()
}


def target(name: str | Target) -> Target:
    """The row of a target name.

    Raises:
        UsageError: no such target; the message lists those that exist.
    """
    if isinstance(name, Target):
        return name
    spelled = name.replace("compute_", "sm_").replace("lto_", "sm_") if isinstance(
        name, str) else ""
    found = TARGETS.get(spelled)
    if found is None:
        raise UsageError(f"target {name!r}", "is not a target of the PTX ISA",
                         legal=list(TARGETS), where="PTX ISA, directive .target")
    return found


def runs_on(code: str | Target, chip: str | Target) -> bool:
    """Whether PTX for the target `code` may be compiled for, and run on, the chip `chip`.

    Plain code runs on any later chip, ``f`` code on later chips of the family, ``a`` code on
    exactly its chip. The suffix of `chip` is ignored: silicon has every feature of its number.
    """
    code, chip = target(code), target(chip)
    if code.suffix == "a":
        return code.number == chip.number
    if code.suffix == "f":
        return code.family == chip.family and chip.number >= code.number
    return chip.number >= code.number


class TargetSet(frozenset[str]):
    """Target names for which something assembles. Prints in the shortest spelling."""

    def __and__(self, other: object) -> TargetSet:
        if not isinstance(other, frozenset):
            return NotImplemented
        return TargetSet(frozenset.__and__(self, other))

    def __or__(self, other: object) -> TargetSet:
        if not isinstance(other, frozenset):
            return NotImplemented
        return TargetSet(frozenset.__or__(self, other))

    @property
    def first(self) -> Target | None:
        """The oldest target in the set, None when it is empty."""
        return next((t for name, t in TARGETS.items() if name in self), None)

    def __str__(self) -> str:
        for number in (t.number for t in TARGETS.values()):
            if self == _from(number):
                return f"sm_{number}+"
        rest, words = set(self), []
        for t in TARGETS.values():
            if t.name not in rest:
                continue
            closure = _family(t) if t.suffix == "f" else frozenset((t.name,))
            words.append(t.name)
            rest -= closure if closure <= self else {t.name}
        return " ".join(words) or "no target"


def _from(number: int) -> frozenset[str]:
    return frozenset(t.name for t in TARGETS.values() if t.number >= number)


def _family(first: Target) -> frozenset[str]:
    return frozenset(
        t.name for t in TARGETS.values()
        if t.suffix and t.family == first.family and t.number >= first.number
    )


_ALIASES = {
    "any": "sm_75+",
    "f/a": "sm_100f sm_110f sm_120f",
    "blackwell": "sm_100f sm_110f sm_120f",
}


@lru_cache(maxsize=512)
def parse_targets(text: str) -> TargetSet:
    """The set that words such as ``sm_80+``, ``sm_90a``, ``sm_100f`` or ``blackwell`` describe.

    ``sm_80+`` (and plain ``sm_80``) is every target from there on, ``sm_100f`` the family from
    there on, ``sm_90a`` that one; several words are joined. ``f/a Blackwell`` is a word for the
    three Blackwell families, ``no target`` the empty set.

    Raises:
        UsageError: a word names no target.
    """
    found: set[str] = set()
    for word in text.removeprefix("no target").lower().replace(",", " ").split():
        expanded = _ALIASES.get(word)
        found |= parse_targets(expanded) if expanded else _word(word)
    return TargetSet(found)


def _word(word: str) -> frozenset[str]:
    match = re.fullmatch(r"sm_(\d+)([af]?)(\+?)", word)
    if match is None:
        raise UsageError(f"target set word {word!r}", "is not understood",
                         legal=["sm_80+", "sm_90a", "sm_100f", *_ALIASES],
                         where="PTX ISA, directive .target")
    if match[3] or not match[2]:
        # Floors below the oldest target that is kept (sm_70) mean every target.
        return _from(int(match[1]))
    one = target(word)
    return _family(one) if one.suffix == "f" else frozenset((one.name,))


@dataclass(frozen=True, slots=True)
class Limits:
    """What one SM of a compute capability offers. Sizes in bytes, registers are 32-bit words.

    `shared_per_sm` is the carve-out's maximum, `shared_per_cta` what one CTA may ask for (opt-in),
    `shared_reserved` what the system takes from each CTA's share, `tmem_columns` Tensor Memory,
    `cluster` the CTAs of a cluster at most (with the non-portable attribute where that counts).
    """

    capability: tuple[int, int]
    shared_per_sm: int
    shared_per_cta: int
    warps: int
    ctas: int
    evidence: Evidence = Evidence.DOCUMENTED
    tmem_columns: int = 0
    cluster: int = 0
    registers: int = 65536
    registers_per_thread: int = 255
    registers_per_cta: int = 65536
    register_unit: int = 256
    threads_per_cta: int = 1024
    shared_reserved: int = 1024
    shared_default: int = 49152
    shared_unit: int = 128
    barriers: int = 16

    @property
    def cluster_portable(self) -> int:
        """CTAs in a cluster without the non-portable attribute."""
        return min(self.cluster, 8)

    @property
    def threads(self) -> int:
        """Resident threads of an SM."""
        return 32 * self.warps


_KIB = 1024

#: By compute capability; CUDA C++ Programming Guide, table "technical specifications".
LIMITS: dict[tuple[int, int], Limits] = {
    row.capability: row
    for row in (
        Limits((7, 5), 64 * _KIB, 64 * _KIB, 32, 16, shared_reserved=0, shared_unit=256),
        Limits((8, 0), 164 * _KIB, 163 * _KIB, 64, 32),
        Limits((8, 6), 100 * _KIB, 99 * _KIB, 48, 16),
        Limits((8, 7), 164 * _KIB, 163 * _KIB, 48, 16),
        Limits((8, 8), 100 * _KIB, 99 * _KIB, 48, 16, Evidence.INFERRED),
        Limits((8, 9), 100 * _KIB, 99 * _KIB, 48, 24),
        Limits((9, 0), 228 * _KIB, 227 * _KIB, 64, 32, cluster=16),
        Limits((10, 0), 228 * _KIB, 227 * _KIB, 64, 32, tmem_columns=512, cluster=16),
        Limits((10, 3), 228 * _KIB, 227 * _KIB, 64, 32, tmem_columns=512, cluster=16),
        Limits((10, 7), 228 * _KIB, 227 * _KIB, 64, 32, Evidence.INFERRED, tmem_columns=576,
               cluster=16),
        Limits((11, 0), 228 * _KIB, 227 * _KIB, 48, 24, tmem_columns=512, cluster=16),
        Limits((12, 0), 100 * _KIB, 99 * _KIB, 48, 24, cluster=8),
        Limits((12, 1), 100 * _KIB, 99 * _KIB, 48, 24, cluster=8),
    )
}


def limits(name: str | Target) -> Limits:
    """The limits of a target's chip."""
    return LIMITS[target(name).capability]
