"""A kernel lowered for execution: one flat list of sites over numbered register slots.

Lowering (:mod:`mmalab.emulator.lower`) turns a parsed entry into this: device functions inlined,
symbols resolved to addresses, names resolved to slots, every instruction matched to its ISA form.
A Program is immutable; both executors (the NumPy one, which is the specification, and the compiled
one) read the same Program, so they can be compared slot by slot.

Registers live in three files per warp: `r` holds 8-, 16- and 32-bit registers (uint32, one word a
lane; narrow values are zero-extended), `q` 64-bit registers (uint64), `p` predicates (one uint32
mask per warp, bit l = lane l). A .b128 register is two consecutive `q` slots.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mmalab.isa.form import Form

__all__ = [
    "SHARED_START", "Addr", "BasicBlock", "Guarded", "Imm", "Op", "Program", "Reg", "Site",
    "Special",
    "Symbol", "Target", "Unused", "Vec",
]


#: Shared memory below this offset belongs to the system, as on the chip.
SHARED_START = 1024


@dataclass(frozen=True, slots=True)
class Reg:
    """A register slot: `file` r, q or p; `bits` 8, 16, 32, 64, 128 or 1."""

    file: Literal["r", "q", "p"]
    slot: int
    bits: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal as a raw word of the operand's type (floats already encoded)."""

    word: int


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, ``%tid.x`` ... (never a slot)."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable used as a value (``mov.u32 %r1, tile;``), already resolved.

    `space` is its state space: shared addresses gain the CTA's rank in its cluster when read.
    """

    word: int
    name: str
    space: str = ""


@dataclass(frozen=True, slots=True)
class Guarded:
    """A predicate operand with its sign: ``!%p`` -> negated."""

    reg: Reg
    negated: bool


@dataclass(frozen=True, slots=True)
class Addr:
    """[base + offset]; base None means `offset` is the whole (resolved) address.

    `space` is the state space of the variable that `offset` came from, if any.
    """

    base: Reg | None
    offset: int
    coordinates: tuple[Op, ...] = ()
    space: str = ""


@dataclass(frozen=True, slots=True)
class Vec:
    """{a, b, ...}."""

    items: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Branch target(s): indices of sites. ``bra`` has one, ``brx.idx`` its table."""

    sites: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unused:
    """``_``."""


Op: TypeAlias = Reg | Imm | Special | Symbol | Guarded | Addr | Vec | Target | Unused


#: A vector operand of nine registers or more: its first and its last.
_LONG_LIST = re.compile(r"\{\s*([^\s,{}]+)(?:,[^,{}]+){7,},\s*([^\s,{}]+)\s*\}")


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction. `operands` align with ``form.operands`` (missing optional ones dropped);
    a ``d|p`` pair is a Vec of two. Guards are (slot, negated)."""

    index: int
    line: int
    form: Form
    operands: tuple[Op, ...]
    guard: tuple[int, bool] | None
    text: str

    @property
    def shown(self) -> str:
        """The text for messages: of a long list of registers, both ends."""
        return _LONG_LIST.sub(r"{\1, ..., \2}", self.text.strip())


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Sites [start, stop); control enters at the top and leaves at the bottom."""

    index: int
    start: int
    stop: int
    successors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """An executable kernel."""

    entry: str
    target: str
    sites: tuple[Site, ...]
    blocks: tuple[BasicBlock, ...]
    #: Slots per file: {"r": 40, "q": 12, "p": 3}.
    slots: Mapping[str, int]
    #: (offset, size in bytes, PTX type, is array) of each kernel parameter in the parameter block.
    params: tuple[tuple[int, int, str, bool], ...]
    param_bytes: int
    #: Bytes of static shared memory (dynamic shared memory starts at `dynamic_offset`).
    static_shared: int
    dynamic_offset: int
    local_bytes: int
    #: Module-level .global and .const variables: (name, space, virtual address, bytes, data).
    globals: tuple[tuple[str, str, int, int, bytes], ...] = ()
    #: Registers that some path reads before writing: (file, slot) -> name.
    maybe_undefined: Mapping[tuple[str, int], str] = field(default_factory=dict)
    required_block: tuple[int, int, int] | None = None
    max_block: tuple[int, int, int] | None = None
    required_cluster: tuple[int, int, int] | None = None
    #: CTAs of a cluster at most (.maxclusterrank), 0 where nothing is said.
    max_cluster: int = 0
    #: Whether every launch must name a cluster (.explicitcluster).
    explicit_cluster: bool = False
    #: Whether launches give their grid in clusters (.blocksareclusters).
    counts_clusters: bool = False
    #: (name, first byte, bytes) of each static shared variable.
    shared_variables: tuple[tuple[str, int, int], ...] = ()
    #: Registers of a thread at launch where directives fix them, else 0.
    launch_registers: int = 0
