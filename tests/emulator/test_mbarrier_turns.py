"""Arrivals and deliveries of many lanes at once, against one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmalab.emulator import emulate, mbarriers
from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.mbarriers import MAX_COUNT, Word

KERNEL = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry arrivals(.param .u64 which, .param .u64 counts, .param .u64 out) {
  .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .pred %p;
  .shared .align 8 .b8 bars[64];
  mov.u32 %r0, %tid.x; mov.u32 %r1, bars;
  setp.ne.u32 %p, %r0, 0;
  @%p bra READY;
  INIT
READY:
  bar.sync 0;
  ld.param.u64 %rd0, [which]; ld.param.u64 %rd1, [counts]; ld.param.u64 %rd2, [out];
  mul.wide.u32 %rd3, %r0, 4;
  add.u64 %rd4, %rd0, %rd3; add.u64 %rd5, %rd1, %rd3;
  ld.global.u32 %r2, [%rd4]; ld.global.u32 %r3, [%rd5];
  shl.b32 %r4, %r2, 3; add.u32 %r4, %r1, %r4;
  mbarrier.arrive.FORM %rd6, [%r4], %r3;
  shl.b64 %rd7, %rd3, 1; add.u64 %rd8, %rd2, %rd7;
  st.global.u64 [%rd8], %rd6;
  bar.sync 0;
  setp.ge.u32 %p, %r0, 8;
  @%p bra END;
  shl.b32 %r5, %r0, 3; add.u32 %r5, %r1, %r5;
  ld.shared.u64 %rd9, [%r5];
  st.global.u64 [%rd8+2048], %rd9;
END:
  ret;
}
"""


def interpreted(machine: Any, max_steps: int | None) -> None:
    """All arrivals go to the machine, several warps at once."""
    Interpreter(machine, max_steps=max_steps).run()


@pytest.mark.parametrize("form", ["release.cta.shared::cta.b64",
                                  "expect_tx.release.cta.shared::cta.b64"])
@pytest.mark.parametrize("kind", ["open", "many phases", "too many"])
def test_arrivals(kind: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens, words, findings: of 128 threads at 8 objects."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = np.random.default_rng(seed)
    low, high = {"open": (129, 200), "many phases": (1, 5), "too many": (1, 3)}[kind]
    pending = rng.integers(low, high, 8)
    init = "".join(f"mbarrier.init.shared::cta.b64 [%r1+{8 * i}], {count};"
                   for i, count in enumerate(pending.tolist()))
    which = rng.integers(0, 8, 128).astype(np.uint32)
    counts = rng.integers(1, 4 if kind == "too many" else 2, 128).astype(np.uint32)
    if "expect_tx" in form:
        counts = rng.choice([0, 0, 16, MAX_COUNT if kind == "too many" else 32], 128)
    results = []
    for one_by_one in (False, True):
        if one_by_one:
            monkeypatch.setattr(mbarriers.Mbarriers, "_arrive_together",
                                lambda _self, lanes, *_: lanes.mask)
        out = np.zeros(512, np.uint64)
        run = emulate(KERNEL.replace("INIT", init).replace("FORM", form),
                      [which, counts.astype(np.uint32), out], block=128, sanitize=False,
                      executor=interpreted)
        results.append((out.tobytes(), [(f.code, f.message) for f in run.findings]))
    assert results[0] == results[1]
    assert kind != "open" or results[0][1] == []


def test_words() -> None:
    """One turn of legal operations, against the decoded object."""
    rng = np.random.default_rng()
    words = [Word(int(rng.integers(2)), int(rng.integers(0, 4)), int(rng.integers(-2, 3)) * 16,
                  int(rng.integers(1, 5))) for _ in range(2000)]
    arrivals, bytes_ = rng.integers(0, 3, 2000), rng.integers(-2, 3, 2000) * 16
    raw = np.array([word.encode() for word in words], np.uint64)
    new, fine, done = mbarriers._advanced(raw, arrivals, bytes_)
    for at, word in enumerate(words):
        assert fine[at] == (arrivals[at] <= word.pending)
        if fine[at]:
            word.tx += int(bytes_[at])
            assert word.arrive(int(arrivals[at])) == done[at]
            assert word.encode() == new[at]


def test_dead_words_and_full_counts_are_left_alone() -> None:
    """No object, and bytes beyond what one counts."""
    raw = np.array([0, Word(0, 1, MAX_COUNT, 1).encode()], np.uint64)
    assert mbarriers._advanced(raw, np.array([0, 0]), 16)[1].tolist() == [False, False]


def test_turns() -> None:
    """Every place once, none of an object twice in a turn, those of an object in order."""
    objects = np.random.default_rng().integers(0, 9, 100)
    turns = list(mbarriers._turns(objects))
    places = np.concatenate(turns)
    assert sorted(places.tolist()) == list(range(100))
    for turn in turns:
        assert len(set(objects[turn].tolist())) == len(turn)
    for number in range(9):
        mine = [place for place in places.tolist() if objects[place] == number]
        assert mine == sorted(mine)
