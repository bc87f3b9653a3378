"""A whole PTX text over targets and versions: where it assembles, and from which version on.

    >>> found = assembles_for(text)                                           # doctest: +SKIP
    >>> found.targets, found.messages["sm_90a"]
    (('sm_100f', ...), "Instruction 'tcgen05.alloc' not supported on .target 'sm_90a'; ...")

The text is retargeted, and its version raised where a target is younger; nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from mmalab.atlas.releases import PTX_VERSIONS, known_targets, newest_ptx, release, written
from mmalab.errors import ToolError
from mmalab.isa.targets import TARGETS
from mmalab.isa.targets import target as target_row
from mmalab.ptx import parse
from mmalab.ptx.edit import retarget
from mmalab.toolchain import AssemblyError, assemble

__all__ = ["Assembles", "LeastVersion", "assembles_for", "least", "least_version"]

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Assembles:
    """Targets that take a text, and ptxas's errors for the others."""

    toolkit: str
    targets: tuple[str, ...]
    messages: Mapping[str, str]
    ptx: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class LeastVersion:
    """The least PTX version of a text for a target; `version` "" where none will do, `below` what
    ptxas says one version earlier (or at the newest)."""

    target: str
    toolkit: str
    version: str
    below: str
    ptx: str = field(repr=False)


def assembles_for(text: str, targets: Iterable[str] | None = None, toolkit: str | None = None
                  ) -> Assembles:
    """Assemble a text for targets; None for all that the release knows.

    Raises:
        SourceError: it does not parse.
        UsageError: no such target.
        ToolError: the release is not installed, or does not know a target.
    """
    module, ptxas = parse(text), release(toolkit)
    names = known_targets(ptxas, targets)

    def said(name: str) -> str:
        version = max(module.version, TARGETS[name].ptx)
        return _errors(str(retarget(module, name, version=version)), ptxas.toolkit)

    with ThreadPoolExecutor() as pool:
        words = dict(zip(names, pool.map(said, names), strict=True))
    return Assembles(ptxas.toolkit, tuple(name for name in names if not words[name]),
                     {name: said for name, said in words.items() if said}, text)


def least_version(text: str, target: str | None = None, toolkit: str | None = None) -> LeastVersion:
    """The least ``.version`` with which a text assembles for `target` (None: its own), bisected.

    Raises:
        SourceError: it does not parse.
        UsageError: no such target.
        ToolError: the release is not installed.
    """
    module, ptxas = parse(text), release(toolkit)
    name = target_row(target or module.target).name
    newest = newest_ptx(ptxas)
    said: dict[Version, str] = {}

    def at(version: Version) -> str:
        return str(retarget(module, name, version=version))

    def takes(version: Version) -> bool:
        said[version] = _errors(at(version), ptxas.toolkit)
        return not said[version]

    if not takes(newest):
        return LeastVersion(name, ptxas.toolkit, "", said[newest], at(newest))
    found = least(takes, PTX_VERSIONS[0], newest)
    before = [version for version in PTX_VERSIONS if version < found]
    if before and before[-1] not in said:
        takes(before[-1])
    return LeastVersion(name, ptxas.toolkit, written(found), said[before[-1]] if before else "",
                        at(found))


def least(takes: Callable[[Version], bool], low: Version, high: Version) -> Version:
    """The least version from `low` to `high` that is taken; `high` is."""
    versions = [version for version in PTX_VERSIONS if low <= version <= high]
    refused, taken = -1, len(versions) - 1
    while taken - refused > 1:
        middle = (refused + taken) // 2
        if takes(versions[middle]):
            taken = middle
        else:
            refused = middle
    return versions[taken]


def _errors(text: str, toolkit: str) -> str:
    try:
        assemble(text, None, toolkit, line_info=False)
    except AssemblyError as refused:
        return "; ".join(dict.fromkeys(
            d.message for d in refused.diagnostics if d.severity in ("error", "fatal")))
    except ToolError as unable:
        return f"{unable.given}: {unable.rule}"
    return ""
