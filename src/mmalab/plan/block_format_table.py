"""The formats that a product's operands come in: an element, and perhaps a scale for each block.

    >>> block_format("nvfp4").bits, block_format("mxfp4").bits, block_format("mxfp8").bits
    (4.5, 4.25, 8.25)
    >>> name_of("e2m1", "ue4m3", 16), name_of("e2m1", "ue8m0", 32)
    ('nvfp4', 'mxfp4')

Sources: OCP microscaling formats 1.0; PTX ISA, tcgen05 block scaling.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from mmalab import formats
from mmalab.errors import UsageError
from mmalab.plan.asked import asked

__all__ = ["BLOCK_FORMATS", "BlockFormat", "block_format", "name_of"]


@dataclass(frozen=True, slots=True)
class BlockFormat:
    """`block` elements along K share a scale of type `scale`; block 0 means no scale. `kind` is the
    ``.kind`` of tcgen05.mma that takes it ("" where none does)."""

    name: str
    element: str
    kind: str = ""
    scale: str = ""
    block: int = 0
    global_scale: bool = False

    @property
    def element_bits(self) -> int:
        """Bits of an element in memory (32 for tf32)."""
        return formats.get(self.element).bits

    @property
    def bits(self) -> float:
        """Bits per element with its share of the block scale: 4.5 for nvfp4."""
        share = formats.get(self.scale).bits / self.block if self.block else 0.0
        return self.element_bits + share

    def __str__(self) -> str:
        return self.name


#: Every format by name, the most precise first.
BLOCK_FORMATS: Mapping[str, BlockFormat] = {
    row.name: row
    for row in (
        BlockFormat("tf32", "tf32", "tf32"),
        BlockFormat("f16", "f16", "f16"),
        BlockFormat("bf16", "bf16", "f16"),
        BlockFormat("s8", "s8", "i8"),
        BlockFormat("u8", "u8", "i8"),
        BlockFormat("s4", "s4"),
        BlockFormat("fp8", "e4m3", "f8f6f4"),
        BlockFormat("fp8_e5m2", "e5m2", "f8f6f4"),
        BlockFormat("fp6", "e3m2", "f8f6f4"),
        BlockFormat("fp6_e2m3", "e2m3", "f8f6f4"),
        BlockFormat("fp4", "e2m1", "f8f6f4"),
        BlockFormat("mxfp8", "e4m3", "mxf8f6f4", "ue8m0", 32),
        BlockFormat("mxfp8_e5m2", "e5m2", "mxf8f6f4", "ue8m0", 32),
        BlockFormat("mxfp6", "e3m2", "mxf8f6f4", "ue8m0", 32),
        BlockFormat("mxfp6_e2m3", "e2m3", "mxf8f6f4", "ue8m0", 32),
        BlockFormat("mxfp4", "e2m1", "mxf4", "ue8m0", 32),
        BlockFormat("mxfp4_block16", "e2m1", "mxf4nvf4", "ue8m0", 16),
        BlockFormat("nvfp4", "e2m1", "mxf4nvf4", "ue4m3", 16, global_scale=True),
    )
}

_ALIASES = {
    "fp8_e4m3": "fp8", "fp6_e3m2": "fp6", "fp4_e2m1": "fp4", "int8": "s8", "int4": "s4",
    "mxfp8_e4m3": "mxfp8", "mxfp6_e3m2": "mxfp6", "mxfp4_e2m1": "mxfp4", "nvf4": "nvfp4",
}


@asked
def block_format(name: str) -> BlockFormat:
    """The format called `name`: mxfp8, mxfp6, mxfp4, nvfp4, fp8, bf16 ..., or an element type
    (``e4m3``, ``float8_e5m2``), which means that type without block scales.

    Raises:
        UsageError: there is none; the message lists those that exist.
    """
    plain = name.strip().lower().replace("-", "_")
    found = BLOCK_FORMATS.get(_ALIASES.get(plain, plain))
    if found is not None:
        return found
    if plain in formats.FORMATS or plain in formats.ALIASES:
        element = formats.get(plain).name
        for row in BLOCK_FORMATS.values():
            if row.element == element and not row.block:
                return row
    near = difflib.get_close_matches(plain, [*BLOCK_FORMATS, *_ALIASES], n=4, cutoff=0.5)
    raise UsageError(f"format {name!r}", "is no operand format of a tensor core",
                     legal=near or list(BLOCK_FORMATS), where="mmalab.plan.block_formats")


def name_of(element: str, scale: str, block: int) -> str:
    """The name of (element type, scale type, block): mxfp4, nvfp4 ..., whatever a label says.

    `scale` "" and block 0 for none; e4m3 as a scale counts as ue4m3 (its sign is ignored).

    Raises:
        UsageError: no format is made like this; the message names the nearest.
    """
    wanted = formats.get(element).name
    kind = {"e4m3": "ue4m3"}.get(s := formats.get(scale).name, s) if scale else ""
    for row in BLOCK_FORMATS.values():
        if (row.element, row.scale, row.block) == (wanted, kind, block):
            return row.name
    near = [row for row in BLOCK_FORMATS.values() if row.element == wanted]
    raise UsageError(
        f"{wanted} with {kind or 'no'} scale for {block}", "is no format of the tensor cores",
        legal=[f"{row.name} ({row.scale} for {row.block})" if row.block else
               f"{row.name} (no block scale)" for row in near],
        where="PTX ISA, tcgen05 block scaling; OCP MX 1.0",
    )
