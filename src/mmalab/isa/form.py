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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mmalab.layouts import Layout

__all__ = ["Evidence", "Form", "Fragment", "OperandSpec", "Role", "Source", "Sparsity"]


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
#: `read`, immediates; `address` an [address]; `immediate` must be a literal; `label` a branch
#: target; `symbol` a function or variable name; `call` a Call node; `sink` must be ``_``.
Role = Literal[
    "read", "write", "update", "address", "immediate", "label", "symbol", "call", "sink"
]


@dataclass(frozen=True, slots=True)
class OperandSpec:
    """One operand position of a form, in text order.

    `type` is the PTX type that the instruction gives it ("f32", "b16", "pred", "u64" ...); `count`
    the number of registers in its ``{...}`` (1 and `vector` False: a bare operand), or of the
    coordinates behind a tensor map's address (``[map, {c0, c1}]``). `optional`
    operands may be missing (:meth:`Form.take` says which are there). `pair` marks ``d|p``
    positions: `pair` is the type of the second destination (usually "pred"), which must be there
    when `pair_required`.
    `wider` operands may sit in a register wider than `type` (ld, st, cvt: their low bits count);
    `packs` operands may be a vector of 2 or 4 registers that together have the width (mov).
    `values` are the legal values of an immediate, None where any will do. `alternative` is a second
    type that will do ("pred" for the source operand of cp.async). An optional operand may need a
    newer target or PTX version than the rest: `targets` ("" for no more) and `ptx`. So may some of
    the `values`: `late` is (these values, their targets, their first PTX version), group by group.
    """

    name: str
    role: Role
    type: str
    count: int = 1
    vector: bool = False
    optional: bool = False
    pair: str = ""
    pair_required: bool = False
    wider: bool = False
    packs: bool = False
    values: range | tuple[int, ...] | None = None
    alternative: str = ""
    targets: str = ""
    ptx: tuple[int, int] = (1, 0)
    late: tuple[tuple[tuple[int, ...], str, tuple[int, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Fragment:
    """One matrix operand of a collective instruction, spread over lanes.

    `layout` maps (lane, slot) to ``row + rows * column``; slot 0 is in the low bits of the first
    register. `bits` is the container of an element (8 for e2m1 under kind::f8f6f4), `element_lsb`
    where the element starts inside it. `copies` is how many (lane, slot) pairs hold each element
    (1: a bijection). `batch` matrices of the same shape lie behind each other in the index:
    ``row + rows * (column + cols * matrix)`` (m8n8k4 runs four products, one per quad pair).
    """

    layout: Layout
    rows: int
    cols: int
    type: str
    bits: int
    registers: int
    register_bits: int = 32
    element_lsb: int = 0
    copies: int = 1
    batch: int = 1

    @property
    def lanes(self) -> int:
        """Number of lanes that hold it (32, or 128 for a warpgroup)."""
        return self.layout[0].size

    @property
    def slots(self) -> int:
        """Elements per lane."""
        return self.registers * self.register_bits // self.bits

    def indices(self) -> NDArray[np.int64]:
        """[lanes, slots] array of ``row + rows * column`` (plus rows * cols per `batch` matrix)."""
        return self.layout.indices().reshape((self.lanes, self.slots), order="F")

    def coordinates(self) -> NDArray[np.int64]:
        """[lanes, slots, 2] array of (row, column)."""
        index = self.indices()
        return np.stack((index % self.rows, index // self.rows % self.cols), axis=-1)

    def problem(self) -> str:
        """What is wrong with the record, "" when nothing: counts agree, each element held
        exactly `copies` times, all bits of the registers used.
        """
        index = self.indices_flat()
        elements = self.rows * self.cols * self.batch
        if self.slots * self.bits != self.registers * self.register_bits:
            return f"{self.slots} slots of {self.bits} bits do not fill {self.registers} registers"
        if index.size != self.lanes * self.slots:
            return f"the layout has {index.size} places, lanes x slots is {self.lanes * self.slots}"
        if index.min() < 0 or index.max() >= elements:
            return f"the layout leaves the {self.rows} x {self.cols} matrix"
        if not (np.bincount(index, minlength=elements) == self.copies).all():
            return f"some element is not held exactly {self.copies} times"
        return ""

    def indices_flat(self) -> NDArray[np.int64]:
        """The layout's values, lane fastest."""
        return np.asarray(self.layout.indices(), dtype=np.int64).reshape(-1)


@dataclass(frozen=True, slots=True)
class Sparsity:
    """How the metadata operand of a sparse product says where the kept elements of A stand.

    Of each `group` elements of a row of A, `kept` are stored: A's fragment holds M x (K/2) of
    them, in order of k. Metadata entry (row, c), `index_bits` wide, tells the position of stored
    unit c of that row inside its group, in units of `unit` elements (2 for 4-bit types: pairs).
    `metadata` maps (contributing lane, entry of its register) to ``row + 16 * c``; contributing
    lane (q, g) is lane ``4 * g + contributors * selector + q`` of the warp. A group's positions
    that hardware defines are `patterns`, as the nibble of metadata bits of one group.
    """

    group: int
    kept: int
    unit: int
    index_bits: int
    contributors: int
    metadata: Layout
    patterns: tuple[int, ...]
    evidence: Evidence

    @property
    def selectors(self) -> range:
        """Legal values of the selector operand."""
        return range(4 // self.contributors)


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction form. Two forms with the same key are the same form."""

    key: str
    #: Name by which executors and generators register: "add", "ld", "mma.sync", "cp.async" ...
    family: str
    #: The modifiers found in the spelling, by name; flags map to their own spelling.
    modifiers: Mapping[str, str]
    operands: tuple[OperandSpec, ...]
    #: "sm_80+", or the exact list where a suffix decides ("sm_90a sm_100f"); see isa.targets.
    targets: str
    ptx: tuple[int, int]
    source: Source
    evidence: Evidence
    summary: str = ""
    #: (M, N, K) of a matrix instruction.
    shape: tuple[int, int, int] | None = None
    fragments: Mapping[str, Fragment] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    sparsity: Sparsity | None = None
    #: Last PTX version that has it, None while it lives.
    until: tuple[int, int] | None = None
    #: Targets that have it later than `ptx`, by name: ``{"sm_89": (8, 1)}``.
    ptx_on: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: Why no target of the table takes it, "" for all that some target takes.
    gone: str = ""
    #: Further operand lists that the same spelling takes: wgmma's A in registers instead of behind
    #: a descriptor.
    others: tuple[tuple[OperandSpec, ...], ...] = ()

    def first_version(self, target: str) -> tuple[int, int]:
        """The first PTX version that has it on a target (by its name) that has it at all; the
        target's own first version is another matter."""
        return max(self.ptx, self.ptx_on.get(target, self.ptx))

    def take(self, count: int) -> tuple[OperandSpec, ...] | None:
        """The specs of an instruction that gives `count` operands, None when no number of missing
        optional ones leads there. The last optional operands are the first to be missing."""
        for listed in (self.operands, *self.others):
            specs = list(listed)
            for spec in reversed(listed):
                if len(specs) > count and spec.optional:
                    specs.remove(spec)
            if len(specs) == count:
                return tuple(specs)
        return None

    def fit(self, kinds: Sequence[str]) -> tuple[OperandSpec, ...] | None:
        """The specs of operands of these kinds (:class:`~mmalab.isa.operand_text.Given.kind`), in
        the operand list that has the fewest addresses, vectors and literals at the wrong place."""
        if not self.others:
            return self.take(len(kinds))
        return min(self._lists(len(kinds)), default=None, key=lambda specs: sum(
            _differs(spec, kind) for spec, kind in zip(specs, kinds, strict=True)))

    def _lists(self, count: int) -> Iterator[tuple[OperandSpec, ...]]:
        for listed in (self.operands, *self.others):
            optional = [spec for spec in reversed(listed) if spec.optional]
            missing = len(listed) - count
            if 0 <= missing <= len(optional):
                for left_out in combinations(optional, missing):
                    yield tuple(spec for spec in listed if spec not in left_out)

    @property
    def flops(self) -> int:
        """Floating-point (or integer, or bit) operations of one execution by its warp (wgmma: its
        warpgroup), 2 M N K.

        The quad-pair m8n8k4 counts its four products; sparse forms count the dense equivalent.
        """
        if self.shape is None:
            return 0
        m, n, k = self.shape
        batch = self.fragments["D"].batch if "D" in self.fragments else 1
        return 2 * m * n * k * batch

    def __str__(self) -> str:
        return self.key


def _differs(spec: OperandSpec, kind: str) -> int:
    address = spec.role == "address"
    return (
        (address != (kind == "address"))
        + ((spec.vector and not address) != (kind == "vector"))
        + (spec.role == "immediate" and kind != "immediate")
    )
