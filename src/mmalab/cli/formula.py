"""``--formula 'chunk ^ (row >> 1 & 3)'``: a swizzle as somebody wrote it, evaluated safely.

Whole numbers, the names `row` and `chunk`, brackets, and ``+ - * // % << >> & | ^``: nothing else
is an expression here, so nothing else can run.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable

from mmalab.errors import UsageError

__all__ = ["formula"]

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_LIMIT, _DEPTH = 1 << 32, 50


def formula(text: str) -> Callable[[int, int], int]:
    """The function of (row, chunk) that the text writes.

    Raises:
        UsageError: something else than such an expression; from the function: a number of more than
            32 bits, or a division by zero.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _wrong(text) from None
    _check(tree, text, 0)
    return lambda row, chunk: _value(tree, {"row": row, "chunk": chunk}, text)


def _check(node: ast.expr, text: str, depth: int) -> None:
    if depth > _DEPTH:
        raise _wrong(text)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        _check(node.left, text, depth + 1)
        _check(node.right, text, depth + 1)
    elif not ((isinstance(node, ast.Name) and node.id in ("row", "chunk"))
              or (isinstance(node, ast.Constant) and type(node.value) is int)):
        raise _wrong(text)


def _value(node: ast.expr, names: dict[str, int], text: str) -> int:
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Constant):
        return _bounded(int(str(node.value)), text)
    if not isinstance(node, ast.BinOp):
        raise _wrong(text)
    left, right = _value(node.left, names, text), _value(node.right, names, text)
    if isinstance(node.op, (ast.LShift, ast.RShift)) and not 0 <= right < 32:
        raise _wrong(text)
    if isinstance(node.op, (ast.FloorDiv, ast.Mod)) and right == 0:
        raise _wrong(text)
    return _bounded(_OPERATORS[type(node.op)](left, right), text)


def _bounded(value: int, text: str) -> int:
    if abs(value) >= _LIMIT:
        raise _wrong(text)
    return value


def _wrong(text: str) -> UsageError:
    return UsageError(f"--formula {text[:80]}", "is no expression of row and chunk in 32 bits",
                      legal="chunk ^ (row >> 1 & 3)", where="mmalab swizzle --help")
