"""The tables that ``mmalab bench gemm --table NAME`` measures, as data.

Every row names a kernel of ours by its factory and arguments, wgmma's by types alone: the plan is
the kernel's own choice. Several arguments are candidates; the fastest in each regime stands for us,
as the fastest algorithm stands for cublasLt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mmalab.bench.row import Row
from mmalab.errors import UsageError

__all__ = ["TABLES", "table_rows"]

_WGMMA, _MMA, _FEW = "sm90_wgmma.gemm", "sm80_mma.gemm", "sm90_wgmma.skinny"
_BF16 = {"dtype": "bf16", "out": "bf16"}
_E4M3 = {"dtype": "e4m3", "out": "bf16"}


def _also(types: Mapping[str, Any], *plans: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The kernel's own choice, and others that come near it: the clock decides between them."""
    return (types, *({**types, **plan} for plan in plans))


#: The largest tiles, of which one or the other is the fastest where many fit; L2 fetches what TMA
#: asks for, not twice as much.
_LINE = {"l2_promotion": "128B"}
_LARGE = ({"tile": (128, 256), "stages": 4, **_LINE},
          {"tile": (256, 208), "stages": 3, "cluster": (1, 2), **_LINE})
#: The same where sums are promoted.
_HALVES = ({"tile": (128, 256), "stages": 4, "cluster": (2, 1), "part": 128, **_LINE},
           {"tile": (128, 192), "stages": 5, "cluster": (2, 1), "part": 96, "parts": 2, **_LINE},
           {"tile": (128, 192), "stages": 5, "cluster": (2, 1), **_LINE})
#: The same where blocks of 128 values have scales.
_BLOCKS = ({"tile": (128, 128), "stages": 6, "cluster": (2, 1), **_LINE},
           {"tile": (256, 128), "stages": 4, "cluster": (1, 2), **_LINE},
           {"tile": (128, 256), "stages": 4, "part": 128, **_LINE})
#: The same for short K.
_SWIFT = ({"tile": (128, 192), "stages": 5, "cluster": (2, 1), "schedule": "pingpong",
           "band": 4096, "store": "staged", "panels": 1, **_LINE},)

#: What an SM is given with mma.sync: the article's pipeline; blocks that fill an SM, by cp.async
#: and by TMA, with whole tiles or dealt out evenly.
_MMA_CHOICES: tuple[dict[str, Any], ...] = (
    {"stages": 4},
    {"tile": (256, 128), "stages": 4, "span": 128},
    *({"copy": "tma", "tile": (256, 128), "stages": 4, "waves": waves}
      for waves in ("whole", "even")),
)

#: Rows of any pitch: the kernel's own choice, lines of B shifted behind TMA and A loaded, and the
#: same with less fetched by L2 or in another band; lines of both shifted.
_SERIAL = {**_BF16, "tile": (256, 192), "stages": 4, "cluster": (1, 2), "flight": 0}
_SHIFTED: tuple[dict[str, Any], ...] = (
    _BF16, {**_SERIAL, "copy": "shifted"},
    *({**_SERIAL, "copy": "shifted", "left": "registers", **_LINE, **other}
      for other in ({}, {"band": 4096})))


def _windowed(band: int) -> tuple[dict[str, Any], ...]:
    """Both operands through windows, in bands of so many rows or of a third of 8192."""
    own = {**_SERIAL, "copy": "windowed", **_LINE, "band": band}
    return own, {**own, "flight": 1}, {**own, "l2_promotion": "256B"}, {**own, "band": 2816}


#: And both copied first, to rows that TMA reads.
_COPIED = {**_BF16, "copy": "padded", "tile": (256, 208), "stages": 3, "cluster": (1, 2)}

#: Projections of public models at a prefill of 4096 or 8192 tokens: tokens, outputs, inputs.
_MODELS = {
    "Llama-3 70B, q and o": (4096, 8192, 8192),
    "Llama-3 70B, gate and up": (4096, 57344, 8192),
    "Llama-3 70B, down": (4096, 8192, 28672),
    "Qwen2.5 32B, down": (8192, 5120, 27648),
    "DeepSeek-V3, expert gate and up": (4096, 4096, 7168),
    "DeepSeek-V3, kv down": (4096, 576, 7168),
}


