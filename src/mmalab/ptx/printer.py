"""Nodes to PTX text in one canonical spelling, for nodes that no text exists for.

    >>> operand_text(Address(Register("%rd1"), -8))
    '[%rd1+-8]'
    >>> statement_text(Instruction("add.s32", (Register("%r1"), Register("%r2"), Register("%r3"))))
    'add.s32 %r1, %r2, %r3;'

What was parsed has its own text already: :mod:`mmalab.ptx.edit` keeps that, byte for byte, and
comes here only for what is new. ``parse(module_text(m))`` has the structure of `m`, which
:func:`same_structure` compares: all but line numbers, kept texts and the file's name.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from mmalab.ptx.nodes import (
    Address,
    Block,
    Call,
    Directive,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Negated,
    Operand,
    Pair,
    Parameter,
    Register,
    RegisterDeclaration,
    Statement,
    Variable,
    Vector,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "declaration_text", "function_header", "function_text", "header_text", "module_text",
    "operand_text", "parameter_text", "same_structure", "statement_text",
]

_INDENT = "    "


# --- operands -------------------------------------------------------------------------------------

def operand_text(node: Operand) -> str:
    """Spell one operand."""
    match node:
        case Register(name):
            return name
        case Immediate(_, text):
            return text
        case Name(name, offset):
            return f"{name}+{offset}" if offset else name
        case Negated(register, sign):
            return sign + register.name
        case Vector(items):
            return "{" + _listed(items) + "}"
        case Pair(first, second):
            return f"{operand_text(first)}|{operand_text(second)}"
        case Address():
            return _address(node)
        case Call():
            return _call(node)
        case _:
            return "_"


def _listed(items: Sequence[Operand]) -> str:
    return ", ".join(map(operand_text, items))


def _address(node: Address) -> str:
    base = str(node.offset) if node.base is None else operand_text(node.base)
    if node.base is not None and node.offset:
        base += f"+{node.offset}"
    # A sampler stands bare before the braces of the coordinates; plain coordinates stand in them.
    if any(isinstance(item, Vector) for item in node.coordinates):
        base += ", " + _listed(node.coordinates)
    elif node.coordinates:
        base += ", {" + _listed(node.coordinates) + "}"
    return f"[{base}]{node.qualifier}"


def _call(node: Call) -> str:
    parts = [f"({_listed(node.results)})"] if node.results else []
    parts.append(operand_text(node.target))
    if node.arguments:
        parts.append(f"({_listed(node.arguments)})")
    if node.prototype is not None:
        parts.append(operand_text(node.prototype))
    return ", ".join(parts)


# --- statements -----------------------------------------------------------------------------------

def statement_text(node: Statement, indent: str = "") -> str:
    """Spell one statement, without a line end. `indent` stands before all lines but the first."""
    match node:
        case Instruction():
            return _instruction(node)
        case Label(name):
            return name + ":"
        case RegisterDeclaration() | Variable():
            return declaration_text([node])
        case Directive():
            return _directive(node)
        case Block(statements):
            inner = indent + _INDENT
            lines = [f"{inner}{statement_text(item, inner)}\n" for item in statements]
            return "{\n" + "".join(lines) + indent + "}"


def _instruction(node: Instruction) -> str:
    guard = ""
    if node.guard is not None:
        guard = f"@{'!' if node.guard.negated else ''}{node.guard.register} "
    listed = _listed(node.operands)
    return f"{guard}{node.opcode}{' ' if listed else ''}{listed};"


def _directive(node: Directive) -> str:
    label = f"{node.label}: " if node.label else ""
    arguments = f" {node.arguments}" if node.arguments else ""
    end = "" if node.name in (".loc", ".file", ".section") else ";"
    return f"{label}{node.name}{arguments}{end}"


def declaration_text(nodes: Sequence[RegisterDeclaration | Variable]) -> str:
    """Spell declarations that one statement made (``.shared .b32 a, b;`` makes two) each alone."""
    return " ".join(
        _registers(node) if isinstance(node, RegisterDeclaration) else _variable(node)
        for node in nodes
    )


def _registers(node: RegisterDeclaration) -> str:
    vector = f".{node.vector} " if node.vector else ""
    names = (name if count is None else f"{name}<{count}>" for name, count in node.names)
    return f".reg {vector}.{node.type} {', '.join(names)};"


def _variable(node: Variable) -> str:
    words = [f".{node.linkage}"] if node.linkage else []
    words.append(f".{node.space}")
    words += [f".attribute({text})" for text in node.attributes]
    if node.align is not None:
        words.append(f".align {node.align}")
    if node.vector:
        words.append(f".{node.vector}")
    text = f"{' '.join(words)} .{node.type} {node.name}{_dims(node.dims)}"
    if node.initializer is not None:
        text += " = " + _initializer(node)
    return text + ";"


def _initializer(node: Variable) -> str:
    values = [value if isinstance(value, str) else _number(value)
              for value in node.initializer or ()]
    if node.dims or node.vector or node.type == "samplerref":
        return "{" + ", ".join(values) + "}"
    return values[0] if values else "{}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    word = repr(value)
    if word in ("inf", "-inf", "nan"):
        return {"inf": "0d7FF0000000000000", "-inf": "0dFFF0000000000000"}.get(
            word, "0d7FF8000000000000")
    return word


def _dims(dims: Sequence[int]) -> str:
    return "".join(f"[{size or ''}]" for size in dims)


# --- functions and modules ------------------------------------------------------------------------

def parameter_text(node: Parameter) -> str:
    """Spell one parameter, without what parts it from the next."""
    align = f".align {node.align} " if node.align is not None else ""
    attributes = "".join(f"{word} " for word in node.attributes)
    return f".{node.space} {align}.{node.type} {attributes}{node.name}{_dims(node.dims)}"


def function_header(node: Function) -> str:
    """Spell all of a function that stands before its body."""
    words = [f".{node.linkage}"] if node.linkage else []
    words.append(f".{node.kind}")
    words += [f".attribute({text})" for name, text in node.attributes if name == ".attribute"]
    if node.results:
        words.append(f"({', '.join(map(parameter_text, node.results))})")
    given = ",\n".join(_INDENT + parameter_text(item) for item in node.parameters)
    lines = [f"{' '.join(words)} {node.name}({chr(10) + given + chr(10) if given else ''})"]
    for name, text in node.attributes:
        if name != ".attribute":
            end = ";" if name == ".pragma" else ""
            lines.append(f"{name}{' ' if text else ''}{text}{end}")
    return "\n".join(lines)


def function_text(node: Function) -> str:
    """Spell a whole function."""
    if node.body is None:
        return function_header(node) + ";"
    return f"{function_header(node)}\n{statement_text(Block(node.body))}"


def header_text(module: Module) -> str:
    """Spell .version, .target and .address_size."""
    targets = ", ".join((module.target, *module.target_options))
    return (f".version {module.version[0]}.{module.version[1]}\n.target {targets}\n"
            f".address_size {module.address_size}\n")


def module_text(module: Module) -> str:
    """Spell a whole module canonically; its own text, if it has one, is not looked at."""
    parts = [header_text(module)]
    for node in _items(module):
        if isinstance(node, Function):
            parts.append("\n" + function_text(node) + "\n")
        else:
            parts.append(statement_text(node) + "\n")
    return "".join(parts)


def _items(module: Module) -> Iterator[Function | Variable | Directive]:
    """Yield the items in the order of their lines, or, where some have none, in a usable one."""
    items: list[Function | Variable | Directive] = [
        *(node for node in module.directives if node.name in (".file", ".pragma")),
        *module.variables,
        *module.functions,
        *(node for node in module.directives if node.name not in (".file", ".pragma")),
    ]
    if all(node.line for node in items):
        items.sort(key=lambda node: node.line)
    yield from items


# --- comparison -----------------------------------------------------------------------------------

_NOT_STRUCTURE = frozenset(("line", "text", "file"))


def same_structure(one: Any, other: Any) -> bool:
    """Whether two nodes, or tuples of them, say the same: all but lines, kept texts, file names.

    The spelling of an immediate is not compared, its value and bits are.
    """
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_structure, one, other))
    if type(one) is not type(other):
        return False
    if not is_dataclass(one):
        return one is other or bool(one == other)
    names = (field.name for field in fields(one) if field.name not in _NOT_STRUCTURE)
    return all(same_structure(getattr(one, name), getattr(other, name)) for name in names)
