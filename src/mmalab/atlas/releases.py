"""Which assemblers the atlas asks: the installed releases, their targets and PTX versions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from mmalab.errors import ToolError
from mmalab.isa.targets import TARGETS
from mmalab.isa.targets import target as target_row
from mmalab.toolchain.invoke import invoke
from mmalab.toolchain.locate import Tool, find, supported_ptx, supported_targets, tools

__all__ = ["PTX_VERSIONS", "known_targets", "need_option", "newest_ptx", "release", "releases",
           "versions_of", "written"]

Version = tuple[int, int]

#: Every PTX version since the first that knows a target of the table.
PTX_VERSIONS: tuple[Version, ...] = tuple(
    (major, minor)
    for major, first, last in ((6, 3, 5), (7, 0, 8), (8, 0, 8), (9, 0, 5))
    for minor in range(first, last + 1))


def releases() -> tuple[Tool, ...]:
    """One ptxas of each installed release, newest first.

    Raises:
        ToolError: there is none.
    """
    found = {tool.toolkit: tool for tool in reversed(tools("ptxas"))}
    if not found:
        return (find("ptxas"),)  # its error says what to install
    return tuple(sorted(found.values(), key=lambda tool: tool.version, reverse=True))


def release(toolkit: str | None) -> Tool:
    """The ptxas of a release; None is the newest.

    Raises:
        ToolError: it is not installed; the message names those that are.
    """
    return find("ptxas", toolkit)


def known_targets(ptxas: Tool, wanted: Iterable[str] | None = None) -> tuple[str, ...]:
    """Targets of the table that this assembler knows, oldest first; `wanted` must be among them.

    Raises:
        UsageError: a name that is no target.
        ToolError: a target that this release does not assemble for.
    """
    able = supported_targets(ptxas)
    known = tuple(name for name in TARGETS if name in able)
    if wanted is None:
        return known
    names = {target_row(name).name for name in wanted}
    for name in names:
        if name not in known:
            later = [tool.toolkit for tool in releases() if name in supported_targets(tool)]
            raise ToolError(f"ptxas {ptxas}", f"does not assemble for {name}",
                            legal=[f"--toolkit {word}" for word in later] or known,
                            where="mmalab doctor")
    return tuple(name for name in known if name in names)


def newest_ptx(ptxas: Tool) -> Version:
    """The newest PTX version that the assembler reads."""
    return supported_ptx(ptxas)


def versions_of(ptxas: Tool, target: str) -> tuple[Version, ...]:
    """PTX versions that know the target and that the assembler reads, oldest first."""
    first = target_row(target).ptx
    return tuple(v for v in PTX_VERSIONS if first <= v <= newest_ptx(ptxas))


def written(version: Version) -> str:
    """``8.6``."""
    return f"{version[0]}.{version[1]}"


def need_option(ptxas: Tool, option: str) -> str:
    """The option, which this release must have.

    Raises:
        ToolError: it does not; the message names the releases that do.
    """
    if option in _options(ptxas):
        return option
    able = [f"--toolkit {tool.toolkit}" for tool in releases() if option in _options(tool)]
    raise ToolError(f"ptxas {ptxas}", f"has no option {option}", legal=able or "none installed has")


@lru_cache(maxsize=16)
def _options(ptxas: Tool) -> frozenset[str]:
    said = invoke([str(ptxas.path), "--help"]).output
    return frozenset(re.findall(r"^(--[\w-]+)", said, re.MULTILINE))
