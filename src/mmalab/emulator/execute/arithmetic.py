"""Families that integers, f32/f64 and the half formats share: chosen by the form's type."""

from __future__ import annotations

from mmalab.emulator.execute.floating import FLOATING
from mmalab.emulator.execute.half import HALF
from mmalab.emulator.execute.integer import INTEGER
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.types import is_float

__all__: list[str] = []

_HALVES = ("f16", "f16x2", "bf16", "bf16x2")


@executes(*sorted({*INTEGER, *FLOATING, *HALF}))
def _arithmetic(lanes: Lanes) -> None:
    form = lanes.site.form
    kind = form.modifiers.get("type") or form.modifiers["dtype"]
    table = HALF if kind in _HALVES else FLOATING if is_float(kind) else INTEGER
    function = table.get(form.family)
    if function is None:
        raise lanes.refuse(f"{form.family} of .{kind} is not executed")
    function(lanes)
