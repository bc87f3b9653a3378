"""The allocator with several CTAs: contention, deadlock, leaks; columns are conserved."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab.errors import LimitExceeded, UsageError
from mmalab.plan import pictures
from mmalab.plan.pool import Pool, Script, Simulation, Step, simulate

step = st.one_of(
    st.builds(Step, st.just("alloc"), st.sampled_from([32, 64, 128, 256, 512, 48])),
    st.builds(Step, st.just("free"), st.integers(0, 3)),
    st.builds(Step, st.just("work"), st.integers(0, 20)),
    st.just(Step("relinquish")),
)
places = st.sampled_from([(0,), (1,), (0, 1)])
scripts = st.lists(st.builds(Script, st.lists(step, max_size=7).map(tuple), places),
                   min_size=1, max_size=5)


def codes(found: Simulation) -> list[str]:
    return [finding.code for finding in found.findings]


def test_hold_and_wait_is_a_deadlock() -> None:
    """Two CTAs that take 256 columns and then want 256 more wait for each other."""
    half = Script.parse("alloc 256; alloc 256; work 10; free 1; free 0")
    found = simulate([half, half])
    assert found.deadlock is not None
    assert "CTA 0 holds 256 columns and waits for 256" in found.deadlock
    assert codes(found) == ["deadlock"]
    # One at a time, or with an exclusive right to allocate, nothing happens.
    assert simulate([half, half], resident=1).findings == ()
    assert simulate([half, half], permit=True).findings == ()


def test_contention_makes_ctas_wait_their_turn() -> None:
    """Three CTAs of 512 columns run one after the other; four of 128 run together."""
    found = simulate([Script.plain([512])] * 3)
    assert (found.waited, found.ticks, found.peak) == ((0, 10, 20), 30, 512)
    assert simulate([Script.plain([128])] * 4).waited == (0, 0, 0, 0)


@pytest.mark.parametrize(("text", "found"), [
    ("alloc 48", ["tmem-size"]), ("alloc 1024", ["tmem-size"]),
    ("alloc 32; alloc 64; free 1; free 0", ["tmem-alloc-order"]),
    ("alloc 32; relinquish; alloc 32", ["tmem-alloc-after-relinquish", "tmem-leak"]),
    ("alloc 32; free 0; free 0", ["tmem-dealloc"]), ("free 0", ["tmem-dealloc"]),
    ("alloc 64", ["tmem-leak"]), ("alloc 64; work 5; free 0", []),
])
def test_broken_rules_are_findings(text: str, found: list[str]) -> None:
    """Sizes, order, relinquish, double frees and leaks, as the sanitizer calls them."""
    assert codes(simulate([Script.parse(text)])) == found


def test_a_leak_starves_the_next_cta() -> None:
    """Columns that were never freed are why the next CTA waits for ever."""
    found = simulate([Script.parse("alloc 256; work 3"), Script.parse("work 1; alloc 512")])
    assert found.leaked == 256
    assert found.deadlock is not None
    assert "256 of the others leaked" in found.deadlock


def test_pairs_need_the_same_columns_on_both_sms() -> None:
    """256 columns are free on each SM, but not the same ones: the pair waits for both."""
    low = Script.parse("alloc 256; work 5; free 0")
    high = Script.parse("sm1: alloc 256; alloc 256; free 0; work 9; free 1")
    found = simulate([low, high, Script.parse("pair: work 1; alloc 256; work 2; free 0")])
    assert (found.waited, found.findings) == ((0, 0, 4), ())
    pair = next(span for span in found.spans if span.cta == 2)
    assert (pair.sms, pair.column) == ((0, 1), 0)
    alone = simulate([low, Script.parse("work 1; alloc 256; work 2; free 0")])
    assert alone.waited == (0, 0)
    with pytest.raises(UsageError, match="is nowhere\n  legal: sm0, sm1, pair"):
        Script.parse("sm2: alloc 32")


def test_the_pool_is_first_fit_and_aligned() -> None:
    """64 columns behind 32 start at 64; the gap takes the next 32."""
    pool = Pool()
    assert [pool.take(size) for size in (32, 64, 32, 512)] == [0, 64, 32, None]
    pool.give(64, 64)
    assert (pool.free, pool.take(64)) == (448, 64)


@settings(max_examples=80, deadline=None)
@given(scripts, st.booleans(), st.integers(1, 5))
def test_columns_are_conserved(several: list[Script], permit: bool, resident: int) -> None:
    """After every event, free columns and columns held are the pool; no two holds overlap."""
    found = simulate(several, permit=permit, resident=resident)
    held: dict[tuple[int, int, int], int] = {}
    for event in found.events:
        for sm in several[event.cta].sms:
            if event.action == "alloc" and event.column is not None:
                here = range(event.column, event.column + event.columns)
                assert event.column % event.columns == 0
                assert all(column + size <= here.start or here.stop <= column
                           for (_, other, column), size in held.items() if other == sm)
                held[event.cta, sm, event.column] = event.columns
            if event.action == "free" and event.column is not None:
                assert held.pop((event.cta, sm, event.column)) == event.columns
        assert event.free + sum(held.values()) == found.capacity
    assert found.peak <= found.capacity
    ended = sum(event.action in {"exit", "stop"} for event in found.events)
    assert ended == len(several) or found.deadlock is not None


def test_wrong_use() -> None:
    """Words that are no steps, nobody to run, runs without end."""
    for text in ("alloc", "alloc x", "relinquish 3", "sleep 4"):
        with pytest.raises(UsageError, match="is not understood"):
            Script.parse(text)
    with pytest.raises(UsageError, match="nobody can run"):
        simulate([])
    with pytest.raises(UsageError, match="no multiple of 32"):
        Pool(500)
    with pytest.raises(LimitExceeded):
        simulate([Script.parse("work 10; work 10; work 1")], max_ticks=15)


def test_the_timeline_is_text_and_a_picture() -> None:
    """Events in the table, a box for every allocation in the SVG."""
    found = simulate([Script.plain([256])] * 3)
    assert "alloc 256 at 256" in found.table()
    assert pictures.pool_svg(found).count("<rect") == 2 + 3
