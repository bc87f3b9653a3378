"""Lowering: names, scopes, calls, tables, variables, blocks, liveness, undefined registers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from emulation import HEAD, interpret, kernel_text, program_of, quantum, run_kernel

from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.liveness import live_slots, reads_of, writes_of
from mmalab.emulator.lower import lower
from mmalab.emulator.program import Addr, Imm, Symbol, Unused
from mmalab.emulator.run import emulate
from mmalab.errors import LimitExceeded, UnknownForm, UnsupportedInstruction, UsageError
from mmalab.ptx import parse

MODULE = """
.global .align 4 .u32 numbers[3] = {5, 6, 7};
.const .align 4 .f32 half = 0f3F000000;
.global .u64 pointer = numbers+4;
.extern .shared .align 16 .b8 dynamic[];
.shared .align 8 .b8 fixed[24];
.func (.param .b32 r) twice(.param .b32 a) {
 .reg .b32 %r<3>; ld.param.b32 %r1, [a]; add.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.func (.reg .u32 r) thrice(.reg .u32 a) { mul.lo.u32 r, a, 3; ret; }
.func (.param .b32 r) minus(.param .b32 a) {
 .reg .b32 %r<3>; ld.param.b32 %r1, [a]; neg.s32 %r2, %r1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) endless(.param .b32 a) {
 .reg .b32 %r<3>; .param .b32 x; .param .b32 y; ld.param.b32 %r1, [a]; st.param.b32 [x], %r1;
 call (y), endless, (x); ld.param.b32 %r2, [y]; st.param.b32 [r], %r2; ret; }
.global .u64 table[2] = {twice, minus};
"""
CALL = """{{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), {}, (a){};
       ld.param.b32 %r2, [b]; }}"""


def _value(body, *, words=1, **options):
    out = np.zeros(words, np.uint32)
    run = run_kernel(body + " st.global.u32 [%rd40], %r2; ret;", [out], block=1, module=MODULE,
                     **options)
    return out.tolist() if words > 1 else out[0], run


def test_variables_have_their_initial_values():
    """Globals, constants and pointers to globals start as the module says."""
    body = """ld.global.u32 %r1, [numbers+8]; ld.global.u64 %rd1, [pointer]; ld.u32 %r3, [%rd1];
    ld.const.f32 %f1, [half]; cvt.rzi.u32.f32 %r4, %f1; mad.lo.u32 %r2, %r1, 10, %r3;"""
    assert _value(body)[0] == 76


def test_functions_are_inlined():
    """Parameters by memory and by register, two calls of one function."""
    assert _value("mov.u32 %r1, 21;" + CALL.format("twice", ""))[0] == 42
    assert _value("mov.u32 %r1, 4; call (%r2), thrice, (%r1); call (%r2), thrice, (%r2);")[0] == 36


def test_a_guarded_call_and_a_guarded_return():
    """@%p call skips the body for the other lanes."""
    out = np.zeros(4, np.uint32)
    run_kernel("""mov.u32 %r1, %tid.x; mov.u32 %r2, 50; setp.ge.u32 %p1, %r1, 2;
    @%p1 call (%r2), thrice, (%r1); mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %rd40, %rd1;
    st.global.u32 [%rd2], %r2; @%p1 ret; add.u32 %r2, %r2, 1; st.global.u32 [%rd2], %r2; ret;""",
               [out], block=4, module=MODULE)
    assert out.tolist() == [51, 51, 6, 9]


@pytest.mark.parametrize(("index", "want"), [(0, 14), (1, 2**32 - 7)])
def test_calls_through_a_table(index, want):
    """A call through a register reaches the function whose address it holds."""
    body = f"""proto: .callprototype (.param .b32 _) _ (.param .b32 _); mov.u32 %r1, 7;
    ld.global.u64 %rd3, [table+{8 * index}];""" + CALL.format("%rd3", ", proto")
    assert _value(body)[0] == want


RECURSIVE = """
.func (.param .b32 r) factorial(.param .b32 a) {
 .reg .b32 %r<5>; .reg .pred %p<2>; .param .b32 x; .param .b32 y; .local .align 4 .b8 own[4];
 ld.param.b32 %r1, [a]; st.local.u32 [own], %r1; mov.u32 %r4, 1;
 setp.lt.u32 %p1, %r1, 2; @%p1 bra OUT; sub.u32 %r2, %r1, 1; st.param.b32 [x], %r2;
 call (y), factorial, (x); ld.param.b32 %r3, [y]; ld.local.u32 %r2, [own];
 setp.ne.u32 %p1, %r1, %r2; @%p1 trap; mul.lo.u32 %r4, %r3, %r1;
OUT: st.param.b32 [r], %r4; ret; }
.func (.reg .u32 r) odd(.reg .u32 a);
.func (.reg .u32 r) even(.reg .u32 a) { .reg .pred p; .reg .u32 b; mov.u32 r, 1;
 setp.eq.u32 p, a, 0; @p ret; sub.u32 b, a, 1; call (r), odd, (b); ret; }
