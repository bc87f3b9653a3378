"""From a program to threaded code: instruction records, operand places, primitives on demand.

A primitive is compiled when the first program needs it, once per form and kinds of operands, and
its object file is kept on disk; later kernels, and other processes, find most of theirs there. A
site whose form has no generator becomes a *stop*: Python executes it with the NumPy executors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab.emulator.liveness import live_slots, reads_of, writes_of
from mmalab.emulator.native.abi import RECORD_WORDS, Base, Flag, Kind, Record, place
from mmalab.emulator.native.filter import functions as filter_functions
from mmalab.emulator.native.generate import GENERATORS, KNOWN, special_place
from mmalab.emulator.native.interpreter import run_cta, run_ctas, run_warp
from mmalab.emulator.native.primitive import Index, PrimitiveWriter, leaves, signature
from mmalab.emulator.native.runtime import runtime
from mmalab.emulator.program import (
    Addr,
    Guarded,
    Imm,
    Op,
    Program,
    Reg,
    Site,
    Special,
    Symbol,
    Target,
    Unused,
)
from mmalab.numerics.native import Handle, load

__all__ = ["Primitive", "ThreadedCode", "is_cta_barrier", "library"]

_STRIDE = {"r": 128, "q": 256, "p": 4}
_BASE = {"r": Base.R, "q": Base.Q, "p": Base.P}


@dataclass(frozen=True, slots=True)
class Primitive:
    """Compiled code of one form: None where there is none."""

    handle: Handle | None
    whole: bool = False

    @property
    def address(self) -> int:
        """Of the function."""
        return self.handle.address("primitive") if self.handle is not None else 0


@dataclass(frozen=True, slots=True)
class _Written:
    """A primitive's text before it is compiled."""

    text: str
    calls: Mapping[str, str]
    whole: bool


class _Store:
    """All primitives of this process, by signature."""

    def __init__(self) -> None:
        #: Which literals of a form the generator looks at, by form key and operand kinds.
        self._literals: dict[object, frozenset[Index]] = {}
        self._known: dict[object, _Written | None] = {}
        self._compiled: dict[object, Primitive] = {}

    def key(self, site: Site, target: str, options: frozenset[str]) -> object:
        """What decides the site's code, which is then written.

        Literals count as far as a generator looked at them; which those are may depend on the
        values of others, so the set of a form grows until it has all.
        """
        rough = (signature(site, frozenset()), target, options)
        literals = self._literals.get(rough, frozenset())
        key = (signature(site, literals), target, options) if literals else rough
        if key not in self._known:
            writer, accepted = _write(site, target, options)
            if not writer.literals <= literals:
                literals = self._literals[rough] = literals | writer.literals
                key = (signature(site, literals), target, options)
            self._known[key] = _text(writer) if accepted else None
        return key

    def written(self, key: object) -> _Written | None:
        """The code of a key as text; None where no generator takes it."""
        return self._known[key]

    def compile(self, wanted: Mapping[object, _Written | None]) -> None:
        """Compile what is missing, on all processors."""
        missing = {k: w for k, w in wanted.items() if k not in self._compiled}
        self._compiled.update({k: Primitive(None) for k, w in missing.items() if w is None})
        texts = {k: w for k, w in missing.items() if w is not None}
        if not texts:
            return
        library()
        with ThreadPoolExecutor() as pool:
            compiled = pool.map(_compile, texts.values())
            self._compiled.update(zip(texts, compiled, strict=True))

    def __getitem__(self, key: object) -> Primitive:
        return self._compiled[key]


_STORE = _Store()


def _write(site: Site, target: str, options: AbstractSet[str]) -> tuple[PrimitiveWriter, bool]:
    writer = PrimitiveWriter(site, "primitive", target=target, options=options)
    return writer, GENERATORS[site.form.family](writer)


def _text(writer: PrimitiveWriter) -> _Written:
    writer.finish()
    defined = {"primitive", *writer.helpers}
    declared = {n: t for n, t in sorted(writer.f.calls.items()) if n not in defined}
    parts = [*writer.helpers.values(), writer.f.text(), *declared.values()]
    return _Written("\n".join(parts), declared, writer.whole)


