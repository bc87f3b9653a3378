"""What every installed ptxas makes of a text: shared by all claims, each build once.

    >>> tried = build(text, "sm_100a", "13.5")                           # doctest: +SKIP
    >>> tried.accepted, tried.message
    (False, "Instruction 'wgmma.fence' not supported on .target 'sm_100a'")

The articles used release 12.9; a value that 12.9 gives and a newer release does not is a change of
the compiler, not an error of the article.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from mmalab.claims.model import Evidence
from mmalab.isa.targets import TARGETS
from mmalab.isa.targets import target as target_row
from mmalab.toolchain import (
    AssemblyError,
    Cubin,
    assemble,
    find,
    supported_ptx,
    supported_targets,
    tools,
)

__all__ = ["ARTICLE", "Build", "build", "build_many", "builds", "by_compilers", "highest_ptx",
           "newest", "releases", "targets"]

#: The release that article B used, and the nearest to article A's 12.8.
ARTICLE = "12.9"


@dataclass(frozen=True)
class Build:
    """One attempt: the cubin, or the words with which it was refused."""

    toolkit: str
    target: str
    cubin: Cubin | None
    message: str = ""

    @property
    def accepted(self) -> bool:
        """Whether there is a cubin."""
        return self.cubin is not None

    @property
    def made(self) -> Cubin:
        """The cubin.

        Raises:
            AssemblyError: there is none.
        """
        if self.cubin is None:
            raise AssemblyError(f"ptxas {self.toolkit} for {self.target}", self.message,
                                diagnostics=(), command=(), output=self.message)
        return self.cubin

    @property
    def opcodes(self) -> list[str]:
        """Every instruction's opcode with its modifiers, in order."""
        return [i.mnemonic for i in self.made.sass]

    @property
    def lines(self) -> list[str]:
        """Every instruction as text, in order."""
        return [i.text for i in self.made.sass]

    @property
    def matrix(self) -> list[str]:
        """The matrix instructions' opcodes."""
        return [i.mnemonic for i in self.made.sass if i.matrix]


@lru_cache(maxsize=1)
def releases() -> tuple[str, ...]:
    """The installed releases of ptxas, oldest first; the article's must be among them.

    Raises:
        ToolError: it is not.
    """
    find("ptxas", ARTICLE)
    return tuple(sorted({tool.toolkit for tool in tools("ptxas")}, key=_number))


def newest() -> str:
    """The newest installed release."""
    return find("ptxas").toolkit


@lru_cache(maxsize=4096)
def build(text: str, target: str, toolkit: str, *, opt_level: int = 3,
          options: tuple[str, ...] = (), retarget: bool = True) -> Build:
    """Assemble `text` for `target`; a refusal is a result, not an error.

    `retarget` False leaves the text's own ``.target`` in place, as a bare ptxas call would.
    """
    try:
        if not retarget:
            options = (*options, f"-arch={target}")
        cubin = assemble(text, target if retarget else None, toolkit, opt_level=opt_level,
                         options=options, line_info=False)
    except AssemblyError as refused:
        wrong = [d.message for d in refused.diagnostics if d.severity in ("error", "fatal")]
        return Build(toolkit, target, None, wrong[0] if wrong else refused.output)
    return Build(toolkit, target, cubin)


def build_many(jobs: Mapping[str, tuple[str, str, str]]) -> dict[str, Build]:
    """Many builds by name, (text, target, release) each, as many at a time as there are cores:
    ptxas is another program, for which threads wait.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return dict(zip(jobs, pool.map(lambda job: build(*job), jobs.values()), strict=True))


def builds(text: str, target: str, *, opt_level: int = 3,
           options: tuple[str, ...] = ()) -> dict[str, Build]:
    """The same text under every release that knows the target."""
    return {release: build(text, target, release, opt_level=opt_level, options=options)
            for release in releases() if target in supported_targets(find("ptxas", release))}


@lru_cache(maxsize=64)
def targets(toolkit: str, least: str = "sm_75") -> tuple[str, ...]:
    """The targets that a release and the PTX ISA know, from `least` on.

    12.9 still has sm_101, which is sm_110 since.
    """
    first = target_row(least).number
    return tuple(name for name in supported_targets(find("ptxas", toolkit))
                 if name in TARGETS and TARGETS[name].number >= first)


def by_compilers(target: str = "sm_100a", *, what: str = "") -> Evidence:
    """The evidence of a claim that every release was asked about."""
    versions = [str(find("ptxas", release)) for release in releases()]
    words = f"ptxas {', '.join(versions)} for {target}"
    return Evidence("compiled", f"{words}; {what}" if what else words)


def highest_ptx(toolkit: str) -> tuple[int, int]:
    """The newest PTX version that a release reads."""
    return supported_ptx(find("ptxas", toolkit))


def _number(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))

