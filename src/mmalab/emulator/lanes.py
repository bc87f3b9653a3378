"""What an executor sees: one instruction, the warps that stand at it, their lanes as arrays.

An executor is a function ``(lanes: Lanes) -> None`` over raw words ``[warps, 32]``::

    @executes("and")
    def _and(lanes: Lanes) -> None:
        lanes.write(0, lanes.read(1) & lanes.read(2))

`read` gives unsigned words of the width that the form's operand type names (bool for ``pred``,
``[warps, 32, 2]`` uint64 for ``b128``); `write` stores where the mask is set, extends narrow words
to the register, and leaves the other lanes as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.memory import RANK_SHIFT
from mmalab.emulator.program import (
    Addr,
    Guarded,
    Imm,
    Op,
    Reg,
    Site,
    Special,
    Symbol,
    Unused,
    Vec,
)
from mmalab.emulator.state import State, pack, unpack
from mmalab.emulator.types import is_signed, width
from mmalab.errors import UnsupportedInstruction

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["Lanes"]

_UNSIGNED: dict[int, type[np.unsignedinteger[Any]]] = {
    8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64,
}


class Lanes:
    """The lanes of one instruction. `rows` [warps] index the state, `mask` [warps, 32] is what
    executes (guard already applied)."""

    __slots__ = ("_every", "_index", "machine", "mask", "rows", "site", "state")

    def __init__(self, machine: Machine, site: Site, rows: NDArray[np.int64],
                 mask: NDArray[np.bool_]) -> None:
        self.machine, self.site, self.rows, self.mask = machine, site, rows, mask
        self.state: State = machine.state
        first, count = int(rows[0]), len(rows)
        # A slice instead of an index array reads a view and writes in place.
        self._index: Any = (slice(first, first + count)
                            if int(rows[-1]) - first == count - 1 else rows)
        self._every = bool(mask.all())

    # --- the instruction ----------------------------------------------------------------------

    def modifier(self, name: str, default: str = "") -> str:
        """The modifier's value, or `default` where the spelling has none."""
        return self.site.form.modifiers.get(name, default)

    def has(self, name: str) -> bool:
        """Whether the spelling has the modifier (``ftz``, ``sat`` ...)."""
        return name in self.site.form.modifiers

    def type(self, index: int) -> str:
        """The PTX type that the form gives operand `index`."""
        return self.site.form.operands[index].type

    @property
    def operands(self) -> tuple[Op, ...]:
        """The operands in text order; a ``d|p`` pair is a Vec of two."""
        return self.site.operands

    def refuse(self, reason: str) -> UnsupportedInstruction:
        """The error for a variant that this emulator does not execute."""
        return UnsupportedInstruction(
            self.site.form.key, reason, where=f"line {self.site.line} of the PTX text")

    # --- values -------------------------------------------------------------------------------

    def read(self, index: int) -> NDArray[Any]:
        """The words of operand `index` in its own width."""
        return self.value(self.site.operands[index], self.type(index))

    def read_all(self, index: int) -> list[NDArray[Any]]:
        """The words of each register of a ``{...}`` operand (one for a bare operand)."""
        op, kind = self.site.operands[index], self.type(index)
        items = op.items if isinstance(op, Vec) else (op,)
        return [self.value(item, kind) for item in items]

    def signed(self, index: int) -> NDArray[Any]:
        """Like :meth:`read`, as two's complement integers."""
        words = self.read(index)
        return words.view(np.dtype(f"i{words.dtype.itemsize}"))

    def value(self, op: Op, kind: str) -> NDArray[Any]:
        """The words of any operand, read as PTX type `kind`."""
        bits = width(kind)
        if isinstance(op, Reg):
            self._check_defined(op)
            return self._register(op, bits)
        if isinstance(op, Guarded):
            self._check_defined(op.reg)
            return unpack(self.state.p[self._index, op.reg.slot]) ^ op.negated
        if isinstance(op, Special):
            return self._narrow(self.machine.special(op.name)[self._index], bits)
        if isinstance(op, Symbol):
            return self._symbol(op, bits)
        if isinstance(op, Imm):
            return self._constant(op.word, bits)
        if isinstance(op, Unused):
            return self._constant(0, bits)
        raise self.refuse(f"an operand of kind {type(op).__name__} has no value")

    def predicate(self, index: int) -> NDArray[np.bool_]:
        """[warps, 32] bool of a predicate operand."""
        return self.value(self.site.operands[index], "pred")

    def _register(self, op: Reg, bits: int) -> NDArray[Any]:
        if op.file == "p":
            return unpack(self.state.p[self._index, op.slot])
        if bits == 128:
            return np.stack((self.state.q[self._index, op.slot],
                             self.state.q[self._index, op.slot + 1]), axis=-1)
        file: NDArray[Any] = self.state.r if op.file == "r" else self.state.q
        return self._narrow(file[self._index, op.slot], bits)

    def _narrow(self, words: NDArray[Any], bits: int) -> NDArray[Any]:
        if bits == 1:
            return np.asarray(words != 0)
        kind = _UNSIGNED[bits]
        if words.dtype == kind:
            return words if words.flags.owndata else words.copy()
        return words.astype(kind)

    def _constant(self, word: int, bits: int) -> NDArray[Any]:
        if bits == 128:
            halves = np.array([word & (2**64 - 1), word >> 64 & (2**64 - 1)], np.uint64)
            return np.broadcast_to(halves, (*self.mask.shape, 2))
        if bits == 1:
            return np.full(self.mask.shape, bool(word))
        return np.full(self.mask.shape, word & ((1 << bits) - 1), _UNSIGNED[bits])

    def _symbol(self, op: Symbol, bits: int) -> NDArray[Any]:
        words = self._constant(op.word, 64)
        if op.space == "shared" and self.machine.space.cluster_size > 1:
            words = words + self.own_rank()
        return self._narrow(words, bits)

    def own_rank(self) -> NDArray[np.uint64]:
        """The lane's CTA in its cluster, where a shared address has it."""
        rank = self.machine.special("%cluster_ctarank")[self._index].astype(np.uint64)
        return np.asarray(rank << np.uint64(RANK_SHIFT))

    def address(self, index: int) -> NDArray[np.uint64]:
        """[warps, 32] address of an ``[base + offset]`` operand."""
        op = self.site.operands[index]
        if not isinstance(op, Addr):
            return self.value(op, "u64")
        if op.base is None:
            words = self._constant(op.offset, 64)
            if op.space == "shared" and self.machine.space.cluster_size > 1:
                words = words + self.own_rank()
            return words
        self._check_defined(op.base)
        bits = 32 if op.base.file == "r" else 64
        words = self._register(op.base, 64) + np.uint64(op.offset & (2**64 - 1))
        return words & np.uint64(2**32 - 1) if bits == 32 else words

    # --- results ------------------------------------------------------------------------------

    def write(self, index: int, words: NDArray[Any]) -> None:
        """Store the result words (or bools) into operand `index` where the mask is set."""
        self.assign(self.site.operands[index], words, self.type(index))

    def write_all(self, index: int, words: list[NDArray[Any]]) -> None:
        """Store one array per register of a ``{...}`` operand."""
        op, kind = self.site.operands[index], self.type(index)
        items = op.items if isinstance(op, Vec) else (op,)
        for item, each in zip(items, words, strict=True):
            self.assign(item, each, kind)

    def assign(self, op: Op, words: NDArray[Any], kind: str) -> None:
        """Store into any destination; narrow words are extended as `kind` says."""
        if isinstance(op, Unused):
            return
        if not isinstance(op, Reg):
            raise self.refuse(f"an operand of kind {type(op).__name__} cannot be written")
        defined = self.state.defined.get((op.file, op.slot))
        if defined is not None:
            defined[self._index] |= pack(self.mask)
        if op.file == "p":
            self._assign_predicate(op.slot, words)
        elif words.ndim == 3:
            self._put(self.state.q, op.slot, words[..., 0])
            self._put(self.state.q, op.slot + 1, words[..., 1])
        else:
            self._put(self.state.r if op.file == "r" else self.state.q, op.slot,
                      _extend(words, is_signed(kind), op.bits))

    def _put(self, file: NDArray[Any], slot: int, words: NDArray[Any]) -> None:
        if self._every:
            file[self._index, slot] = words
        else:
            file[self._index, slot] = np.where(self.mask, words, file[self._index, slot])

    def _assign_predicate(self, slot: int, values: NDArray[Any]) -> None:
        active = pack(self.mask)
        new = pack(np.broadcast_to(values, self.mask.shape).astype(bool))
        old = self.state.p[self._index, slot]
        self.state.p[self._index, slot] = (old & ~active) | (new & active)

    # --- the rest of the warp -----------------------------------------------------------------

    @property
    def carry(self) -> NDArray[np.bool_]:
        """The condition code's carry bit of each lane."""
        return unpack(self.state.carry[self._index])

    @carry.setter
    def carry(self, values: NDArray[np.bool_]) -> None:
        active = pack(self.mask)
        old = self.state.carry[self._index]
        self.state.carry[self._index] = (old & ~active) | (pack(values) & active)

    def jump(self, site: int | NDArray[np.int32], lanes: NDArray[np.bool_]) -> None:
        """Let `lanes` go on at a site index instead of the next one."""
        pc = self.state.pc
        pc[self._index] = np.where(lanes, np.int32(site) if isinstance(site, int) else site,
                                   pc[self._index])

    def _check_defined(self, op: Reg) -> None:
        defined = self.state.defined.get((op.file, op.slot))
        if defined is not None:
            stale = self.mask & ~unpack(defined[self._index])
            if stale.any():
                self.machine.report_undefined(self, op, stale)

    def subset(self, mask: NDArray[np.bool_]) -> Lanes:
        """The same instruction for fewer lanes of the same warps."""
        return Lanes(self.machine, self.site, self.rows, mask)

    def one(self, position: int) -> Lanes:
        """The same instruction for the warp at `position` alone."""
        return Lanes(self.machine, self.site, self.rows[position : position + 1],
                     self.mask[position : position + 1])


def _extend(words: NDArray[Any], signed: bool, bits: int) -> NDArray[Any]:
    """Words narrower than the register: sign-extended to the register's width, else zero."""
    have = words.dtype.itemsize * 8
    if signed and have < bits:
        wide = words.view(f"i{have // 8}").astype(f"i{bits // 8}")
        words = wide.view(f"u{bits // 8}")
    elif have > bits:
        words = words.astype(_UNSIGNED[bits])
    return words
