"""mma, mma.sp and wmma.mma: registers to fragments to the unit's arithmetic and back.

Where elements lie is the form's business, what they add up to is the unit's; here operands are
only handed over.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.warp import observe_collective
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Imm, Vec
from mmalab.isa.form import Form
from mmalab.numerics import Unit, fragment_mma, unit_for

__all__ = ["unit_of"]


@lru_cache(maxsize=512)
def _unit(target: str, family: str, modifiers: tuple[tuple[str, str], ...]) -> Unit:
    return unit_for(target, family, dict(modifiers))


def unit_of(form: Form, target: str) -> Unit:
    """The arithmetic unit that executes a matrix form on a target."""
    return _unit(target, form.family, tuple(sorted(form.modifiers.items())))


def _registers(lanes: Lanes, index: int) -> NDArray[Any]:
    """[warps, registers, 32] of a ``{...}`` operand."""
    return np.stack(lanes.read_all(index), axis=1)


def _named(lanes: Lanes, name: str) -> int:
    """Index of the operand called `name`, -1 if the form has none."""
    for index, spec in enumerate(lanes.site.form.operands):
        if spec.name == name:
            return index
    return -1


def _literals(lanes: Lanes, name: str) -> list[int]:
    op = lanes.operands[_named(lanes, name)]
    items = op.items if isinstance(op, Vec) else (op,)
    words = [item.word for item in items if isinstance(item, Imm)]
    if len(words) != len(items):
        raise lanes.refuse(f"operand {name} must be immediate")
    return words


def _extras(lanes: Lanes) -> dict[str, Any]:
    """Sparse metadata and block scales."""
    extras: dict[str, Any] = {}
    if _named(lanes, "e") >= 0:
        extras["metadata"] = lanes.read(_named(lanes, "e"))
        extras["selector"] = _literals(lanes, "f")[0]
    for side in "ab":
        if _named(lanes, f"s{side}") >= 0:
            extras[f"scale_{side}"] = lanes.read(_named(lanes, f"s{side}"))
            extras[f"byte_{side}"], extras[f"thread_{side}"] = _literals(lanes, f"id{side}")
    return extras


@executes("mma.sync", "mma.sp", "wmma.mma")
def _multiply_accumulate(lanes: Lanes) -> None:
    form = lanes.site.form
    unit = unit_of(form, lanes.machine.target)
    a, b, c = (_registers(lanes, index) for index in (1, 2, 3))
    with np.errstate(all="ignore"):
        d = fragment_mma(unit, form, a, b, c, **_extras(lanes))
    lanes.write_all(0, [d[:, k] for k in range(d.shape[1])])
    lanes.machine.counters["tensor.flops"] += form.flops * int(lanes.mask.any(axis=1).sum())
    observe_collective(lanes)
