"""mbarriers in compiled code: words, tokens, phases, logs, findings, deadlocks as the machine's."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.machine import Machine
from mmalab.emulator.native import ThreadedScheduler, code_for
from mmalab.emulator.run import emulate

HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0)
{
    .reg .pred %p<16>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .shared .align 8 .b64 bar[8];
    ld.param.u64 %rd0, [p0];
    mov.u32 %r0, %tid.x; mov.u32 %r1, bar; shr.u32 %r2, %r0, 5; mov.u32 %r40, %laneid;
    setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r40, 0;
"""


def run_with(text: str, out: Any, executor: str, *, block: int, grid: int = 2,
             **options: Any) -> tuple[Any, Machine, Any]:
    """A run, its machine, and its scheduler."""
    kept: list[Any] = []

    def run(machine: Machine, steps: int | None) -> None:
        scheduler = (Interpreter(machine, max_steps=steps) if executor == "numpy"
                     else ThreadedScheduler(machine, code_for(machine), max_steps=steps))
        kept.extend((machine, scheduler))
        scheduler.run()
    found = emulate(text, [out], grid=grid, block=block, executor=run, sanitize=False, **options)
    return found, kept[0], kept[1]


def both(body: str, *, block: int = 128, words: int = 4096, **options: Any) -> list[Any]:
    """The kernel under both executors; everything that must be equal, and the compiled run."""
    seen = []
    for executor in ("numpy", "compiled"):
        out = np.full(words, 0xFFFFFFFF, np.uint32)
        run, machine, scheduler = run_with(HEAD + body + "ret; }", out, executor, block=block,
                                           **options)
        seen.append({
            "out": out.tolist(), "findings": [asdict(f) for f in run.findings],
            "deadlock": run.deadlock, "shared": machine.space.shared.data.tobytes(),
            "phases": machine.mbarriers.phases,
            "logs": {index: asdict(log) for index, log in machine.mbarriers.logs.items()}})
    one, other = seen
    for name, value in one.items():
        assert value == other[name], name
    return [other, scheduler, machine]


INIT = "@%p0 mbarrier.init.shared.b64 [%r1], {count}; bar.sync 0;\n"
STORE = ("mad.wide.u32 %rd9, %r0, 32, %rd0; mov.u32 %r41, %ctaid.x;"
         " mad.wide.u32 %rd9, %r41, 8192, %rd9;\n")


def waits(parity: str, name: str) -> str:
    """A loop that waits for a phase."""
    return (f"{name}: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r1], {parity};"
            f" @!%p5 bra {name};\n")


def test_all_threads_arrive_and_wait() -> None:
    """Each thread arrives, 20 phases; the parities of all tokens are the machine's."""
    body = (INIT.format(count=128) + STORE + "mov.u32 %r5, 0; mov.b64 %rd5, 0;"
            " LOOP: mbarrier.arrive.shared::cta.b64 %rd4, [%r1]; shr.u64 %rd4, %rd4, 63;"
            " shl.b64 %rd5, %rd5, 1; or.b64 %rd5, %rd5, %rd4;"
            " and.b32 %r6, %r5, 1;" + waits("%r6", "W")
            + "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 20; @%p2 bra LOOP;"
            " st.global.u64 [%rd9], %rd5; bar.sync 0;")
    one, _, machine = both(body)
    assert one["findings"] == []
    assert set(machine.mbarriers.phases.values()) == {20}
    arrives = [s.index for s in machine.program.sites if s.form.family == "mbarrier.arrive"]
    assert one["out"][0] == int("01" * 10, 2)
    assert machine.native_sites[arrives].sum() == 20 * 4 * 2


