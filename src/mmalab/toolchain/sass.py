"""SASS as objects: what nvdisasm prints, instruction by instruction.

    /*0d10*/  @P0 HMMA.16816.F32.BF16 R48, R36.reuse, R28, R48 ;
        address 0xd10, predicate P0, opcode "HMMA", modifiers ("16816", "F32", "BF16"),
        operands R48, R36 (reuse), R28, R48; flops 4096

A :class:`Sass` is the sequence of all instructions of a cubin in order; ``functions`` groups them
(a kernel, and the helpers that the assembler added), each with its loops (:mod:`.loops`).

The encoding is 128 bits on every chip from sm_75 on. Its upper bits hold what the scheduler is
told: cycles to stall, which scoreboard to set, which to wait for (Z. Jia et al., "Dissecting the
NVIDIA Turing T4 GPU via Microbenchmarking", 2019, section 2.1).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

from mmalab.errors import ToolError
from mmalab.toolchain.flops import is_matrix, matrix_shape, operations
from mmalab.toolchain.loops import Loop, find_loops
from mmalab.toolchain.operands import Label, Operand, Register, read_operand, split_operands

__all__ = ["Control", "Function", "Instruction", "Predicate", "Sass", "read_sass"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """``@P0``, ``@!UP1``; `index` None is PT or UPT."""

    file: str
    index: int | None
    negated: bool = False

    def __str__(self) -> str:
        name = f"{self.file}{'T' if self.index is None else self.index}"
        return f"@{'!' if self.negated else ''}{name}"

    @property
    def never(self) -> bool:
        """True of ``@!PT``: such an instruction is issued but never executed."""
        return self.index is None and self.negated


@dataclass(frozen=True, slots=True)
class Control:
    """Scheduling bits: `stall` cycles before the next issue, scoreboards set when operands are read
    or the result is written (None: none), the set of scoreboards to wait for, reuse flags by
    operand slot."""

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    wait_mask: int
    reuse: int

    @classmethod
    def decode(cls, word: int) -> Control:
        """From the 128-bit encoding."""
        def field_at(low: int, bits: int) -> int:
            return word >> low & ((1 << bits) - 1)

        write, read = field_at(110, 3), field_at(113, 3)
        return cls(stall=field_at(105, 4), yields=not field_at(109, 1),
                   write_barrier=None if write == 7 else write,
                   read_barrier=None if read == 7 else read,
                   wait_mask=field_at(116, 6), reuse=field_at(122, 4))


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `encoding` is its 128-bit word.

    `ptx_line` is the line on which the PTX instruction that it comes from ends.
    """

    address: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Predicate | None = None
    ptx_line: int | None = None
    encoding: int | None = None
    text: str = ""
    #: Further targets of an indirect branch, where nvdisasm knows them.
    targets: tuple[int, ...] = ()

    @property
    def mnemonic(self) -> str:
        """Opcode and modifiers, ``HMMA.16816.F32.BF16``."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def control(self) -> Control | None:
        """Scheduling bits, None when the listing has no encodings."""
        return None if self.encoding is None else Control.decode(self.encoding)

    @property
    def matrix(self) -> bool:
        """Whether it is a matrix instruction."""
        return is_matrix(self.opcode)

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """(M, N, K) of a matrix instruction whose opcode spells it."""
        return matrix_shape(self.opcode, self.modifiers)

    @property
    def never(self) -> bool:
        """Predicated off for good (``@!PT``)."""
        return self.predicate is not None and self.predicate.never

    @property
    def flops(self) -> int | None:
        """Operations of one execution by a warp; None where a descriptor decides (UTC*MMA)."""
        if self.never:
            return 0
        sources = self.operands[1:3]
        moves = any(isinstance(o, Register) and o.file == "R" and o.index is None for o in sources)
        return operations(self.opcode, self.modifiers, moves=moves)

    @property
    def target(self) -> int | None:
        """Address that it branches to or calls, if written in it."""
        for operand in self.operands:
            if isinstance(operand, Label):
                return operand.address
        return None

    def __str__(self) -> str:
        return f"/*{self.address:04x}*/ {self.text}"


@dataclass(frozen=True)
class Function:
    """One function: a kernel (`entry`) or a helper; addresses are within `section`."""

    name: str
    section: str
    entry: bool
    instructions: tuple[Instruction, ...]

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Natural loops, outer before inner, in address order."""
        return find_loops(self.instructions)

    @cached_property
    def main_loop(self) -> Loop | None:
        """The loop that does the most work itself, its inner loops left out; None without loops.

        Most matrix instructions first, then most operations, then most instructions.
        """
        def work(loop: Loop) -> tuple[int, int, int]:
            inner = {i.address for child in self.loops if child.header in loop.children
                     for i in child.instructions}
            own = [i for i in loop.issued if i.address not in inner]
            return sum(i.matrix for i in own), sum(i.flops or 0 for i in own), len(own)

        return max(self.loops, default=None, key=work)

    def histogram(self, *, full: bool = False) -> Counter[str]:
        """How often each opcode occurs; with `full`, each opcode with its modifiers."""
        return Counter(i.mnemonic if full else i.opcode for i in self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)


