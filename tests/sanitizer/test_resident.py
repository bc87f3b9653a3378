"""Few CTAs run together where none can wait for another: findings and results stay the same."""

from __future__ import annotations

import numpy as np
import pytest
from mutants.hopper_snippets import START, bulk, expect, init, run, wait

from mmalab.emulator import interpret
from mmalab.sanitizer import quick

COPY = (init(1) + START + expect(0, 512) + bulk(512) + wait(0, 0) + "shl.b32 %r1, %t, 2;"
        " add.u32 %r1, %r1, %s; ld.shared.b32 %r2, [%r1]; mov.u32 %r3, %ctaid.x;\n")
APART = "mad.lo.u32 %r3, %r3, 128, %t;\n"
STORE = "mul.wide.u32 %rd0, %r3, 4; add.u64 %rd0, %rd0, %g1; st.global.b32 [%rd0], %r2;\n"
CTAS = 40


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many CTAs were resident together, one number per set; none stands for others."""
    monkeypatch.setattr(quick, "varying_sites", lambda _program: None)
    seen: list[int] = []
    begin = interpret.Machine.begin

    def spy(machine: interpret.Machine, ctas: np.ndarray) -> None:
        if machine.listeners:
            seen.append(len(ctas))
        begin(machine, ctas)
    monkeypatch.setattr(interpret.Machine, "begin", spy)
    return seen


def arrays() -> list[np.ndarray]:
    """Words to read, and one per thread of the grid."""
    return [np.arange(1, 129, dtype=np.uint32), np.zeros(128 * CTAS, np.uint32)]


def test_copies_alone_run_in_sets(windows):
    """40 CTAs as 16, 16 and 8."""
    data, out = arrays()
    assert run(COPY + APART + STORE, [data, out], grid=CTAS).findings == []
    assert np.array_equal(out, np.tile(data, CTAS))
    assert windows == [16, 16, 8]


@pytest.mark.parametrize(("cluster", "sets"), [(3, [18, 18]), (8, [16, 16, 16])])
def test_clusters_stay_whole(windows, cluster, sets):
    """16 is rounded up to whole clusters."""
    data, out = np.arange(1, 129, dtype=np.uint32), np.zeros(128 * 48, np.uint32)
    grid = sum(sets)
    assert run(COPY + APART + STORE, [data, out], grid=grid, cluster=cluster).findings == []
    assert windows == sets


def test_a_race_between_sets_is_found(windows):
    """CTAs 0 and 39 write the same words and are never resident together."""
    data, out = arrays()
    body = (COPY + "setp.eq.u32 %p2, %r3, 0; setp.eq.u32 %p3, %r3, 39;\n"
            "or.pred %p2, %p2, %p3; @!%p2 bra END;\nadd.u32 %r2, %r2, %r3; mov.u32 %r3, %t;\n"
            + STORE + "END:\n")
    assert "data-race" in {f.code for f in run(body, [data, out], grid=CTAS).findings}
    assert len(windows) == 3


def test_ctas_that_wait_for_each_other_stay_together(windows):
    """The first waits for a flag of the last."""
    flags = np.zeros(4, np.uint32)
    body = ("mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 39; and.pred %p1, %p1, %e;\n"
            "@%p1 st.release.gpu.global.b32 [%g0], 1;\nsetp.ne.u32 %p2, %r3, 0; @%p2 bra END;\n"
            "AGAIN: ld.acquire.gpu.global.b32 %r4, [%g0]; setp.eq.u32 %p3, %r4, 0;\n"
            "@%p3 bra AGAIN;\nEND:\n")
    result = run(body, [flags], grid=CTAS)
    assert result.findings == []
    assert windows == [CTAS]
