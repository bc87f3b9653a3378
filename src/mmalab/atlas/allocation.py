"""What tcgen05.alloc, relinquish and dealloc become, and the guards around them.

The allocator is code that ptxas writes: an atomic on a pool, a loop with NANOSLEEP, a mask kept in
a reserved window of shared memory, and branches to trap handlers whose names tell the mistake that
they catch. All of it differs by release::

    >>> [allocator(toolkit).references for toolkit in ("12.9", "13.5")]       # doctest: +SKIP
    [15, 8]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from mmalab.atlas.kernel_text import probe
from mmalab.atlas.releases import need_option, release
from mmalab.errors import UsageError
from mmalab.ptx import parse
from mmalab.toolchain import AssemblyError, assemble
from mmalab.toolchain.assembler import Cubin

__all__ = ["CHECKS", "Allocator", "Checks", "ColumnCount", "allocator", "column_counts"]

Checks = Literal["default", "on", "off"]

#: The option of ptxas by what is asked of it.
CHECKS: Mapping[Checks, tuple[str, ...]] = {
    "default": (), "on": ("--g-tensor-memory-access-check",),
    "off": ("--gno-tensor-memory-access-check",),
}
_HANDLER = re.compile(r"__cuda_sm\w+?_tcgen05_guardrail_trap_(\w+)")
#: Parts of the probe by how their instruction begins.
_PARTS = {"alloc": "tcgen05.alloc", "relinquish": "tcgen05.relinquish", "mma": "tcgen05.mma",
          "commit": "tcgen05.commit", "ld": "tcgen05.ld", "wait": "tcgen05.wait",
          "dealloc": "tcgen05.dealloc"}


@dataclass(frozen=True)
class Allocator:
    """Article B's probe as compiled.

    `handlers` are the trap handlers present (their names without the prefix that all share), each
    with the number of listing lines that name it; `references` is how many lines name any, what
    ``grep -c guardrail`` counts. `instructions` counts the listing's, padding included.
    """

    target: str
    toolkit: str
    opt_level: int
    checks: Checks
    instructions: int
    registers: int
    shared: int
    handlers: Mapping[str, int]
    references: int
    opcodes: Mapping[str, int]
    ptx: str = field(repr=False)

    @cached_property
    def sequences(self) -> Mapping[str, tuple[str, ...]]:
        """The SASS of each PTX instruction, in the order of addresses, from a second build: the
        line information that leads to it changes the code at -O0."""
        traced = assemble(self.ptx, None, self.toolkit, opt_level=self.opt_level,
                          options=CHECKS[self.checks])
        return _sequences(traced)

    @property
    def retries(self) -> bool:
        """Whether a failed claim is tried again, after a pause."""
        return {"NANOSLEEP", "UTCATOMSWS.FIND_AND_SET.ALIGN"} <= self.opcodes.keys()


@dataclass(frozen=True, slots=True)
class ColumnCount:
    """ptxas's words about a column count, "" where it accepts in silence."""

    columns: int
    immediate: str
    register: str
    toolkit: str
    ptx: str = field(repr=False)


def allocator(
    toolkit: str | None = None,
    opt_level: int = 3,
    *,
    target: str = "sm_100a",
    checks: Checks = "default",
    without: Iterable[str] = (),
    cta_group: int = 1,
) -> Allocator:
    """Compile the probe and read the allocator out of it.

    Args:
        toolkit: release of ptxas; None is the newest.
        opt_level: 0 to 3.
        target: one that has Tensor Memory.
        checks: the Tensor Memory access check of ptxas, which ``-g`` turns on too.
        without: parts of the probe to leave out (:data:`~mmalab.atlas.kernel_text.PARTS`).
        cta_group: 1 or 2.

    Raises:
        UsageError: no such part, or another word for `checks`.
        AssemblyError: ptxas refuses the probe (a target without Tensor Memory).
    """
    if checks not in CHECKS:
        raise UsageError(f"checks={checks!r}", "is not a setting", legal=list(CHECKS),
                         where="mmalab atlas --help")
    text = probe(without=without, cta_group=cta_group)
    options = tuple(need_option(release(toolkit), option) for option in CHECKS[checks])
    cubin = assemble(text, target, toolkit, opt_level=opt_level, options=options, line_info=False)
    naming = [set(found) for line in cubin.sass.text.splitlines()
              if (found := _HANDLER.findall(line))]
    handlers = Counter(name for names in naming for name in names)
    return Allocator(
        target=cubin.target, toolkit=cubin.toolkit, opt_level=opt_level, checks=checks,
        instructions=sum(1 for _ in cubin.sass),
        registers=cubin.resources.registers, shared=cubin.resources.shared,
        handlers=dict(handlers), references=len(naming),
        opcodes=dict(Counter(i.mnemonic for i in cubin.sass)),
        ptx=cubin.ptx or text)


def _sequences(cubin: Cubin) -> dict[str, tuple[str, ...]]:
    """SASS by part of the probe, followed through the line information."""
    lines: dict[int, list[str]] = {}
    for instruction in cubin.sass:
        if instruction.ptx_line is not None:
            lines.setdefault(instruction.ptx_line, []).append(instruction.text)
    found: dict[str, tuple[str, ...]] = {}
    for function in parse(cubin.ptx or "").functions:
        for written in function.instructions():
            for part, head in _PARTS.items():
                if written.opcode.startswith(head):
                    found[part] = tuple(lines.get(written.line, ()))
    return found


def column_counts(
    counts: Iterable[int] = (16, 32, 48, 64, 96, 128, 256, 512, 1024),
    toolkit: str | None = None,
    target: str = "sm_100a",
) -> tuple[ColumnCount, ...]:
    """Column counts as an immediate, which ptxas checks, and through a register, which it cannot.

    Raises:
        UsageError: no such target.
        ToolError: the release is not installed.
    """
    name = release(toolkit).toolkit

    def words(count: int, through: Literal["register", "immediate"]) -> str:
        try:
            assemble(probe(columns=count, through=through), target, toolkit)
        except AssemblyError as refused:
            said = (d.message for d in refused.diagnostics if d.severity in ("error", "fatal"))
            return "; ".join(dict.fromkeys(said))
        return ""

    return tuple(ColumnCount(count, words(count, "immediate"), words(count, "register"), name,
                             probe(columns=count, through="immediate")) for count in counts)
