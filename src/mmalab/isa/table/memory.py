"""Loads, stores, atomics, prefetches, cache policies, and address arithmetic.

``ld.relaxed.gpu.global.v4.b32 {d0,d1,d2,d3}, [a]``: sem relaxed, scope gpu, space global, vec v4.
A vector access moves 128 bits at most; 256 (v8 of 32 bits, v4 of 64) only to or from global memory
on sm_100 and later. Where `space` is missing the address is generic.
"""

from __future__ import annotations

from typing import TypedDict

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import row

__all__ = ["ROWS"]


class _Floor(TypedDict):
    targets: str
    ptx: tuple[int, int]


_NARROW = "b8 b16 b32 u8 u16 u32 s8 s16 s32 f32"
_WIDE = "b64 u64 s64 f64"
_WORD = "b32 u32 s32 f32"
#: (vec part, types) of accesses up to 128 bits.
_VECTORS = (
    ("", f"{_NARROW} {_WIDE} b128"),
    (".vec=v2", f"{_NARROW} {_WIDE}"),
    (".vec=v4", _NARROW),
)
#: The 256-bit ones.
_VECTORS_256 = ((".vec=v8", _WORD), (".vec=v4", _WIDE))

_SHARED = "shared shared::cta shared::cluster"
_READ = f"const global local param param::entry param::func {_SHARED}"
_WRITE = f"global local param param::func {_SHARED}"
_STRONG = f"global {_SHARED}"
_VOLATILE = f"global local {_SHARED}"
_LOAD_CACHE = "ca cg cs lu cv"
_STORE_CACHE = "wb cg cs wt"
_HINT = "{.L2::cache_hint}"
_HINT_MUST = ".L2::cache_hint"
_AHEAD = _HINT + "{.prefetch}"
_WEAK = {"weak": ("any", (6, 0))}
_VOLATILE_LOCAL = {"local": ("any", (9, 1))}
_READ_ONLY = "Data Movement and Conversion Instructions: ld.global.nc"
_256: _Floor = {"targets": "sm_100+", "ptx": (8, 8)}

_LOADS = chapter(
    "Data Movement and Conversion Instructions",
    *(
        line
        for vec, types in _VECTORS
        for line in (
            row(f"ld{{.weak}}{{.space}}{{.cache}}{vec}.type d<vec>~, [a]", "load", space=_READ,
                cache=_LOAD_CACHE, type=types, needs=_WEAK),
            row(f"ld.volatile{{.space}}{vec}.type d<vec>~, [a]", "load, volatile",
                space=_VOLATILE, type=types, ptx=(1, 1), needs=_VOLATILE_LOCAL),
            row(f"ld.volatile{{.global}}.prefetch{vec}.type d<vec>~, [a]", "load, volatile",
                type=types, ptx=(7, 4)),
            row(f"ld.sem.scope{{.space}}{vec}.type d<vec>~, [a]", "load of the memory model",
                sem="relaxed acquire", space=_STRONG, type=types, ptx=(6, 0)),
            row(f"ld.global{{.cache}}.nc{_AHEAD}{vec}.type d<vec>~, [a]{{, policy:b64}}",
                "load through the read-only cache", cache="ca cg cs", type=types, ptx=(3, 1),
                section=_READ_ONLY),
            row(f"ld.global.nc.evict{_AHEAD}{vec}.type d<vec>~, [a]{{, policy:b64}}",
                "load through the read-only cache", type=types, ptx=(3, 1), section=_READ_ONLY),
            *(
                hinted
                for hints in (f".evict{_AHEAD}", f"{_HINT_MUST}{{.prefetch}}", ".prefetch")
                for hinted in (
                    row(f"ld{{.weak}}{{.global}}{'' if 'evict' in hints else '{.cache}'}{hints}"
                        f"{vec}.type d<vec>~, [a]{{, policy:b64}}", "load with cache hints",
                        cache=_LOAD_CACHE, type=types, needs=_WEAK),
                    row(f"ld.sem.scope{{.global}}{hints}{vec}.type d<vec>~, [a]{{, policy:b64}}",
                        "load of the memory model with cache hints", sem="relaxed acquire",
                        type=types, ptx=(6, 0)),
                )
            ),
        )
    ),
    row("ld.mmio.relaxed.sys{.global}.type d~, [a]", "load of device registers",
        type=f"{_NARROW} {_WIDE}", ptx=(8, 2)),
    *(
        line
        for vec, types in _VECTORS_256
        for line in (
            row(f"ld{{.weak}}{{.global}}{{.cache}}{{.evict_l2}}{_AHEAD}{vec}.type d<vec>, "
                "[a]{, policy:b64}", "256-bit load", cache=_LOAD_CACHE, type=types, **_256),
            row(f"ld{{.weak}}{{.global}}.evict{{.evict_l2}}{_AHEAD}{vec}.type d<vec>, "
                "[a]{, policy:b64}", "256-bit load with an eviction priority", type=types, **_256),
            row(f"ld.volatile{{.global}}{{.prefetch}}{vec}.type d<vec>, [a]",
                "256-bit load, volatile", type=types, **_256),
            row(f"ld.sem.scope{{.global}}{{.evict}}{{.evict_l2}}{_AHEAD}{vec}.type d<vec>, "
                "[a]{, policy:b64}", "256-bit load of the memory model", sem="relaxed acquire",
                type=types, **_256),
            row(f"ld.global{{.cache}}.nc{{.evict_l2}}{_AHEAD}{vec}.type d<vec>, "
                "[a]{, policy:b64}", "256-bit load through the read-only cache",
                cache="ca cg cs", type=types, section=_READ_ONLY, **_256),
            row(f"ld.global.nc.evict{{.evict_l2}}{_AHEAD}{vec}.type d<vec>, [a]{{, policy:b64}}",
                "256-bit load through the read-only cache", type=types, section=_READ_ONLY,
                **_256),
        )
    ),
    *(
        row(f"ldu{{.global}}{vec}.type d<vec>~, [a]", "load of a warp-uniform address",
            type=types, ptx=(2, 0))
        for vec, types in _VECTORS
    ),
)

