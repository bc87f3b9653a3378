"""Kernels written in Python: one call, one instruction, no string templates.

    >>> b = KernelBuilder("scale", target="sm_80", version=(7, 8))
    >>> p = b.load_param(b.param("x", "u64"))
    >>> i = b.mov("u32", b.tid.x)
    >>> p = b.add("s64", p, b.mul_wide("u32", i, 4))
    >>> x = b.ld("global.f32", b.at(p))
    >>> with b.guard(b.setp("lt", "u32", i, 100)):
    ...     b.emit("mul.f32", x, x, 1.5)        # 1.5 becomes 0f3FC00000
    >>> b.st("global.f32", b.at(p), x)
    >>> b.emit("ret")
    >>> module = b.build()

Python is the template language: a ``for`` unrolls, a function is a macro, a list of registers is a
vector operand. ``with b.loop(n) as i`` emits a loop instead. Registers of one type share one
declaration (``.reg .b32 %r<17>;``) that is written when the text is.

Operand counts are checked against `arity`, a function from an opcode to its form or None (such as
``isa.find``), given as data because this layer knows no instruction. An opcode without a form is
refused unless it is emitted with ``unchecked=True``; without `arity` nothing is checked.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from operator import index
from typing import TYPE_CHECKING

from mmalab.errors import UsageError
from mmalab.ptx.arguments import (
    FormLike,
    check_operands,
    checked_name,
    checked_type,
    operand_of,
    refuse_special,
)
from mmalab.ptx.declarations import TYPES
from mmalab.ptx.lexer import OPCODE
from mmalab.ptx.nodes import (
    Address,
    Guard,
    Instruction,
    Label,
    Module,
    Name,
    Parameter,
    Register,
    RegisterDeclaration,
    Variable,
)
from mmalab.ptx.operations import Given, Operations
from mmalab.ptx.parser import parse
from mmalab.ptx.printer import declaration_text, parameter_text, statement_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["KernelBuilder", "join"]

_WHERE = "mmalab.ptx.KernelBuilder"
_OPCODE = re.compile(OPCODE, re.ASCII)

#: Register prefix and declared type, by what a register holds: all 32-bit integers share %r.
_FILES = {"pred": ("%p", "pred"), "f32": ("%f", "f32"), "f64": ("%fd", "f64"),
          8: ("%b", "b8"), 16: ("%h", "b16"), 32: ("%r", "b32"), 64: ("%rd", "b64"),
          128: ("%rq", "b128")}


class _Axes:
    """``b.tid.x``: the three registers of a special register with axes."""

    def __init__(self, name: str) -> None:
        self.x, self.y, self.z = (Register(f"%{name}.{axis}") for axis in "xyz")


class KernelBuilder(Operations):
    """One ``.entry`` being written, and the module around it."""

    tid = _Axes("tid")
    ntid = _Axes("ntid")
    ctaid = _Axes("ctaid")
    nctaid = _Axes("nctaid")
    clusterid = _Axes("clusterid")
    cluster_ctaid = _Axes("cluster_ctaid")
    cluster_nctaid = _Axes("cluster_nctaid")
    laneid = Register("%laneid")
    warpid = Register("%warpid")
    cluster_ctarank = Register("%cluster_ctarank")
    clock64 = Register("%clock64")

    def __init__(self, name: str, *, target: str = "sm_80", version: tuple[int, int] = (7, 8),
                 arity: Callable[[str], FormLike | None] | None = None) -> None:
        self.name = checked_name(name)
        self.target = target
        self.version = version
        self._arity = arity
        self._parameters: list[Parameter] = []
        self._directives: list[str] = []
        self._module_variables: list[Variable] = []
        self._body_variables: list[Variable] = []
        self._registers: list[RegisterDeclaration] = []
        self._counts: dict[str, tuple[str, int]] = {}
        self._names = {name}
        self._labels = 0
        self._lines: list[str] = []
        self._guard: Guard | None = None

    # --- declarations -----------------------------------------------------------------------------

    def param(self, name: str, dtype: str, *, dims: Sequence[int] = (),
              align: int | None = None) -> Name:
        """Declare a parameter: ``param("a", "u64")``, ``param("t", "b8", dims=[64], align=64)``."""
        self._parameters.append(
            Parameter(self._new_name(name), checked_type(dtype), tuple(dims), align))
        return Name(name)

    def load_param(self, parameter: Name, offset: int = 0) -> Register:
        """Load a scalar parameter into a new register of its type."""
        declared = next((item for item in self._parameters if item.name == parameter.name), None)
        if declared is None:
            raise UsageError(f"{parameter.name} is not a parameter of {self.name}",
                             legal=[item.name for item in self._parameters], where=_WHERE)
        value = self.reg(declared.type)
        self.emit(f"ld.param.{declared.type}", value, Address(parameter, offset), unchecked=True)
        return value

    def reg(self, dtype: str, name: str | None = None) -> Register:
        """Allocate a register: numbered, or ``%name`` of exactly this type."""
        checked_type(dtype)
        if name is not None:
            spelled = self._new_name("%" + name.lstrip("%"))
            self._registers.append(RegisterDeclaration(dtype, ((spelled, None),)))
            return Register(spelled)
        prefix, declared = _FILES[dtype if dtype in _FILES else TYPES[dtype]]
        count = self._counts.get(prefix, (declared, 0))[1]
        self._counts[prefix] = (declared, count + 1)
        return Register(f"{prefix}{count}")

    def regs(self, dtype: str, count: int) -> list[Register]:
        """Allocate `count` registers: a vector operand, or a fragment."""
        return [self.reg(dtype) for _ in range(count)]

    def shared(self, name: str, size: int, align: int = 16) -> Name:
        """Declare `size` bytes of static shared memory."""
        return self._bytes(self._body_variables, "shared", name, size, align)

    def local(self, name: str, size: int, align: int = 16) -> Name:
        """Declare `size` bytes of each thread's local memory."""
        return self._bytes(self._body_variables, "local", name, size, align)

    def dynamic_shared(self, align: int = 16, name: str = "dynamic_shared") -> Name:
        """Declare the shared memory whose size the launch gives."""
        return self._bytes(self._module_variables, "shared", name, 0, align, linkage="extern")

    def constant(self, name: str, dtype: str, values: Sequence[int | float],
                 align: int | None = None) -> Name:
        """Declare an initialised array in constant memory."""
        self._module_variables.append(Variable(
            "const", checked_type(dtype), self._new_name(name), (len(values),), align,
            initializer=tuple(values)))
        return Name(name)

    def _bytes(self, where: list[Variable], space: str, name: str, size: int, align: int, *,
               linkage: str = "") -> Name:
        if size < 0 or align < 1 or align & (align - 1):
            raise UsageError(f"{name}: {size} bytes aligned to {align}",
                             "needs a size from 0 and a power of two",
                             legal="1024 bytes aligned to 16", where=_WHERE)
        where.append(Variable(space, "b8", self._new_name(name), (size,), align, linkage=linkage))
        return Name(name)

    def _new_name(self, name: str) -> str:
        if checked_name(name) in self._names:
            raise UsageError(f"{name} is declared twice in {self.name}",
                             legal="a name of its own", where=_WHERE)
        self._names.add(name)
        return name

    # --- performance directives -------------------------------------------------------------------

    def maxntid(self, x: int, y: int = 1, z: int = 1) -> None:
        """Promise at most this many threads in a CTA."""
        self._directives.append(f".maxntid {x}, {y}, {z}")

    def reqntid(self, x: int, y: int = 1, z: int = 1) -> None:
        """Require exactly this many threads in a CTA."""
        self._directives.append(f".reqntid {x}, {y}, {z}")

    def minnctapersm(self, count: int) -> None:
        """Ask for registers few enough that `count` CTAs share an SM."""
        self._directives.append(f".minnctapersm {count}")

    def maxnreg(self, count: int) -> None:
        """Limit the registers of a thread."""
        self._directives.append(f".maxnreg {count}")

    def reqnctapercluster(self, x: int, y: int = 1, z: int = 1) -> None:
        """Require exactly this many CTAs in a cluster."""
        self._directives.append(f".reqnctapercluster {x}, {y}, {z}")

    def explicitcluster(self) -> None:
        """Require a launch with a cluster."""
        self._directives.append(".explicitcluster")

    # --- instructions -----------------------------------------------------------------------------

    def emit(self, opcode: str, *operands: Given, comment: str = "",
             unchecked: bool = False) -> None:
        """Append one instruction. Lists are vectors, strings names, floats exact words.

        Raises UsageError for an operand list that the form (see `arity`) does not have.
        """
        if _OPCODE.fullmatch(opcode) is None:
            raise UsageError(f"{opcode!r} is not spelled like an opcode", legal="add.s32",
                             where=_WHERE)
        nodes = tuple(operand_of(item, opcode) for item in operands)
        if not unchecked:
            refuse_special(opcode, nodes)
        if self._arity is not None and not unchecked:
            check_operands(opcode, nodes, self._arity(opcode))
        self._write(statement_text(Instruction(opcode, nodes, self._guard)), comment)

    op = emit

    def _write(self, text: str, comment: str = "") -> None:
        self._lines.append(f"    {text}{'  // ' + _one_line(comment) if comment else ''}")

    def comment(self, text: str) -> None:
        """Write a comment, one line for each of `text`."""
        self._lines += [f"    // {line}".rstrip() for line in text.splitlines()]

    def pragma(self, text: str) -> None:
        """Write ``.pragma "text";``."""
        if '"' in text or "\n" in text:
            raise UsageError(f".pragma {text!r}", "a string has no quotes and one line",
                             legal="nounroll", where=_WHERE)
        self._write(f'.pragma "{text}";')

    @contextmanager
    def guard(self, predicate: Register, *, negated: bool = False) -> Iterator[None]:
        """Put ``@predicate`` before every instruction inside. PTX has one guard: no nesting."""
        if self._guard is not None:
            raise UsageError("a guard inside a guard", "an instruction has one predicate",
                             legal="combine them: and.pred p, p, q", where=_WHERE)
        self._guard = Guard(predicate.name, negated)
        try:
            yield
        finally:
            self._guard = None

    # --- control flow -----------------------------------------------------------------------------

    def label(self, stem: str = "L") -> Name:
        """Make a new label; `place` puts it."""
        self._labels += 1
        return Name(self._new_name(f"${stem}_{self._labels}"))

    def place(self, label: Name) -> None:
        """Put `label` here."""
        self._lines.append(statement_text(Label(label.name)))

    def branch(self, label: Name, predicate: Register | None = None, *, negated: bool = False,
               uniform: bool = False) -> None:
        """Go to `label`, if `predicate` (is not) set; `uniform` promises that all lanes agree."""
        guard = self._guard if predicate is None else Guard(predicate.name, negated)
        if predicate is not None and self._guard is not None:
            raise UsageError("a conditional branch inside a guard", "has two predicates",
                             legal="combine them: and.pred p, p, q", where=_WHERE)
        opcode = "bra.uni" if uniform else "bra"
        self._write(statement_text(Instruction(opcode, (label,), guard)))

    @contextmanager
    def when(self, predicate: Register, *, negated: bool = False) -> Iterator[None]:
        """Branch around what is inside unless `predicate` is (not) set."""
        behind = self.label("skip")
        self.branch(behind, predicate, negated=not negated)
        yield
        self.place(behind)

    @contextmanager
    def loop(self, stop: Register | int, start: Register | int = 0, step: int = 1, *,
             dtype: str = "s32", unroll: bool = True) -> Iterator[Register]:
        """Emit a counted loop, as ``range(start, stop, step)``; gives the counter.

        The first test is left out where both bounds are numbers. ``unroll=False`` forbids ptxas
        to unroll it.
        """
        if step == 0:
            raise UsageError("a loop with step 0", "never ends", legal="a step of 1 or -1",
                             where=_WHERE)
        counter = self.mov(dtype, start)
        again, behind = self.label("loop"), self.label("done")
        known = isinstance(start, int) and isinstance(stop, int)
        if not known or not range(index(start), index(stop), step):  # type: ignore[arg-type]
            self.branch(behind, self.setp("ge" if step > 0 else "le", dtype, counter, stop))
        self.place(again)
        if not unroll:
            self.pragma("nounroll")
        yield counter
        self.emit(f"add.{dtype}", counter, counter, step)
        self.branch(again, self.setp("lt" if step > 0 else "gt", dtype, counter, stop))
        self.place(behind)

    # --- results ----------------------------------------------------------------------------------

    def module_part(self) -> str:
        """Give the variables and the entry, without the header."""
        variables = "".join(declaration_text([item]) + "\n" for item in self._module_variables)
        given = ",\n".join("    " + parameter_text(item) for item in self._parameters)
        head = f".visible .entry {self.name}({chr(10) + given + chr(10) if given else ''})"
        declared: list[RegisterDeclaration | Variable] = [*self._registers, *(
            RegisterDeclaration(type_, ((prefix, count),))
            for prefix, (type_, count) in self._counts.items()), *self._body_variables]
        lines = [head, *self._directives, "{"]
        lines += [f"    {declaration_text([item])}" for item in declared]
        return variables + "\n".join((*lines, *self._lines, "}")) + "\n"

    def text(self) -> str:
        """Give the PTX text of the module."""
        return _header(self) + "\n" + self.module_part()

    def build(self) -> Module:
        """Parse the text: the Module, whose file is named after the kernel."""
        return parse(self.text(), f"<{self.name}>")


def join(builders: Sequence[KernelBuilder]) -> Module:
    """One module of several kernels; they must agree on target and version."""
    heads = {_header(item) for item in builders}
    if len(heads) != 1:
        raise UsageError("kernels of one module differ in .target or .version",
                         legal=[f"{item.target} {item.version}" for item in builders], where=_WHERE)
    return parse("\n".join((*heads, *(item.module_part() for item in builders))))


def _header(builder: KernelBuilder) -> str:
    major, minor = builder.version
    return f".version {major}.{minor}\n.target {builder.target}\n.address_size 64\n"


def _one_line(comment: str) -> str:
    return " ".join(comment.split())
