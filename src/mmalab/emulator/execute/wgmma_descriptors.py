"""What the descriptor of an operand says, and what it probably should have said.

A word that is legal may still name other bytes than the operand's. Three things tell:

====================  ============================================================================
the address           the start field counts 16 bytes; an address in it that was not shifted by 4
                      is 16 times too large: 0x24000 for a tile at 0x2400
overlap               no layout of a matrix has two elements at one address; strides that are too
                      small have: SBO 512 puts row 8 of a 128-byte swizzle where row 4 is
what fits             the strides of a tile without gaps (8 rows of 128 bytes: SBO 1024)
====================  ============================================================================
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mmalab.descriptors import WGMMA, chunk_addresses, packed
from mmalab.emulator.execute.wgmma_operands import SharedOperand
from mmalab.emulator.program import Site
from mmalab.formats import get

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["check_overlap", "described", "family", "likely"]

_CHUNK = 16
#: The start address of a descriptor.
_START = 0x3FFF


def described(word: int) -> str:
    """A descriptor's fields in words, and who explains them."""
    one = WGMMA.read(word)
    based = f", base offset {one.base_offset}" if one.base_offset else ""
    return (f"descriptor {word:#018x}: start {one.start:#x}, LBO {one.lbo}, SBO {one.sbo}, swizzle "
            f"{one.swizzle}{based}; see mmalab descriptor smem {word:#x}")


def likely(machine: Machine, word: int, operand: SharedOperand) -> str:
    """Why a descriptor names bytes that are not the operand's: a sentence, or nothing."""
    one, space = WGMMA.read(word), machine.space
    field = one.start // _CHUNK
    if one.start >= space.shared_bytes and space.shared_start <= field < space.shared_bytes:
        return (f". Repair: the start field holds the address {field:#x} itself: address >> 4 "
                "belongs there")
    fits = _fitting(word, operand)
    low, high = _reach(fits, operand)
    if fits != word and space.shared_start <= low and high <= space.shared_bytes:
        return f". Repair: {_strides(fits)}"
    return ""


def check_overlap(machine: Machine, row: int, site: Site, side: str, word: int,
                  operand: SharedOperand) -> None:
    """Warn where two elements of an operand have one address."""
    pair = operand.twice
    if pair is None:
        return
    one, other = (_element(operand, place, side) for place in pair)
    fits = _fitting(word, operand)
    machine.report(
        "descriptor-mismatch", f"operand {side} of {site.form.key} has {one} and {other} at one "
        f"address ({described(word)}). Repair: {_strides(fits)}",
        site=site, row=row, severity="warning",
        witness={"operand": side, "descriptor": word, "fitting": fits,
                 "family": family(side, word)})


def family(side: str, word: int) -> str:
    """What descriptors that step through K share: they have one fault and are told once."""
    return f"{side} {word & ~_START:#x}"


def _element(operand: SharedOperand, place: tuple[int, int], side: str) -> str:
    """A chunk's first element, in the PTX manual's names."""
    unit = _CHUNK * 8 // get(operand.type).bits
    mn, k = place
    mn, k = (mn, k * unit) if operand.major == "K" else (mn * unit, k)
    return f"{side.upper()}[{mn}][{k}]" if side == "a" else f"{side.upper()}[{k}][{mn}]"


def _fitting(word: int, operand: SharedOperand) -> int:
    """The word with the strides of a tile without gaps."""
    one, unit, wide = WGMMA.read(word), get(operand.type).bits, _depth(operand)
    tile = packed(operand.major, one.swizzle, operand.mn, wide, unit)
    fields = replace(one, lbo=tile.lbo, sbo=tile.sbo).as_dict()
    return WGMMA.encode(**{field.name: fields[field.name] for field in WGMMA.fields})


def _depth(operand: SharedOperand) -> int:
    """Elements along K."""
    each = _CHUNK * 8 // get(operand.type).bits if operand.major == "K" else 1
    return int(operand.chunks.shape[1]) * each


def _reach(word: int, operand: SharedOperand) -> tuple[int, int]:
    chunks = chunk_addresses(WGMMA.read(word), operand.mn, _depth(operand),
                             get(operand.type).bits, operand.major)
    return int(chunks.min()), int(np.max(chunks)) + _CHUNK


def _strides(word: int) -> str:
    """The strides of a word, as they are written into it."""
    one = WGMMA.read(word)
    return (f"a tile without gaps has LBO {one.lbo} and SBO {one.sbo} bytes (fields {one.lbo >> 4} "
            f"and {one.sbo >> 4}): {word:#x}")