_STORES = chapter(
    "Data Movement and Conversion Instructions",
    *(
        line
        for vec, types in _VECTORS
        for line in (
            row(f"st{{.weak}}{{.space}}{{.cache}}{vec}.type [a], b<vec>~", "store", space=_WRITE,
                cache=_STORE_CACHE, type=types, needs=_WEAK),
            row(f"st.volatile{{.space}}{vec}.type [a], b<vec>~", "store, volatile",
                space=_VOLATILE, type=types, ptx=(1, 1), needs=_VOLATILE_LOCAL),
            row(f"st.sem.scope{{.space}}{vec}.type [a], b<vec>~", "store of the memory model",
                sem="relaxed release", space=_STRONG, type=types, ptx=(6, 0)),
            *(
                hinted
                for hints in (f".evict{_HINT}", _HINT_MUST)
                for hinted in (
                    row(f"st{{.weak}}{{.global}}{'' if 'evict' in hints else '{.cache}'}{hints}"
                        f"{vec}.type [a], b<vec>~{{, policy:b64}}", "store with cache hints",
                        cache=_STORE_CACHE, type=types, needs=_WEAK),
                    row(f"st.sem.scope{{.global}}{hints}{vec}.type [a], b<vec>~{{, policy:b64}}",
                        "store of the memory model with cache hints", sem="relaxed release",
                        type=types, ptx=(6, 0)),
                )
            ),
        )
    ),
    row("st.mmio.relaxed.sys{.global}.type [a], b~", "store to device registers",
        type=f"{_NARROW} {_WIDE}", ptx=(8, 2)),
    *(
        line
        for vec, types in _VECTORS_256
        for line in (
            row(f"st{{.weak}}{{.global}}{{.cache}}{{.evict_l2}}{_HINT}{vec}.type [a], "
                "b<vec>{, policy:b64}", "256-bit store", cache=_STORE_CACHE, type=types, **_256),
            row(f"st{{.weak}}{{.global}}.evict{{.evict_l2}}{_HINT}{vec}.type [a], "
                "b<vec>{, policy:b64}", "256-bit store with an eviction priority", type=types,
                **_256),
            row(f"st.volatile{{.global}}{vec}.type [a], b<vec>", "256-bit store, volatile",
                type=types, **_256),
            row(f"st.sem.scope{{.global}}{{.evict}}{{.evict_l2}}{_HINT}{vec}.type [a], "
                "b<vec>{, policy:b64}", "256-bit store of the memory model",
                sem="relaxed release", type=types, **_256),
        )
    ),
    *(
        row(f"st.async{{.weak}}{{.shared::cluster}}.mbarrier::complete_tx::bytes{vec}.type "
            "[a], b<vec>, [mbar]", "asynchronous store to a CTA of the cluster", type=types,
            targets="sm_90+", ptx=(8, 1))
        for vec, types in (("", f"{_WORD} {_WIDE}"), (".vec=v2", f"{_WORD} {_WIDE}"),
                           (".vec=v4", _WORD))
    ),
    row("st.async{.weak}{.shared::cluster}.mbarrier::complete_tx::bytes.type=b128 [a], b, [mbar]",
        "asynchronous store to a CTA of the cluster", targets="sm_90+", ptx=(9, 2)),
    *(
        row(f"st.async{order}{{.global}}.type [a], b", "asynchronous store to global memory",
            scope="gpu sys", type=f"{_NARROW} {_WIDE}", targets="sm_100+", ptx=(8, 7))
        for order in (".release.scope", ".mmio.release.sys")
    ),
    row("st.bulk{.weak}{.shared::cta} [a], size:u64, #initval", "zero bytes of shared memory",
        targets="sm_100+", ptx=(8, 6), values={"initval": (0,)}),
)

