"""The record of one instruction form, and what a fragment is.

A *form* is an instruction with its modifiers chosen, keyed by its PTX spelling
(``mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32``, ``ld.global.v4.b32``, ``add.rn.f32``).
Checker, emulator, builder, calculators and documents all read this record; none of them holds
operand counts, types or lane arithmetic of its own.

A fragment says where the elements of an operand live: a CuTe layout from (lane, slot) to the index
``row + rows * column`` of the element. For B of m16n8k16 it is ``((4,8),(2,2)):((2,16),(1,8))``:
lane 6 = (2, 1), slot 3 = (1, 1) gives 2*2 + 16*1 + 1 + 8 = 29, which is row 13, column 1 of the
16 x 8 matrix B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mmalab.layouts import Layout

__all__ = ["Evidence", "Form", "Fragment", "OperandSpec", "Role", "Source"]


class Evidence(StrEnum):
    """How a fact is known, strongest last."""

    INFERRED = "inferred"
    DOCUMENTED = "documented"
    ASSEMBLED = "assembled"
    MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact is written, or what run showed it."""

    document: str
    section: str = ""

    def __str__(self) -> str:
        return f"{self.document}, {self.section}" if self.section else self.document


#: What an operand position is: `read`/`write`/`update` (read and write) are registers or, for
#: `read`, immediates; `address` an [address]; `immediate` must be a literal; `label` a branch target;
#: `symbol` a function or variable name; `call` a Call node.
Role = Literal["read", "write", "update", "address", "immediate", "label", "symbol", "call"]


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One operand position of a form, in text order.

    `type` is the PTX type that the instruction gives it ("f32", "b16", "pred", "u64" ...); `count`
    the number of registers in its ``{...}`` (1 and `vector` False: a bare operand). `optional`
    operands may be missing at the end of the list. `pair` marks ``d|p`` positions: `pair` is the type
    of the second destination (usually "pred").
    """

    name: str
    role: Role
    type: str
    count: int = 1
    vector: bool = False
    optional: bool = False
    pair: str = ""


@dataclass(frozen=True, slots=True)
class Fragment:
    """One matrix operand of a collective instruction, spread over lanes.

    `layout` maps (lane, slot) to ``row + rows * column``; slot 0 is in the low bits of the first
    register. `bits` is the container of an element (8 for e2m1 under kind::f8f6f4), `element_lsb`
    where the element starts inside it.
    """

    layout: Layout
    rows: int
    cols: int
    type: str
    bits: int
    registers: int
    register_bits: int = 32
    element_lsb: int = 0

    @property
    def lanes(self) -> int:
        """Number of lanes that hold it (32, or 128 for a warpgroup)."""
        return self.layout[0].size

    @property
    def slots(self) -> int:
        """Elements per lane."""
        return self.registers * self.register_bits // self.bits

    def indices(self) -> NDArray[np.int64]:
        """[lanes, slots] array of ``row + rows * column``."""
        return self.layout.indices().reshape((self.lanes, self.slots), order="F")

    def coordinates(self) -> NDArray[np.int64]:
        """[lanes, slots, 2] array of (row, column)."""
        index = self.indices()
        return np.stack((index % self.rows, index // self.rows), axis=-1)


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction form. Two forms with the same key are the same form."""

    key: str
    #: Name by which executors and generators register: "add", "ld", "mma.sync", "cp.async" ...
    family: str
    #: The modifiers found in the spelling, by name; flags map to their own spelling.
    modifiers: Mapping[str, str]
    operands: tuple[OperandSpec, ...]
    #: Plain-target floor ("sm_80") or the exact list where a suffix decides; see isa.targets.
    targets: str
    ptx: tuple[int, int]
    source: Source
    evidence: Evidence
    summary: str = ""
    #: (M, N, K) of a matrix instruction.
    shape: tuple[int, int, int] | None = None
    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.key
