"""A deadlock names its cause: who is missing, what repeats, what does not add up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import interpret, kernel_text

from mmalab.emulator.deadlock_causes import named_warps
from mmalab.emulator.run import Run, emulate

_START = """
.shared .align 8 .b64 bar[4];
.shared .align 128 .b8 tile[1024];
.reg .b32 %b, %f, %x, %k; .reg .pred %ok, %go, %first, %q; .reg .b64 %in;
mov.u32 %b, bar; add.u32 %f, %b, 8; mov.u32 %x, tile;
mov.u32 %k, %tid.x;
setp.eq.u32 %first, %k, 0;
"""


def stuck(setup: str, body: str, *, block: int = 64, head: str = "", sanitize: bool = False,
          data: Any = None) -> Run:
    """A kernel in which thread 0 does the setup; it must come to a standstill."""
    text = kernel_text(_START + f"@%first bra SET; bra READY; SET: {setup} READY: bar.sync 0;"
                       + body, 1, target="sm_90a")
    if head:
        text = text.replace("{", f"{head}\n{{", 1)
    data = np.zeros(256, np.uint32) if data is None else data
    run = emulate(text, [data], grid=1, block=block, executor=interpret, sanitize=sanitize,
                  max_steps=100_000)
    assert run.deadlock is not None
    return run


def causes(run: Run) -> list[tuple[str, str]]:
    """(kind, words) of the causes."""
    assert run.deadlock is not None
    return [(cause["kind"], cause["words"]) for cause in run.deadlock["causes"]]


def wait(at: str, parity: int | str, label: str) -> str:
    """A waiting loop."""
    return (f"{label}: mbarrier.try_wait.parity.shared::cta.b64 %ok, [{at}], {parity};"
            f" @!%ok bra {label};")


_ROLES = "setp.lt.u32 %go, %k, 32; @!%go bra CONSUMER;"


def test_a_count_that_is_too_high():
    """33 arrivals are expected, a warp brings 32."""
    run = stuck("mbarrier.init.shared::cta.b64 [%b], 33;",
                _ROLES + "mbarrier.arrive.shared::cta.b64 _, [%b]; ret; CONSUMER:"
                + wait("%b", 0, "W") + "ret;")
    ((kind, words),) = causes(run)
    assert kind == "count"
    assert "expects 33 arrivals, 32 came in phase 0" in words
    waiting = run.deadlock["waiting"][0]
    assert waiting["released_by"] == "1 more arrivals"
    assert waiting["waits_for"]["arrived"] == [{"cta": 0, "warp": 0}]


def test_warps_that_ended_without_arrive_drop():
    """Both warps arrive in phase 0, one of them ends."""
    run = stuck("mbarrier.init.shared::cta.b64 [%b], 64;",
                "mbarrier.arrive.shared::cta.b64 _, [%b];" + wait("%b", 0, "W0") + _ROLES
                + "ret; CONSUMER: mbarrier.arrive.shared::cta.b64 _, [%b];" + wait("%b", 1, "W1")
                + "ret;")
    ((kind, words),) = causes(run)
    assert kind == "count"
    assert "warp 0 of CTA 0 arrived before and have ended" in words
    assert run.deadlock["causes"][0]["repair"] == "mbarrier.arrive_drop before they end"


def test_a_producer_that_waits_for_a_fresh_slot_with_parity_0():
    """Both barriers of a ring are fresh; the producer is the one to blame, not the consumer."""
    run = stuck("mbarrier.init.shared::cta.b64 [%b], 32; mbarrier.init.shared::cta.b64 [%f], 32;",
                _ROLES + wait("%b", 0, "P") + "st.shared.u32 [%x], %k;"
                " mbarrier.arrive.shared::cta.b64 _, [%f]; ret; CONSUMER:" + wait("%f", 0, "C")
                + "ld.shared.u32 %k, [%x]; mbarrier.arrive.shared::cta.b64 _, [%b]; ret;")
    ((kind, words),) = causes(run)
    assert kind == "initial parity"
    assert words.startswith("warp 0 of CTA 0 waits with parity 0")


def test_a_phase_that_passed_twice():
    """The consumer comes so late that its parity means another phase."""
    run = stuck("mbarrier.init.shared::cta.b64 [%b], 32;",
                _ROLES + "mbarrier.arrive.shared::cta.b64 _, [%b]; mbarrier.arrive.shared::cta.b64"
                " _, [%b]; bar.sync 1; ret; CONSUMER: bar.sync 1;" + wait("%b", 0, "C") + "ret;")
    ((kind, words),) = causes(run)
    assert kind == "parity aliased"
    assert "warp 1 of CTA 0 slept through phase 0" in words
    assert "parity 0 now means phase 2" in words


@pytest.mark.parametrize(("announced", "words"), [(256, "promised 256 bytes"),
                                                  (64, "promised 64 bytes")])
def test_bytes_that_differ_are_a_finding_of_their_own(announced, words):
    """More and less than the copy's 128, at the line that announces."""
    run = stuck("mbarrier.init.shared::cta.b64 [%b], 1;",
                "ld.param.u64 %in, [p0]; @!%first bra GO; mbarrier.arrive.expect_tx.shared::cta.b64"
                f" _, [%b], {announced}; cp.async.bulk.shared::cluster.global"
                ".mbarrier::complete_tx::bytes [%x], [%in], 128, [%b]; GO:" + wait("%b", 0, "W")
                + "ret;", block=32)
    ((kind, told),) = causes(run)
    assert kind == "bytes"
    assert words in told
    assert "got 128" in told
    codes = {finding.code: finding for finding in run.findings}
    assert set(codes) == {"deadlock", "tx-mismatch"}
    assert codes["tx-mismatch"].message.endswith("Repair: announce 128 bytes")