def test_ring_of_producer_and_consumer() -> None:
    """Two barriers hand a value to and fro between warps, elected lanes only."""
    body = ("@%p0 mbarrier.init.shared.b64 [%r1], 1; @%p0 mbarrier.init.shared.b64 [%r1+8], 1;"
            " bar.sync 0; mov.u32 %r5, 0; setp.ne.u32 %p3, %r2, 0; @%p3 bra CONSUME;"
            " P: and.b32 %r6, %r5, 1; xor.b32 %r7, %r6, 1;"
            " PW: mbarrier.test_wait.parity.shared.b64 %p5, [%r1+8], %r7; @!%p5 bra PW;"
            " @%p1 st.shared.u32 [%r1+32], %r5; bar.warp.sync -1;"
            " @%p1 mbarrier.arrive.shared.b64 _, [%r1];"
            " add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra P; bra DONE;"
            " CONSUME: mov.u32 %r9, 0; C: and.b32 %r6, %r5, 1;" + waits("%r6", "CW")
            + "ld.shared.u32 %r8, [%r1+32]; mad.lo.u32 %r9, %r9, 3, %r8; bar.warp.sync -1;"
            " @%p1 mbarrier.arrive.shared.b64 %rd4, [%r1+8];"
            " add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra C;"
            + STORE + "st.global.u32 [%rd9], %r9; DONE:")
    one, _, machine = both(body, block=64)
    total = 0
    for value in range(50):
        total = (3 * total + value) & 0xFFFFFFFF
    assert one["out"][32 * 8] == total
    assert set(machine.mbarriers.phases.values()) == {50}


def test_bytes_hold_a_phase() -> None:
    """expect_tx and arrive.expect_tx announce, complete_tx delivers: the phase ends with both."""
    body = (INIT.format(count=2) + STORE
            + "@%p0 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 40;"
            " @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r1], 24;"
            " @%p0 mbarrier.arrive.shared::cta.b64 %rd5, [%r1];"
            " mbarrier.test_wait.parity.shared::cta.b64 %p5, [%r1], 0; selp.u32 %r7, 1, 0, %p5;"
            " bar.sync 0; @%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 64;"
            + waits("0", "W")
            + "st.global.v2.u64 [%rd9], {%rd4, %rd5}; st.global.u32 [%rd9+16], %r7;")
    one, _, _ = both(body, block=32)
    assert one["findings"] == []
    assert one["out"][4] == 0


def test_state_tokens() -> None:
    """Waiting with the state of an arrival instead of a parity."""
    body = (INIT.format(count=32) + STORE + "mbarrier.arrive.shared::cta.b64 %rd4, [%r1];"
            " W: mbarrier.try_wait.shared::cta.b64 %p5, [%r1], %rd4; @!%p5 bra W;"
            " mbarrier.test_wait.shared::cta.b64 %p6, [%r1], %rd4; selp.u32 %r7, 7, 9, %p6;"
            " st.global.u32 [%rd9], %r7;")
    one, _, _ = both(body, block=32)
    assert one["out"][0] == 7


@pytest.mark.parametrize(("body", "code"), [
    ("mbarrier.arrive.shared::cta.b64 %rd4, [%r1], 2;", "mbarrier-count"),
    ("mbarrier.arrive.shared::cta.b64 %rd4, [%r1], 0;", "mbarrier-count"),
    ("mbarrier.arrive.shared::cta.b64 %rd4, [%r1+16];", "mbarrier-uninitialised"),
    ("mbarrier.arrive.shared::cta.b64 %rd4, [%r1+4];", "misaligned-access"),
    ("mbarrier.arrive.shared::cta.b64 %rd4, [%r1+1048576];", "out-of-bounds"),
    ("mbarrier.test_wait.parity.shared::cta.b64 %p5, [%r1+64000], 0;", "out-of-bounds"),
    ("mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r1+8], 0;", "mbarrier-uninitialised"),
    ("mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r1], 1048576;", "tx-mismatch"),
    ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 2097151;", "tx-mismatch"),
])
def test_what_is_wrong_is_the_machines_to_say(body: str, code: str) -> None:
    """The same finding with the same words."""
    one, _, _ = both(INIT.format(count=1) + f"@%p0 {body}", block=32, grid=1)
    assert [f["code"] for f in one["findings"]] == [code]


