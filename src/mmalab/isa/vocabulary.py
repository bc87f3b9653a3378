"""The words of PTX opcodes: what each modifier is called, and what it asks of the target.

``.rn`` is a `rounding`, ``.gpu`` a `scope`, ``.v4`` a `vec`. A row of the table may leave a word
as it stands (``ldmatrix.sync.aligned.m8n8``) and it gets its name here; where a word has two
meanings (``.and`` is the operation of ``atom`` and the second stage of ``setp``) the row says which
(``.op=and|or``). Words that are in no list are flags, named by their own spelling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["ALIASES", "FAMILIES", "REQUIREMENTS", "SETS", "name_of", "type_bits", "value_of"]


def _words(**groups: str) -> dict[str, str]:
    return {word: name for name, words in groups.items() for word in words.split()}


_TYPE_BITS: dict[str, int] = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "bsu" for bits in (8, 16, 32, 64)},
    "s2": 2, "u2": 2, "s4": 4, "u4": 4, "b1": 1, "b128": 128,
    "f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 32,
    "u16x2": 32, "s16x2": 32, "f16x2": 32, "bf16x2": 32, "f32x2": 64,
    "e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "e2m1": 8, "ue8m0": 8, "ue4m3": 8,
    "e4m3x2": 16, "e5m2x2": 16, "e2m3x2": 16, "e3m2x2": 16, "e2m1x2": 8, "ue8m0x2": 16,
    "s2f6x2": 16, "e4m3x4": 32, "e5m2x4": 32, "e2m3x4": 32, "e3m2x4": 32, "e2m1x4": 16,
}


def type_bits(name: str) -> int:
    """Width of a PTX type in a register: 32 for f16x2, 8 for one e4m3 (or e2m1 in its byte)."""
    return _TYPE_BITS[name]


_NAMES = {
    **dict.fromkeys(_TYPE_BITS, "type"),
    **_words(
        rounding="rn rz rm rp rna rni rzi rmi rpi rs",
        part="lo hi wide",
        space="global shared shared::cta shared::cluster local const param",
        vec="v2 v4 v8",
        sem="weak volatile relaxed acquire release acq_rel sc",
        scope="cta cluster gpu sys",
        num="x1 x2 x4",
        mode="l r",
    ),
}

#: Modifiers whose prefix is their name: ``.kind::mxf4`` is kind = "mxf4".
_PREFIXED = ("kind", "scale_vec", "multicast", "sync_restrict", "cta_group")

_SHAPE = re.compile(r"m\d+n\d+(k\d+)?")


def name_of(word: str) -> str:
    """The modifier name of a word that stands in a row as itself."""
    prefix, colons, _ = word.partition("::")
    if colons and prefix in _PREFIXED:
        return prefix
    if _SHAPE.fullmatch(word):
        return "shape"
    return _NAMES.get(word, word)


def value_of(word: str) -> str:
    """The value recorded for a word: its spelling, without a prefix that is the name."""
    prefix, colons, rest = word.partition("::")
    return rest if colons and prefix in _PREFIXED else word


_INTEGERS = "u16 u32 u64 s16 s32 s64"
_COMPARE = "eq ne lt le gt ge"
_EVICT = "L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate"

#: The alternatives of placeholders that many rows share; a row may give its own.
SETS: Mapping[str, str] = {
    "rounding": "rn rz rm rp",
    "frnd": "rn rz rm rp",
    "irnd": "rni rzi rmi rpi",
    "scope": "cta cluster gpu sys",
    "space": "global shared shared::cta shared::cluster local",
    "window": "shared shared::cta",
    "vec": "v2 v4",
    "cmp": f"{_COMPARE} lo ls hi hs equ neu ltu leu gtu geu num nan",
    "fcmp": f"{_COMPARE} equ neu ltu leu gtu geu num nan",
    "bool": "and or xor",
    "integer": _INTEGERS,
    "evict": _EVICT,
    "evict_l2": "L2::evict_normal L2::evict_first L2::evict_last",
    "prefetch": "L2::64B L2::128B L2::256B",
    "alayout": "row col",
    "blayout": "row col",
    "num": "x1 x2 x4",
}

#: Placeholders that are another spelling set of a modifier: recorded under that modifier's name.
ALIASES: Mapping[str, str] = {
    "window": "space", "fcmp": "cmp", "integer": "type", "irnd": "rounding", "frnd": "rounding",
}

#: What a modifier asks for by itself, in any row: (targets, first PTX version), by (name, value).
REQUIREMENTS: Mapping[tuple[str, str], tuple[str, tuple[int, int]]] = {
    ("space", "shared::cta"): ("any", (7, 8)),
    ("space", "shared::cluster"): ("sm_90+", (7, 8)),
    ("space", "param::entry"): ("any", (8, 3)),
    ("space", "param::func"): ("any", (8, 3)),
    ("scope", "cluster"): ("sm_90+", (7, 8)),
    ("L2::cache_hint", "L2::cache_hint"): ("sm_80+", (7, 4)),
    ("prefetch", "L2::64B"): ("any", (7, 4)),
    ("prefetch", "L2::128B"): ("any", (7, 4)),
    ("prefetch", "L2::256B"): ("sm_80+", (7, 4)),
    ("evict_l2", "L2::evict_normal"): ("sm_100+", (8, 8)),
    ("evict_l2", "L2::evict_first"): ("sm_100+", (8, 8)),
    ("evict_l2", "L2::evict_last"): ("sm_100+", (8, 8)),
    **{("evict", word): ("any", (7, 4)) for word in _EVICT.split()},
    ("type", "b128"): ("any", (8, 3)),
    ("mmio", "mmio"): ("any", (8, 2)),
    ("unified", "unified"): ("sm_90+", (8, 0)),
}

#: Families whose name is more than the opcode's first part, longest first.
FAMILIES: tuple[str, ...] = (
    "cp.async.bulk.prefetch.tensor", "cp.async.bulk.prefetch", "cp.async.bulk.tensor",
    "cp.async.bulk.commit_group", "cp.async.bulk.wait_group", "cp.async.bulk",
    "cp.reduce.async.bulk.tensor", "cp.reduce.async.bulk",
    "cp.async.mbarrier.arrive", "cp.async.commit_group", "cp.async.wait_group",
    "cp.async.wait_all", "mbarrier.init", "mbarrier.inval", "mbarrier.arrive_drop",
    "mbarrier.arrive", "mbarrier.test_wait", "mbarrier.try_wait", "mbarrier.expect_tx",
    "mbarrier.complete_tx", "mbarrier.pending_count", "barrier.cluster.arrive",
    "barrier.cluster.wait", "bar.warp.sync", "bar.sync", "bar.arrive", "bar.red",
    "cp.async", "mma.sync", "wmma.load", "wmma.mma", "wmma.store", "shfl.sync", "vote.sync",
    "match.sync", "redux.sync", "elect.sync", "brx.idx", "cvt.pack", "st.async", "red.async",
    "st.bulk", "clusterlaunchcontrol.try_cancel", "clusterlaunchcontrol.query_cancel",
    "createpolicy.range", "createpolicy.fractional", "createpolicy.cvt",
    "tensormap.replace", "tensormap.cp_fenceproxy", "multimem.ld_reduce", "multimem.st",
    "multimem.red", "multimem.cp.reduce.async.bulk", "multimem.cp.async.bulk",
    "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit", "tcgen05.ld",
    "tcgen05.st", "tcgen05.cp", "tcgen05.shift", "tcgen05.mma", "tcgen05.commit",
    "griddepcontrol.wait", "griddepcontrol.launch_dependents",
)