def _compile(written: _Written) -> Primitive:
    shared = library()
    externals = {n: shared.address(n) for n in written.calls if n in _LIBRARY}
    handle = load(written.text, {"primitive": (ctypes.c_int32,)}, externals)
    return Primitive(handle, written.whole)


_LIBRARY = {f.name: f for f in (
    *runtime(), *filter_functions(), run_warp(),
    *(write(watched=watched) for write in (run_cta, run_ctas) for watched in (False, True)))}


@lru_cache(maxsize=1)
def library() -> Handle:
    """The interpreter and the functions that primitives share, compiled once for all kernels."""
    functions = _LIBRARY.values()
    calls: dict[str, str] = {}
    for function in functions:
        calls.update(function.calls)
    declared = [text for name, text in sorted(calls.items()) if name not in _LIBRARY]
    text = "\n".join([*(f.text() for f in functions), *declared])
    signatures: dict[str, tuple[Any, ...]] = dict.fromkeys(_LIBRARY, (None,))
    signatures |= dict.fromkeys(("run_ctas", "run_ctas_watched"), (
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64,
        *(ctypes.c_void_p,) * 3))
    return load(text, signatures)


class _Constants:
    """Literals as vectors in memory: 128 bytes of 32-bit words, then 256 bytes of 64-bit ones."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._blocks: list[bytes] = []

    def place(self, word: int) -> int:
        """Where the literal lies."""
        word &= (1 << 64) - 1
        if word not in self._places:
            self._places[word] = place(Base.CONSTANTS, 384 * len(self._blocks))
            narrow = np.full(32, word & 0xFFFFFFFF, np.uint32).tobytes()
            self._blocks.append(narrow + np.full(32, word, np.uint64).tobytes())
        return self._places[word]

    def array(self) -> NDArray[np.uint8]:
        """All literals, 64-byte aligned."""
        data = b"".join(self._blocks) or bytes(384)
        raw = np.zeros(len(data) + 64, np.uint8)
        start = -raw.ctypes.data % 64
        raw[start : start + len(data)] = np.frombuffer(data, np.uint8)
        return raw[start : start + len(data)]


class ThreadedCode:
    """A program's records, ready for run_ctas. Immutable after construction."""

    def __init__(self, program: Program, options: Iterable[str] = (),
                 stops: AbstractSet[int] = frozenset()) -> None:
        self.program = program
        self.options = frozenset(options)
        self._asked = stops
        self._constants = _Constants()
        self._leaders = {block.start for block in program.blocks}
        primitives = self._primitives()
        #: Sites that the NumPy executors run.
        self.stops = frozenset(
            site.index for site, p in zip(program.sites, primitives, strict=True)
            if self._kind(site, p) is Kind.STOP)
        #: Sites that a whole warpgroup executes together.
        self.products = np.array([site.index for site in program.sites
                                  if site.form.family == "wgmma.mma_async"], np.int64)
        self._operands = [self._places(site) for site in program.sites]
        self.records = self._records(primitives)
        self.constants = self._constants.array()
        watched = "filter" in self.options
        self.run_ctas: Callable[..., None] = library()[
            "run_ctas_watched" if watched else "run_ctas"]

    # --- primitives

    def _primitives(self) -> list[Primitive]:
        named = [o.removeprefix("target:") for o in self.options if o.startswith("target:")]
        target = named[0] if named else self.program.target
        tickets = _tickets(self.program)
        keys: list[object] = []
        wanted: dict[object, _Written | None] = {}
        for site in self.program.sites:
            if site.index in tickets or site.index in self._asked or not _may_have_code(site):
                keys.append(None)
                continue
            key = _STORE.key(site, target, self.options)
            keys.append(key)
            if key not in wanted:
                wanted[key] = _STORE.written(key)
        _STORE.compile(wanted)
        return [_STORE[key] if key is not None else Primitive(None) for key in keys]

    def _kind(self, site: Site, primitive: Primitive) -> Kind:
        family = site.form.family
        if site.index in self._asked:
            return Kind.STOP
        if family == "bra":
            return Kind.BRANCH
        if family == "brx.idx":
            return Kind.TABLE
        if family == "exit":
            return Kind.EXIT
        if is_cta_barrier(site):
            return Kind.BARRIER
        return Kind.STOP if primitive.handle is None else Kind.PRIMITIVE

    # --- records

    def _records(self, primitives: list[Primitive]) -> NDArray[np.int32]:
        count = len(self.program.sites)
        records = np.zeros((count + 1, RECORD_WORDS), np.int32)
        wide = records.view(np.int64)
        records[:, Record.GUARD // 4] = -1
        records[count, Record.KIND // 4] = Kind.STOP
        for site, primitive in zip(self.program.sites, primitives, strict=True):
            row = records[site.index]
            row[Record.KIND // 4] = self._kind(site, primitive)
            wide[site.index, Record.FUNCTION // 8] = primitive.address
            wide[site.index, Record.OPERANDS // 8] = self._operands[site.index].ctypes.data
            if site.guard is not None:
                row[Record.GUARD // 4] = 4 * site.guard[0]
                row[Record.GUARD_XOR // 4] = -1 if site.guard[1] else 0
            flags = Flag.LEADER if site.index in self._leaders else 0
            row[Record.FLAGS // 4] = flags | (Flag.WHOLE if primitive.whole else 0)
            self._set_target(row, site)
        records[count, Record.FLAGS // 4] = Flag.LEADER
        return records

    def _set_target(self, row: NDArray[np.int32], site: Site) -> None:
        target = next((op for op in site.operands if isinstance(op, Target)), None)
        if target is None:
            return
        table = site.form.family == "brx.idx"
        row[Record.TARGET // 4] = len(target.sites) if table else target.sites[0]
        row[Record.COST // 4] = max(1, site.index + 1 - min(target.sites))

    def _places(self, site: Site) -> NDArray[np.int32]:
        if site.form.family == "brx.idx":
            return self._table(site)
        words = [self._place(op) for _, op in leaves(site.operands)]
        words += [0] * (len(words) & 1)
        for op in site.operands:
            if isinstance(op, Addr):
                offset = op.offset & (1 << 64) - 1
                words += [offset & 0xFFFFFFFF, offset >> 32]
        return np.array(words or [0], np.uint32).view(np.int32)

    def _table(self, site: Site) -> NDArray[np.int32]:
        index = site.operands[0]
        target = next(op for op in site.operands if isinstance(op, Target))
        slot = index.slot if isinstance(index, Reg) else 0
        return np.array([128 * slot, *target.sites], np.int32)

    def _place(self, op: Op) -> int:
        if isinstance(op, Guarded):
            op = op.reg
        if isinstance(op, Addr):
            op = op.base if op.base is not None else Unused()
        if isinstance(op, Reg):
            return place(_BASE[op.file], _STRIDE[op.file] * op.slot)
        if isinstance(op, (Imm, Symbol)):
            return self._constants.place(op.word)
        if isinstance(op, Special) and op.name in KNOWN:
            return special_place(op.name)
        return place(Base.CONSTANTS, 0)


def is_cta_barrier(site: Site) -> bool:
    """``bar.sync 0;`` by the whole CTA, which the interpreter completes by itself."""
    ops = site.operands
    return (site.form.family == "bar.sync" and site.guard is None and len(ops) == 1
            and isinstance(ops[0], Imm) and ops[0].word == 0)


def _tickets(program: Program) -> set[int]:
    """Atomics on global memory whose old value is used: CTAs get theirs in a fixed order.

    Compiled code would let the host's threads decide, and a run would not be like the last one.
    """
    atomics = {s.index for s in program.sites if s.form.family == "atom"
               and not s.form.modifiers.get("space", "").startswith("shared")}
    if not atomics:
        return set()
    out_of = live_slots(program.sites, program.blocks).out_of
    found = set()
    for block in program.blocks:
        live = set(out_of[block.index])
        for site in reversed(program.sites[block.start : block.stop]):
            written = writes_of(site)
            if site.index in atomics and written & live:
                found.add(site.index)
            if site.guard is None:
                live -= written
            live |= reads_of(site)
    return found


def _may_have_code(site: Site) -> bool:
    return site.form.family in GENERATORS and all(
        op.name in KNOWN for _, op in leaves(site.operands) if isinstance(op, Special))