def test_too_many_arrivals_of_a_whole_warp() -> None:
    """32 lanes arrive where five are pending: nothing has been done before the machine takes over.

    The phase then completes five times and again.
    """
    one, _, _ = both(INIT.format(count=5) + "mbarrier.arrive.shared::cta.b64 %rd4, [%r1];",
                     block=32, grid=1)
    assert one["findings"] == []
    one, _, _ = both(INIT.format(count=5) + "mbarrier.arrive.shared::cta.b64 %rd4, [%r1], 3;",
                     block=32, grid=1)
    assert [f["code"] for f in one["findings"]] == ["mbarrier-count"]


def test_lanes_with_objects_of_their_own() -> None:
    """Different objects in one instruction are left to the machine."""
    body = ("and.b32 %r5, %r0, 3; shl.b32 %r5, %r5, 3; add.u32 %r6, %r1, %r5;"
            " setp.lt.u32 %p4, %r0, 4; @%p4 mbarrier.init.shared.b64 [%r6], 8; bar.sync 0;"
            " mbarrier.arrive.shared::cta.b64 %rd4, [%r6];"
            " W: mbarrier.test_wait.parity.shared::cta.b64 %p5, [%r6], 0; @!%p5 bra W;")
    one, _, machine = both(body, block=32)
    assert one["findings"] == []
    assert set(machine.mbarriers.phases.values()) == {1}


@pytest.mark.parametrize("spin", ["", "nanosleep.u32 20;", "add.u32 %r9, %r9, 1;"])
def test_deadlock_is_explained_as_by_the_interpreter(spin: str) -> None:
    """A phase that lacks an arrival: who waits, who has arrived, in the same words.

    A loop that counts its tries ends too, at its budget or because the count comes round.
    """
    body = (INIT.format(count=3) + "@%p1 mbarrier.arrive.shared::cta.b64 %rd4, [%r1];"
            " mov.u32 %r9, 0; W: " + spin
            + " mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r1], 0; @!%p5 bra W;")
    if "add" in spin:
        body = body.replace(spin, "add.u32 %r9, %r9, 1; and.b32 %r9, %r9, 7;")
    one, _, _ = both(body, block=64, grid=1)
    assert [f["code"] for f in one["findings"]] == ["deadlock"]
    assert "1 of 3 arrivals" in one["deadlock"]["summary"]


def test_wait_goes_on_when_another_warp_arrives_late() -> None:
    """A failed wait yields: a warp that computes for long arrives in the end."""
    body = (INIT.format(count=1) + "setp.ne.u32 %p3, %r2, 3; @%p3 bra W; mov.u32 %r5, 0;"
            " L: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 200000; @%p2 bra L;"
            " @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1];" + waits("0", "W"))
    out = np.zeros(4, np.uint32)
    run, machine, _ = run_with(HEAD + body + "ret; }", out, "compiled", block=128)
    assert run.findings == []
    tries = [s.index for s in machine.program.sites if s.form.family == "mbarrier.try_wait"]
    # once a turn of the others, not once an instruction
    assert machine.counts[tries].sum() < 2000


def test_elected_lane_waits_below_the_others() -> None:
    """One lane spins at a low site while its warp must go on to let it pass."""
    body = (INIT.format(count=1) + "@!%p1 bra OTHERS;" + waits("0", "W") + "bra JOIN;"
            " OTHERS: setp.eq.u32 %p4, %r40, 7;"
            " @%p4 mbarrier.arrive.shared::cta.b64 _, [%r1]; JOIN: bar.sync 0;")
    one, _, _ = both(body, block=32)
    assert one["findings"] == []


def test_a_full_log_loses_nothing() -> None:
    """More operations in one turn than the log holds."""
    body = (INIT.format(count=1) + "mov.u32 %r5, 0;"
            " L: @%p0 mbarrier.arrive.shared::cta.b64 _, [%r1]; add.u32 %r5, %r5, 1;"
            " setp.lt.u32 %p2, %r5, 1000; @%p2 bra L;")
    one, _, machine = both(body, block=32)
    assert one["findings"] == []
    assert set(machine.mbarriers.phases.values()) == {1000}
    assert [dict(log.ever) for log in machine.mbarriers.logs.values()] == [{0: 1000}, {1: 1000}]