#: (ops, types) of atom and red, in the order of the manual.
_REDUCTIONS = (
    ("and or xor", "b32 b64"),
    ("add", "u32 u64 s32 f32 f64"),
    ("inc dec", "u32"),
    ("min max", "u32 u64 s32 s64"),
)
_ATOM = "{.sem}{.scope}"
#: Where an atomic may act: anywhere, or with a cache policy in global memory.
_PLACES = ("{.space}", "{.global}"), ("", ".L2::cache_hint")
_VECTOR_ATOMS = (
    (".op=add{.L2::cache_hint}.vec=v2|v4", "f32"),
    (".op=add|min|max.noftz{.L2::cache_hint}.vec=v2|v4|v8", "f16 bf16"),
    (".op=add|min|max.noftz{.L2::cache_hint}.vec=v2|v4", "f16x2 bf16x2"),
)
_BF16 = {"bf16": ("sm_90+", (7, 8)), "bf16x2": ("sm_90+", (7, 8))}
_ANY_SEM = "relaxed acquire release acq_rel"

_ATOMICS = chapter(
    "Parallel Synchronization and Communication Instructions",
    *(
        line
        for head, d, sems in (("atom", "d, ", _ANY_SEM), ("red", "", "relaxed release"))
        for line in (
            *(
                scalar
                for place, hint in zip(*_PLACES, strict=True)
                for scalar in (
                    *(
                        row(f"{head}{_ATOM}{place}.op{hint}.type {d}[a], b{{, policy:b64}}",
                            "read, combine, write in one", sem=sems, space=_STRONG, op=ops,
                            type=types, ptx=(1, 2))
                        for ops, types in _REDUCTIONS
                    ),
                    row(f"{head}{_ATOM}{place}.op=add.noftz{hint}.type {d}[a], b{{, policy:b64}}",
                        "atomic addition of halves", sem=sems, space=_STRONG,
                        type="f16 f16x2 bf16 bf16x2", ptx=(6, 3), needs=_BF16),
                )
            ),
            *(
                row(f"{head}{{.sem}}{{.scope}}{{.global}}{tail}.type "
                    f"{d and 'd<vec>, '}[a], b<vec>{{, policy:b64}}",
                    "atomic per element of a vector", sem=sems, type=types, targets="sm_90+",
                    ptx=(8, 1))
                for tail, types in _VECTOR_ATOMS
            ),
        )
    ),
    *(
        row(f"atom{_ATOM}{place}.op=exch{hint}.type d, [a], b{{, policy:b64}}", "exchange",
            sem=_ANY_SEM, space=_STRONG, type="b32 b64 b128", ptx=(1, 2),
            needs={"b128": ("sm_90+", (8, 3))})
        for place, hint in zip(*_PLACES, strict=True)
    ),
    row(f"atom{_ATOM}{{.space}}.op=cas.type d, [a], b, c", "compare with b, write c if equal",
        sem=_ANY_SEM, space=_STRONG, type="b16 b32 b64 b128", ptx=(1, 2),
        needs={"b16": ("any", (6, 3)), "b128": ("sm_90+", (8, 3))}),
    *(
        row("red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.op.type "
            "[a], b, [mbar]", "asynchronous reduction in a CTA of the cluster", op=ops, type=types,
            targets="sm_90+", ptx=(8, 1))
        for ops, types in (("inc dec", "u32"), ("min max", "u32 s32"), ("and or xor", "b32"),
                           ("add", "u32 s32 u64"))
    ),
    *(
        row(f"red.async{order}{{.global}}.op=add.type [a], b",
            "asynchronous addition to global memory", scope="gpu sys", type="u32 s32 u64 s64",
            targets="sm_100+", ptx=(8, 7))
        for order in (".release.scope", ".mmio.release.sys")
    ),
)

