"""Bulk copies and TMA: ``cp.async.bulk``, tensor maps, and what waits for them.

``cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [a], [map, {x, y}],
[mbar]`` copies one box of a tensor map into shared memory and counts its bytes at an mbarrier. The
destination's window is the modifier `space`, the source's `source`; `load` is how the box is cut
(tile, im2col, gather4), and what it needs besides coordinates follows the mbarrier.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TypedDict

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import Row, row

__all__ = ["rows"]

#: Where the newer ways of cutting a box exist (never on sm_120).
_DATACENTER = "sm_100f sm_110f"
_PAIRS = {"1": (_DATACENTER, (8, 6)), "2": (_DATACENTER, (8, 6))}
_IN_CTA = {"shared::cta": ("sm_90+", (8, 6))}
_BYTES = ".mbarrier::complete_tx::bytes"
_HINT = "{.L2::cache_hint}"
_COPY = "Data Movement and Conversion Instructions"
#: Bytes of a bulk copy: what an mbarrier can count.
_SIZES = range(0, (1 << 20) - 15, 16)
_GROUP = "to global memory, in this thread's bulk group"

#: (dim words, load words, coordinates, im2col offsets, targets, first PTX).
_CUTS = (
    ("1d|2d|3d|4d|5d", "{.tile}", "dim", 0, "sm_90+", (8, 0)),
    ("3d", ".load=im2col", "dim", 1, "sm_90+", (8, 0)),
    ("4d", ".load=im2col", "dim", 2, "sm_90+", (8, 0)),
    ("5d", ".load=im2col", "dim", 3, "sm_90+", (8, 0)),
    ("3d|4d|5d", ".load=im2col::w", "dim", 2, _DATACENTER, (8, 6)),
    ("3d|4d|5d", ".load=im2col::w::128", "dim", 2, _DATACENTER, (8, 6)),
    ("2d", ".load=tile::gather4", "5", 0, _DATACENTER, (8, 6)),
)

#: Those that plain targets and sm_120 have too, into the CTA's own shared memory.
_ON_ALL_BLACKWELL = (".load=im2col::w", ".load=tile::gather4")


#: What the copies and reductions of MEASURED rows were, word for word with the emulator's.
_MEASURED_ON = (
    "without hints, to and from boxes of all types and modes on one H200 (driver 580.159), byte "
    "for byte: records/h200/tma_equality.json; multicast in the products of equality.json there"
)


class _Known(TypedDict, total=False):
    evidence: Evidence
    notes: tuple[str, ...]


def _seen(*, on_chip: bool) -> _Known:
    """Evidence of a row."""
    if on_chip:
        return {"evidence": Evidence.MEASURED, "notes": (_MEASURED_ON,)}
    return {"evidence": Evidence.ASSEMBLED}


def _offsets(count: int) -> str:
    return f", offsets:b16<{count}>" if count else ""


def _tensor_loads() -> Iterator[Row]:
    for dim, load, coordinates, offsets, targets, first in _CUTS:
        head = f"cp.async.bulk.tensor.dim={dim}.space="
        where = f"[a], [map<{coordinates}>], [mbar]{_offsets(offsets)}"
        for multicast, kind, since in (("{.multicast::cluster}", "b16", (targets, first)),
                                       (".multicast::cluster::32b", "b32", ("sm_107f", (9, 4)))):
            yield row(
                f"{head}shared::cluster.source=global{load}{_BYTES}{multicast}{{.cta_group}}{_HINT}"
                f" {where}, ctas:{kind}{{, policy:b64}}",
                "box of a tensor map to shared memory of the cluster", targets=since[0],
                ptx=since[1], cta_group="cta_group::1 cta_group::2", needs=_PAIRS,
                **_seen(on_chip=since[0] == "sm_90+"))
        yield row(
            f"{head}shared::cta.source=global{load}{_BYTES}{{.cta_group}}{_HINT} "
            f"{where}{{, policy:b64}}",
            "box of a tensor map to this CTA's shared memory",
            targets="sm_100+" if load in _ON_ALL_BLACKWELL else targets, ptx=first,
            cta_group="cta_group::1 cta_group::2", needs=_PAIRS | _IN_CTA,
            evidence=Evidence.ASSEMBLED)


def _tensor_stores() -> Iterator[Row]:
    to = ".space=global.source=shared::cta"
    ways = (("1d|2d|3d|4d|5d", "{.tile}"), ("3d|4d|5d", ".load=im2col_no_offs"))
    for dim, load in ways:
        yield row(f"cp.async.bulk.tensor.dim={dim}{to}{load}.bulk_group{_HINT} [map<dim>], [a]"
                  "{, policy:b64}", f"box of a tensor map {_GROUP}", targets="sm_90+",
                  ptx=(8, 0), **_seen(on_chip=True))
        yield row(f"cp.reduce.async.bulk.tensor.dim={dim}{to}"
                  f".op=add|min|max|inc|dec|and|or|xor{load}.bulk_group{_HINT} [map<dim>], [a]"
                  "{, policy:b64}", f"combine a box of a tensor map, {_GROUP}", targets="sm_90+",
                  ptx=(8, 0), **_seen(on_chip=load == "{.tile}"))
    yield row(f"cp.async.bulk.tensor.dim=2d{to}.load=tile::scatter4.bulk_group{_HINT} [map<5>], "
              "[a]{, policy:b64}", f"four rows of a tensor map {_GROUP}", targets=_DATACENTER,
              ptx=(8, 6), evidence=Evidence.ASSEMBLED)


def _tensor_prefetches() -> Iterator[Row]:
    for dim, load, coordinates, offsets, targets, first in _CUTS:
        yield row(
            f"cp.async.bulk.ahead=prefetch.tensor.dim={dim}.L2.space=global{load}{_HINT} "
            f"[map<{coordinates}>]{_offsets(offsets)}{{, policy:b64}}",
            "bring a box of a tensor map into L2", targets=targets, ptx=first,
            family="cp.async.bulk.prefetch.tensor",
            evidence=Evidence.ASSEMBLED)


def _plain() -> Iterator[Row]:
    size, to_cluster = {"size": _SIZES}, "cp.async.bulk.space=shared::cluster"
    for multicast, kind, targets, first in (
        ("{.multicast::cluster}", "b16", "sm_90+", (8, 0)),
        (".multicast::cluster::32b", "b32", "sm_107f", (9, 4)),
    ):
        yield row(f"{to_cluster}.source=global{_BYTES}{multicast}{_HINT} [a], [b], size:u32, "
                  f"[mbar], ctas:{kind}{{, policy:b64}}", "bytes to shared memory of the cluster",
                  targets=targets, ptx=first, values=size, evidence=Evidence.ASSEMBLED)
    yield row(f"{to_cluster}.source=shared::cta{_BYTES} [a], [b], size:u32, [mbar]",
              "bytes to another CTA's shared memory", targets="sm_90+", ptx=(8, 0), values=size,
              needs={"shared::cta": ("sm_90+", (8, 0))}, evidence=Evidence.ASSEMBLED)
    yield row(f"cp.async.bulk.space=shared::cta.source=global{_BYTES}{_HINT} [a], [b], size:u32, "
              "[mbar]{, policy:b64}", "bytes to this CTA's shared memory", targets="sm_90+",
              ptx=(8, 6), values=size, evidence=Evidence.ASSEMBLED)
    yield row(f"cp.async.bulk.space=shared::cta.source=global{_BYTES}.ignore_oob{_HINT} [a], [b], "
              "size:u32, left:u32, right:u32, [mbar]{, policy:b64}",
              "bytes to this CTA's shared memory, but for some at both ends", targets="sm_90+",
              ptx=(9, 2), values={**size, "left": range(16), "right": range(16)},
              evidence=Evidence.ASSEMBLED)
    to = "cp.async.bulk.space=global.source=shared::cta.bulk_group"
    yield row(f"{to}{_HINT} [a], [b], size:u32{{, policy:b64}}", f"bytes {_GROUP}",
              targets="sm_90+", ptx=(8, 0), values=size, evidence=Evidence.ASSEMBLED)
    yield row(f"{to}{_HINT}.cp_mask [a], [b], size:u32{{, policy:b64}}, bytes:b16",
              f"those bytes of each 16 that a mask names, {_GROUP}", targets="sm_100+",
              ptx=(8, 6), values=size, evidence=Evidence.ASSEMBLED)
    yield row(f"cp.async.bulk.ahead=prefetch.L2.space=global{_HINT} [a], size:u32{{, policy:b64}}",
              "bring bytes into L2", targets="sm_90+", ptx=(8, 0),
              family="cp.async.bulk.prefetch",
              values={"size": _SIZES}, evidence=Evidence.ASSEMBLED)


#: (operations, types) of reductions in global memory, and at another CTA's shared memory.
_TO_GLOBAL = (
    ("and|or|xor", "b32 b64"), ("add", "u32 s32 u64 f32"), ("add", "f64"), ("inc|dec", "u32"),
    ("min|max", "u32 s32 u64 s64 f16 bf16"),
)
_TO_CLUSTER = (
    ("and|or|xor", "b32"), ("add", "u32 s32 u64"), ("inc|dec", "u32"), ("min|max", "u32 s32"),
)


def _reductions() -> Iterator[Row]:
    head = "cp.reduce.async.bulk.space="
    for ops, types in _TO_GLOBAL:
        yield row(f"{head}global.source=shared::cta.bulk_group{_HINT}.op={ops}.type [a], [b], "
                  "size:u32{, policy:b64}", f"combine words, {_GROUP}", type=types,
                  targets="sm_90+", ptx=(8, 0), values={"size": _SIZES},
                  **_seen(on_chip=types != "f64" and "xor" not in ops))
    yield row(f"{head}global.source=shared::cta.bulk_group{_HINT}.op=add.noftz.type [a], [b], "
              "size:u32{, policy:b64}", f"add halves, {_GROUP}", type="f16 bf16",
              targets="sm_90+", ptx=(8, 0), values={"size": _SIZES}, **_seen(on_chip=True))
    for ops, types in _TO_CLUSTER:
        yield row(f"{head}shared::cluster.source=shared::cta{_BYTES}.op={ops}.type [a], [b], "
                  "size:u32, [mbar]", "combine words in another CTA's shared memory", type=types,
                  targets="sm_90+", ptx=(8, 0), values={"size": _SIZES},
                  needs={"shared::cta": ("sm_90+", (8, 0))}, evidence=Evidence.ASSEMBLED)


def _copies() -> Iterator[Row]:
    yield from (
        *_tensor_loads(),
        *_tensor_stores(),
        *_tensor_prefetches(),
        *_plain(),
        *_reductions(),
        row("cp.async.bulk.commit_group", "make a group of the bulk copies so far",
            targets="sm_90+", ptx=(8, 0)),
        row("cp.async.bulk.wait_group{.read} #n",
            "wait until n groups are pending at most (.read: have read their source)",
            targets="sm_90+", ptx=(8, 0)),
    )


# --- tensor maps ----------------------------------------------------------------------------------

_CHANGES = "sm_90a sm_100f sm_110f sm_120f"
_WHERE = "{.space=global|shared::cta}.b1024"
#: Fields with one literal: their legal values.
_FIELDS = {"interleave_layout": range(3), "fill_mode": range(2)}
_NEWER = "sm_100f sm_110f sm_120f"
#: (field, its literals, those that came later, on which targets, from which PTX).
_GROWN = (
    ("elemtype", range(16), (13, 14, 15), _NEWER, (8, 7)),
    ("swizzle_mode", range(5), (4,), "sm_103a sm_107a", (8, 8)),
)


def _fields() -> Iterator[Row]:
    head = "tensormap.replace.tile.field="
    yield row(f"{head}global_address{_WHERE}.b64 [a], b", "set a tensor map's address",
              targets=_CHANGES, ptx=(8, 3), evidence=Evidence.ASSEMBLED)
    yield row(f"{head}rank{_WHERE}.b32 [a], b", "set a tensor map's rank less one",
              targets=_CHANGES, ptx=(8, 3), evidence=Evidence.ASSEMBLED)
    for words, kind in (("box_dim|global_dim|element_stride", "b32"), ("global_stride", "b64")):
        yield row(f"{head}{words}{_WHERE}.{kind} [a], #index, b",
                  "set one of a tensor map's sizes or strides", targets=_CHANGES, ptx=(8, 3),
                  values={"index": range(5)}, evidence=Evidence.ASSEMBLED)
    for field, values in _FIELDS.items():
        yield row(f"{head}{field}{_WHERE}.b32 [a], #b", "set a field of a tensor map",
                  targets=_CHANGES, ptx=(8, 3), values={"b": values}, evidence=Evidence.ASSEMBLED)
    for field, values, late, targets, first in _GROWN:
        yield row(f"{head}{field}{_WHERE}.b32 [a], #b", "set a field of a tensor map",
                  targets=_CHANGES, ptx=(8, 3), values={"b": values}, evidence=Evidence.ASSEMBLED,
                  late={"b": ((late, targets, first),)})
    yield row(f"{head}swizzle_atomicity{_WHERE}.b32 [a], #b", "set a field of a tensor map",
              targets=_NEWER, ptx=(8, 6), values={"b": range(4)}, evidence=Evidence.ASSEMBLED)


def _maps() -> Iterator[Row]:
    yield from _fields()
    yield row(
        "tensormap.cp_fenceproxy.space=global.source=shared::cta.tensormap::generic.release.scope"
        ".sync.aligned [a], [b], #size", "copy a tensor map to global memory and release it",
        targets="sm_90+", ptx=(8, 3), values={"size": (128,)}, evidence=Evidence.ASSEMBLED,
        section="Parallel Synchronization and Communication Instructions: tensormap.cp_fenceproxy")


# --- one address for several GPUs -----------------------------------------------------------------

_ORDER = "{.sem.scope}{.global}"
_BITS, _ANY = "b32 b64", "b32 b64 u32 u64 s32 s64"
_FP8, _FP8_CHIPS = "e5m2 e4m3", "sm_100f sm_110f sm_120a sm_121a"
#: (vec part, floating types) whose bytes are 4, 8 or 16.
_HALVES = ((".vec=v2|v4|v8", "f16 bf16"), ("{.vec=v2|v4}", "f16x2 bf16x2"))
_QUARTERS = ((".vec=v4|v8", _FP8), (".vec=v2|v4|v8", "e5m2x2 e4m3x2"),
             ("{.vec=v2|v4}", "e5m2x4 e4m3x4"))
_SINGLES = (("{.vec=v2|v4}", "f32"), ("", "f64"))
_INTEGRAL = (("and|or|xor", _BITS), ("min|max", "u32 s32 u64 s64"), ("add", "u32 s32 u64"))


def _multimem() -> Iterator[Row]:
    kinds = (("ld_reduce", "d, [a]", "d<vec>, [a]", "relaxed acquire", "the values of all copies"),
             ("red", "[a], b", "[a], b<vec>", "relaxed release", "a value with all copies"))
    for name, operands, vectors, sem, what in kinds:
        for order in (_ORDER, ".weak{.global}") if name == "ld_reduce" else (_ORDER,):
            for ops, types in _INTEGRAL:
                yield row(f"multimem.{name}{order}.op={ops}.type {operands}", f"combine {what}",
                          sem=sem, type=types, targets="sm_90+", ptx=(8, 1))
            for vec, types in (*_HALVES, *_SINGLES):
                precise = "{.acc::f32}" if name == "ld_reduce" and "f16" in types else ""
                yield row(f"multimem.{name}{order}.op=add{precise}{vec}.type {vectors}",
                          f"combine {what}", sem=sem, type=types, targets="sm_90+", ptx=(8, 1),
                          needs={"acc::f32": ("sm_90+", (8, 2))})
            for vec, types in _HALVES:
                whole = vec.strip("{}") if name == "red" else vec
                yield row(f"multimem.{name}{order}.op=min|max{whole}.type {vectors}",
                          f"combine {what}", sem=sem, type=types, targets="sm_90+", ptx=(8, 1))
            for vec, types in _QUARTERS if name == "ld_reduce" else ():
                yield row(f"multimem.{name}{order}.op=add{{.acc::f16}}{vec}.type {vectors}",
                          f"combine {what}", sem=sem, type=types, targets=_FP8_CHIPS, ptx=(8, 6))
                yield row(f"multimem.{name}{order}.op=min|max{vec}.type {vectors}",
                          f"combine {what}", sem=sem, type=types, targets=_FP8_CHIPS, ptx=(8, 6))
    for order in (_ORDER, ".weak{.global}"):
        yield row(f"multimem.st{order}.type [a], b", "store to all copies", sem="relaxed release",
                  type=_ANY, targets="sm_90+", ptx=(8, 1))
        for vec, types in (*_HALVES, *_SINGLES, *_QUARTERS):
            newer = types[:2] in ("e5", "e4")
            yield row(f"multimem.st{order}{vec}.type [a], b<vec>", "store to all copies",
                      sem="relaxed release", type=types, targets=_FP8_CHIPS if newer else "sm_90+",
                      ptx=(8, 6) if newer else (8, 1))


def _multimem_copies() -> Iterator[Row]:
    to = ".space=global.source=shared::cta.bulk_group"
    yield row(f"multimem.cp.async.bulk{to} [a], [b], size:u32", "bytes to all copies",
              targets="sm_90+", ptx=(9, 1), values={"size": _SIZES}, evidence=Evidence.ASSEMBLED)
    for ops, noftz, types in (*((ops, "", types) for ops, types in _TO_GLOBAL),
                              ("add", ".noftz", "f16 bf16")):
        yield row(f"multimem.cp.reduce.async.bulk{to}.op={ops}{noftz}.type [a], [b], size:u32",
                  "combine words with all copies", type=types, targets="sm_90+", ptx=(9, 1),
                  values={"size": _SIZES}, evidence=Evidence.ASSEMBLED)


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """The chapter; made when first asked for."""
    return chapter(_COPY, *_copies(), *_maps(), *_multimem(), *_multimem_copies())
