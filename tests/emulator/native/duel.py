"""The same program under both executors, from the same state; everything must come out equal.

    program = program_of([site("add.s32", (reg(0), reg(1), Imm(5)))])
    difference(program, seed) == ""

Registers start with random and special words, some lanes have ended, memory has one of each kind.
`random_site` makes an instruction of any form with operands of every kind that it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import FIRST_BUFFER_TAG, TAG_SHIFT, AddressSpace
from mmalab.emulator.native import ThreadedScheduler, code_for
from mmalab.emulator.native.generate import KNOWN
from mmalab.emulator.program import (
    Addr,
    BasicBlock,
    Guarded,
    Imm,
    Program,
    Reg,
    Site,
    Special,
    Unused,
    Vec,
)
from mmalab.emulator.state import LaunchShape, Status
from mmalab.emulator.types import width
from mmalab.errors import MmalabError
from mmalab.isa.form import Form
from mmalab.isa.lookup import find

#: Registers of the programs; the last of r and q hold addresses and a full lane mask,
#: and are never written.
R, Q, P = 24, 24, 8
ADDRESSES = 7
BYTES = 4096
SHARED = 1024
THREADS = 80
_GLOBAL = FIRST_BUFFER_TAG << TAG_SHIFT
_CONST = (FIRST_BUFFER_TAG + 1) << TAG_SHIFT
_BASES = {"": _GLOBAL, "global": _GLOBAL, "const": _CONST, "local": 0, "param": 0}

_SPECIAL32 = np.array([
    0, 1, 2, 31, 32, 33, 63, 64, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0x80000001,
    0xFFFFFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0x00000001, 0x007FFFFF, 0x00800000,
    0x3F800000, 0xBF800000, 0x3F000000, 0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x33800000, 0x477FE000,
    0x477FF000, 0x7BFF7C00, 0xFC007E00, 0x00018001, 0x03FF0400, 0x3C00BC00, 0x7F80FF80, 0x3F80BF80,
    0x00800080, 0x7C017F81,
], np.uint32)
_SPECIAL64 = np.array([
    0, 1, 2, 63, 64, 65, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
    0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000,
    0x0010000000000000, 0x000FFFFFFFFFFFFF, 0x3FF0000000000000, 0xBFF0000000000000,
    0x3FE0000000000000, 0x43E0000000000000, 0x41DFFFFFFFC00000, 0x36A0000000000000,
    0x380FFFFFE0000000, 0x47EFFFFFF0000000, 0x4000000000000001, 0x8000000000000000,
], np.uint64)


def words32(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random words, special ones, small integers, moderate floats and packed halves."""
    pools = [
        rng.integers(0, 2**32, shape, dtype=np.uint32),
        rng.choice(_SPECIAL32, shape),
        rng.integers(0, 70, shape).astype(np.uint32),
        rng.normal(size=shape, scale=4).astype(np.float32).view(np.uint32),
        rng.normal(size=(*shape, 2)).astype(np.float16).view(np.uint32)[..., 0],
    ]
    return np.choose(rng.integers(0, len(pools), shape), pools)