@dataclass(frozen=True)
class Sass(Sequence[Instruction]):
    """All instructions of a cubin in order; `text` is the listing they were read from."""

    target: str
    functions: tuple[Function, ...]
    text: str = field(default="", repr=False)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """Every instruction, function after function."""
        return tuple(i for function in self.functions for i in function.instructions)

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels."""
        return tuple(function for function in self.functions if function.entry)

    def function(self, name: str) -> Function | None:
        """The function called `name`."""
        return next((f for f in self.functions if f.name == name), None)

    def histogram(self, *, full: bool = False) -> Counter[str]:
        """How often each opcode occurs in all functions; with `full`, with its modifiers."""
        return sum((f.histogram(full=full) for f in self.functions), Counter())

    @overload
    def __getitem__(self, index: int) -> Instruction: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Instruction, ...]: ...
    def __getitem__(self, index: int | slice) -> Instruction | tuple[Instruction, ...]:
        return self.instructions[index]

    def __len__(self) -> int:
        return len(self.instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)


_INSTRUCTION = re.compile(
    r"^\s+/\*(?P<address>[0-9a-f]{4,})\*/\s+(?:\{\s*)?"
    r"(?:@(?P<no>!?)(?P<guard>U?P(?:T|\d+))\s+)?"
    r"(?P<mnemonic>[A-Za-z_][\w.]*)(?P<rest>[^;]*);(?P<tail>.*)$")
_LOW = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
_HIGH = re.compile(r"^\s+/\* 0x([0-9a-f]{16}) \*/\s*$")
_LINE = re.compile(r'^\s*//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_LABEL = re.compile(r"^(?P<name>[^\s:]+):\s*$")
_SECTION = re.compile(r"^\s*\.section\s+(\.text\.[^,\s]+)")
_OTHER_SECTION = re.compile(r"^\s*\.section\s")
_TYPE = re.compile(r"^\s*\.type\s+(\S+),@function")
_ENTRY = re.compile(r'^\s*\.other\s+(\S+),@"STO_CUDA_ENTRY')
_TARGETS = re.compile(r'\(\*"BRANCH_TARGETS\s+([^"]+)"\*\)')
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.MULTILINE)
_FLAGS = re.compile(r'^\s*\.headerflags\s+@".*?EF_CUDA_SM(\d+)[ "].*$', re.MULTILINE)


@dataclass
class _Line:
    """One instruction line before its labels are known."""

    match: re.Match[str]
    ptx_line: int | None
    high: int | None = None


class _Section:
    """The lines of one ``.text`` section, and the names of places in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[_Line] = []
        self.pending: list[str] = []
        self.labels: dict[str, int] = {}

    def add(self, match: re.Match[str], ptx_line: int | None) -> None:
        self.lines.append(_Line(match, ptx_line))
        self.place(int(match["address"], 16))

    def place(self, address: int) -> None:
        """The labels since the last instruction stand here."""
        self.labels.update(dict.fromkeys(self.pending, address))
        self.pending.clear()


