"""Parts of Tensor Memory in allocations: legal, disjoint, as few columns as the rules allow."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.plan.packing import Packing, Part, legal_size, pack, separate_columns

LISTED = [Part("D", 384), Part("SFA", 4), Part("SFB", 4), Part("SFC", 4)]

parts_strategy = st.lists(
    st.builds(Part, st.just("part"), st.integers(1, 200), st.integers(0, 2), st.integers(3, 5),
              st.booleans()),
    min_size=1, max_size=6)


def check(packing: Packing, parts: list[Part], capacity: int = 512) -> None:
    """What every packing must be, recomputed from its places cell by cell."""
    assert [place.part for place in packing.placements] == parts
    assert list(packing.allocations) == sorted(packing.allocations, reverse=True)
    assert all(legal_size(size) == size for size in packing.allocations)
    assert packing.allocated <= capacity
    taken: set[tuple[int, int, int]] = set()
    for place in packing.placements:
        base = packing.bases[place.allocation]
        assert base <= place.column
        assert place.column + place.part.columns <= base + packing.allocations[place.allocation]
        assert place.lane == 0 or place.part.half
        lanes = (place.lane,) if place.part.half else (0, 16)
        cells = {(phase, column, lane) for phase in range(place.part.start, place.part.end)
                 for column in range(place.column, place.column + place.part.columns)
                 for lane in lanes}
        assert not cells & taken
        taken |= cells
    assert packing.columns == len({column for _, column, _ in taken})


def test_k01_608_separate_396_packed_512_allocated() -> None:
    """Three stages of 128 columns and three scale buffers (K01)."""
    found = pack(LISTED)
    assert found is not None
    assert (separate_columns(LISTED), found.columns, found.allocations) == (608, 396, (512,))


@pytest.mark.parametrize("total", [640, 544])
def test_k01_more_than_512_needs_reuse(total: int) -> None:
    """640 and 544 columns never fit, unless the phases of two parts do not overlap (K01)."""
    parts = [Part("D", 256), Part("P", total - 256)]
    assert pack(parts) is None
    reused = pack([Part("D", 256, 0, 1), Part("P", total - 256, 1, 2)])
    assert reused is not None
    assert reused.columns == total - 256


@settings(max_examples=60, deadline=None)
@given(parts_strategy)
def test_packings_never_overlap(parts: list[Part]) -> None:
    """Every cell belongs to one part at a time, every part lies in one legal allocation."""
    found = pack(parts)
    if found is not None:
        check(found, parts)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 256), min_size=1, max_size=4))
def test_the_search_is_exhaustive(columns: list[int]) -> None:
    """Against brute force: assign parts to allocations of every multiset of legal sizes."""
    parts = [Part(f"p{at}", size) for at, size in enumerate(columns)]
    found = pack(parts)
    assert (found.allocated if found else None) == least(columns)


def least(columns: list[int]) -> int | None:
    """The fewest columns in allocations, by trying all partitions of the parts into groups."""
    best = None
    for groups in partitions(list(range(len(columns)))):
        total = sum(legal_size(sum(columns[at] for at in group)) for group in groups)
        if total <= 512 and (best is None or total < best):
            best = total
    return best


def partitions(items: list[int]) -> list[list[list[int]]]:
    if not items:
        return [[]]
    first, rest = items[0], items[1:]
    found = []
    for size in range(len(rest) + 1):
        for chosen in combinations(rest, size):
            left = [item for item in rest if item not in chosen]
            found += [[[first, *chosen], *others] for others in partitions(left)]
    return found


@settings(max_examples=40, deadline=None)
@given(parts_strategy)
def test_a_part_less_never_takes_more(parts: list[Part]) -> None:
    """Removing a part cannot raise the columns allocated."""
    whole, less = pack(parts), pack(parts[1:])
    if whole is not None:
        assert less is not None
        assert less.allocated <= whole.allocated


def test_halves_share_columns() -> None:
    """Two accumulators with M = 64 take the columns of one; a third needs its own."""
    two, three = (pack([Part(f"D{i}", 256, half=True) for i in range(n)]) for n in (2, 3))
    assert two is not None
    assert three is not None
    assert (two.columns, three.columns) == (256, 512)


def test_several_allocations_where_one_would_waste() -> None:
    """288 columns are 256 + 32, not 512; parts that cannot be split so take the larger one."""
    split = pack([Part("D", 256), Part("S", 12)])
    assert split is not None
    assert split.allocations == (256, 32)
    assert pack([]) == Packing((), ())
    with pytest.raises(UsageError, match="nothing to place"):
        Part("nothing", 0)
