"""Hopper's warpgroup products: ``wgmma.mma_async`` of every shape, and its fence and groups.

``wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 d, a, b, scale_d, ia, ib, ta, tb``: 128 lanes,
B in shared memory behind a 64-bit descriptor, A behind another or in registers. M is 64 and N a
multiple of 8, so one row stands for all N of its types. Lanes are (t, g, w) = (lane mod 4,
lane div 4 mod 8, warp): D is ``((4,8,4),(2,2,N/8)):((128,1,16),(64,8,512))``, the accumulator of
mma.sync once for each warp and eight columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache, partial

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence, Fragment
from mmalab.isa.syntax import Row, row
from mmalab.isa.table.fragments import Spread, spread
from mmalab.isa.table.mma import METADATA

__all__ = ["rows"]

#: N that the floating types take, and those of integers and bits.
_EVERY_EIGHT = tuple(range(8, 257, 8))
_INTEGER = (8, 16, 24, *range(32, 257, 16))

#: A in registers by the bits of an element: M x K of the dense shape.
_A: dict[int, Spread] = {
    32: Spread("((4,8,4),(2,2)):((64,1,16),(8,256))", 64, 8),
    16: Spread("((4,8,4),(2,2,2)):((128,1,16),(64,8,512))", 64, 16),
    8: Spread("((4,8,4),(4,2,2)):((256,1,16),(64,8,1024))", 64, 32),
    1: Spread("((4,8,4),(32,2,2)):((2048,1,16),(64,8,8192))", 64, 256),
}


@lru_cache(maxsize=512)
def _fragments_of(n: int, bits: int, atype: str, dtype: str) -> Mapping[str, Fragment]:
    d = Spread(f"((4,8,4),(2,2,{n // 8})):((128,1,16),(64,8,512))", 64, n)
    return {"A": spread(_A[bits], atype, bits), "D": spread(d, dtype)}


def _fragments(bits: int, modifiers: Mapping[str, str]) -> Mapping[str, Fragment]:
    n = int(modifiers["shape"].partition("n")[2].partition("k")[0])
    return _fragments_of(n, bits, modifiers["atype"], modifiers["dtype"])


#: Every type at N = 8, 96 and 256, four of them at every N; both majors, all swizzles.
_MEASURED_ON = (
    "operands, results and fragments equal the emulator's bit for bit on one H200 (driver "
    "580.159): records/h200/wgmma_equality.json"
)

_SIGNS = {"ia": (1, -1), "ib": (1, -1)}
_MAJORS = {"ta": (0, 1), "tb": (0, 1)}
#: The operands behind the predicate: all signs, and for 16-bit types which operand is transposed.
_TAILS = {16: ("#ia, #ib, #ta, #tb", "#ia, #ib, #tb"), 0: ("#ia, #ib", "#ia, #ib"), 1: ("", "")}

#: (D types, A types, B types, bits of an element, K, N, tail of the operands).
_TYPES = (
    ("f16|f32", "f16", "f16", 16, 16, _EVERY_EIGHT, 16),
    ("f32", "bf16", "bf16", 16, 16, _EVERY_EIGHT, 16),
    ("f32", "tf32", "tf32", 32, 8, _EVERY_EIGHT, 0),
    ("f16|f32", "e4m3|e5m2", "e4m3|e5m2", 8, 32, _EVERY_EIGHT, 0),
    ("s32", "s8", "s8", 8, 32, _INTEGER, 1),
    ("s32", "u8", "u8", 8, 32, _INTEGER, 1),
    ("s32", "s8", "u8", 8, 32, _INTEGER, 1),
    ("s32", "u8", "s8", 8, 32, _INTEGER, 1),
    ("s32", "b1", "b1", 1, 256, _INTEGER, 1),
)


def _meanings(rest_of: str) -> Iterator[str]:
    """What the immediates mean that a form has."""
    if "ia" in rest_of:
        yield "ia, ib: -1 negates A, B"
    if "ta" in rest_of:
        yield "ta, tb: 1 where M (N), not K, is contiguous in shared memory"


def _row(sparse: bool, d: str, a: str, b: str, bits: int, k: int, ns: tuple[int, ...],
         tail: int) -> Row:
    shapes = "|".join(f"m64n{n}k{2 * k if sparse else k}" for n in ns)
    flags = {"s8": "{.satfinite}", "u8": "{.satfinite}", "b1": ".op=and.popc"}.get(a, "")
    mixed = {a, b} == {"s8", "u8"}
    metadata = ", e:b32, #f" if sparse else ""
    lists = (f"+d<D>, {how}, b:b64{metadata}, scale_d:pred{', ' if rest else ''}{rest}"
             for how, rest in zip(("a:b64", "a<A>"), _TAILS[tail], strict=True))
    selectors = METADATA[bits, 2 * k] if sparse else None
    return row(
        f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned.shape={shapes}"
        f".dtype={d}.atype={a}.btype={b}{flags} {' || '.join(lists)}",
        "D = A B + D with half of A stored, a warpgroup, asynchronous" if sparse else
        "D = A B + D, a warpgroup, asynchronous",
        targets="sm_90a",
        ptx=(8, 4) if mixed else (8, 2) if sparse else (8, 0),
        family="wgmma.mma_async",
        values={**_SIGNS, **_MAJORS, "f": selectors.selectors if selectors else ()},
        sized=True,
        spread=partial(_fragments, bits),
        sparsity=selectors,
        evidence=Evidence.MEASURED,
        notes=("without scale_d, D is A B alone", *_meanings(rest_of=_TAILS[tail][0]), _MEASURED_ON,
               *(("each warp's metadata is that of mma.sp, for its 16 rows",) if sparse else ())),
    )


def _products() -> Iterator[Row]:
    for types in _TYPES:
        yield _row(False, *types)
    for types in _TYPES:
        if types[1] != "b1":
            yield _row(True, *types)


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """The chapter; made when first asked for."""
    return chapter(
        "Asynchronous Warpgroup Level Matrix Instructions",
        row("wgmma.fence.sync.aligned", "order register accesses before wgmma.mma_async",
            targets="sm_90a", ptx=(8, 0), family="wgmma.fence"),
        row("wgmma.commit_group.sync.aligned", "make a group of the products so far",
            targets="sm_90a", ptx=(8, 0), family="wgmma.commit_group"),
        row("wgmma.wait_group.sync.aligned #n", "wait until n groups are pending at most",
            targets="sm_90a", ptx=(8, 0), family="wgmma.wait_group",
            values={"n": range(1 << 31)}),
        *_products(),
    )
