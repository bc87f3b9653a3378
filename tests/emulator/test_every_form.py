"""Every form of the table: executed, or refused by name; masks respected; nothing crashes."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from emulation import run_kernel

from mmalab.emulator.execute import EXECUTORS
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.machine import Machine
from mmalab.emulator.memory import FIRST_BUFFER_TAG, TAG_SHIFT, AddressSpace
from mmalab.emulator.program import Addr, BasicBlock, Imm, Program, Reg, Site, Vec
from mmalab.emulator.state import LaunchShape
from mmalab.emulator.types import width
from mmalab.errors import UnsupportedInstruction, UsageError
from mmalab.isa.lookup import find, forms

#: Families without an executor, and why.
NOT_EMULATED = {
    "brkpt": "there is no debugger", "mov.vec": "vector registers are moved one by one",
    "shfl": "removed from PTX for sm_70 and later", "vote": "removed from PTX for sm_70 and later",
    "alloca": "no stack pointer is kept", "stacksave": "no stack pointer is kept",
    "stackrestore": "no stack pointer is kept",
}
#: What is refused, how, and what is offered instead.
REFUSED = {
    "multimem.red.relaxed.sys.global.add.f32 [%rd1], %f1;": ("several GPUs", "red, ld and st"),
    "tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1}];": ("textures", "ld.global.nc"),
    "alloca.u64 %rd2, 16, 8;": ("no stack pointer", ".local variable"),
    "vote.all.pred %p1, %p2;": ("sm_70 and later", "vote.sync"),
    "mov.v2.b32 {%r1,%r2}, {%r3,%r4};": ("register by register", "mov of each"),
    "brkpt;": ("no debugger", "trap"),
}
#: Families that belong to clusters and asynchronous units, for which executors may yet come.
LATER = ("clusterlaunchcontrol", "wgmma", "tcgen05", "multimem", "tex", "su", "tld4",
         "tq", "isty", "txq")
STATEFUL = {"addc", "subc", "madc", "activemask", "mov"}


@functools.cache
def _forms():
    return tuple(find(key) for key in forms())


def test_every_family_has_an_executor_or_a_reason():
    """No family of the table is forgotten."""
    families = {form.family for form in _forms()}
    missing = {f for f in families - set(EXECUTORS) - set(NOT_EMULATED)
               if not f.startswith(LATER)}
    assert missing == set()
    assert set(NOT_EMULATED) <= families


@pytest.mark.parametrize("instruction", REFUSED)
def test_a_refusal_says_why_and_what_instead(instruction):
    """By its name, with the reason, and with something that does the same."""
    why, instead = REFUSED[instruction]
    body = "ld.param.u64 %rd1, [p0]; mov.u32 %r1, 0; setp.eq.u32 %p2, %r1, 0;\n" + instruction
    with pytest.raises(UnsupportedInstruction) as refused:
        run_kernel(body + " ret;", [np.zeros(4, np.uint32)], target="sm_90a")
    text = str(refused.value)
    assert text.startswith(instruction.partition(" ")[0].rstrip(";"))
    assert [word for word in (why, instead, "line") if word not in text] == []


def _register(counts, kind):
    bits = max(width(kind), 16) if kind != "pred" else 1
    file = "p" if bits == 1 else "r" if bits <= 32 else "q"
    slot = counts[file]
    counts[file] += 2 if bits == 128 else 1
    return Reg(file, slot, bits)


#: Where each state space has room in these tests: 64 bytes, 64-byte aligned.
PLACES = {"shared": 1024, "local": 0, "param": 0}


def _operand(spec, counts, space=""):
    if spec.role == "address":
        return Addr(None, PLACES.get(space, FIRST_BUFFER_TAG << TAG_SHIFT))
    if spec.role == "immediate":
        values = spec.values if spec.values is not None else (0,)
        literal = Imm(next(iter(values)))
        return Vec((literal,) * spec.count) if spec.vector else literal
    if spec.vector:
        return Vec(tuple(_register(counts, spec.type) for _ in range(spec.count)))
    first = _register(counts, spec.type)
    return Vec((first, _register(counts, spec.pair))) if spec.pair else first


def _machine(form, warps=3):
    """A machine with random registers at one site of the form."""
    counts = {"r": 0, "q": 0, "p": 0}
    space = form.modifiers.get("space", "").partition("::")[0]
    operands = tuple(_operand(spec, counts, space) for spec in form.operands
                     if not (spec.optional and spec.role == "read"))
    site = Site(0, 1, form, operands, None, form.key)
    program = Program("k", "sm_120a", (site,), (BasicBlock(0, 0, 1, ()),), counts, (), 0, 0, 1024,
                      64)
    memory = AddressSpace()
    memory.add_bytes("buffer", np.full(64, 3, np.uint8), base=FIRST_BUFFER_TAG << TAG_SHIFT,
                     space="const" if space == "const" else "global")
    memory.set_params(bytes(range(64)))
    machine = Machine(program, LaunchShape((1, 1, 1), (32 * warps, 1, 1), (1, 1, 1), 64), memory,
                      sanitize=False)
    machine.begin(np.arange(1))
    return machine, site


def _fill(machine, seed):
    rng = np.random.default_rng(seed)
    state = machine.state
    state.r[:] = rng.integers(0, 2**32, state.r.shape, dtype=np.uint32)
    state.q[:] = rng.integers(0, 2**64, state.q.shape, dtype=np.uint64)
    state.p[:] = rng.integers(0, 2**32, state.p.shape, dtype=np.uint32)
    state.carry[:] = rng.integers(0, 2**32, state.carry.shape, dtype=np.uint32)


def _snapshot(machine):
    state = machine.state
    lanes = np.arange(32, dtype=np.uint32)
    bits = state.p[..., None] >> lanes & 1
    return [state.r.copy(), state.q.copy(), bits]


def _computes(form):
    return (form.family in EXECUTORS and form.operands
            and all(s.role in ("read", "write", "immediate") for s in form.operands)
            and any(s.role == "write" for s in form.operands)
            and not form.family.startswith(("bar", "mbarrier", "createpolicy", "brx")))


@functools.cache
def _by_family():
    found = {}
    for form in _forms():
        if _computes(form):
            found.setdefault(form.family, []).append(form)
    return found


@pytest.mark.parametrize("family", sorted(_by_family()))
def test_lanes_outside_the_mask_keep_their_registers(family):
    """Under a random mask, selected lanes get what they get alone, the others keep their words."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    chosen = _by_family()[family]
    chosen = [chosen[i] for i in sorted(rng.permutation(len(chosen))[:40])]
    collective = family.endswith(".sync") or "mma" in family or "matrix" in family
    for form in chosen:
        try:
            machine, site = _machine(form)
            _fill(machine, seed)
            before = _snapshot(machine)
            mask = (np.repeat(rng.random((3, 1)) < 0.5, 32, axis=1) if collective
                    else rng.random((3, 32)) < 0.5)
            rows = np.arange(3)
            EXECUTORS[family](Lanes(machine, site, rows, mask))
            masked = _snapshot(machine)
            _fill(machine, seed)
            EXECUTORS[family](Lanes(machine, site, rows, np.ones((3, 32), bool)))
            full = _snapshot(machine)
        except (UnsupportedInstruction, UsageError):
            continue  # refused, by name
        for old, some, every in zip(before, masked, full, strict=True):
            keep = np.broadcast_to(~mask[:, None], old.shape)
            assert np.array_equal(old[keep], some[keep]), form.key
            if family not in STATEFUL:
                assert np.array_equal(every[~keep], some[~keep]), form.key


