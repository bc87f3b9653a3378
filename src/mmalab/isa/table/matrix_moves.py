"""ldmatrix, stmatrix and movmatrix: 8x8 (and wider) tiles between shared memory and fragments.

``ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {d0,d1,d2,d3}, [a]``: lane 8 j + r gives the
address of row r of matrix j; register j of lane (t, g) gets elements (g, 2t) and (g, 2t + 1) of
matrix j, or with ``.trans`` (2t, g) and (2t + 1, g). The fragment "D" (or "B" of stmatrix) is all
matrices of the instruction, the j-th behind the j before it (`batch`), in the coordinates of shared
memory: row = the address's row, column = element of that row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence, Fragment
from mmalab.isa.syntax import Row, row
from mmalab.isa.table.fragments import MEASURED_ON, Spread, spread

__all__ = ["ROWS"]

_BLACKWELL = "sm_100f sm_110f sm_120f"

#: One matrix: (shape, transposed) to lane and slot. Elements of m8n8 are b16, the others bytes.
_TILES: dict[tuple[str, bool], Spread] = {
    ("m8n8", False): Spread("((4,8),2):((16,1),8)", 8, 8),
    ("m8n8", True): Spread("((4,8),2):((2,8),1)", 8, 8),
    ("m16n16", True): Spread("((4,8),(2,2,2)):((2,16),(1,128,8))", 16, 16),
    ("m8n16", False): Spread("((4,8),4):((32,1),8)", 8, 16),
    ("m16n8", True): Spread("((4,8),(2,2)):((2,8),(1,64))", 8, 16),
}


def _tiles(
    name: str, shape: str, element: str, modifiers: Mapping[str, str]
) -> dict[str, Fragment]:
    one = _TILES[shape, "trans" in modifiers]
    count = int(modifiers.get("num", "x1")[1:])
    whole = replace(one, layout=_repeat(one, count), batch=count)
    return {name: spread(whole, element)}


def _repeat(one: Spread, count: int) -> str:
    """The layout with one more slot mode for the matrices of the instruction."""
    shape, _, stride = one.layout.partition(":")
    return f"{_append(shape, count)}:{_append(stride, one.rows * one.cols)}"


def _append(mode: str, value: int) -> str:
    """``((4,8),(2,2))`` to ``((4,8),(2,2,value))``, ``((4,8),2)`` to ``((4,8),(2,value))``."""
    inner = mode[1:-1]
    cut = inner.index("),") + 2
    slots = inner[cut:].removeprefix("(").removesuffix(")")
    return f"({inner[:cut]}({slots},{value}))"


def _loads() -> Iterator[Row]:
    yield row("ldmatrix.sync.aligned.m8n8.num{.trans}{.window}.b16 d:b32<num>, [a]",
              "load 8x8 matrices", ptx=(6, 5), evidence=Evidence.MEASURED, notes=(MEASURED_ON,),
              spread=partial(_tiles, "D", "m8n8", "b16"))
    yield row("ldmatrix.sync.aligned.m16n16.num.trans{.window}.b8 d:b32<2*num>, [a]",
              "load 16x16 byte matrices, transposed", num="x1 x2", targets=_BLACKWELL, ptx=(8, 6),
              evidence=Evidence.ASSEMBLED, spread=partial(_tiles, "D", "m16n16", "b8"))
    packed = ".dtype=b8x16.atype=b6x16_p32|b4x16_p64"
    yield row(f"ldmatrix.sync.aligned.m16n16.num.trans{{.window}}{packed} d:b32<2*num>, [a]",
              "load 16x16 matrices of 4 or 6 bits into bytes, transposed", num="x1 x2",
              targets=_BLACKWELL, ptx=(8, 6), evidence=Evidence.ASSEMBLED,
              spread=partial(_tiles, "D", "m16n16", "b8"))
    yield row(f"ldmatrix.sync.aligned.m8n16.num{{.window}}{packed} d:b32<num>, [a]",
              "load 8x16 matrices of 4 or 6 bits into bytes", targets=_BLACKWELL, ptx=(8, 6),
              evidence=Evidence.ASSEMBLED, spread=partial(_tiles, "D", "m8n16", "b8"))
    yield row("ldmatrix.sync.aligned.m8n16.num{.window}.dtype=s8.atype=s4 d:b32<num>, [a]",
              "load 8x16 matrices of s4 into bytes", targets=f"sm_90a {_BLACKWELL}", ptx=(9, 4),
              evidence=Evidence.ASSEMBLED, spread=partial(_tiles, "D", "m8n16", "b8"))


def _stores() -> Iterator[Row]:
    yield row("stmatrix.sync.aligned.m8n8.num{.trans}{.window}.b16 [a], b:b32<num>",
              "store 8x8 matrices", targets="sm_90+", ptx=(7, 8), evidence=Evidence.MEASURED,
              notes=(MEASURED_ON,), spread=partial(_tiles, "B", "m8n8", "b16"))
    yield row("stmatrix.sync.aligned.m16n8.num.trans{.window}.b8 [a], b:b32<num>",
              "store byte matrices, transposed", targets=_BLACKWELL, ptx=(8, 6),
              evidence=Evidence.ASSEMBLED, spread=partial(_tiles, "B", "m16n8", "b8"))


def _moved(_: Mapping[str, str]) -> dict[str, Fragment]:
    return {"A": spread(_TILES["m8n8", False], "b16"), "D": spread(_TILES["m8n8", True], "b16")}


ROWS = chapter(
    "Warp-Level Matrix Instructions",
    *_loads(),
    *_stores(),
    row("movmatrix.sync.aligned.m8n8.trans.b16 d:b32, a:b32",
        "transpose an 8x8 matrix across registers", ptx=(7, 8), evidence=Evidence.MEASURED,
        notes=(MEASURED_ON,), spread=_moved),
)
