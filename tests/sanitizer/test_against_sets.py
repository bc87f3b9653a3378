"""The clocks against the plainest possible model: for every lane the set of all it has heard of."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario import LANES, Scenario

WARPS = 2
WORDS = 64
BASE = np.uint64(16 << 40)
FLAGS = [np.full(32, (20 << 40) + 64 * k, np.uint64) for k in range(3)]


@st.composite
def operations(draw):
    """One step: an access of some lanes to one word each, or a synchronisation."""
    kind = draw(st.sampled_from(["store", "load", "load", "barrier", "sync", "release", "acquire"]))
    warp = draw(st.integers(0, WARPS - 1))
    mask = draw(st.sampled_from([0xFFFFFFFF, 0xFFFF, 0xFFFF0000, 1, 2, 0xFF00]))
    shift, flip = draw(st.sampled_from([0, 16, 32])), draw(st.sampled_from([0, 1, 16]))
    return kind, warp, mask, shift, flip, draw(st.integers(0, len(FLAGS) - 1))


class Sets:
    """What each thread knows, as sets of (step, thread); `soft` includes lockstep of its warp."""

    def __init__(self) -> None:
        self.hard = [set() for _ in range(32 * WARPS)]
        self.soft = [set() for _ in range(WARPS)]
        self.flags = {}
        self.accesses = []
        self.racy = False

    def access(self, step, write, threads, words):
        for thread, word in zip(threads, words, strict=True):
            for earlier, other, at, wrote in self.accesses:
                if at != word or other == thread or not (write or wrote) or earlier == step:
                    continue
                known = self.hard[thread] if wrote else self.soft[thread // 32]
                self.racy |= (earlier, other) not in known
        for thread, word in zip(threads, words, strict=True):
            self.hard[thread].add((step, thread))
            self.soft[thread // 32].add((step, thread))
            self.accesses.append((step, thread, word, write))

    def join(self, threads):
        together = set().union(*(self.hard[thread] for thread in threads))
        for thread in threads:
            self.hard[thread] |= together

    def barrier(self):
        self.join(range(32 * WARPS))
        everything = set().union(*self.soft)
        self.soft = [set(everything) for _ in range(WARPS)]

    def release(self, flag, thread):
        self.flags[flag] = (set(self.hard[thread]), set(self.soft[thread // 32]))

    def acquire(self, flag, thread):
        hard, soft = self.flags.get(flag, (set(), set()))
        self.hard[thread] |= hard
        self.soft[thread // 32] |= soft | hard


def play(steps):
    """Both models on the same steps; (findings of the clocks, whether the sets saw a race)."""
    scenario, sets = Scenario(threads=32 * WARPS), Sets()
    for step, (kind, warp, mask, shift, flip, flag) in enumerate(steps):
        lanes = [lane for lane in range(32) if mask >> lane & 1]
        threads = [32 * warp + lane for lane in lanes]
        if kind in ("store", "load"):
            words = ((LANES ^ np.uint64(flip)) + np.uint64(shift)) % np.uint64(WORDS)
            getattr(scenario, kind)(warp, BASE + 4 * words, f"{kind[:2]}.{step}", mask=mask)
            sets.access(step, kind == "store", threads, [int(words[lane]) for lane in lanes])
        elif kind == "barrier":
            scenario.barrier(*range(WARPS))
            sets.barrier()
        elif kind == "sync":
            scenario.warp_sync(warp, mask)
            sets.join(threads)
        elif kind == "release":
            scenario.store(warp, FLAGS[flag], "st.release", mask=1 << lanes[0],
                           semantics="release", scope="cta")
            sets.release(flag, threads[0])
        else:
            scenario.load(warp, FLAGS[flag], "ld.acquire", mask=1 << lanes[-1],
                          semantics="acquire", scope="cta")
            sets.acquire(flag, threads[-1])
    return scenario.findings(), sets.racy


@settings(max_examples=300, deadline=None)
@given(st.lists(operations(), min_size=2, max_size=14))
def test_the_clocks_find_a_race_exactly_when_the_sets_do(steps):
    """Per-warp bundles, diagonal entries and shared objects lose nothing and invent nothing."""
    findings, racy = play(steps)
    assert bool(findings) == racy, [str(finding) for finding in findings]
