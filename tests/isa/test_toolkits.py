"""CUDA releases, PTX versions and targets: the table agrees with itself and with ptxas."""

from __future__ import annotations

import pytest

from mmalab.errors import UsageError
from mmalab.isa.targets import TARGETS, runs_on
from mmalab.isa.toolkits import RELEASES, fallback, first_release, known_since, version_of
from mmalab.toolchain.locate import supported_ptx, supported_targets, tools


def test_versions_rise_with_releases() -> None:
    versions = list(RELEASES.values())
    assert versions == sorted(versions)
    assert version_of("12.5") == version_of("12.6") == (8, 5)
    assert all(version_of(first_release(version)) == version for version in versions)


@pytest.mark.toolkit
def test_the_installed_assemblers_agree() -> None:
    """The newest version each ptxas reads, and the targets it knows of those of the table."""
    for tool in tools("ptxas"):
        version = version_of(tool.toolkit)
        assert supported_ptx(tool) == version
        assert set(TARGETS) & set(supported_targets(tool)) == {
            name for name, row in TARGETS.items() if row.ptx <= version}


@pytest.mark.parametrize(("target", "release", "instead"), [
    ("sm_120f", "12.8", "sm_120a"), ("sm_103a", "12.8", "sm_100"), ("sm_90a", "13.0", "sm_90a"),
    ("sm_90", "11.7", "sm_87"), ("sm_121", "12.8", "sm_120"), ("sm_107f", "13.0", "sm_103f"),
])
def test_what_to_build_until_then(target: str, release: str, instead: str) -> None:
    """It runs on the chip, and the release knows it."""
    assert fallback(target, release) == instead
    assert runs_on(instead, target)
    assert TARGETS[instead].ptx <= RELEASES[release]


@pytest.mark.parametrize("wrong", [lambda: version_of("12.99"), lambda: first_release((9, 9)),
                                   lambda: known_since("sm_101"),
                                   lambda: fallback("sm_75", "9.2")])
def test_wrong_use(wrong) -> None:
    with pytest.raises(UsageError):
        wrong()
