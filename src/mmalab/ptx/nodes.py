"""The shape of parsed PTX: modules, functions, statements, operands.

The tree is opcode-agnostic: it knows what a well-formed instruction looks like, not which exist
(that is :mod:`mmalab.isa`). Every statement keeps the exact text it came from, so that a module
prints back byte for byte, and its line for findings. Nodes are immutable.

    @%p1 bra $L;     Instruction(guard=Guard("%p1"), opcode="bra", operands=(Name("$L"),))
    ld.global.v2.f32 {%f1,%f2}, [%rd1+8];
                     operands=(Vector((Register("%f1"), Register("%f2"))),
                               Address(Register("%rd1"), 8))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "Address", "Block", "Call", "Directive", "Function", "Guard", "Immediate", "Instruction",
    "Label", "Module", "Name", "Negated", "Operand", "Pair", "Parameter", "Register",
    "RegisterDeclaration", "Sink", "Statement", "Variable", "Vector",
]


# --- operands -------------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register (``%f12``) or a special one (``%tid.x``).

    It is any name that begins with %, or that a ``.reg`` in reach declares (`r1`, `p`).
    """

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal, or a constant expression of literals (``4*8``).

    `value` is an int, or the float that ``0f3F800000``, ``0d...`` or ``1.5`` spells; `bits` holds
    the exact word of ``0f``/``0d`` literals, else None; `text` is the spelling.
    """

    value: int | float
    text: str
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Name:
    """A symbol that is not a register: a variable, label or function.

    `offset` in bytes is what follows it in ``mov.u64 %rd1, tile+16;`` (and ``tile[2]``, which is
    the address of element 2).
    """

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Sink:
    """The operand ``_``: the value is dropped."""


@dataclass(frozen=True, slots=True)
class Negated:
    """``!%p`` or ``-%r``: `sign` is ``!`` or ``-``."""

    operand: Register
    sign: str = "!"


@dataclass(frozen=True, slots=True)
class Vector:
    """``{%r1, %r2}``; also tuples of immediates and names in texture and tensor coordinates."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``%p|%q`` (setp, shfl, elect ...): two destinations written at once."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Address:
    """``[base + offset]``; base is a register, a name, None for an absolute address.

    Tensor copies and textures put coordinates behind the base: ``[%rd1, {%r1, %r2}]`` gives them as
    `coordinates`; with a sampler, ``[tex, smp, {%f1}]``, they are the sampler and one Vector.
    `qualifier` is what may follow the bracket: ``[%rd1].unified``.
    """

    base: Register | Name | None
    offset: int = 0
    coordinates: tuple[Operand, ...] = ()
    qualifier: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """The operands of ``call (ret), target, (args), prototype``."""

    results: tuple[Operand, ...]
    target: Operand
    arguments: tuple[Operand, ...]
    prototype: Operand | None = None


Operand: TypeAlias = (
    Register | Immediate | Name | Sink | Negated | Vector | Pair | Address | Call
)


# --- statements -----------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Guard:
    """``@%p`` or ``@!%p``."""

    register: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. `opcode` is the full dotted spelling (``mma.sync.aligned.m16n8k16...``)."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    line: int = 0
    text: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The opcode's dot-separated parts."""
        return tuple(self.opcode.split("."))


@dataclass(frozen=True, slots=True)
class Label:
    """``$L__BB0_1:``."""

    name: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class RegisterDeclaration:
    """``.reg .b32 %r<10>;`` (`count` 10, `name` ``%r``) or ``.reg .pred %p;`` (`count` None)."""

    type: str
    names: tuple[tuple[str, int | None], ...]
    vector: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable in a state space: ``.shared .align 16 .b8 tile[1024];``.

    `type` without its dot; `dims` as written, 0 for an empty first dimension (``x[]``);
    `initializer` the values (ints, floats, symbols such as ``a+4``, ``generic(a)``, ``0xff(a)``) in
    memory order, inner braces filled up with zeros, None where there is none.
    ``.shared .b32 a, b;`` makes two nodes.
    """

    space: str
    type: str
    name: str
    dims: tuple[int, ...] = ()
    align: int | None = None
    vector: str = ""
    initializer: tuple[int | float | str, ...] | None = None
    linkage: str = ""
    line: int = 0
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Directive:
    """Everything else that begins with a dot: ``.loc``, ``.pragma``, ``.branchtargets`` ...

    `name` keeps the dot; `arguments` is the text behind it without the semicolon, blanks squeezed
    (but a section keeps its block as it is written); `label` is set for labelled ones.
    """

    name: str
    arguments: str = ""
    label: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """``{ ... }`` inside a body: a scope of its own for registers and variables."""

    statements: tuple[Statement, ...]
    line: int = 0


Statement: TypeAlias = (
    Instruction | Label | RegisterDeclaration | Variable | Directive | Block
)


# --- functions and modules ------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class Parameter:
    """A ``.param`` (or ``.reg``) of a function: ``.param .align 8 .b8 p[16]``, ``.param .u64 p``.

    `attributes` holds ``.ptr`` and what follows it: ``(".ptr", ".global", ".align 16")``.
    """

    name: str
    type: str
    dims: tuple[int, ...] = ()
    align: int | None = None
    space: str = "param"
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """``.entry`` or ``.func``. `body` is None for a declaration.

    `attributes` are the performance directives in order: ``(".maxntid", "128")``,
    ``(".reqnctapercluster", "2, 1, 1")``, ``(".minnctapersm", "1")``, ``(".noreturn", "")`` ...
    """

    name: str
    kind: str
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...] = ()
    body: tuple[Statement, ...] | None = None
    linkage: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    line: int = 0

    def instructions(self) -> Iterator[Instruction]:
        """All instructions of the body in text order, nested blocks included."""
        stack: list[Iterator[Statement]] = [iter(self.body or ())]
        while stack:
            for statement in stack[-1]:
                if isinstance(statement, Block):
                    stack.append(iter(statement.statements))
                    break
                if isinstance(statement, Instruction):
                    yield statement
            else:
                stack.pop()


@dataclass(frozen=True, slots=True)
class Module:
    """A whole PTX file."""

    version: tuple[int, int]
    target: str
    address_size: int
    variables: tuple[Variable, ...]
    functions: tuple[Function, ...]
    target_options: tuple[str, ...] = ()
    directives: tuple[Directive, ...] = ()
    text: str = field(default="", repr=False)
    file: str = "<ptx>"

    @property
    def entries(self) -> tuple[Function, ...]:
        """The kernels, in text order."""
        return tuple(f for f in self.functions if f.kind == "entry" and f.body is not None)

    def function(self, name: str) -> Function | None:
        """Find the defined function (or else the declaration) called `name`."""
        found = [f for f in self.functions if f.name == name]
        return next((f for f in found if f.body is not None), found[0] if found else None)

    def __str__(self) -> str:
        return self.text
