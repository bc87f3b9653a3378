"""Which registers and literals an operand of a given type takes, as ptxas enforces it.

A ``.b`` type takes any register of its width, an integer type any integer or ``.b`` one, a floating
type its own or ``.b``. ``ld``, ``st`` and ``cvt`` also take wider registers of these (then only
``.b`` for floats)::

    >>> takes_register("f32", "b32"), takes_register("f32", "u32")
    (True, False)
    >>> takes_register("f32", "b64", wider=True), takes_register("f32", "f64", wider=True)
    (True, False)

Literals: integers go to integer, ``.b`` and predicate operands; floats to ``.f32`` and ``.f64``
in any spelling, to ``.b32`` and ``.b64`` only as the exact word ``0f...``, ``0d...``. Halves and
packed types take none. Found by offering ptxas 13.5 every pair.
"""

from __future__ import annotations

from functools import lru_cache

from mmalab.isa import type_bits

__all__ = ["REGISTER_TYPES", "legal_registers", "takes_literal", "takes_register"]

#: What ``.reg`` may declare.
REGISTER_TYPES: tuple[str, ...] = (
    "pred", "b8", "u8", "s8", "b16", "u16", "s16", "f16", "b32", "u32", "s32", "f32", "f16x2",
    "b64", "u64", "s64", "f64", "b128",
)
_PAIRS = frozenset({"f16x2", "u16x2", "s16x2"})
_FLOATS = frozenset({"f16", "f32", "f64"})


def _untyped(name: str) -> bool:
    return name[0] == "b" and name[1:].isdigit()


def _integer(name: str) -> bool:
    return name[0] in "us" and name[1:].isdigit()


@lru_cache(maxsize=4096)
def takes_register(wanted: str, given: str, *, wider: bool = False) -> bool:
    """Whether an operand of type `wanted` takes a register declared `given`."""
    if "pred" in (wanted, given):
        return wanted == given
    if given not in REGISTER_TYPES:
        return False
    need, have = type_bits(wanted), type_bits(given)
    if have != need and not (wider and have > need and wanted != "bf16"):
        return False
    if _untyped(wanted) or _untyped(given):
        return True
    if _integer(wanted):
        # A pair of halves passes for an integer: ptxas does not mind.
        return _integer(given) or given == "f16x2"
    if wanted in _PAIRS:
        return given == "f16x2"
    return wanted == given and wanted in _FLOATS


def legal_registers(wanted: str, *, wider: bool = False) -> list[str]:
    """The register types that `wanted` takes, with their dots."""
    return [f".{t}" for t in REGISTER_TYPES if takes_register(wanted, t, wider=wider)]


def takes_literal(wanted: str, spelling: str) -> bool:
    """Whether an operand of type `wanted` takes a literal: ``integer``, ``0f``, ``0d``, ``1.5``."""
    if spelling == "integer":
        return wanted == "pred" or _untyped(wanted) or _integer(wanted)
    if wanted in ("f32", "f64"):
        return True
    return (wanted, spelling) in (("b32", "0f"), ("b64", "0d"))
