"""Targets: which exist, which code runs where, what sets mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.isa.targets import LIMITS, TARGETS, limits, parse_targets, runs_on, target

NAMES = st.sampled_from(sorted(TARGETS))


def test_the_targets_are_those_of_ptxas_13_5() -> None:
    """The table lists exactly the targets that the newest assembler accepts."""
    plain = (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121)
    suffixed = [f"sm_{n}{s}" for n in plain if n >= 100 for s in "fa"]
    assert sorted(TARGETS) == sorted([*(f"sm_{n}" for n in plain), *suffixed, "sm_90a"])


def test_code_runs_where_its_suffix_lets_it() -> None:
    """a code is bound to its chip, f code to its family upwards, plain code only to age."""
    assert runs_on("sm_80", "sm_121a")
    assert not runs_on("sm_90", "sm_89")
    assert runs_on("sm_90a", "sm_90")
    assert not runs_on("sm_90a", "sm_100a")
    assert runs_on("sm_100f", "sm_107a")
    assert not runs_on("sm_103f", "sm_100a")
    assert not runs_on("sm_100f", "sm_110a")
    assert not runs_on("sm_100a", "sm_103")


def test_sets_read_as_the_isa_speaks() -> None:
    """A floor takes all later targets, f the family from there, a the one; aliases and unions."""
    assert parse_targets("sm_80+") == parse_targets("sm_80")
    assert "sm_75" not in parse_targets("sm_80+")
    assert parse_targets("sm_100f") == {"sm_100f", "sm_100a", "sm_103f", "sm_103a", "sm_107f",
                                        "sm_107a"}
    assert parse_targets("f/a Blackwell") == parse_targets("sm_100f sm_110f sm_120f")
    assert parse_targets("any") == set(TARGETS)
    assert "sm_100" not in parse_targets("blackwell")


@given(st.lists(NAMES, min_size=1, max_size=6))
def test_a_set_prints_as_it_parses(names: list[str]) -> None:
    """The printed form of any union means the same set."""
    words = [name if name.endswith(("a", "f")) else f"{name}+" for name in names]
    found = parse_targets(" ".join(words))
    assert parse_targets(str(found)) == found


@given(NAMES, NAMES)
def test_sets_intersect_like_sets(first: str, second: str) -> None:
    """& of two target sets holds what both hold."""
    a, b = parse_targets(first), parse_targets(second)
    assert (a & b) == frozenset(a) & frozenset(b)


def test_an_unknown_target_names_the_known_ones() -> None:
    """A target that does not exist is an error that lists those that do."""
    with pytest.raises(UsageError, match="sm_90a"):
        target("sm_95")
    with pytest.raises(UsageError, match="sm_80\\+"):
        parse_targets("sm_x")


def test_every_chip_has_limits() -> None:
    """Each target has a row of limits, and a CTA never gets more than its SM has."""
    for name in TARGETS:
        row = limits(name)
        assert row.shared_per_cta <= row.shared_per_sm
        assert row.threads == 32 * row.warps
        assert row.cluster_portable <= max(row.cluster, 0)
    assert limits("sm_90a").shared_per_cta == 227 * 1024
    assert limits("sm_100a").tmem_columns == 512
    assert limits("sm_120a").tmem_columns == 0
    assert set(LIMITS) == {t.capability for t in TARGETS.values()}
