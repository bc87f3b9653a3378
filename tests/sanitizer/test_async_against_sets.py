"""Bulk stores and proxy fences against the plainest possible model: sets of what is known."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario import LANES, Scenario

WARPS = 2
THREADS = 32 * WARPS
WORDS = 64
BASE = 1024
MASKS = [0xFFFFFFFF, 0xFFFF, 0xFFFF0000, 1, 2]


@st.composite
def operations(draw):
    """One step: an access of single words, a bulk store of four words, or a synchronisation."""
    kind = draw(st.sampled_from([
        "store", "store", "load", "fence", "fence", "bulk", "bulk", "commit", "wait", "read",
        "barrier", "sync"]))
    return (kind, draw(st.integers(0, WARPS - 1)), draw(st.sampled_from(MASKS)),
            draw(st.integers(0, 15)), draw(st.sampled_from([0, 1])))


class Sets:
    """What threads know: `hard` per thread, `soft` and `fenced` per warp, which is in lockstep."""

    def __init__(self) -> None:
        self.hard = [set() for _ in range(THREADS)]
        self.soft = [set() for _ in range(WARPS)]
        self.fenced = [set() for _ in range(WARPS)]
        self.writes: list[tuple[object, int]] = []
        self.reads: list[tuple[object, int, bool]] = []
        self.open: dict[int, list[object]] = {}
        self.groups: dict[int, list[list[object]]] = {}
        self.racy = False

    def access(self, step, write, threads, words):
        for thread, word in zip(threads, words, strict=True):
            warp = thread // 32
            for event, at in self.writes:
                if at == word and event != (step, thread) and event[0] != step:
                    self.racy |= event not in self.hard[thread]
            if write:
                self.racy |= any(at == word and event[0] != step and event not in self.soft[warp]
                                 for event, at, _ in self.reads)
        for thread, word in zip(threads, words, strict=True):
            event = (step, thread)
            self.hard[thread].add(event)
            self.soft[thread // 32].add(event)
            if write:
                self.writes.append((event, word))
            else:
                self.reads.append((event, word, True))

    def bulk(self, step, thread, words):
        for event, at in self.writes:
            if at in words:
                self.racy |= (event not in self.hard[thread]
                              or event not in self.fenced[thread // 32])
        event = (step, "bulk")
        self.reads += [(event, word, False) for word in words]
        self.open.setdefault(thread, []).append(event)

    def commit(self, thread):
        self.groups.setdefault(thread, []).append(self.open.pop(thread, []))

    def wait(self, thread, newest):
        groups = self.groups.get(thread, [])
        done = {event for group in groups[: max(0, len(groups) - newest)] for event in group}
        self.hard[thread] |= done
        self.soft[thread // 32] |= done

    def fence(self, threads):
        for thread in threads:
            self.fenced[thread // 32] |= self.hard[thread]

    def join(self, threads):
        together = set().union(*(self.hard[thread] for thread in threads))
        for thread in threads:
            self.hard[thread] |= together

    def barrier(self):
        self.join(range(THREADS))
        for sets in (self.soft, self.fenced):
            together = set().union(*sets)
            sets[:] = [set(together) for _ in range(WARPS)]


def play(steps):
    """Both models on the same steps; (findings of the clocks, whether the sets saw a race)."""
    scenario, sets = Scenario(threads=THREADS), Sets()
    for step, (kind, warp, mask, place, flag) in enumerate(steps):
        lanes = [lane for lane in range(32) if mask >> lane & 1]
        threads = [32 * warp + lane for lane in lanes]
        lane = lanes[0]
        if kind in ("store", "load"):
            words = ((LANES ^ np.uint64(flag)) + np.uint64(2 * place)) % np.uint64(WORDS)
            getattr(scenario, kind)(warp, np.uint64(BASE) + 4 * words, f"{kind[:2]}.{step}",
                                    mask=mask)
            sets.access(step, kind == "store", threads, [int(words[lane]) for lane in lanes])
        elif kind == "bulk":
            scenario.bulk_store(warp, lane=lane, at=BASE + 16 * place, size=16,
                                target=(21 << 40) + 4096 * step, text=f"cp.async.bulk.{step}")
            sets.bulk(step, threads[0], range(4 * place, 4 * place + 4))
        elif kind == "commit":
            scenario.bulk_commit(warp, mask=1 << lane)
            sets.commit(threads[0])
        elif kind in ("wait", "read"):
            scenario.bulk_wait(warp, flag, read=kind == "read", mask=1 << lane)
            sets.wait(threads[0], flag)
        elif kind == "fence":
            scenario.proxy_fence(warp, "async.shared::cta", mask=mask)
            sets.fence(threads)
        elif kind == "sync":
            scenario.warp_sync(warp, mask)
            sets.join(threads)
        else:
            scenario.barrier(*range(WARPS))
            sets.barrier()
    races = [f for f in scenario.findings() if f.code != "uninitialised-read"]
    return races, sets.racy


@settings(max_examples=150, deadline=None)
@given(st.lists(operations(), min_size=2, max_size=14))
def test_the_clocks_find_a_fault_exactly_when_the_sets_do(steps):
    """Agents, groups and fenced rows lose nothing and invent nothing."""
    findings, racy = play(steps)
    assert bool(findings) == racy, [str(finding) for finding in findings]