def test_an_empty_mask_executes_nothing():
    """With all lanes off no executor runs, even one that would fault."""
    for family, found in _by_family().items():
        machine, site = _machine(found[0])
        _fill(machine, 1)
        before = _snapshot(machine)
        machine.execute(site, np.arange(3), np.zeros((3, 32), bool))
        assert all(map(np.array_equal, before, _snapshot(machine))), family
        assert machine.findings == {}


def _touches_memory(form):
    return (form.family in ("ld", "ldu", "st", "atom", "red", "prefetch", "prefetchu", "discard",
                            "applypriority", "ldmatrix", "stmatrix", "wmma.load", "wmma.store")
            and form.modifiers.get("space") != "shared::cluster"
            and "tensormap" not in form.modifiers  # 128 bytes that are one: test_tma_maps.py
            and not form.key.startswith("st.param"))


@pytest.mark.parametrize("family", sorted({f.family for f in _forms() if _touches_memory(f)}))
def test_every_memory_form_runs(family):
    """Each load, store and atomic form executes on valid addresses, without a finding."""
    found = [f for f in _forms() if f.family == family and _touches_memory(f)]
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    order = np.random.default_rng(seed).permutation(len(found))[:60]
    for form in (found[i] for i in order):
        machine, site = _machine(form)
        _fill(machine, seed)
        before = _snapshot(machine)
        try:
            machine.execute(site, np.arange(3), np.ones((3, 32), bool))
        except UnsupportedInstruction as refusal:
            raise AssertionError(form.key) from refusal
        strided = family.startswith("wmma")
        assert strided or not machine.findings, (form.key, machine.findings)
        written = any(s.role == "write" for s in form.operands)
        changed = not all(map(np.array_equal, before, _snapshot(machine)))
        assert changed == written, form.key
