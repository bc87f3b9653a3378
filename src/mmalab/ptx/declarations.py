"""Declarations: registers, variables with initialisers, parameters and module-level directives.

    .reg .b32 %r<10>, a;
    .visible .const .align 16 .v2 .f32 table[2] = {{1.0, 2.0}, {0f3F800000, 0f00000000}};
    .global .u64 pointers[2] = {generic(table)+8, table};
    .param .u64 .ptr .global .align 16 p

An array size may be a constant expression, as the manual has it; ptxas 13 takes literals only.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from mmalab.ptx.expressions import immediate, integer
from mmalab.ptx.lexer import Cursor, nearest, squeeze
from mmalab.ptx.nodes import Parameter, RegisterDeclaration, Variable

if TYPE_CHECKING:
    from mmalab.ptx.operands import Scope

__all__ = [
    "LINKAGE", "SPACES", "TYPES", "attribute", "parameters", "register_declaration", "variables",
]

LINKAGE = (".extern", ".visible", ".weak", ".common")
SPACES = (".global", ".const", ".shared", ".local", ".param", ".tex")

#: Bits of the types that a variable, a register or a parameter may have.
TYPES: dict[str, int] = {
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    "b128": 128, "f16": 16, "f16x2": 32, "bf16": 16, "bf16x2": 32, "tf32": 32, "f32": 32,
    "f64": 64, "f32x2": 64, "s16x2": 32, "u16x2": 32, "u8x4": 32, "s8x4": 32,
    "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16,
    "pred": 1, "texref": 64, "samplerref": 64, "surfref": 64,
}
_DOTTED_TYPES = frozenset("." + name for name in TYPES)
_VECTORS = (".v2", ".v4", ".v8")

#: Elements that filling up nested initialisers may make.
_MAX_FILL = 1 << 22
_MAX_BRACES = 16


def _type(cursor: Cursor) -> str:
    if cursor.value not in _DOTTED_TYPES:
        cursor.fail(f"expected a type, found {cursor.shown}",
                    legal=nearest(cursor.value, sorted(_DOTTED_TYPES)))
    name = cursor.value[1:]
    cursor.advance()
    return name


def register_declaration(cursor: Cursor, scope: Scope, line: int) -> RegisterDeclaration:
    """Read ``.reg`` up to, not over, its semicolon."""
    cursor.expect(".reg", "before registers")
    vector = ""
    if cursor.value in _VECTORS:
        vector = cursor.value[1:]
        cursor.advance()
    type_ = _type(cursor)
    names = [_register_name(cursor)]
    while cursor.take(","):
        names.append(_register_name(cursor))
    for name, count in names:
        scope.declare(name, count)
    return RegisterDeclaration(type_, tuple(names), vector, line)


def _register_name(cursor: Cursor) -> tuple[str, int | None]:
    name = cursor.identifier("a register name")
    if not cursor.take("<"):
        return name, None
    count = _count(cursor, "a register count", in_angles=True)
    cursor.expect(">", "after a register count")
    return name, count


def _count(cursor: Cursor, what: str, *, in_angles: bool = False) -> int:
    start = cursor.start
    value = integer(cursor, what, in_angles=in_angles)
    if value < 0:
        cursor.fail(f"{what} cannot be negative", start, cursor.last - start)
    return value


# --- variables ------------------------------------------------------------------------------------

def variables(cursor: Cursor, scope: Scope, linkage: str, line: int) -> list[Variable]:
    """Read a variable declaration up to, not over, its semicolon: one node for each name."""
    space = cursor.value[1:]
    cursor.advance()
    attributes: list[str] = []
    align: int | None = None
    vector = ""
    while True:
        if cursor.take(".align"):
            align = _count(cursor, "an alignment")
        elif cursor.at(".attribute"):
            attributes.append(attribute(cursor))
        elif cursor.value in _VECTORS:
            vector = cursor.value[1:]
            cursor.advance()
        else:
            break
    type_ = _type(cursor)
    found = []
    while True:
        name = cursor.identifier("a variable name")
        dims = dimensions(cursor)
        scope.element_bytes[name] = TYPES[type_] // 8 * int(vector[1:] or 1)
        values = None
        if cursor.take("="):
            inner = (*dims, int(vector[1:])) if vector else dims
            values = _initializer(cursor, inner, 0)
        found.append(Variable(space, type_, name, dims, align, vector, values, linkage, line,
                              tuple(attributes)))
        if not cursor.take(","):
            return found


def dimensions(cursor: Cursor) -> tuple[int, ...]:
    """``[4][8]`` as (4, 8); an empty first one is 0."""
    dims: list[int] = []
    while cursor.take("["):
        if cursor.at("]"):
            if dims:
                cursor.fail("only the first dimension may be empty")
            dims.append(0)
        else:
            dims.append(_count(cursor, "an array size"))
        cursor.expect("]", "after an array size")
    return tuple(dims)


def attribute(cursor: Cursor) -> str:
    """``.attribute(.managed)`` as the text between the parentheses, ``.unified(1, 2)``."""
    cursor.expect(".attribute", "before attributes")
    cursor.expect("(", "after .attribute")
    start, depth = cursor.start, 1
    while True:
        depth += (cursor.at("(")) - (cursor.at(")"))
        if depth == 0:
            break
        if cursor.kind == "end" or cursor.value in (";", "{", "}"):
            cursor.fail(f"expected ')' after attributes, found {cursor.shown}", legal=")")
        cursor.advance()
    text = squeeze(cursor.text[start : cursor.last])
    cursor.advance()
    return text


def _initializer(
    cursor: Cursor, dims: tuple[int, ...], depth: int
) -> tuple[int | float | str, ...]:
    """Read what follows ``=``: values in memory order, inner braces filled up with zeros."""
    if not cursor.take("{"):
        return (_value(cursor),)
    if depth == _MAX_BRACES:
        cursor.fail(f"initialiser nested deeper than {_MAX_BRACES}")
    offset = cursor.start
    inner, fill = dims[1:], prod(dims[1:])
    values: list[int | float | str] = []
    while not cursor.at("}"):
        nested = cursor.at("{")
        part = _initializer(cursor, inner, depth + 1)
        values.extend(part)
        if nested and len(part) < fill:
            if len(values) + fill > _MAX_FILL:
                cursor.fail(f"initialiser of more than {_MAX_FILL} elements", offset)
            values.extend([0] * (fill - len(part)))
        if not cursor.take(","):
            break
        if cursor.at("}"):
            cursor.fail("expected a value after ',', found '}'")
    cursor.expect("}", "after an initialiser")
    return tuple(values)


def _value(cursor: Cursor) -> int | float | str:
    """Read a number, ``a+4``, ``generic(a)+4``, ``0xff(a)``, or ``name = word`` of a sampler."""
    start = cursor.start
    if cursor.kind != "word" or cursor.value == "WARP_SZ":
        number = immediate(cursor).value
        if not cursor.take("("):
            return number
        _symbol(cursor)
        cursor.expect(")", "after a masked address")
    else:
        _symbol(cursor)
        if cursor.take("="):
            _value(cursor)
    return squeeze(cursor.text[start : cursor.last])


def _symbol(cursor: Cursor) -> None:
    if cursor.identifier("a symbol") == "generic" and cursor.take("("):
        cursor.identifier("a variable")
        cursor.expect(")", "after generic(...")
    if cursor.take("+"):
        integer(cursor, "an offset")


# --- parameters -----------------------------------------------------------------------------------

def parameters(cursor: Cursor, scope: Scope) -> tuple[Parameter, ...]:
    """``(.param .u64 a, .param .align 4 .b8 b[16])``."""
    cursor.expect("(", "before parameters")
    found: list[Parameter] = []
    if not cursor.at(")"):
        found.append(_parameter(cursor, scope))
        while cursor.take(","):
            found.append(_parameter(cursor, scope))
    if not cursor.at(")"):
        cursor.fail(f"expected ',' or ')' after a parameter, found {cursor.shown}")
    cursor.advance()
    return tuple(found)


def _parameter(cursor: Cursor, scope: Scope) -> Parameter:
    space = cursor.value[1:]
    if not (cursor.at(".param") or cursor.at(".reg")):
        cursor.fail(f"expected a parameter, found {cursor.shown}", legal=(".param", ".reg"))
    cursor.advance()
    align = _alignment(cursor, None)
    type_ = _type(cursor)
    align = _alignment(cursor, align)
    attributes: list[str] = []
    if cursor.take(".ptr"):
        attributes.append(".ptr")
        while cursor.kind == "dot":
            attributes.append(_pointee(cursor))
    name = cursor.identifier("a parameter name")
    if space == "reg":
        scope.declare(name, None)
    dims = dimensions(cursor)
    return Parameter(name, type_, dims, align, space, tuple(attributes))


def _alignment(cursor: Cursor, before: int | None) -> int | None:
    return _count(cursor, "an alignment") if cursor.take(".align") else before


def _pointee(cursor: Cursor) -> str:
    if cursor.take(".align"):
        return f".align {_count(cursor, 'an alignment')}"
    space = cursor.value
    if space not in (".global", ".const", ".shared", ".local"):
        cursor.fail(f"{space} is nothing that .ptr points to",
                    legal=(".global", ".const", ".shared", ".local", ".align"))
    cursor.advance()
    return space
