"""The special registers: type, first target, first PTX version.

``mov.u32 %r1, %tid.x`` reads one; only ``mov`` and ``cvt`` may, and to their own width
(``mov.u64 %rd1, %tid.x`` needs a ``cvt``). ``%gridid`` was 32 bits wide once, ``%tid`` and its like
16, and they may still be read as such.

    >>> SPECIAL_REGISTERS["%cluster_ctarank"].need
    'sm_90+'
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SPECIAL_REGISTERS", "SpecialRegister"]


@dataclass(frozen=True, slots=True)
class SpecialRegister:
    """`type` of the register or, where `vector`, of each of its four components."""

    type: str
    ptx: tuple[int, int]
    need: str = "any"
    vector: bool = False
    #: Types under which older PTX read it.
    also: tuple[str, ...] = ()


_CLUSTER = ("sm_90+", (7, 8))

#: names: (type, first PTX version, targets)
_SCALARS: tuple[tuple[str, str, tuple[int, int], str], ...] = (
    ("laneid warpid smid", "u32", (1, 3), "any"),
    ("nwarpid nsmid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt", "u32", (2, 0),
     "any"),
    ("is_explicit_cluster", "pred", (7, 8), "sm_90+"),
    ("cluster_ctarank cluster_nctarank", "u32", (7, 8), "sm_90+"),
    ("clock", "u32", (1, 0), "any"),
    ("clock_hi", "u32", (5, 0), "any"),
    ("clock64", "u64", (2, 0), "any"),
    ("globaltimer", "u64", (3, 1), "any"),
    ("globaltimer_lo globaltimer_hi", "u32", (3, 1), "any"),
    ("total_smem_size dynamic_smem_size", "u32", (4, 1), "any"),
    ("aggr_smem_size", "u32", (8, 1), "sm_90+"),
    (("reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap "
     "reserved_smem_offset_0 reserved_smem_offset_1"), "b32", (7, 6), "sm_80+"),
    ("current_graph_exec", "u64", (8, 0), "any"),
    (" ".join(f"pm{i}" for i in range(8)), "u32", (1, 3), "any"),
    (" ".join(f"pm{i}_64" for i in range(8)), "u64", (4, 0), "any"),
    (" ".join(f"envreg{i}" for i in range(32)), "b32", (2, 1), "any"),
)
_VECTORS: tuple[tuple[str, tuple[int, int], str], ...] = (
    ("tid ntid ctaid nctaid", (1, 0), "any"),
    ("clusterid nclusterid cluster_ctaid cluster_nctaid", _CLUSTER[1], _CLUSTER[0]),
)

#: By name with its percent sign; vectors also by component, ``%tid.x`` to ``%tid.w``.
SPECIAL_REGISTERS: dict[str, SpecialRegister] = {
    "%gridid": SpecialRegister("u64", (1, 0), also=("u32",)),
    **{
        f"%{name}": SpecialRegister(type_, ptx, need)
        for names, type_, ptx, need in _SCALARS for name in names.split()
    },
    **{
        f"%{name}{axis}": SpecialRegister("u32", ptx, need, not axis,
                                          ("u16",) if need == "any" else ())
        for names, ptx, need in _VECTORS
        for name in names.split() for axis in ("", ".x", ".y", ".z", ".w")
    },
}
