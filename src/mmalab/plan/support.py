"""How each chip multiplies a number format: natively, through others, or not at all.

"Supported" mixes three things: a matrix instruction for the format, one that the assembler builds
from others, and a format that is only stored and decoded before the product (weight-only)::

    >>> [str(row) for row in support("nvfp4", ["sm_90a", "sm_120a"])]
    ['sm_90a weight-only', 'sm_120a native mma.sync OMMA.SF']

Read from the instruction table: which forms assemble for a target, and what unit runs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mmalab import isa
from mmalab.isa.tensor_memory import kind_of
from mmalab.plan.block_format_table import BlockFormat, block_format

__all__ = ["ChipSupport", "instructions", "support", "usual_targets"]


@dataclass(frozen=True, slots=True)
class ChipSupport:
    """How one target multiplies the format: by which instruction and unit. ``weight-only``: no
    instruction takes it; it can be stored and decoded to another format first."""

    target: str
    how: Literal["native", "emulated", "weight-only"]
    instruction: str = ""
    unit: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.target, self.how, self.instruction, self.unit)))

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON-able data."""
        return asdict(self)


#: Warp-level opcodes by format, those of Turing, and wgmma's.
_MMA = {
    "tf32": "m16n8k8.row.col.f32.tf32.tf32.f32", "f16": "m16n8k16.row.col.f32.f16.f16.f32",
    "bf16": "m16n8k16.row.col.f32.bf16.bf16.f32", "s8": "m16n8k32.row.col.s32.s8.s8.s32",
    "u8": "m16n8k32.row.col.s32.u8.u8.s32", "s4": "m16n8k64.row.col.s32.s4.s4.s32",
    "fp8": "m16n8k32.row.col.f32.e4m3.e4m3.f32", "fp8_e5m2": "m16n8k32.row.col.f32.e5m2.e5m2.f32",
}
_TURING = {
    "f16": "m16n8k8.row.col.f32.f16.f16.f32", "s8": "m8n8k16.row.col.s32.s8.s8.s32",
    "u8": "m8n8k16.row.col.s32.u8.u8.s32", "s4": "m8n8k32.row.col.s32.s4.s4.s32",
}
_WGMMA = {
    "tf32": "m64n256k8.f32.tf32.tf32", "f16": "m64n256k16.f32.f16.f16",
    "bf16": "m64n256k16.f32.bf16.bf16", "s8": "m64n256k32.s32.s8.s8", "u8": "m64n256k32.s32.u8.u8",
    "fp8": "m64n256k32.f32.e4m3.e4m3", "fp8_e5m2": "m64n256k32.f32.e5m2.e5m2",
}
_VECTORS = {("mxf8f6f4", 32): "1X", ("mxf4", 32): "2X", ("mxf4nvf4", 32): "2X",
            ("mxf4nvf4", 16): "4X"}
#: What ptxas makes of each tcgen05 kind.
_UNITS = {"f16": "UTCHMMA", "tf32": "UTCHMMA", "f8f6f4": "UTCQMMA", "i8": "UTCIMMA",
          "mxf8f6f4": "UTCQMMA", "mxf4": "UTCOMMA", "mxf4nvf4": "UTCOMMA"}


def instructions(fmt: BlockFormat) -> Mapping[str, tuple[str, int]]:
    """The matrix instructions that take the format: class to (PTX opcode, K of one instruction)."""
    found: dict[str, tuple[str, int]] = {}
    if fmt.kind:
        kind = kind_of(fmt.kind)
        found["tcgen05"] = kind.spelling(block=fmt.block or 32), kind.k
    if fmt.name in _WGMMA:
        form = isa.find(f"wgmma.mma_async.sync.aligned.{_WGMMA[fmt.name]}")
        found["wgmma"] = form.key, _k(form)
    opcode = _warp_opcode(fmt)
    found["mma.sync"] = opcode, _k(isa.find(opcode))
    return found


def _k(form: isa.Form) -> int:
    return form.shape[2] if form.shape else 0


def _warp_opcode(fmt: BlockFormat) -> str:
    head = "mma.sync.aligned."
    if fmt.name in _MMA:
        return head + _MMA[fmt.name]
    types = f"f32.{fmt.element}.{fmt.element}.f32"
    if not fmt.block:
        return f"{head}m16n8k32.row.col.kind::f8f6f4.{types}"
    k = 32 if fmt.kind == "mxf8f6f4" else 64
    vector = _VECTORS[fmt.kind, fmt.block]
    return (f"{head}m16n8k{k}.row.col.kind::{fmt.kind}.block_scale.scale_vec::{vector}."
            f"{types}.{fmt.scale}")


def usual_targets() -> tuple[str, ...]:
    """One target for each chip: the one with the most features."""
    by_number = {row.number: name for name, row in isa.targets.TARGETS.items()}
    return tuple(by_number.values())


def support(name: str | BlockFormat, targets: Sequence[str] = ()) -> tuple[ChipSupport, ...]:
    """How each of `targets` (every chip's fullest target when empty) multiplies the format.

    Raises:
        UsageError: an unknown format or target.
    """
    fmt = block_format(name) if isinstance(name, str) else name
    return tuple(_best(fmt, isa.target(one).name) for one in targets or usual_targets())


def _best(fmt: BlockFormat, target: str) -> ChipSupport:
    ways = list(_ways(fmt, target))
    for wanted in ("native", "emulated"):
        for way in ways:
            if way.how == wanted:
                return way
    return ChipSupport(target, "weight-only")


def _ways(fmt: BlockFormat, target: str) -> Iterator[ChipSupport]:
    ways = [(family, opcode) for family, (opcode, _) in instructions(fmt).items()]
    if fmt.name in _TURING:
        ways.append(("mma.sync", f"mma.sync.aligned.{_TURING[fmt.name]}"))
    for family, opcode in ways:
        form = isa.find(opcode)
        if target not in isa.parse_targets(form.targets):
            continue
        if family == "tcgen05":
            yield ChipSupport(target, "native", family, _UNITS[fmt.kind])
            continue
        run = isa.execution(form, target)
        if run is not None:
            yield ChipSupport(target, "native" if run.native else "emulated", family, run.unit)
