"""What changed between two builds: two toolkits, two options, two texts.

A :class:`Build` is one text as numbers; :func:`changes` lists what differs. Where the question is
not a kernel but the language, :func:`matrix_changes` compares what two releases accept::

    >>> old, new = (build(text, toolkit) for toolkit in ("12.9", "13.5"))     # doctest: +SKIP
    >>> [str(change) for change in changes(old, new)][:2]
    ['instructions: 152 -> 120', 'registers: 14 -> 8']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mmalab.atlas.capability import matrix
from mmalab.atlas.lowered import Opcode, one_of_each_chip, opcodes
from mmalab.atlas.releases import known_targets, release
from mmalab.toolchain import AssemblyError, assemble
from mmalab.toolchain.assembler import Cubin

__all__ = ["Build", "Change", "MatrixChange", "OpcodeChange", "build", "changes",
           "matrix_changes", "opcode_changes", "summary_of"]


@dataclass(frozen=True, slots=True)
class Build:
    """One text assembled by one toolkit, as numbers: sizes in bytes, `opcodes` with modifiers,
    `messages` as ptxas words them. Not `accepted`: all numbers are 0."""

    toolkit: str
    target: str
    accepted: bool
    messages: tuple[str, ...]
    instructions: int = 0
    registers: int = 0
    shared: int = 0
    stack: int = 0
    spills: int = 0
    barriers: int = 0
    opcodes: Mapping[str, int] = field(default_factory=dict)
    ptx: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference of two builds."""

    what: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.what}: {self.old or 'none'} -> {self.new or 'none'}"


@dataclass(frozen=True, slots=True)
class MatrixChange:
    """A form that two toolkits judge differently: targets gained and lost, of those that both know.

    `message` is what the one that refuses says, for the first such target.
    """

    form: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    message: str
    ptx: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class OpcodeChange:
    """A matrix form that two toolkits compile differently: verdict and matrix opcodes in words, and
    how many other instructions each needs around them."""

    form: str
    target: str
    old: str
    new: str
    old_others: int
    new_others: int
    ptx: str = field(repr=False)


def build(text: str, toolkit: str | None = None, target: str | None = None, *,
          opt_level: int = 3, options: tuple[str, ...] = (),
          maxrregcount: int | None = None) -> Build:
    """Assemble and count; a refusal is an answer, its messages say why.

    Raises:
        UsageError: the text is no PTX, or no such target.
        ToolError: the release is not installed, or does not know the target.
    """
    try:
        cubin = assemble(text, target, toolkit, maxrregcount, opt_level, options=options,
                         line_info=False)
    except AssemblyError as refused:
        said = tuple(dict.fromkeys(d.message for d in refused.diagnostics))
        return Build(release(toolkit).toolkit, target or "", False, said, ptx=text)
    return summary_of(cubin)


def summary_of(cubin: Cubin) -> Build:
    """A cubin as numbers, its kernels together: registers and stack are the largest."""
    rows = list(cubin.resources.values())
    return Build(
        cubin.toolkit, cubin.target, True,
        tuple(dict.fromkeys(d.message for d in cubin.diagnostics)),
        instructions=len(cubin.sass), registers=max((row.registers for row in rows), default=0),
        shared=max((row.shared for row in rows), default=0),
        stack=max((row.stack for row in rows), default=0),
        spills=sum(row.spill_stores + row.spill_loads for row in rows),
        barriers=max((row.barriers for row in rows), default=0),
        opcodes=dict(Counter(i.mnemonic for i in cubin.sass)), ptx=cubin.ptx or "")


_NUMBERS = ("instructions", "registers", "shared", "stack", "spills", "barriers")


def changes(old: Build, new: Build) -> tuple[Change, ...]:
    """What differs: verdict, numbers, opcodes by how much they differ, messages."""
    found = []
    if old.accepted != new.accepted:
        words = {True: "accepted", False: "refused"}
        found.append(Change("verdict", words[old.accepted], words[new.accepted]))
    for name in _NUMBERS:
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            found.append(Change(name, str(before), str(after)))
    counts = [(abs(new.opcodes.get(word, 0) - old.opcodes.get(word, 0)), word)
              for word in {*old.opcodes, *new.opcodes}]
    for _, word in sorted((pair for pair in counts if pair[0]), key=lambda p: (-p[0], p[1])):
        found.append(Change(word, str(old.opcodes.get(word, 0)), str(new.opcodes.get(word, 0))))
    found += [Change("message", word, "") for word in old.messages if word not in new.messages]
    found += [Change("message", "", word) for word in new.messages if word not in old.messages]
    return tuple(found)


def matrix_changes(old: str, new: str, forms: str | Iterable[str] | None = None,
                   targets: Iterable[str] | None = None) -> tuple[MatrixChange, ...]:
    """Forms whose targets differ between two toolkits, each with the newest PTX that it reads.

    Raises:
        ToolError: a release is not installed.
    """
    both = set(known_targets(release(old))) & set(known_targets(release(new)))
    names = sorted(both & set(targets) if targets is not None else both)
    found = []
    before, after = (matrix(forms, names, toolkit) for toolkit in (old, new))
    for left, right in zip(before, after, strict=True):
        gained = tuple(name for name in right.targets if name not in left.targets)
        lost = tuple(name for name in left.targets if name not in right.targets)
        if gained or lost:
            said = left.messages[gained[0]] if gained else right.messages[lost[0]]
            found.append(MatrixChange(
                left.form, gained, lost, said, right.module((gained or lost)[0])))
    return tuple(found)


def opcode_changes(old: str, new: str, forms: str | Iterable[str] | None = None,
                   targets: Iterable[str] | None = None) -> tuple[OpcodeChange, ...]:
    """Matrix forms that become something else: another verdict, other opcodes, or more or fewer
    instructions around them. Targets: None for one of each chip that both know.

    Raises:
        ToolError: a release is not installed.
    """
    both = [name for name in one_of_each_chip(release(new))
            if name in known_targets(release(old))] if targets is None else list(targets)
    before, after = ({(row.form, row.target): row for row in opcodes(forms, both, toolkit)}
                     for toolkit in (old, new))
    found = []
    for at, left in before.items():
        right = after[at]
        words = [_became(row) for row in (left, right)]
        others = [sum(row.others.values()) for row in (left, right)]
        # Around a native opcode stands address arithmetic, which is the kernel's, not the form's.
        imitated = left.verdict in ("emulated", "fallback")
        if words[0] != words[1] or (imitated and others[0] != others[1]):
            found.append(OpcodeChange(left.form, left.target, words[0], words[1], others[0],
                                      others[1], right.ptx))
    return tuple(found)


def _became(row: Opcode) -> str:
    """``emulated: 2 HMMA.16816.F32``, or the verdict alone."""
    made = ", ".join(f"{n} {word}" for word, n in row.opcodes.items())
    return f"{row.verdict}: {made}" if made else row.verdict