def words64(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Random words, special ones, small integers, doubles, and floats widened to doubles."""
    floats = words32(rng, shape).view(np.float32)
    pools = [
        rng.integers(0, 2**64, shape, dtype=np.uint64),
        rng.choice(_SPECIAL64, shape),
        rng.integers(0, 70, shape).astype(np.uint64),
        (rng.normal(size=shape) * 1000).view(np.uint64),
        np.where(np.isnan(floats), np.float32(1.5), floats).astype(np.float64).view(np.uint64),
    ]
    return np.choose(rng.integers(0, len(pools), shape), pools)


class Prepared(Machine):
    """A machine whose warps start with random registers, memory and missing lanes."""

    seed = 0
    whole = False

    def begin(self, ctas: Any) -> None:
        """As the machine, then fill."""
        super().begin(ctas)
        rng = np.random.default_rng(self.seed)
        state, space = self.state, self.space
        state.r[:] = words32(rng, state.r.shape)
        state.q[:] = words64(rng, state.q.shape)
        state.p[:] = rng.integers(0, 2**32, state.p.shape, dtype=np.uint32)
        state.p[:, P - 2], state.p[:, P - 1] = 0, 0xFFFFFFFF
        space.shared.data[:] = words32(rng, (space.shared.data.size // 4,)).view(np.uint8)
        space.local.data[:] = words32(rng, (space.local.data.size // 4,)).view(np.uint8)
        self._addresses(rng)
        if not self.whole:
            gone = rng.random(32) < 0.4
            state.status[1][gone] = Status.EXITED

    def _addresses(self, rng: np.random.Generator) -> None:
        """The last registers: neighbours, scattered multiples of 16, one place, backwards."""
        state, lane = self.state, np.arange(32)
        for slot in range(ADDRESSES):
            for row in range(state.rows):
                start = 64 * int(rng.integers(0, 4))
                offsets = [start + lane * 4, start + lane * 8, start + lane * 16,
                           16 * rng.integers(0, 30, 32), np.full(32, start),
                           16 * (31 - lane), np.full(32, 0xFFFFFFFF)][slot]
                state.r[row, R - ADDRESSES + slot] = offsets
                state.q[row, Q - ADDRESSES + slot] = offsets


def machine(program: Program, seed: int, *, whole: bool = False, threads: int = THREADS,
            numerics: str = "exact", sanitize: bool = False) -> Prepared:
    """A fresh machine in the state that `seed` makes."""
    rng = np.random.default_rng(seed + 1)
    space = AddressSpace()
    space.add_bytes("data", words32(rng, (BYTES // 4,)).view(np.uint8), base=_GLOBAL,
                    space="global")
    space.add_bytes("table", words32(rng, (BYTES // 4,)).view(np.uint8), base=_CONST,
                    space="const")
    space.set_params(words32(rng, (256,)).tobytes())
    made = Prepared(program, LaunchShape((1, 1, 1), (threads, 1, 1)), space, numerics=numerics,
                    sanitize=sanitize)
    made.seed, made.whole = seed, whole
    return made


def program_of(sites: Sequence[Site], target: str = "sm_120a") -> Program:
    """The sites one after the other, then exit."""
    numbered = [replace(s, index=i, line=i + 1) for i, s in enumerate([*sites, site("exit", ())])]
    slots = {"r": R, "q": Q, "p": P}
    block = BasicBlock(0, 0, len(numbered), ())
    return Program("k", target, tuple(numbered), (block,), slots, (), 1024, SHARED + BYTES,
                   SHARED + BYTES, 512)


def site(opcode: str | Form, operands: tuple[Any, ...],
         guard: tuple[int, bool] | None = None) -> Site:
    """One instruction."""
    form = find(opcode) if isinstance(opcode, str) else opcode
    return Site(0, 1, form, operands, guard, form.key)


def outcome(made: Machine) -> dict[str, Any]:
    """Everything that two executors must agree on."""
    state, space = made.state, made.space
    return {
        "r": state.r, "q": state.q, "p": state.p, "carry": state.carry, "status": state.status,
        "shared": space.shared.data, "local": space.local.data, "data": space.buffers[0].data,
        "counts": made.counts, "counters": {k: v for k, v in made.counters.items() if v},
        "instructions": made.instructions, "deadlock": made.deadlock,
        "findings": sorted((f.code, f.message, str(f.where), str(f.witness))
                           for f in made.findings.values()),
    }


def run_both(program: Program, seed: int, *, max_steps: int = 100_000, **options: Any,
             ) -> tuple[dict[str, Any], dict[str, Any], ThreadedScheduler | None]:
    """Outcomes of the interpreter and of compiled code; errors are outcomes too."""
    results: list[dict[str, Any]] = []
    scheduler = None
    for native in (False, True):
        made = machine(program, seed, **options)
        try:
            if native:
                scheduler = ThreadedScheduler(made, code_for(made), max_steps=max_steps)
                scheduler.run()
            else:
                Interpreter(made, max_steps=max_steps).run()
            results.append(outcome(made))
        except MmalabError as error:
            results.append({"error": f"{type(error).__name__}: {error}"})
    return results[0], results[1], scheduler


#: What depends on whose turn it was.
_TURNS = ("counts", "counters", "instructions")


def _wrong_masks(seen: dict[str, Any]) -> bool:
    return any(finding[0] == "warp-sync-mask" for finding in seen["findings"])


def difference(program: Program, seed: int, **options: Any) -> str:
    """"" when both executors agree, else what differs, with the first words."""
    one, other, _ = run_both(program, seed, **options)
    if "error" in one or "error" in other:
        return "" if one == other else f"{one.get('error')} / {other.get('error')}"
    if _wrong_masks(one) and _wrong_masks(other):
        # Which lanes of a program with wrong lane masks go first is nobody's promise: neither how
        # often a collective is taken up nor which lane is told of first. What comes out is.
        one, other = ({k: v for k, v in seen.items() if k not in _TURNS}
                      | {"findings": sorted({f[0] for f in seen["findings"]})}
                      for seen in (one, other))
    told = []
    for name, value in one.items():
        if isinstance(value, np.ndarray):
            places = np.argwhere(value != other[name])
            if len(places):
                at = tuple(places[0].tolist())
                told.append(f"{name}{list(at)}: {value[at]:#x} in NumPy, {other[name][at]:#x} "
                            f"compiled, {len(places)} places")
        elif value != other[name]:
            told.append(f"{name}: {value} in NumPy, {other[name]} compiled")
    return "; ".join(told)


# --- random instructions --------------------------------------------------------------------------

class Maker:
    """Random operands for a form; `Unfit` forms need state that these programs lack."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def site(self, form: Form, *, guarded: bool = True) -> Site:
        """An instruction of the form."""
        operands = [self._operand(form, i) for i in range(len(form.operands))]
        while operands and operands[-1] is None:
            operands.pop()
        operands = [Unused() if op is None else op for op in operands]
        guard = None
        if guarded and self.rng.random() < (0.1 if _together(form) else 0.5):
            guard = (int(self.rng.integers(0, P)), bool(self.rng.integers(0, 2)))
        return Site(0, 1, form, tuple(operands), guard, form.key)

    def _operand(self, form: Form, index: int) -> Any:
        spec, rng = form.operands[index], self.rng
        if spec.optional and spec.role in ("read", "immediate") and rng.random() < 0.5:
            return None
        if spec.role == "sink":
            return Unused()
        if spec.role == "address":
            return self._address(form, index)
        if spec.role == "immediate" or (spec.role == "read" and self._is_literal(form, spec)):
            return self._literal(form, spec)
        if spec.vector:
            first = self._first(spec.type, spec.count)
            return Vec(tuple(self._register(spec.type, first + k) for k in range(spec.count)))
        if spec.role == "read":
            return self._source(form, spec)
        register = self._register(spec.type)
        return Vec((register, self._register(spec.pair))) if spec.pair and (
            spec.pair_required or rng.random() < 0.5) else register

    def _is_literal(self, form: Form, spec: Any) -> bool:
        named = spec.name in ("membermask", "mask") or (
            form.family == "shfl.sync" and spec.name in "bc")
        return named and bool(self.rng.random() < 0.8)

    def _literal(self, form: Form, spec: Any) -> Any:
        if spec.name in ("membermask", "mask"):
            return Imm(0xFFFFFFFF) if self.rng.random() < 0.7 else Reg("r", R - 1, 32)
        if form.family == "shfl.sync" and spec.name == "c":
            return Imm(int(self.rng.choice([31, 0, 0x1C1F, 0x181F, 0x1F, 0x0F1F])))
        values = spec.values if spec.values is not None else range(32)
        pick = lambda: Imm(int(list(values)[self.rng.integers(len(values))]))  # noqa: E731
        return Vec(tuple(pick() for _ in range(spec.count))) if spec.vector else pick()

    def _source(self, form: Form, spec: Any) -> Any:
        kind, draw = spec.type, self.rng.random()
        if kind == "pred":
            register = self._register("pred")
            return register if draw < 0.5 else Guarded(register, True) if draw < 0.9 else Imm(1)
        if draw < 0.2 and not form.family.startswith(("mma", "wmma", "movm", "stm")):
            bits = width(kind)
            word = int(words64(self.rng, (1,))[0]) if bits == 64 else int(
                words32(self.rng, (1,))[0])
            return Imm(word & ((1 << bits) - 1)) if bits <= 64 else self._register(kind)
        if draw < 0.3 and width(kind) == 32:
            return Special(sorted(KNOWN)[self.rng.integers(len(KNOWN))])
        return self._register(kind)

    def _first(self, kind: str, count: int) -> int:
        most = (Q if width(kind) > 32 else R) - ADDRESSES - count
        return int(self.rng.integers(0, max(most, 1)))

    def _register(self, kind: str, slot: int | None = None) -> Reg:
        bits = 1 if kind == "pred" else max(width(kind), 16)
        if bits == 1:
            return Reg("p", int(self.rng.integers(0, P - 2)), 1)
        file, count = ("q", Q) if bits > 32 else ("r", R)
        if slot is None:
            slot = int(self.rng.integers(0, count - ADDRESSES - 2))
        return Reg(file, slot, bits)

    def _address(self, form: Form, index: int) -> Addr:
        space = form.modifiers.get("space", "").partition("::")[0]
        if form.family == "cp.async":
            space = "shared" if index == 0 else "global"
        size = _access_bytes(form)
        fit = [0, 1, 2, 3, 4, 5] if size <= 4 else [1, 2, 3, 4, 5] if size == 8 else (
            [2, 3, 4, 5] if size == 16 else [4])
        which = 4 if space in ("local", "param") else int(self.rng.choice(fit))
        offset = max(size, 16) * int(self.rng.integers(0, 4))
        if space == "shared":
            return Addr(Reg("r", R - ADDRESSES + which, 32), SHARED + offset)
        if space in ("local", "param"):
            return Addr(Reg("r", R - ADDRESSES + which, 32), offset)
        return Addr(Reg("q", Q - ADDRESSES + which, 64), _BASES[space] + offset)


def _together(form: Form) -> bool:
    """Whether only full warps have compiled code for it."""
    return form.family.endswith(".sync") or "matrix" in form.family or "mma" in form.family


def _access_bytes(form: Form) -> int:
    """Bytes per lane, which is the alignment too."""
    if form.family in ("cp.async", "ldmatrix", "stmatrix") or form.family.startswith("wmma"):
        return 16
    values = [s for s in form.operands if s.role != "address"]
    return max((s.count * width(s.type) // 8 for s in values[:1]), default=16)