_PRIORITY = "L2::evict_last L2::evict_normal L2::evict_first L2::evict_unchanged"

_CACHES = chapter(
    "Data Movement and Conversion Instructions",
    row("prefetch{.space}.level [a]", "bring a line into a cache", space="global local",
        level="L1 L2", ptx=(2, 0)),
    row("prefetch.global.level [a]", "bring a line into L2 with a priority",
        level="L2::evict_last L2::evict_normal", targets="sm_80+", ptx=(7, 4)),
    row("prefetchu.level=L1 [a]", "bring a line into the uniform cache", ptx=(2, 0)),
    row("prefetch{.space}.tensormap [a]", "bring a tensor map into the cache",
        space="const param", targets="sm_90+", ptx=(8, 0)),
    row("applypriority{.global}.level=L2::evict_normal [a], #size", "change a line's priority",
        targets="sm_80+", ptx=(7, 4), values={"size": (128,)}),
    row("discard{.global}.level=L2 [a], #size", "drop a line without writing it back",
        targets="sm_80+", ptx=(7, 4), values={"size": (128,)}),
    row("createpolicy.range{.global}.primary{.secondary}.b64 d, [a], size:u32, total:u32",
        "cache policy for an address range", primary=_PRIORITY,
        secondary="L2::evict_first L2::evict_unchanged", targets="sm_80+", ptx=(7, 4)),
    row("createpolicy.fractional.primary{.secondary}.b64 d{, fraction:f32}",
        "cache policy for a fraction of the accesses", primary=_PRIORITY,
        secondary="L2::evict_first L2::evict_unchanged", targets="sm_80+", ptx=(7, 4)),
    row("createpolicy.cvt.L2.b64 d, a:b64", "cache policy from a CUDA access property",
        targets="sm_80+", ptx=(7, 4)),
)

_WINDOWS = f"const global local {_SHARED} param param::entry"
_PARAMETERS = {"param": ("any", (7, 7))}
_NO_32_BITS = ("32-bit addresses (.address_size 32) are no longer assembled for any target; "
               "addresses here have 64 bits, .u64")

_ADDRESSES = chapter(
    "Data Movement and Conversion Instructions",
    row("isspacep.space d:pred, a:u64", "whether a generic address lies in a window",
        space=_WINDOWS, ptx=(2, 0), needs=_PARAMETERS, evidence=Evidence.ASSEMBLED),
    *(
        row(f"cvta{to}.space.type={kind} d, a", what, space=_WINDOWS, ptx=(2, 0), targets=targets,
            needs=_PARAMETERS, gone=gone, evidence=Evidence.ASSEMBLED)
        for to, what in (("", "generic address of a window's address"),
                         (".to", "window address of a generic one"))
        for kind, targets, gone in (("u64", "any", ""), ("u32", "no target", _NO_32_BITS))
    ),
    row("mapa{.shared::cluster}.type d, a, b:u32", "address of the same place in another CTA",
        type="u32 u64", targets="sm_90+", ptx=(7, 8)),
    row("getctarank{.shared::cluster}.type d:u32, a", "rank of the CTA that owns an address",
        type="u32 u64", targets="sm_90+", ptx=(7, 8)),
    row("alloca.type d, size{, #align}", "stack memory", type="u32 u64", ptx=(7, 3)),
    row("stacksave.type d", "the stack pointer", type="u32 u64", ptx=(7, 3)),
    row("stackrestore.type a", "set the stack pointer", type="u32 u64", ptx=(7, 3)),
)

ROWS = (*_LOADS, *_STORES, *_ATOMICS, *_CACHES, *_ADDRESSES)
