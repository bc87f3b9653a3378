"""The first PTX version that takes a form.

Every version is tried, front end only (a line that cannot be right ends each
batch before code generation), which costs no more than bisecting thousands of forms at once and
does not assume that what assembles once assembles ever after: ``shfl`` without ``.sync`` ended with
PTX 6.3. The version found is then assembled whole::

    >>> first_version("tcgen05.alloc.cta_group::1.sync.aligned.b32").version      # doctest: +SKIP
    '8.6'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mmalab.atlas.capability import matrix
from mmalab.atlas.judging import judge_all
from mmalab.atlas.releases import PTX_VERSIONS, known_targets, newest_ptx, release, written
from mmalab.atlas.specimens import Specimen, chosen
from mmalab.isa.targets import TARGETS
from mmalab.toolchain.locate import Tool

__all__ = ["FirstVersion", "first_version", "first_versions"]


@dataclass(frozen=True, slots=True)
class FirstVersion:
    """The oldest ``.version`` with which something assembles for `target`.

    `version` is "8.6", "" when no version does; `below` what ptxas says one version earlier (""
    when that is older than any that the atlas asks about); `last` the newest version that still
    does.
    """

    form: str
    target: str
    toolkit: str
    version: str
    last: str
    below: str
    ptx: str = field(repr=False)


def first_version(
    form: str, target: str | None = None, toolkit: str | None = None
) -> FirstVersion:
    """The first version of one opcode: see :func:`first_versions`."""
    return first_versions([form], target, toolkit)[0]


def first_versions(
    forms: str | Iterable[str] | None = None,
    target: str | None = None,
    toolkit: str | None = None,
) -> tuple[FirstVersion, ...]:
    """The first version of each form.

    Args:
        forms: as of :func:`~mmalab.atlas.capability.matrix`.
        target: None for the oldest target that takes the form (a target has a first version of
            its own, which would hide the form's).
        toolkit: release; None for the newest.

    Raises:
        UsageError: no such form or target.
        ToolError: the release is not installed or does not know the target.
    """
    specimens, ptxas = chosen(forms), release(toolkit)
    places = _places(specimens, ptxas, target)
    found: dict[Specimen, FirstVersion] = {}
    for name in dict.fromkeys(places.values()):
        members = [specimen for specimen in specimens if places[specimen] == name]
        found.update(_of_target(members, ptxas, name))
    return tuple(found[specimen] for specimen in specimens)


def _places(specimens: Sequence[Specimen], ptxas: Tool, target: str | None) -> dict[Specimen, str]:
    """The target on which each is tried."""
    if target is not None:
        name, = known_targets(ptxas, [target])
        return dict.fromkeys(specimens, name)
    places = {}
    for answer in matrix([s.opcode for s in specimens], toolkit=ptxas.toolkit):
        oldest = min(answer.targets or ("sm_75",), key=lambda name: TARGETS[name].ptx)
        places[answer.specimen] = oldest
    return places


def _of_target(specimens: Sequence[Specimen], ptxas: Tool, target: str
               ) -> dict[Specimen, FirstVersion]:
    """By the front end; what its first version does not wholly take, by the whole assembler."""
    found = _swept(specimens, ptxas, target, front_end=True)
    by_version: dict[str, list[Specimen]] = {}
    for specimen, row in found.items():
        by_version.setdefault(row.version, []).append(specimen)
    late = []
    for version, members in by_version.items():
        if version:
            judged = judge_all(ptxas, members, [(target, version)])[target, version]
            late += [s for s, said in zip(members, judged, strict=True) if said.errors]
    newest = written(newest_ptx(ptxas))
    judged = judge_all(ptxas, late, [(target, newest)])[target, newest]
    never = {s: "; ".join(said.errors) for s, said in zip(late, judged, strict=True) if said.errors}
    for specimen, words in never.items():
        found[specimen] = FirstVersion(specimen.name, target, ptxas.toolkit, "", "", words,
                                       specimen.module(target, newest))
    rest = [specimen for specimen in late if specimen not in never]
    return found | _swept(rest, ptxas, target, front_end=False)


def _swept(specimens: Sequence[Specimen], ptxas: Tool, target: str, *, front_end: bool
           ) -> dict[Specimen, FirstVersion]:
    """Every version asked."""
    versions = [written(version) for version in PTX_VERSIONS if version <= newest_ptx(ptxas)]
    judged = judge_all(ptxas, specimens, [(target, v) for v in versions], front_end=front_end)
    found = {}
    for at, specimen in enumerate(specimens):
        errors = [judged[target, v][at].errors for v in versions]
        fine = [i for i, words in enumerate(errors) if not words]
        first, last = (fine[0], fine[-1]) if fine else (-1, -1)
        below = errors[first - 1] if first > 0 else errors[-1] if not fine else ()
        version = versions[first] if fine else ""
        found[specimen] = FirstVersion(
            specimen.name, target, ptxas.toolkit, version, versions[last] if fine else "",
            "; ".join(below), specimen.module(target, version or versions[-1]))
    return found
