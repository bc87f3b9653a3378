"""The tables that ``mmalab bench gemm --table NAME`` measures, as data.

Every row names a kernel of ours by its factory and arguments; several arguments are candidates, and
the fastest in each regime stands for us, as the fastest algorithm stands for cublasLt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mmalab.bench.row import Row
from mmalab.errors import UsageError

__all__ = ["TABLES", "table_rows"]

_WGMMA, _MMA = "sm90_wgmma.gemm", "sm80_mma.gemm"
#: What is tried of wgmma: the kernel's own choice, then tiles of 128 to 256 rows and columns.
_PLANS: tuple[Mapping[str, Any], ...] = (
    {},
    {"tile": (128, 256), "stages": 4, "cluster": (1, 1)},
    {"tile": (128, 256), "stages": 4, "cluster": (2, 1)},
    {"tile": (256, 128), "stages": 4, "cluster": (1, 2)},
    {"tile": (256, 192), "stages": 4, "cluster": (1, 2)},
    {"tile": (256, 208), "stages": 3, "cluster": (1, 2)},
    {"tile": (128, 192), "stages": 4, "cluster": (2, 1), "schedule": "pingpong"},
    {"tile": (128, 128), "stages": 5, "cluster": (2, 1), "schedule": "pingpong"},
)


def _with(**arguments: Any) -> tuple[Mapping[str, Any], ...]:
    return tuple({**arguments, **plan} for plan in _PLANS)


_BF16 = _with(dtype="bf16", out="bf16")

#: Projections of public models at a prefill of 4096 or 8192 tokens: tokens, outputs, inputs.
_MODELS = {
    "Llama-3 70B, q and o": (4096, 8192, 8192),
    "Llama-3 70B, gate and up": (4096, 57344, 8192),
    "Llama-3 70B, down": (4096, 8192, 28672),
    "Qwen2.5 32B, down": (8192, 5120, 27648),
    "DeepSeek-V3, expert gate and up": (4096, 4096, 7168),
    "DeepSeek-V3, kv down": (4096, 576, 7168),
}


def _rows(kernel: str, arguments: Iterable[Mapping[str, Any]],
          sizes: Mapping[str, tuple[int, int, int]], kind: str) -> tuple[Row, ...]:
    return tuple(Row(f"{kind} {title}", *size, kernel, tuple(arguments))
                 for title, size in sizes.items())


def _square(*edges: int) -> dict[str, tuple[int, int, int]]:
    return {f"{edge}^3": (edge, edge, edge) for edge in edges}


_SKINNY = {f"M={m}, 8192 x 8192": (m, 8192, 8192) for m in (1, 4, 16, 64)}

TABLES: dict[str, tuple[Row, ...]] = {
    "bf16": (*_rows(_WGMMA, _BF16, {**_square(4096, 8192), "8192 x 8192 x 1024":
                                    (8192, 8192, 1024)}, "BF16"),),
    "llm": _rows(_WGMMA, _BF16, _MODELS, "BF16"),
    "fp8": (*_rows(_WGMMA, _with(dtype="e4m3", out="bf16"), _square(4096, 8192),
                   "E4M3, fast accumulation,"),
            *_rows(_WGMMA, _with(dtype="e4m3", out="bf16", promote_every=128),
                   _square(4096, 8192), "E4M3, promoted every 128,")),
    "int8": _rows(_WGMMA, _with(dtype="s8"), _square(4096, 8192), "S8 to S32"),
    "tf32": _rows(_WGMMA, _with(dtype="tf32"), _square(4096, 8192), "TF32"),
    "unaligned": _rows(_WGMMA, _BF16, {f"8192 x 8192 x {k}": (8192, 8192, k)
                                       for k in (4092, 4090, 4095)}, "BF16"),
    "skinny": (*_rows(_WGMMA, _BF16, _SKINNY, "BF16"),
               *_rows(_WGMMA, ({"dtype": "e4m3", "out": "bf16"},), _SKINNY, "E4M3")),
    "mma": (*_rows(_MMA, ({"stages": 3}, {"stages": 4}, {"stages": 3, "warp_tile": (64, 64)},
                          {"stages": 4, "warp_tile": (64, 64)}), _square(4096, 8192),
                   "BF16 with mma.sync"),),
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
