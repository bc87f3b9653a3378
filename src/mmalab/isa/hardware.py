"""What the machine runs for a matrix instruction: its own unit, or others that imitate it.

PTX promises the instruction on every later chip, not the hardware. FP8 ``mma.sync`` has a unit on
sm_89 and sm_120 and is unpacked to f16 for HMMA on sm_90 and sm_100, so its numbers differ there::

    >>> from mmalab.isa.lookup import find
    >>> fp8 = find("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
    >>> execution(fp8, "sm_89").unit, execution(fp8, "sm_90").unit
    ('QMMA', 'F2FP + HMMA')

Read out of the SASS that ptxas 13.5 makes of one kernel for each chip.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.isa.form import Evidence, Form
from mmalab.isa.targets import Target, parse_targets, target

__all__ = ["Execution", "execution"]

_FP8 = frozenset({"e4m3", "e5m2"})
_INT4 = frozenset({"s4", "u4"})
_QMMA_CHIPS = frozenset({89, 120, 121})


@dataclass(frozen=True, slots=True)
class Execution:
    """The SASS unit and whether it is the instruction's own; how well that is known."""

    native: bool
    unit: str
    evidence: Evidence = Evidence.ASSEMBLED

    def __str__(self) -> str:
        return f"{'native' if self.native else 'emulated'}, {self.unit} ({self.evidence})"


def execution(form: Form, on: str | Target) -> Execution | None:
    """How `on` runs a matrix form; None for other instructions and where `on` lacks the form."""
    chip = target(on)
    if form.shape is None or chip.name not in parse_targets(form.targets):
        return None
    types = {form.modifiers["atype"], form.modifiers["btype"]}
    if form.family == "wgmma.mma_async":
        return Execution(True, _WARPGROUP_UNITS[form.modifiers["atype"]])
    if "block_scale" in form.modifiers:
        return Execution(True, "QMMA.SF" if form.modifiers["kind"] == "mxf8f6f4" else "OMMA.SF")
    if types & _FP8 or "kind" in form.modifiers:
        return _eight_bit_float(form, chip)
    if types & _INT4:
        return Execution(True, "IMMA.S4") if chip.number < 90 else Execution(
            False, "widening + IMMA.S8")
    if "b1" in types:
        return _single_bit(form.modifiers["op"], chip)
    if form.fragments["D"].batch > 1:
        return _quad_pair(chip)
    return Execution(True, _UNITS[form.modifiers["atype"]])


_WARPGROUP_UNITS = {
    "f16": "HGMMA", "bf16": "HGMMA", "tf32": "HGMMA", "e4m3": "QGMMA", "e5m2": "QGMMA",
    "s8": "IGMMA", "u8": "IGMMA", "b1": "BGMMA",
}
_UNITS = {"f16": "HMMA", "bf16": "HMMA", "tf32": "HMMA", "f64": "DMMA", "s8": "IMMA", "u8": "IMMA"}


def _eight_bit_float(form: Form, chip: Target) -> Execution:
    # Sparse FP8 and .kind::f8f6f4 outside sm_120 were not disassembled.
    seen = form.family == "mma.sync" and "kind" not in form.modifiers
    evidence = Evidence.ASSEMBLED if seen else Evidence.INFERRED
    if chip.number in _QMMA_CHIPS:
        return Execution(True, "QMMA", evidence)
    return Execution(False, "F2FP + HMMA", evidence)


def _single_bit(op: str, chip: Target) -> Execution:
    if chip.number >= 100:
        return Execution(False, "IMMA")
    if op == "xor" and chip.number >= 90:
        return Execution(False, "BMMA.AND")
    return Execution(True, "BMMA")


def _quad_pair(chip: Target) -> Execution:
    if chip.number >= 80:
        return Execution(False, "HMMA, several")
    return Execution(False, "HMMA, several", Evidence.INFERRED)