.func (.reg .u32 r) odd(.reg .u32 a) { .reg .pred p; .reg .u32 b; mov.u32 r, 0;
 setp.eq.u32 p, a, 0; @p ret; sub.u32 b, a, 1; call (r), even, (b); ret; }
"""


@pytest.mark.parametrize("size", [1, 64])
def test_recursive_functions_keep_their_invocations_apart(size):
    """Lanes recurse to different depths; registers and local memory come back."""
    out = np.zeros((2, 13), np.uint32)
    body = """mov.u32 %r1, %tid.x; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;
    call (b), factorial, (a); ld.param.b32 %r2, [b]; } call (%r3), even, (%r1);
    mul.wide.u32 %rd1, %r1, 4; add.s64 %rd2, %rd40, %rd1; st.global.u32 [%rd2], %r2;
    st.global.u32 [%rd2+52], %r3; ret;"""
    run = run_kernel(body, [out], block=13, module=RECURSIVE, executor=quantum(size))
    assert run.findings == []
    assert out[0].tolist() == [math.factorial(n) for n in range(13)]
    assert out[1].tolist() == [1 - n % 2 for n in range(13)]


def test_endless_recursion_ends():
    """A function that calls itself for ever meets the depth limit."""
    with pytest.raises(LimitExceeded, match="nested calls"):
        _value("mov.u32 %r1, 1;" + CALL.format("endless", ""))


def test_functions_without_a_body_are_refused_only_when_reached():
    """A call of vprintf is an error by name where a lane reaches it, and harmless elsewhere."""
    module = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    body = """mov.u64 %rd3, 0; mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, {}; @%p1 bra OUT;
    {{ .param .b64 a; .param .b64 b; .param .b32 c; call (c), vprintf, (a, b); }} OUT: ret;"""
    assert run_kernel(body.format(1), [], block=1, module=module).findings == []
    with pytest.raises(UnsupportedInstruction, match="vprintf"):
        run_kernel(body.format(0), [], block=1, module=module)


def test_scopes_have_their_own_registers_and_labels():
    """An inner block's register hides the outer one; labels repeat."""
    body = """mov.u32 %r2, 1; { .reg .b32 %r2; mov.u32 %r2, 100; bra L; L: add.u32 %r2, %r2, 1; }
    { .reg .b32 %r2; mov.u32 %r2, 5; bra L; L: } add.u32 %r2, %r2, 1;"""
    assert _value(body)[0] == 2


def test_vector_registers_have_components():
    """.reg .v4 .f32 v is v.x to v.w, and v in a vector place."""
    body = """.reg .v2 .u32 v; mov.u32 v.x, 3; mov.u32 v.y, 4; mad.lo.u32 %r2, v.x, 10, v.y;"""
    assert _value(body)[0] == 34


@pytest.mark.parametrize("index", range(4))
def test_branch_tables(index):
    """brx.idx jumps to the entry; an index beyond the table is a finding."""
    run_body = f"""mov.u32 %r1, {index}; T: .branchtargets A, B, C; mov.u32 %r2, 0;
    brx.idx %r1, T; A: mov.u32 %r2, 10; bra E; B: mov.u32 %r2, 20; bra E; C: mov.u32 %r2, 30; E:"""
    value, run = _value(run_body)
    if index < 3:
        assert value == 10 * (index + 1)
    else:
        assert [f.code for f in run.findings] == ["illegal-value"]


def test_shared_variables_are_placed_once_and_dynamic_memory_follows():
    """Static variables start at 1024, dynamic shared memory behind them, 16-byte aligned."""
    text = kernel_text(".shared .b32 word; mov.u32 %r1, fixed; mov.u32 %r2, dynamic;"
                       "mov.u32 %r3, word; st.shared.u32 [fixed+4], %r1; ret;", 0, module=MODULE)
    program = program_of(text)
    words = [op.word for s in program.sites for op in s.operands if isinstance(op, Symbol)]
    assert words == [1024, program.dynamic_offset, 1048]
    assert program.dynamic_offset == 1056
    assert program.static_shared == 28
    address = next(op for s in program.sites for op in s.operands if isinstance(op, Addr))
    assert (address.base, address.offset, address.space) == (None, 1028, "shared")


def test_unreferenced_shared_variables_take_no_room():
    """Only what the entry reaches is allocated."""
    assert program_of(kernel_text("ret;", 0, module=MODULE)).static_shared == 0


def test_literals_become_words_of_the_operand():
    """0f literals, decimals, negative numbers and wide words by the operand's type."""
    text = kernel_text("mov.f32 %f1, 0f40490FDB; mov.f32 %f2, 1.5;"
                       "mov.f64 %fd1, 0d4000000000000000;"
                       "mov.s32 %r1, -2; mov.u64 %rd1, -1; add.f64 %fd2, %fd1, 0f3F800000;"
                       "mov.b32 %r2, 0f3F800000; ret;", 0)
    words = [op.word for s in program_of(text).sites for op in s.operands if isinstance(op, Imm)]
    assert words == [0x40490FDB, 0x3FC00000, 0x4000000000000000, 0xFFFFFFFE, 2**64 - 1,
                     0x3FF0000000000000, 0x3F800000]


