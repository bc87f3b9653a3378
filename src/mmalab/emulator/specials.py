"""Special registers: %tid, %laneid, %clock and the rest, as [rows, 32] words.

All but the clocks are computed once per set of resident CTAs. %smid and friends describe an
imaginary chip on which CTA number i sits on multiprocessor i.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.errors import UnsupportedInstruction

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["SPECIAL_NAMES", "SpecialRegisters"]

_AXES = "xyz"
_VECTORS = ("tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid",
            "nclusterid")
_CLOCKS = ("clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi")
_SCALARS = (
    "laneid", "warpid", "nwarpid", "smid", "nsmid", "gridid", "cluster_ctarank",
    "cluster_nctarank", "is_explicit_cluster", "lanemask_eq", "lanemask_le", "lanemask_lt",
    "lanemask_ge", "lanemask_gt", "total_smem_size", "dynamic_smem_size", "aggr_smem_size",
    "current_graph_exec", "reserved_smem_offset_begin", "reserved_smem_offset_end",
    "reserved_smem_offset_cap",
)
_WIDE = ("clock64", "globaltimer", "gridid", "current_graph_exec")

SPECIAL_NAMES = frozenset(
    [f"%{v}.{a}" for v in _VECTORS for a in _AXES] + [f"%{n}" for n in (*_SCALARS, *_CLOCKS)]
    + [f"%envreg{i}" for i in range(32)] + [f"%pm{i}" for i in range(8)]
    + [f"%pm{i}_64" for i in range(8)] + [f"%reserved_smem_offset_{i}" for i in range(2)])


class SpecialRegisters:
    """The special registers of the resident warps."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[str, NDArray[Any]] = {}

    def read(self, name: str) -> NDArray[Any]:
        """[rows, 32] uint32 (uint64 for the 64-bit ones)."""
        found = self._known.get(name)
        if found is None:
            plain = name.removeprefix("%")
            dtype = np.uint64 if plain in _WIDE or plain.endswith("_64") else np.uint32
            rows = self._machine.state.rows
            words = np.broadcast_to(np.asarray(self._compute(plain)), (rows, 32))
            found = np.ascontiguousarray(words.astype(np.int64)).astype(dtype)
            if plain not in _CLOCKS:
                self._known[name] = found
        return found

    def _compute(self, name: str) -> Any:
        vector, dot, axis = name.partition(".")
        if dot and vector in _VECTORS and axis in _AXES:
            return self._vector(vector, _AXES.index(axis))
        if name in _CLOCKS:
            return self._clock(name)
        if name.startswith("lanemask_"):
            return _lanemask(name.removeprefix("lanemask_"))
        if name.startswith(("envreg", "pm", "reserved_smem")):
            return 0
        return self._scalar(name)

    def _cta(self) -> NDArray[np.int64]:
        state = self._machine.state
        return np.repeat(state.ctas, state.shape.warps)[:, None]

    def _vector(self, name: str, axis: int) -> Any:
        state, shape = self._machine.state, self._machine.shape
        clusters = tuple(-(-g // c) for g, c in zip(shape.grid, shape.cluster, strict=True))
        fixed = {"ntid": shape.block, "nctaid": shape.grid, "cluster_nctaid": shape.cluster,
                 "nclusterid": clusters}
        if name in fixed:
            return fixed[name][axis]
        if name == "tid":
            return _coordinate(state.thread, shape.block, axis)
        cta = _coordinate(self._cta(), shape.grid, axis)
        if name == "ctaid":
            return cta
        return cta % shape.cluster[axis] if name == "cluster_ctaid" else cta // shape.cluster[axis]

    def _scalar(self, name: str) -> Any:
        state, shape, space = self._machine.state, self._machine.shape, self._machine.space
        size = shape.cluster[0] * shape.cluster[1] * shape.cluster[2]
        values = {
            "laneid": np.arange(32), "warpid": (np.arange(state.rows) % shape.warps)[:, None],
            "nwarpid": shape.warps, "smid": self._cta(), "nsmid": shape.ctas, "gridid": 1,
            "cluster_nctarank": size, "is_explicit_cluster": int(size > 1),
            "total_smem_size": space.shared_bytes - space.shared_start,
            "dynamic_smem_size": shape.dynamic_shared, "current_graph_exec": 0,
            "aggr_smem_size": space.shared_bytes,
        }
        if name == "cluster_ctarank":
            x, y, z = (self._vector("cluster_ctaid", axis) for axis in range(3))
            return x + shape.cluster[0] * (y + shape.cluster[1] * z)
        if name not in values:
            raise UnsupportedInstruction(f"%{name}", "not a special register that is emulated")
        return values[name]

    def _clock(self, name: str) -> int:
        count = self._machine.instructions
        return count >> 32 if name.endswith("_hi") else count


def _coordinate(linear: NDArray[np.int64], extent: tuple[int, int, int],
                axis: int) -> NDArray[np.int64]:
    if axis == 0:
        return linear % extent[0]
    if axis == 1:
        return linear // extent[0] % extent[1]
    return linear // (extent[0] * extent[1])


def _lanemask(kind: str) -> NDArray[np.int64]:
    one = np.int64(1) << np.arange(32, dtype=np.int64)
    below, every = one - 1, np.int64(0xFFFFFFFF)
    return {"eq": one, "lt": below, "le": below | one, "gt": every & ~(below | one),
            "ge": every & ~below}[kind]
