"""Blackwell's Tensor Memory and its products: ``tcgen05``.

``tcgen05.mma.cta_group::1.kind::f16 [d], a, b, idesc, enable`` multiplies A and B in shared memory
(64-bit descriptors; A may lie in Tensor Memory, ``[a]``) into an accumulator in Tensor Memory.
Types and shape are in the 32-bit instruction descriptor, so a form has neither (M, N, K) nor
fragments. ``tcgen05.ld`` and ``st`` move xN repetitions of a shape: 32x32b and 16x64b take N
registers, 16x128b 2 N, 16x256b 4 N.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence
from mmalab.isa.syntax import Row, row

__all__ = ["rows"]

_TMEM = "sm_100f sm_110f"
_CONDITIONAL = "sm_100a sm_103a sm_107a sm_110a"
_RUBIN = ("sm_107f", (9, 4))
_GROUP = ".cta_group"
_GROUPS = "cta_group::1 cta_group::2"
_POWERS = (32, 64, 128, 256, 512)
_TITLE = "TensorCore 5th Generation Family Instructions"


def _management() -> Iterator[Row]:
    yield from (
        row(f"tcgen05.alloc{_GROUP}.sync.aligned{{.shared::cta}}.b32 [a], columns",
            "allocate columns, write their address to shared memory", cta_group=_GROUPS,
            targets=_TMEM, ptx=(8, 6), values={"columns": _POWERS}, evidence=Evidence.ASSEMBLED),
        row(f"tcgen05.alloc.exclusive{_GROUP}.sync.aligned{{.shared::cta}}.b32 [a], columns",
            "allocate columns that no other CTA shares", cta_group=_GROUPS, targets=_TMEM,
            ptx=(9, 4), values={"columns": range(32, 577, 32)}, evidence=Evidence.ASSEMBLED),
        row(f"tcgen05.dealloc{_GROUP}.sync.aligned.b32 a, columns", "free columns",
            cta_group=_GROUPS, targets=_TMEM, ptx=(8, 6), values={"columns": _POWERS},
            evidence=Evidence.ASSEMBLED),
        row(f"tcgen05.relinquish_alloc_permit{_GROUP}.sync.aligned", "allocate no more",
            cta_group=_GROUPS, targets=_TMEM, ptx=(8, 6), evidence=Evidence.ASSEMBLED),
    )


#: (shape, repetitions, registers as the row language counts them).
_SHAPES = (
    ("32x32b|16x64b", "x1|x2|x4|x8|x16|x32|x64|x128", "num"),
    ("16x128b", "x1|x2|x4|x8|x16|x32|x64", "2*num"),
    ("16x256b", "x1|x2|x4|x8|x16|x32", "4*num"),
)
_REDUCED = "x2|x4|x8|x16|x32|x64|x128"
_LAYOUT = ("the places of a register's words in Tensor Memory are not in this table",)


def _moves() -> Iterator[Row]:
    for shape, num, registers in _SHAPES:
        yield row(f"tcgen05.ld.sync.aligned.shape={shape}.num={num}{{.pack::16b}}.b32 "
                  f"d:b32<{registers}>, [a]", "registers from Tensor Memory, asynchronous",
                  targets=_TMEM, ptx=(8, 6), notes=_LAYOUT, evidence=Evidence.ASSEMBLED)
        yield row(f"tcgen05.st.sync.aligned.shape={shape}.num={num}{{.unpack::16b}}.b32 "
                  f"[a], b:b32<{registers}>", "registers to Tensor Memory, asynchronous",
                  targets=_TMEM, ptx=(8, 6), notes=_LAYOUT, evidence=Evidence.ASSEMBLED)
    halves = f".shape=16x32bx2.num={_SHAPES[0][1]}"
    yield row(f"tcgen05.ld.sync.aligned{halves}{{.pack::16b}}.b32 d:b32<num>, [a], #split",
              "registers from Tensor Memory, asynchronous", targets=_TMEM, ptx=(8, 6),
              notes=_LAYOUT, evidence=Evidence.ASSEMBLED)
    yield row(f"tcgen05.st.sync.aligned{halves}{{.unpack::16b}}.b32 [a], #split, b:b32<num>",
              "registers to Tensor Memory, asynchronous", targets=_TMEM, ptx=(8, 6),
              notes=_LAYOUT, evidence=Evidence.ASSEMBLED)
    for shape, split in (("32x32b", ""), ("16x32bx2", ", #split")):
        for types, more in (("u32 s32", ""), ("f32", "{.abs}{.NaN}")):
            yield row(f"tcgen05.ld.red.sync.aligned.shape={shape}.num={_REDUCED}.op=min|max{more}"
                      f".type d<num>, d2, [a]{split}",
                      "registers from Tensor Memory and their minimum or maximum", type=types,
                      targets="sm_103f sm_110f", ptx=(8, 8), notes=_LAYOUT,
                      evidence=Evidence.ASSEMBLED)
    yield from _compressing()


def _compressing() -> Iterator[Row]:
    """2 of 4 kept while loading; seen for the repetitions here."""
    for red, result in (("", ""), (".red", ", d3:b32")):
        for num, kept in (("x4", 2), ("x8", 4), ("x16", 8)):
            yield row(f"tcgen05.ld{red}.spcompress.sync.aligned.shape=32x32b.num={num}.op=min|max"
                      f".sp::2:4{{.abs}}.f32.mtype=b2 d:b32<1>, d2:b32<{kept}>{result}, [a]",
                      "registers from Tensor Memory, 2 of 4 kept, and their metadata",
                      targets="sm_107a", ptx=(9, 4), notes=_LAYOUT, evidence=Evidence.ASSEMBLED)


_FORMATS = "{.b8x16.source=b6x16_p32|b4x16_p64}"


_COPIED = (
    "shape=128x256b|4x256b|128x128b",
    "shape=64x128b.warps=warpx2::02_13|warpx2::01_23",
    "shape=32x128b.warps=warpx4",
)


def _copies() -> Iterator[Row]:
    for shape in _COPIED:
        yield row(f"tcgen05.cp{_GROUP}.{shape}{_FORMATS} [a], b:b64",
                  "shared memory to Tensor Memory, asynchronous", cta_group=_GROUPS,
                  targets=_TMEM, ptx=(8, 6), evidence=Evidence.ASSEMBLED)
    yield row(f"tcgen05.shift{_GROUP}.down [a]", "move rows down by one", cta_group=_GROUPS,
              targets=_CONDITIONAL, ptx=(8, 6), evidence=Evidence.ASSEMBLED)


def _order() -> Iterator[Row]:
    for what in ("ld", "st"):
        yield row(f"tcgen05.what=wait::{what}.sync.aligned",
                  f"wait for this thread's tcgen05.{what}",
                  targets=_TMEM, ptx=(8, 6), family="tcgen05.wait", evidence=Evidence.ASSEMBLED)
    for when in ("before", "after"):
        yield row(f"tcgen05.when=fence::{when}_thread_sync",
                  f"order tcgen05 operations {when} a synchronisation", targets=_TMEM, ptx=(8, 6),
                  family="tcgen05.fence", evidence=Evidence.ASSEMBLED)
    head = f"tcgen05.commit{_GROUP}.mbarrier::arrive::one"
    restricted = "{.sync_restrict::shared::read::mma::a}"
    for multicast, kind, needs in (("{.multicast::cluster}", "b16", (_TMEM, (8, 6))),
                                   (".multicast::cluster::32b", "b32", _RUBIN)):
        yield row(f"{head}{restricted}{{.shared::cluster}}{multicast}.b64 [mbar], ctas:{kind}",
                  "arrive when this thread's operations are done", cta_group=_GROUPS,
                  targets=needs[0], ptx=needs[1], evidence=Evidence.ASSEMBLED,
                  needs={"shared::read::mma::a": _RUBIN,
                         "shared::cluster": ("sm_90+", (8, 6))})


# --- products -------------------------------------------------------------------------------------

_USES = ("fill", "use", "lastuse", "discard")
_OF_B = [f"collector::b::{use}" for use in _USES]
_A = "{.collector_a=" + "|".join(f"collector::a::{use}" for use in _USES) + "}"
_B = "{.collector_b=" + "|".join(_OF_B) + "}"
_SHIFTED = ".ashift{.collector_a=collector::a::lastuse|collector::a::discard}"
_FOUR = "{.collector_b=" + "|".join(f"collector::b{i}::{u}" for i in range(4) for u in _USES) + "}"
_COLLECTOR_NEEDS = dict.fromkeys(_OF_B, _RUBIN)
#: (kinds, targets, PTX, targets of the scale of D ("" where there is none)).
_KINDS = (
    ("kind::f16|kind::tf32", _TMEM, (8, 6), "sm_100f"),
    ("kind::f8f6f4", _TMEM, (8, 6), ""),
    ("kind::i8", "sm_100a sm_110a", (8, 6), "sm_100a sm_110a"),
    ("kind::ti16", *_RUBIN, ""),
)
_PRODUCT = "D = A B + D in Tensor Memory, asynchronous"


def _lists(lanes: int, middle: str, tail: str, *, scale: str = "", masked_scale: bool = True,
           memory_only: bool = False) -> str:
    """Operand lists: A behind a descriptor or in Tensor Memory, lanes of D masked or not, and the
    scale of D, unless `masked_scale` is False and lanes are masked."""
    ways = ("[a]",) if memory_only else ("a:b64", "[a]")
    ends = [tail + scale]
    if lanes:
        ends.append(f", lanes:b32<{lanes}>{tail}{scale * masked_scale}")
    return " || ".join(f"[d], {a}, b:b64{middle}, idesc:b32{end}" for a in ways for end in ends)


def _dense_and_sparse() -> Iterator[Row]:
    for kinds, targets, first, scaled in _KINDS:
        scale = "{, #scale_input}" if scaled else ""
        b = "" if kinds == "kind::i8" else _B  # none of its targets has the buffers of B
        extra = {"scale_input": (scaled, (8, 6))} if scaled else {}
        for group, lanes in (("cta_group::1", 4), ("cta_group::2", 8)):
            for sp, metadata in (("", ""), (".sp", ", [e]")):
                for shift in (False, True):
                    a = _SHIFTED if shift else _A
                    yield row(
                        f"tcgen05.mma{sp}.{group}.kind={kinds}{a}{b} " + _lists(
                            lanes, metadata, ", enable:pred", scale=scale, memory_only=shift,
                            masked_scale=(sp, kinds) != (".sp", "kind::i8")),
                        _PRODUCT, targets=targets, ptx=first,
                        values={"scale_input": range(16)}, operand_needs=extra,
                        needs=_COLLECTOR_NEEDS, evidence=Evidence.ASSEMBLED)
            if kinds == "kind::f8f6f4":
                yield row(
                    f"tcgen05.mma.{group}.kind={kinds}.decompress::lut::b{_A}{_B} "
                    + _lists(lanes, ", [table]", ", enable:pred"), _PRODUCT, targets=_RUBIN[0],
                    ptx=_RUBIN[1], needs=_COLLECTOR_NEEDS, evidence=Evidence.ASSEMBLED)


def _weight_stationary() -> Iterator[Row]:
    for kinds, targets, first, _ in _KINDS:
        for sp, metadata in (("", ""), (".sp", ", [e]")):
            yield row(f"tcgen05.mma.ws{sp}.cta_group::1.kind={kinds}{_FOUR} "
                      + _lists(0, metadata, ", enable:pred{, zeros:b64}"),
                      f"{_PRODUCT}, B kept", targets=targets, ptx=first,
                      evidence=Evidence.ASSEMBLED)


#: (kind, words of the scale vector's size).
_SCALES = (
    ("mxf8f6f4", "{.scale_vec=scale_vec::1X|block32}"),
    ("mxf4", "{.scale_vec=scale_vec::2X|block32}"),
    ("mxf4nvf4", ".scale_vec=scale_vec::2X|scale_vec::4X|block16|block32"),
)
_SIZE_NEEDS = {
    "1X": (_CONDITIONAL, (8, 6)), "2X": (_CONDITIONAL, (8, 6)), "4X": (_CONDITIONAL, (8, 6)),
    "block16": (_TMEM, (8, 8)), "block32": (_TMEM, (8, 8)),
}


def _block_scaled() -> Iterator[Row]:
    tail = ", [sa], [sb], enable:pred"
    for kind, size in _SCALES:
        first = (8, 7) if kind == "mxf4nvf4" else (8, 6)
        for sp, metadata in (("", ""), (".sp", ", [e]")):
            narrow = sp and kind != "mxf8f6f4"
            yield row(f"tcgen05.mma{sp}{_GROUP}.kind::{kind}.block_scale{size}{_A}{_B} "
                      + _lists(0, metadata, tail), f"{_PRODUCT}, with block scales",
                      cta_group=_GROUPS, targets=_CONDITIONAL if narrow else _TMEM, ptx=first,
                      needs=_COLLECTOR_NEEDS | _SIZE_NEEDS, evidence=Evidence.ASSEMBLED)
    yield row(f"tcgen05.mma{_GROUP}.kind::mxf8f6f4.block_scale{_SCALES[0][1]}.decompress::lut::b"
              f"{_A}{_B} " + _lists(0, ", [table]", tail), f"{_PRODUCT}, with block scales",
              cta_group=_GROUPS, targets=_RUBIN[0], ptx=_RUBIN[1],
              needs=_COLLECTOR_NEEDS | _SIZE_NEEDS, evidence=Evidence.ASSEMBLED)


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """The chapter; made when first asked for."""
    return chapter(
        _TITLE,
        *_management(), *_moves(), *_copies(), *_order(),
        *_dense_and_sparse(), *_weight_stationary(), *_block_scaled(),
    )
