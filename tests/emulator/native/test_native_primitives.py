"""Every form that has compiled code: the same words as the NumPy executor leaves, everywhere.

A family's forms are drawn at random, with registers, literals, special registers, guards and
overlapping operands, and run one after the other over full, partial and empty warps.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from duel import Maker, P, difference, machine, program_of, run_both, site

from mmalab.emulator.execute import EXECUTORS
from mmalab.emulator.native import ThreadedScheduler, code_for
from mmalab.emulator.native.generate import GENERATORS
from mmalab.emulator.native.primitive import PrimitiveWriter
from mmalab.emulator.program import Addr, Imm, Reg
from mmalab.errors import UnknownForm
from mmalab.isa.lookup import find, forms

CORPUS = Path(__file__).parents[2] / "corpus" / "opcodes.json"
PER_FAMILY = 14
#: Families that random memory says nothing about: test_native_mbarriers.py.
ELSEWHERE = frozenset({"mbarrier.arrive", "mbarrier.expect_tx", "mbarrier.test_wait",
                       "mbarrier.try_wait"})
MEETING = frozenset({"st", "atom", "red", "stmatrix", "cp.async"})


@functools.cache
def _by_family():
    found = {}
    for key in forms():
        form = find(key)
        if form.family in GENERATORS:
            found.setdefault(form.family, []).append(form)
    return found


def _has_code(one):
    """Whether a generator takes the instruction."""
    writer = PrimitiveWriter(one, "primitive", target="sm_120a", options={"numerics:exact"})
    return GENERATORS[one.form.family](writer)


def _blame(sites, seed, **options):
    """The instructions that differ when they run alone."""
    told = []
    for one in sites:
        found = difference(program_of([one]), seed, **options)
        if found:
            told.append(f"{one.form.key} {one.operands} guard {one.guard}: {found}")
    return told


@pytest.mark.parametrize("family", sorted(set(_by_family()) - ELSEWHERE))
def test_compiled_forms_equal_the_executors(family):
    """Registers, predicates, memory, counters: equal after random instructions of the family."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    pool = _by_family()[family]
    maker = Maker(rng)
    drawn = [maker.site(pool[i % len(pool)])
             for i in rng.permutation(max(len(pool), PER_FAMILY))[:PER_FAMILY]]
    sites = [one for one in drawn if _has_code(one)]
    # warps meet in memory: only one instruction at a time has one order
    programs = [[one] for one in sites] if family in MEETING else [sites]
    for body in programs:
        for whole in (False, True):
            found = difference(program_of(body), seed, whole=whole)
            assert not found, "\n".join(_blame(body, seed, whole=whole) or [found])


def test_every_family_with_a_generator_has_an_executor():
    """The executor is the specification: no compiled family goes without."""
    assert set(GENERATORS) <= set(EXECUTORS)


def test_compiled_code_is_what_runs():
    """A program of plain instructions runs to its end without the machine's executors."""
    program = program_of([site("add.s32", (Reg("r", 0, 32), Reg("r", 1, 32), Imm(5)))] * 3)
    made = machine(program, 1)
    ThreadedScheduler(made, code_for(made)).run()
    assert int(made.native_sites.sum()) == int(made.counts.sum()) > 0


@pytest.mark.parametrize("slot", [P - 2, P - 1])
@pytest.mark.parametrize("negated", [False, True])
def test_guards_that_are_the_same_for_all_lanes(slot, negated):
    """All-off and all-on guards, either sign: the instruction runs for nobody or everybody."""
    body = [site("xor.b32", (Reg("r", 2, 32), Reg("r", 2, 32), Imm(0xFFFFFFFF)), (slot, negated)),
            site("st.shared.b32", (Addr(Reg("r", 17, 32), 1024), Reg("r", 2, 32)), (slot, negated)),
            site("setp.lt.s32", (Reg("p", 1, 1), Reg("r", 3, 32), Imm(7)), (slot, negated))]
    assert difference(program_of(body), 11) == ""


@pytest.mark.parametrize("opcode", ["add.f16x2", "mul.rn.bf16x2", "fma.rn.f16x2", "fma.rn.bf16",
                                    "sub.f16", "ex2.approx.ftz.bf16x2", "tanh.approx.f16"])
def test_all_pairs_of_many_halves(opcode):
    """Hundreds of random and special halves, operand by operand."""
    form = find(opcode)
    bits = 32 if form.modifiers["type"].endswith("x2") else 16
    rng = np.random.default_rng()
    seed = int(rng.integers(2**32))
    print("seed", seed)
    one = site(form, tuple(Reg("r", i, bits) for i in range(len(form.operands))))
    for i in range(12):
        assert difference(program_of([one]), seed + i, whole=True) == ""


@pytest.mark.parametrize("opcode", ["ex2.approx.f32", "ex2.approx.ftz.f32", "lg2.approx.f32",
                                    "tanh.approx.f32", "rsqrt.approx.f32", "rcp.approx.ftz.f32"])
def test_approximate_functions_are_the_executors(opcode):
    """Thousands of arguments of all sizes give the executor's word each time."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    body = [site(opcode, (Reg("r", i, 32), Reg("r", i, 32))) for i in range(16)]
    for i in range(8):
        assert difference(program_of(body), seed + i, whole=True) == ""


@pytest.mark.parametrize("opcode", ["ld.global.b32", "ld.shared.v4.b32", "st.global.u16",
                                    "st.shared.b64", "ld.local.u8", "st.local.v2.b32",
                                    "ld.param.u64", "ld.u32", "st.u32", "ld.const.f32",
                                    "atom.shared.add.u32", "atom.global.max.s32",
                                    "cp.async.ca.shared.global"])
@pytest.mark.parametrize("wrong", [1, 2, 4096, 1 << 20, -(1 << 22)])
def test_faults_are_the_interpreters(opcode, wrong):
    """Misaligned and wild addresses in some lanes: the same finding, word for word."""
    form = find(opcode)
    rng = np.random.default_rng(5)
    made = Maker(rng).site(form, guarded=False)
    operands = tuple(
        Addr(op.base, op.offset + wrong, op.coordinates, op.space) if isinstance(op, Addr) else op
        for op in made.operands)
    program = program_of([site(form, operands)])
    one, other, _ = run_both(program, 3)
    assert one["findings"] == other["findings"]
    if wrong in (4096, 1 << 20):
        assert one["findings"]


def test_a_constant_is_not_global_memory():
    """ld.global of a .const variable, and ld.const of an array, are out of bounds in both."""
    table, data = 17 << 40, 16 << 40
    for opcode, base in (("ld.global.b32", table), ("ld.const.b32", data)):
        program = program_of([site(opcode, (Reg("r", 0, 32), Addr(None, base)))])
        one, other, _ = run_both(program, 3)
        assert one["findings"] == other["findings"] != []


def test_corpus_opcodes_without_a_generator():
    """Lists what the executors still run in the corpus; the share with code does not shrink."""
    missing, total, rng = [], 0, np.random.default_rng(0)
    elsewhere = ("bra", "brx.idx", "exit", "ret", "call", "bar.sync")
    for key, row in json.loads(CORPUS.read_text()).items():
        try:
            form = find(key)
        except UnknownForm:
            print("not in the table:", key)
            continue
        total += row["count"]
        if form.family not in elsewhere and not (
            form.family in GENERATORS and _has_code(Maker(rng).site(form, guarded=False))
        ):
            missing.append((row["count"], key))
    for count, key in sorted(missing, reverse=True):
        print(f"{count:6} {key}")
    assert sum(count for count, _ in missing) < 0.05 * total