def read_sass(text: str) -> Sass:
    """Read a listing of ``nvdisasm -c`` (with or without ``-hex`` and ``-gp``).

    Raises:
        ToolError: the text has no SASS in it, or a line in it is not understood.
    """
    sections, names, entries = _scan(text)
    target = _target(text)
    functions = [function for section in sections
                 for function in _functions(section, names, entries)]
    return Sass(target, tuple(functions), text)


def _target(text: str) -> str:
    if found := _TARGET.search(text):
        return found[1]
    # ELF images of CUDA 12 for chips before sm_100 have the chip in their header flags.
    if found := _FLAGS.search(text):
        return f"sm_{found[1]}{'a' if 'EF_CUDA_ACCELERATORS' in found[0] else ''}"
    raise ToolError("nvdisasm", "printed no target", output=text[:400])


def _scan(text: str) -> tuple[list[_Section], set[str], set[str]]:
    sections: list[_Section] = []
    section: _Section | None = None
    names, entries = set(), set()
    ptx_line: int | None = None
    for line in text.splitlines():
        if found := _INSTRUCTION.match(line):
            if section is None:
                raise ToolError("nvdisasm", "printed an instruction outside a section", output=line)
            section.add(found, ptx_line)
        elif section and section.lines and (found := _HIGH.match(line)):
            section.lines[-1].high = int(found[1], 16)
        elif found := _LINE.match(line):
            ptx_line = int(found[1])
        elif found := _SECTION.match(line):
            section = _Section(found[1])
            sections.append(section)
            ptx_line = None
        elif _OTHER_SECTION.match(line):
            section = None
        elif found := _TYPE.match(line):
            names.add(found[1])
            ptx_line = None  # a helper's code has no line, and must not inherit the kernel's
        elif found := _ENTRY.match(line):
            entries.add(found[1])
        elif section is not None and (found := _LABEL.match(line)):
            section.pending.append(found["name"])
        elif section is not None and line.lstrip().startswith("/*"):
            raise ToolError("nvdisasm", "printed a line that is not understood", output=line)
    return sections, names, entries


def _functions(section: _Section, names: set[str], entries: set[str]) -> Iterator[Function]:
    starts = sorted((address, name) for name, address in section.labels.items() if name in names)
    code = [_instruction(line, section.labels) for line in section.lines]
    if not starts:
        starts = [(0, section.name.removeprefix(".text."))]
    for at, (start, name) in enumerate(starts):
        end = starts[at + 1][0] if at + 1 < len(starts) else None
        body = tuple(i for i in code if i.address >= start and (end is None or i.address < end))
        yield Function(name, section.name, name in entries, body)


def _instruction(line: _Line, labels: dict[str, int]) -> Instruction:
    match = line.match
    guard = match["guard"]
    predicate = None
    if guard:
        file = guard.rstrip("T0123456789")
        digits = guard[len(file):]
        predicate = Predicate(file, None if digits == "T" else int(digits), bool(match["no"]))
    opcode, *modifiers = match["mnemonic"].split(".")
    rest = match["rest"]
    branches = _TARGETS.search(rest)
    operands = rest[: branches.start()] if branches else rest
    low = _LOW.search(match["tail"])
    encoding = None
    if low and line.high is not None:
        encoding = line.high << 64 | int(low[1], 16)
    named = branches[1].split(",") if branches else []
    return Instruction(
        address=int(match["address"], 16), opcode=opcode, modifiers=tuple(modifiers),
        operands=tuple(read_operand(word, labels) for word in split_operands(operands)),
        predicate=predicate, ptx_line=line.ptx_line, encoding=encoding,
        text=f"{predicate or ''} {match['mnemonic']}{rest.rstrip()}".strip(),
        targets=tuple(labels[name.strip()] for name in named if name.strip() in labels))
