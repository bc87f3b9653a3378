"""Which registers and literals an operand of a given type takes, as ptxas enforces it.

A ``.b`` type takes any register of its width, an integer type any integer or ``.b`` one, a floating
type its own or ``.b``. ``ld``, ``st`` and ``cvt`` also take wider registers of these (then only
``.b`` for floats)::

    >>> takes_register("f32", "b32"), takes_register("f32", "u32")
    (True, False)
    >>> takes_register("f32", "b64", wider=True), takes_register("f32", "f64", wider=True)
    (True, False)

Operands that are integers by nature (a shift count, a lane mask, a barrier number) have the type
``i32`` or ``i64`` here: ptxas wants an integer or ``.b`` register, even where the manual says .b32.

Literals: integers go to integer, ``.b`` and predicate operands; floats to ``.f32`` and ``.f64``
in any spelling, to ``.b32`` only as the exact word ``0f...``, to ``.b64`` as a double. Halves and
packed types take none. Found by offering ptxas 13.5 every pair.
"""

from __future__ import annotations

from functools import lru_cache

from mmalab.isa import Form, OperandSpec, type_bits

__all__ = ["REGISTER_TYPES", "legal_registers", "takes_literal", "takes_register", "wanted_type"]

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
    if wanted[0] == "i":
        return given in (f"b{wanted[1:]}", f"u{wanted[1:]}", f"s{wanted[1:]}")
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


#: Families whose registers without a type of their own may hold anything.
_ANY = frozenset({
    "shfl.sync", "mma.sp", "ldmatrix", "stmatrix", "movmatrix", "prmt", "lop3",
})
#: Families that want integers though their opcode names a type.
_INTEGRAL = frozenset({
    "redux.sync", "nanosleep", "bmsk", "elect.sync", "alloca", "createpolicy.range",
    "createpolicy.fractional", "createpolicy.cvt", "bar.red", "bfind",
})
_MATRIX = frozenset({"mma.sync", "mma.sp", "wmma.mma", "wmma.load", "wmma.store"})
#: Packed elements by their type, in the registers of a fragment.
_FRAGMENTS = {"f16": "f16x2", "bf16": "bf16x2", "tf32": "tf32"}
_NAMED = frozenset({"mask", "policy", "stride"})
#: Single operands that are integers, by family and name.
_PLACES = frozenset({
    ("match.sync", "d"), ("mapa", "b"), ("bfe", "b"), ("bfe", "c"), ("szext", "b"),
    ("dp4a", "d"), ("dp4a", "c"), ("dp2a", "d"), ("dp2a", "c"),
    ("vset", "d"), ("vset", "c"), ("vset2", "d"), ("vset2", "c"), ("vset4", "d"), ("vset4", "c"),
})


def wanted_type(form: Form, spec: OperandSpec) -> str:
    """The type that ptxas checks the operand's registers against."""
    word = spec.type
    if form.family in _MATRIX and spec.vector and word == "s32":
        return "i32"
    if form.family in _MATRIX and spec.vector and word == "b32":
        element = form.modifiers.get(f"{spec.name}type") or form.modifiers.get("type", "")
        if form.family.startswith("wmma") and element in ("s8", "u8", "s4", "u4", "b1"):
            return "i32"
        # Sparse products of bf16 and tf32 are not checked as closely as dense ones.
        return word if form.family == "mma.sp" and element != "f16" else (
            _FRAGMENTS.get(element, word))
    if form.family == "fns":
        return "b32"
    if form.family in ("dp4a", "dp2a") and spec.name in ("a", "b"):
        return "u32"
    if spec.vector or word not in ("b32", "u32", "s32", "b64", "u64", "s64"):
        return word
    fixed = word not in form.modifiers.values() and form.family not in _ANY
    place = (form.family, spec.name) in _PLACES or spec.name in _NAMED
    integral = form.family in _INTEGRAL or form.family.startswith("mbarrier.")
    if (fixed or integral or place) and not (form.family == "bfind" and spec.name == "a"):
        return f"i{word[1:]}"
    return "b32" if form.family == "shfl.sync" and word == "u32" else word


def legal_registers(wanted: str, *, wider: bool = False) -> list[str]:
    """The register types that `wanted` takes, with their dots."""
    return [f".{t}" for t in REGISTER_TYPES if takes_register(wanted, t, wider=wider)]


def takes_literal(wanted: str, spelling: str) -> bool:
    """Whether an operand of type `wanted` takes a literal: ``integer``, ``0f``, ``0d``, ``1.5``."""
    if spelling == "integer":
        return wanted == "pred" or wanted[0] == "i" or _untyped(wanted) or _integer(wanted)
    if wanted in ("f32", "f64"):
        return True
    return (wanted, spelling) in (("b32", "0f"), ("b64", "0d"), ("b64", "1.5"))
