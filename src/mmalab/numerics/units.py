"""Look-up of arithmetic units: by name, by instruction, and what to say when there is none.

    >>> unit_for("sm_90a", "mma.sync", {"shape": "m16n8k32", "dtype": "f32", "atype": "e4m3",
    ...                                 "btype": "e4m3"}).algorithm
    'rewrite'
    >>> unit("sm_89.mma.e4m3.e4m3.f16") is unit("sm_89.mma.e4m3.f16")
    True
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from mmalab.errors import UsageError
from mmalab.numerics.unit import Unit
from mmalab.numerics.unit_table import rows

__all__ = ["unit", "unit_for", "units"]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Unit]:
    return MappingProxyType({row.name: row for row in rows()})


def units(pattern: str = "") -> list[Unit]:
    """All units whose name contains `pattern`, oldest chip first."""
    return [row for name, row in _table().items() if pattern in name]


def unit(name: str | Unit) -> Unit:
    """The unit of that name, ``CHIP.CLASS.A[.B].ACC``.

    A target suffix (``sm_90a``) and a repeated B (``e4m3.e4m3``) are accepted.

    Raises:
        UsageError: nothing is known about such a unit; the message names the nearest ones.
    """
    if isinstance(name, Unit):
        return name
    if not isinstance(name, str):
        raise UsageError(f"unit {name!r}", "is not a name", legal="sm_90.wgmma.e4m3.f32",
                         where="mmalab.numerics.units()")
    found = _table().get(_canonical(name))
    if found is None:
        raise UsageError(f"unit {name!r}", "is not a known arithmetic unit",
                         legal=_nearest(name), where="mmalab.numerics.units()")
    return found


def _canonical(name: str) -> str:
    chip, *parts = name.split(".")
    parts = [part for part in parts if part != "rn"]
    kept: list[str] = []
    for i, part in enumerate(parts):
        # A type said twice is A = B; the accumulator stands last and is never dropped.
        last = i == len(parts) - 1 or parts[i + 1] == "satfinite"
        if last or part not in kept[-1:]:
            kept.append(part)
    return ".".join([re.sub(r"(?<=\d)[af]$", "", chip), *kept])


def _nearest(name: str) -> list[str]:
    names = list(_table())
    parts = _canonical(name).split(".")
    same = [known for known in names if known.split(".")[:2] == parts[:2]]
    return difflib.get_close_matches(name, same or names, n=4, cutoff=0.0)


_CLASSES = {"mma": "mma", "wmma": "mma", "wgmma": "wgmma", "tcgen05": "tcgen05"}


def unit_for(target: str, family: str, modifiers: Mapping[str, str]) -> Unit:
    """The unit that executes an instruction form of `family` on `target`.

    `modifiers` are a form's (``shape``, ``dtype``, ``atype``, ``btype``, ``kind``, ``op``,
    ``rounding``, ``satfinite``, ``scale_vec``, ``stype``). Sparse forms give the dense unit: all
    stored products of an instruction are fused as if they were dense. For tcgen05 the types come
    from the instruction descriptor and the caller adds them.

    Raises:
        UsageError: no unit is known for it on this target.
    """
    chip = re.sub(r"[af]$", "", target)
    head = family.split(".", maxsplit=1)[0]
    kind = modifiers.get("kind", "")
    a = modifiers.get("atype", modifiers.get("type", "f16"))
    b = modifiers.get("btype", a)
    acc = modifiers.get("dtype", "s32" if a[0] in "su" or a == "b1" else "f32")
    klass = _CLASSES.get(head, head)
    if klass == "mma" and modifiers.get("shape") == "m8n8k4" and a == "f16":
        klass = "mma884"
    types = [a] if a == b else [a, b]
    variant = ""
    if a == "b1":
        variant = modifiers.get("op", "and").removesuffix(".popc")
    elif a == "f64":
        variant = modifiers.get("rounding", "rn").replace("rn", "")
    if kind.startswith("mxf4"):
        kind, types, variant = _fp4(kind, modifiers)
    parts = [chip, klass, kind if kind.startswith("mx") else "", *types, variant, acc]
    return unit(".".join(filter(None, [*parts, modifiers.get("satfinite", "")])))


def _fp4(kind: str, modifiers: Mapping[str, str]) -> tuple[str, list[str], str]:
    """mxf4nvf4 with two UE8M0 scales per row is what mxf4 computes."""
    stype = modifiers.get("stype", "ue8m0" if kind == "mxf4" else "ue4m3")
    vector = modifiers.get("scale_vec", "2X" if kind == "mxf4" else "4X")
    if kind == "mxf4" or vector == "2X" or modifiers.get("block32"):
        return "mxf4", [], ""
    return kind, [], "ue8m0" if stype == "ue8m0" else ""