def test_missing_optional_operands_keep_their_place():
    """bar.red without a count has an unused operand where the count would stand."""
    text = kernel_text("setp.eq.u32 %p1, 0, 0; bar.red.popc.u32 %r1, 0, %p1; ret;", 0)
    site = next(s for s in program_of(text).sites if s.form.family == "bar.red")
    assert isinstance(site.operands[2], Unused)
    assert len(site.operands) == len(site.form.operands)


@pytest.mark.parametrize(("body", "error", "words"), [
    ("mov.u32 %r1, nothing;", UsageError, "nothing"),
    ("mov.u32 %q1, 5;", UsageError, "%q1"),
    ("bra NOWHERE;", UsageError, "NOWHERE"),
    ("@%r1 mov.u32 %r2, 5;", UsageError, "predicate"),
    ("addd.u32 %r1, %r2, %r3;", UnknownForm, "addd.u32"),
    ("add.u32 %r1, %r2;", UsageError, "operands"),
])
def test_bad_text_names_its_line(body, error, words):
    """Undeclared names, unknown opcodes and wrong counts are errors with the line."""
    text = kernel_text(body + " ret;", 0)
    with pytest.raises(error, match=words) as caught:
        lower(parse(text))
    assert "line" in str(caught.value)


def test_entries_are_chosen_by_name():
    """Two kernels need a name; an unknown one lists what there is."""
    text = HEAD.format(target="sm_80") + ".entry a() { ret; }\n.entry b() { ret; }\n"
    assert lower(parse(text), "b").entry == "b"
    with pytest.raises(UsageError, match="a, b"):
        lower(parse(text))
    with pytest.raises(UsageError, match="a, b"):
        emulate(text, [], entry="c", block=1)


def test_lowering_is_cached_by_text():
    """The same text gives the very same program."""
    text = kernel_text("ret;", 0)
    assert lower(parse(text)) is lower(parse(text))


# --- flow -----------------------------------------------------------------------------------------

LOOP = """
    mov.u32 %r0, %tid.x; mov.u32 %r1, 0; setp.lt.u32 %p1, %r0, 8;
L:  add.u32 %r1, %r1, %r0; @%p1 mov.u32 %r2, %r1; add.u32 %r0, %r0, 1;
    setp.lt.u32 %p2, %r0, 40; @%p2 bra L;
    add.u32 %r3, %r2, %r1; st.global.u32 [%rd40], %r3; ret;"""


def test_blocks_split_at_labels_and_branches():
    """Blocks cover the sites without gaps and know their successors."""
    program = program_of(kernel_text(LOOP, 1))
    assert [b.start for b in program.blocks[1:]] == [b.stop for b in program.blocks[:-1]]
    loop = program.blocks[1]
    assert set(loop.successors) == {1, 2}
    assert program.blocks[-1].successors == ()


def test_guarded_writes_keep_their_slot_alive():
    """%r2 is live before its guarded definition, and may be undefined; %r1 is neither."""
    program = program_of(kernel_text(LOOP, 1))
    guarded = next(s for s in program.sites if s.guard and s.form.family == "mov")
    (slot,) = writes_of(guarded)
    live = live_slots(program.sites, program.blocks)
    assert slot in live.into[1]
    assert slot in program.maybe_undefined
    assert program.maybe_undefined[slot] == "%r2"
    assert len(program.maybe_undefined) == 1
    assert ("p", guarded.guard[0]) in reads_of(guarded)


def test_liveness_is_sound_when_dead_slots_are_poisoned():
    """Filling every slot that is not live into a block with garbage changes no result."""
    class Poisoning(Interpreter):
        def _straight(self, start, rows, standing):
            program, state = self.machine.program, self.machine.state
            block = next((b for b in program.blocks if b.start == start), None)
            if block is not None and standing.all():
                live = live_slots(program.sites, program.blocks).into[block.index]
                for slot in range(program.slots["r"]):
                    if ("r", slot) not in live:
                        state.r[rows, slot] = 0xDEADBEEF
                for slot in range(program.slots["q"]):
                    if ("q", slot) not in live:
                        state.q[rows, slot] = 0xDEADBEEFDEADBEEF
            super()._straight(start, rows, standing)

    def poisoning(machine, max_steps):
        Poisoning(machine, max_steps=max_steps).run()

    results = []
    for executor in (interpret, poisoning):
        out = np.zeros(1, np.uint32)
        run_kernel(LOOP, [out], block=1, executor=executor, sanitize=False)
        results.append(out[0])
    assert results[0] == results[1] != 0
