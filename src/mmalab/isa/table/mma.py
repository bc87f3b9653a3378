"""Every ``mma.sync`` and ``mma.sp``: shape and types, fragments, sparse metadata, block scales.

``mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 d, a, b, c``: one warp, D = A B + C, the
operands spread over its lanes as :mod:`~mmalab.isa.table.fragments` says. The rows are products of
a shape with the types that it takes, in the order of the manual.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypedDict

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence, Fragment, Sparsity
from mmalab.isa.syntax import Row, row
from mmalab.isa.table.fragments import MEASURED_ON, QUAD_PAIR, fragment, spread
from mmalab.layouts import Layout

__all__ = ["METADATA", "ROWS"]

_BLACKWELL = "sm_100f sm_110f sm_120f"
_GEFORCE = "sm_120f"
_OPERANDS = "d<D>, a<A>, b<B>, c<C>"
_FP8 = "e4m3|e5m2"
_FP864 = "e4m3|e5m2|e3m2|e2m3|e2m1"
_INT8 = "s8|u8"
_INT4 = "s4|u4"
_SCALES = ", sa:b32, #ida<2>, sb:b32, #idb<2>"
_ROUNDED = "{.rounding}"
#: FP6 and FP4 inputs of mma exist on sm_120 and sm_121 alone.
_NARROW_GEFORCE = dict.fromkeys(("e3m2", "e2m3", "e2m1"), (_GEFORCE, (8, 7)))
#: First PTX version of kind::f8f6f4 with FP8 inputs, by accumulator.
_NARROW_FIRST = {"f32": (8, 6), "f16": (8, 7)}


def _fragments(
    a_shape: str, shape: str, bits: int, modifiers: Mapping[str, str]
) -> Mapping[str, Fragment]:
    """A (as of shape `a_shape`), B, C and D; `bits` is an input's container, 0 for its type's."""
    return {
        "A": fragment("A", a_shape, modifiers["atype"], bits),
        "B": fragment("B", shape, modifiers["btype"], bits),
        "C": fragment("C", shape, modifiers["ctype"]),
        "D": fragment("D", shape, modifiers["dtype"]),
    }


def _size(shape: str) -> tuple[int, int, int]:
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


def _dense(
    shape: str,
    types: str,
    targets: str,
    ptx: tuple[int, int],
    *,
    flags: str = "",
    tail: str = "",
    operands: str = _OPERANDS,
    bits: int = 0,
    needs: Mapping[str, tuple[str, tuple[int, int]]] | None = None,
) -> Row:
    """One dense row; `types` is "D A B C", alternatives joined by |."""
    d, a, b, c = types.split()
    return row(
        f"mma.sync.aligned.{shape}.alayout=row.blayout=col{flags}"
        f".dtype={d}.atype={a}.btype={b}.ctype={c}{tail} {operands}",
        "D = A B + C, one warp",
        targets=targets,
        ptx=ptx,
        needs=needs,
        shape=_size(shape),
        spread=partial(_fragments, shape, shape, bits),
        **_evidence(targets),
        values=_selectors(flags),
    )


class _Known(TypedDict):
    evidence: Evidence
    notes: tuple[str, ...]


def _evidence(targets: str) -> _Known:
    """Rows that an H200 runs were run there: random small integers, D exact in every element."""
    if targets in ("any", "sm_80+", "sm_89+", "sm_90+"):
        return {"evidence": Evidence.MEASURED, "notes": (MEASURED_ON,)}
    return {"evidence": Evidence.ASSEMBLED, "notes": ()}


def _selectors(flags: str) -> dict[str, range | tuple[int, ...]]:
    """Legal values of the block-scale selectors (checked pairwise by the verdict)."""
    return {"ida": range(4), "idb": range(4)} if "block_scale" in flags else {}


def _quad_pairs(modifiers: Mapping[str, str]) -> Mapping[str, Fragment]:
    return {
        "A": spread(QUAD_PAIR["A", modifiers["alayout"]], "f16"),
        "B": spread(QUAD_PAIR["B", modifiers["blayout"]], "f16"),
        "C": spread(QUAD_PAIR["D", modifiers["ctype"]], modifiers["ctype"]),
        "D": spread(QUAD_PAIR["D", modifiers["dtype"]], modifiers["dtype"]),
    }


def _quad(d: str, c: str) -> Row:
    return row(
        f"mma.sync.aligned.m8n8k4.alayout.blayout.dtype={d}.atype=f16.btype=f16.ctype={c} "
        + _OPERANDS,
        "four products, one for each quad pair",
        ptx=(6, 4),
        shape=(8, 8, 4),
        spread=_quad_pairs,
        **_evidence("any"),
    )


def _floating() -> Iterator[Row]:
    yield _quad("f16", "f16")
    yield _quad("f32", "f16|f32")
    for acc in ("f16", "f32"):
        yield _dense("m16n8k8", f"{acc} f16 f16 {acc}", "any", (6, 5))
        yield _dense("m16n8k16", f"{acc} f16 f16 {acc}", "sm_80+", (7, 0))
    for shape in ("m16n8k8", "m16n8k16"):
        yield _dense(shape, "f32 bf16 bf16 f32", "sm_80+", (7, 0))
    for shape in ("m16n8k4", "m16n8k8"):
        yield _dense(shape, "f32 tf32 tf32 f32", "sm_80+", (7, 0))
    yield _dense("m8n8k4", "f64 f64 f64 f64", "sm_80+", (7, 0), flags=_ROUNDED)
    for shape in ("m16n8k4", "m16n8k8", "m16n8k16"):
        yield _dense(shape, "f64 f64 f64 f64", "sm_90+", (7, 8), flags=_ROUNDED)
    for acc in ("f32", "f16"):
        for shape in ("m16n8k16", "m16n8k32"):
            first = (8, 4) if (acc, shape) == ("f32", "m16n8k32") else (8, 7)
            yield _dense(shape, f"{acc} {_FP8} {_FP8} {acc}", "sm_89+", first)
        yield _dense("m16n8k32", f"{acc} {_FP864} {_FP864} {acc}", _BLACKWELL,
                     _NARROW_FIRST[acc], flags=".kind::f8f6f4", needs=_NARROW_GEFORCE)


def _integer() -> Iterator[Row]:
    for types, shapes in ((_INT8, ("m8n8k16", "m16n8k16", "m16n8k32")),
                          (_INT4, ("m8n8k32", "m16n8k32", "m16n8k64"))):
        for shape in shapes:
            small = shape.startswith("m8n8")
            yield _dense(shape, f"s32 {types} {types} s32", "any" if small else "sm_80+",
                         (6, 5) if small else (7, 0), flags="{.satfinite}")
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        yield _dense(shape, "s32 b1 b1 s32", "any" if shape == "m8n8k128" else "sm_80+", (7, 0),
                     tail=".op=xor|and.popc", needs={"and": ("sm_80+", (7, 1))})


#: kind, shape, scale_vec words, scale types, element types, bits of an element's container.
_BLOCK_SCALED = (
    ("mxf8f6f4", "m16n8k32", "{.scale_vec::1X}", "ue8m0", _FP864, 8),
    ("mxf4", "m16n8k64", "{.scale_vec::2X}", "ue8m0", "e2m1", 4),
    ("mxf4nvf4", "m16n8k64", ".scale_vec::2X", "ue8m0", "e2m1", 4),
    ("mxf4nvf4", "m16n8k64", ".scale_vec::4X", "ue4m3|ue8m0", "e2m1", 4),
)


def _block_scaled() -> Iterator[Row]:
    for kind, shape, scale_vec, stype, types, bits in _BLOCK_SCALED:
        late = {"ue8m0": (_GEFORCE, (9, 1))} if stype == "ue4m3|ue8m0" else None
        yield _dense(shape, f"f32 {types} {types} f32", _GEFORCE, (8, 7),
                     flags=f".kind::{kind}.block_scale{scale_vec}", tail=f".stype={stype}",
                     operands=_OPERANDS + _SCALES, bits=bits, needs=late)


# --- sparse A -------------------------------------------------------------------------------------

_TWO_OF_FOUR = (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
_ONE_OF_TWO = (0b0100, 0b1110)


def _sparsity(group: int, kept: int, unit: int, contributors: int, metadata: str) -> Sparsity:
    tf32 = group == 2
    return Sparsity(group, kept, unit, 4 if tf32 else 2, contributors, Layout.parse(metadata),
                    _ONE_OF_TWO if tf32 else _TWO_OF_FOUR, Evidence.MEASURED)


#: By (container bits, K): contributing lanes (q, g) and entries to row + 16 * stored unit. All of
#: them reproduced an H200's products of random sparse matrices exactly, with each selector.
METADATA: dict[tuple[int, int], Sparsity] = {
    (16, 16): _sparsity(4, 2, 1, 1, "((1,8),(8,2)):((0,1),(16,8))"),
    (16, 32): _sparsity(4, 2, 1, 2, "((2,8),(8,2)):((128,1),(16,8))"),
    (32, 8): _sparsity(2, 1, 1, 1, "((1,8),(4,2)):((0,1),(16,8))"),
    (32, 16): _sparsity(2, 1, 1, 2, "((2,8),(4,2)):((64,1),(16,8))"),
    (8, 32): _sparsity(4, 2, 1, 2, "((2,8),16):((8,1),16)"),
    (8, 64): _sparsity(4, 2, 1, 4, "(((2,2),8),16):(((8,256),1),16)"),
    (4, 64): _sparsity(8, 4, 2, 2, "((2,8),16):((8,1),16)"),
    (4, 128): _sparsity(8, 4, 2, 4, "(((2,2),8),16):(((8,256),1),16)"),
}


def _sparse(
    shape: str,
    types: str,
    targets: str,
    bits: int,
    *,
    ptx: tuple[int, int] = (7, 1),
    words: str = "sp sp::ordered_metadata",
    flags: str = "",
    tail: str = "",
    scales: str = "",
    needs: Mapping[str, tuple[str, tuple[int, int]]] | None = None,
) -> Row:
    d, a, b, c = types.split()
    m, n, k = _size(shape)
    sparsity = METADATA[bits, k]
    return row(
        f"mma.metadata.sync.aligned.{shape}.alayout=row.blayout=col{flags}"
        f".dtype={d}.atype={a}.btype={b}.ctype={c}{tail} {_OPERANDS}, e:b32, #f{scales}",
        "D = A B + C with half of A stored, one warp",
        metadata=words,
        family="mma.sp",
        targets=targets,
        ptx=ptx,
        needs={"sp::ordered_metadata": (targets, max(ptx, (8, 5))), **(needs or {})},
        shape=(m, n, k),
        spread=partial(_fragments, f"m{m}n{n}k{k // 2}", shape, bits),
        sparsity=sparsity,
        **_evidence(targets),
        values={"f": sparsity.selectors, **_selectors(flags)},
    )


def _sparse_rows() -> Iterator[Row]:
    for acc in ("f16", "f32"):
        for shape in ("m16n8k16", "m16n8k32"):
            yield _sparse(shape, f"{acc} f16 f16 {acc}", "sm_80+", 16)
    for shape in ("m16n8k16", "m16n8k32"):
        yield _sparse(shape, "f32 bf16 bf16 f32", "sm_80+", 16)
    for shape in ("m16n8k8", "m16n8k16"):
        yield _sparse(shape, "f32 tf32 tf32 f32", "sm_80+", 32)
    for types, bits, shapes in ((_INT8, 8, ("m16n8k32", "m16n8k64")),
                                (_INT4, 4, ("m16n8k64", "m16n8k128"))):
        for shape in shapes:
            yield _sparse(shape, f"s32 {types} {types} s32", "sm_80+", bits, flags="{.satfinite}")
    yield _sparse("m16n8k64", f"f32 {_FP8} {_FP8} f32", "sm_89+", 8, ptx=(8, 4))
    ordered = "sp::ordered_metadata"
    yield _sparse("m16n8k64", f"f16 {_FP8} {_FP8} f16", _GEFORCE, 8, ptx=(8, 7), words=ordered)
    yield _sparse("m16n8k64", f"f32 {_FP864} {_FP864} f32", _BLACKWELL, 8,
                  ptx=_NARROW_FIRST["f32"], words=ordered, flags=".kind::f8f6f4",
                  needs=_NARROW_GEFORCE)
    yield _sparse("m16n8k64", f"f16 {_FP864} {_FP864} f16", _GEFORCE, 8, ptx=(8, 7),
                  words=ordered, flags=".kind::f8f6f4")
    for kind, shape, scale_vec, stype, types, bits in _BLOCK_SCALED:
        m, n, k = _size(shape)
        late = {"ue8m0": ("sm_120a sm_121a", (9, 1))} if stype == "ue4m3|ue8m0" else None
        yield _sparse(f"m{m}n{n}k{2 * k}", f"f32 {types} {types} f32",
                      _GEFORCE if bits == 8 else "sm_120a sm_121a", bits, ptx=(8, 7),
                      words=ordered, flags=f".kind::{kind}.block_scale{scale_vec}",
                      tail=f".stype={stype}", scales=_SCALES, needs=late)


ROWS = (
    *chapter("Matrix Multiply-Accumulate Operation Using mma Instruction",
             *_floating(), *_integer(), *_block_scaled()),
    *chapter("Matrix Multiply-Accumulate Operation Using mma.sp Instruction", *_sparse_rows()),
)