def _rows(kind: str, sizes: Mapping[str, tuple[int, int, int]], kernel: str,
          *arguments: Mapping[str, Any]) -> tuple[Row, ...]:
    return tuple(Row(f"{kind} {title}", *size, kernel, arguments)
                 for title, size in sizes.items())


def _square(*edges: int) -> dict[str, tuple[int, int, int]]:
    return {f"{edge}^3": (edge, edge, edge) for edge in edges}


def _skinny(kind: str, types: Mapping[str, Any]) -> Iterable[Row]:
    """Few rows, each twice: reading what the kernel ahead may have written when it has ended, as
    any kernel does; and reading B before, which holds where B are weights."""
    for m in (1, 4, 16, 64):
        shares = (1, 2) if m == 64 else (1,)
        choices = [{**types, "depth": depth, "share": share}
                   for depth in (1, 2) for share in shares]
        for ahead, overlaps in (("", ("launch", "none")), (", B read ahead", ("weights",))):
            yield Row(f"{kind} M={m}, 8192 x 8192{ahead}", m, 8192, 8192, _FEW,
                      tuple({**each, "overlap": overlap} for overlap in overlaps
                            for each in choices if overlap != "none" or each["share"] == 1))



_SQUARES = _square(4096, 8192)
_SHORT = {f"8192 x 8192 x {k}": (8192, 8192, k) for k in (512, 1024, 2048)}
_UNALIGNED = {f"8192 x 8192 x {k}": (8192, 8192, k) for k in (4092, 4090, 4095)}
#: The bands of each where windows hold two: half of the rows, of which some are in place; a smaller
#: part where all are copied, for two halves would be all of A.
_BANDS = {4092: 4096, 4090: 4096, 4095: 3072}

TABLES: dict[str, tuple[Row, ...]] = {
    "bf16": (*_rows("BF16", _SQUARES, _WGMMA, *_also(_BF16, *_LARGE)),
             *_rows("BF16", _SHORT, _WGMMA, *_also(_BF16, *_SWIFT))),
    "llm": _rows("BF16", _MODELS, _WGMMA, *_also(_BF16, *_LARGE)),
    "fp8": (*_rows("E4M3, fast accumulation,", _SQUARES, _WGMMA,
                  *_also(_E4M3, *_LARGE)),
            *_rows("E4M3, promoted every 128,", _SQUARES, _WGMMA,
                   *_also({**_E4M3, "promote_every": 128}, *_HALVES)),
            *_rows("E4M3, promoted every 64,", _square(8192), _WGMMA,
                   *_also({**_E4M3, "promote_every": 64}, *_HALVES))),
    "scaled": _rows("E4M3, scales of 1 x 128 and 128 x 128,", {
        **_SQUARES, "DeepSeek-V3, expert gate and up": _MODELS["DeepSeek-V3, expert gate and up"]},
        _WGMMA, *_also({**_E4M3, "scaled": True}, *_BLOCKS)),
    "int8": _rows("S8 to S32", _SQUARES, _WGMMA, *_also(
        {"dtype": "s8"}, *_LARGE, {"tile": (128, 256), "stages": 4, "band": 1024, **_LINE},
        *({"tile": (128, 192), "stages": 5, "cluster": (2, 1), "schedule": "pingpong",
           "band": 4096, **store} for store in ({}, {"store": "staged", "panels": 1})))),
    "tf32": _rows("TF32", _SQUARES, _WGMMA, *_also({"dtype": "tf32"}, *_LARGE)),
    "unaligned": (*_rows("BF16", _UNALIGNED, _WGMMA, *_SHIFTED),
                  *(Row(f"BF16, through windows, {title}", *size, _WGMMA,
                        _windowed(_BANDS[size[-1]])) for title, size in _UNALIGNED.items()),
                  *_rows("BF16, copied first,", _UNALIGNED, _WGMMA, _COPIED)),
    "skinny": (*_skinny("BF16", _BF16), *_skinny("E4M3", _E4M3)),
    "mma": _rows("BF16 with mma.sync", _SQUARES, _MMA, *_MMA_CHOICES),
}


def table_rows(names: Iterable[str]) -> list[Row]:
    """The rows of some tables, in order.

    Raises:
        UsageError: a table that is not there.
    """
    rows: list[Row] = []
    for name in names:
        if name not in TABLES:
            raise UsageError(f"--table {name}", "is no table", legal=list(TABLES),
                             where="mmalab.bench.tables")
        rows += TABLES[name]
    return rows