def test_warps_that_wait_for_each_other():
    """Each has arrived once on the other's barrier, and waits before it arrives again."""
    run = stuck("mbarrier.init.shared::cta.b64 [%b], 32; mbarrier.init.shared::cta.b64 [%f], 32;",
                _ROLES + "mbarrier.arrive.shared::cta.b64 _, [%f];" + wait("%b", 0, "P0")
                + wait("%b", 1, "P1") + "mbarrier.arrive.shared::cta.b64 _, [%f]; ret; CONSUMER:"
                " mbarrier.arrive.shared::cta.b64 _, [%b];" + wait("%f", 0, "C0")
                + wait("%f", 1, "C1") + "mbarrier.arrive.shared::cta.b64 _, [%b]; ret;")
    ((kind, words),) = causes(run)
    assert kind == "cycle"
    assert words.count("waits (line") == 2


def test_more_registers_than_the_pool_has():
    """Two warpgroups of 256 threads with 128 registers: 128 + 160 do not fit, 96 + 160 do."""
    body = ("setp.lt.u32 %go, %k, 128; @!%go bra CONSUMER; setmaxnreg.dec.sync.aligned.u32 {};"
            " bra DONE; CONSUMER: setmaxnreg.inc.sync.aligned.u32 160; DONE: ret;")
    run = stuck("", body.format(104), block=256, head=".reqntid 256\n.maxnreg 128")
    ((kind, words),) = causes(run)
    assert kind == "registers"
    assert "setmaxnreg to 160" in words
    assert "1024 more registers in the pool" in {
        one["released_by"] for one in run.deadlock["waiting"]}


@pytest.mark.parametrize(("head", "dec", "inc", "codes"), [
    (".reqntid 256\n.maxnreg 128", 96, 160, []),
    (".reqntid 256", 248, 256, []),
    (".maxntid 384", 176, 240, []),
    (".maxntid 384\n.minnctapersm 1", 176, 240, ["illegal-value"]),
    (".maxntid 256\n.minnctapersm 1", 24, 232, []),
    (".reqntid 256\n.minnctapersm 2", 136, 160, ["illegal-value"]),
    ("", 24, 240, []),
    (".reqntid 256\n.maxnreg 128", 136, 160, ["illegal-value"]),
])
def test_register_counts_that_fit(head, dec, inc, codes):
    """Served from the pool; without directives ignored; a decrease that increases is illegal."""
    body = (f"setp.lt.u32 %go, %k, 128; @!%go bra CONSUMER; setmaxnreg.dec.sync.aligned.u32 {dec};"
            f" bra DONE; CONSUMER: setmaxnreg.inc.sync.aligned.u32 {inc}; DONE: ret;")
    text = kernel_text(_START + body, 1, target="sm_90a")
    text = text.replace("{", f"{head}\n{{", 1)
    run = emulate(text, [np.zeros(4, np.uint32)], grid=1, block=256, executor=interpret,
                  sanitize=False, max_steps=100_000)
    assert [finding.code for finding in run.findings if finding.code != "deadlock"] == codes
    assert (run.deadlock is None) == (not codes)


def test_a_warpgroup_sets_one_register_count():
    """Warp 1 asks for another number than its siblings."""
    body = ("setp.eq.u32 %go, %k, %k; shr.u32 %k, %k, 5; setp.eq.u32 %q, %k, 1; @%q bra OTHER;"
            " setmaxnreg.dec.sync.aligned.u32 96; bra DONE; OTHER:"
            " setmaxnreg.dec.sync.aligned.u32 88; DONE: ret;")
    text = kernel_text(_START + body, 1, target="sm_90a")
    text = text.replace("{", ".reqntid 128\n.maxnreg 128\n{", 1)
    run = emulate(text, [np.zeros(4, np.uint32)], grid=1, block=128, executor=interpret,
                  sanitize=False, max_steps=100_000)
    assert [finding.code for finding in run.findings] == ["divergent-collective"]


def test_warps_in_words():
    """Ranges by CTA."""
    warps = [{"cta": 0, "warp": w} for w in (4, 5, 6, 9)] + [{"cta": 1, "warp": 0}]
    assert named_warps(warps) == "warps 4-6, 9 of CTA 0, warp 0 of CTA 1"
