"""The rows: which parameters of the truncated fused sum each chip's instructions have.

One generation per line of thought: Volta and Turing fuse 4 products, Ampere and Ada 8, Hopper and
Blackwell all products of an instruction; FP8 has 13 fraction bits on Ada and on Hopper's wgmma and
25 on Blackwell; FP8 mma.sync of the data-centre chips from Hopper on is rewritten by ptxas into
FP16 instructions. Chips that only repeat another's numbers are generated from it, each with its own
evidence, so that `sm_86` is a unit of its own with a statement of why it equals `sm_80`.

Where the numbers come from: recordings of V100, A100, A2, Ada, L40S, H100, H200 and B200 (Khattak
and Mikaitis, BSD-2, 5,000 of 5,000 agree for each), published models (MMA-Sim), SASS of ptxas 12.9
and 13.5, and our own H200 runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from mmalab.numerics.unit import Confidence, Unit

__all__ = ["rows"]

_FP8 = ("e4m3", "e5m2")
_NARROW = ("e5m2", "e4m3", "e3m2", "e2m3", "e2m1")
_H200 = "own H200 runs: 3.3 million outputs and directed probes, no mismatch"
_RECORDED = "Khattak and Mikaitis, recordings of 5,000 dot products"
_MMASIM = "MMA-Sim (arXiv 2511.10909), not checked against a chip here"
_SASS = "SASS of ptxas 12.9 and 13.5"
_PTX = "PTX ISA"

Splits = dict[int, int]


def _fused(chip: str, klass: str, pairs: Iterator[tuple[str, str]] | list[tuple[str, str]],
           accumulators: str, fraction: int, splits: Splits, confidence: Confidence, source: str,
           *, narrow: bool = False, note: str = "") -> Iterator[Unit]:
    """Truncated fused sums. `narrow` FP32 results keep 14 significant bits."""
    for (a, b), acc in product(pairs, accumulators.split()):
        half = acc == "f16"
        # F = 13 never reaches the floor: no FP8 product has bits below 2^-32.
        guard = {13: 25}.get(fraction, fraction)
        yield Unit(
            chip=chip, klass=klass, a=a, b=b, acc=acc, algorithm="tfs", fraction=fraction,
            rounding="RNE16" if half else "RZ-E8M13" if narrow else "RZ32",
            floor=-(guard - 4) if half else -(guard + 108),
            splits=tuple(splits.items()), confidence=confidence, source=source, note=note,
        )


def _same(*types: str) -> list[tuple[str, str]]:
    return [(name, name) for name in types]


def _pairs(types: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(product(types, types))


def _floats(chip: str, klass: str, fraction: int, splits: Splits, tf32: Splits,
            confidence: Confidence, source: str) -> Iterator[Unit]:
    yield from _fused(chip, klass, _same("f16"), "f32 f16", fraction, splits, confidence, source)
    yield from _fused(chip, klass, _same("bf16"), "f32", fraction, splits, confidence, source)
    yield from _fused(chip, klass, _same("tf32"), "f32", fraction, tf32, confidence, source)


def _integers(chip: str, klass: str, *, wide: bool, nibbles: bool, bits: str) -> Iterator[Unit]:
    """Exact sums modulo 2^32; `bits` lists the operations of b1 ("xor and")."""
    note = "exact; .satfinite clamps once, at the end of the instruction"
    kinds = [(("s8", "u8"), (16, 32) if wide else (16,))]
    if klass != "mma":
        kinds = [(("s8", "u8"), (32,))]
    elif nibbles:
        kinds.append((("s4", "u4"), (32, 64) if wide else (32,)))
    for types, ks in kinds:
        for a, b in _pairs(types):
            for saturate in (False, True):
                yield Unit(chip=chip, klass=klass, a=a, b=b, acc="s32", algorithm="integer",
                           splits=tuple((k, k) for k in ks), saturate=saturate,
                           confidence="documented", source=_PTX, note=note)
    ks = (256,) if klass != "mma" else (128, 256) if wide else (128,)
    for operation in bits.split():
        yield Unit(chip=chip, klass=klass, a="b1", b="b1", acc="s32", algorithm="bits",
                   variant=operation, splits=tuple((k, k) for k in ks),
                   confidence="documented", source=_PTX, note="exact")


def _doubles(chip: str, ks: tuple[int, ...], confidence: Confidence, source: str,
             ) -> Iterator[Unit]:
    for rounding in ("rn", "rz", "rm", "rp"):
        yield Unit(chip=chip, klass="mma", a="f64", b="f64", acc="f64", algorithm="fma",
                   variant=rounding, splits=tuple((k, 1) for k in ks), confidence=confidence,
                   source=source, note="one fused multiply-add per k, k ascending; a NaN keeps its "
                                       "payload")


def _rewritten(chip: str, confidence: Confidence, source: str) -> Iterator[Unit]:
    """FP8 mma.sync where ptxas emits F16 HMMAs: two fused sums from zero, then an IEEE add of c."""
    for unit in _fused(chip, "mma", _pairs(_FP8), "f32 f16", 25, {16: 8, 32: 16}, confidence,
                       source):
        yield replace(unit, algorithm="rewrite", note=(
            "ptxas turns it into two F16 HMMAs, over k mod 4 in {0, 1} from zero and then over the "
            "others, and adds c in IEEE arithmetic"))


def _quad_pairs(chip: str) -> Iterator[Unit]:
    """mma.m8n8k4 from Ampere on: no tensor core, ptxas emits FP32 fused multiply-adds."""
    measured = chip == "sm_90"
    for acc in ("f32", "f16"):
        yield Unit(chip=chip, klass="mma884", a="f16", b="f16", acc=acc, algorithm="ffma",
                   splits=((4, 4),), confidence="measured" if measured else "inferred",
                   source=f"{_H200}; {_SASS}" if measured else f"{_SASS}; compared on an H200",
                   note="FFMA chain from zero, k ascending, then c is added in FP32"
                        + ("" if acc == "f32" else " and the sum rounded to FP16"))


def _volta_turing() -> Iterator[Unit]:
    for chip, klass in (("sm_70", "mma"), ("sm_70", "mma884"), ("sm_75", "mma884")):
        known = chip == "sm_70"
        yield from _fused(chip, klass, _same("f16"), "f32 f16", 23, {4: 4},
                          "recorded" if known else "matches-model", _RECORDED if known else _MMASIM)
    yield from _fused("sm_75", "mma", _same("f16"), "f32 f16", 24, {8: 8, 16: 8}, "matches-model",
                      _MMASIM, note="disputed: other probes read Turing as fusing 4 products")
    yield from _integers("sm_75", "mma", wide=False, nibbles=True, bits="xor and")


def _ampere_ada() -> Iterator[Unit]:
    for chip, source in (("sm_80", f"{_RECORDED}: A100"), ("sm_89", f"{_RECORDED}: Ada, L40S")):
        yield from _floats(chip, "mma", 24, {8: 8, 16: 8}, {4: 4, 8: 4}, "recorded", source)
        yield from _integers(chip, "mma", wide=True, nibbles=True, bits="xor and")
        yield from _doubles(chip, (4,), "matches-model", _MMASIM)
        yield from _quad_pairs(chip)
    yield from _fused("sm_89", "mma", _pairs(_FP8), "f32 f16", 13, {16: 16, 32: 16}, "recorded",
                      f"{_RECORDED}: Ada, L40S", narrow=True)


def _hopper() -> Iterator[Unit]:
    yield from _floats("sm_90", "mma", 25, {8: 8, 16: 16}, {4: 4, 8: 8}, "measured", _H200)
    yield from _floats("sm_90", "wgmma", 25, {16: 16}, {8: 8}, "measured", _H200)
    yield from _fused("sm_90", "wgmma", _pairs(_FP8), "f32 f16", 13, {32: 32}, "measured", _H200,
                      narrow=True)
    yield from _rewritten("sm_90", "measured", f"{_H200}; {_SASS}")
    yield from _integers("sm_90", "mma", wide=True, nibbles=True, bits="xor and")
    yield from _integers("sm_90", "wgmma", wide=True, nibbles=False, bits="and")
    yield from _doubles("sm_90", (4, 8, 16), "measured", _H200)
    yield from _quad_pairs("sm_90")


def _scaled(chip: str, klass: str) -> Iterator[Unit]:
    """Block-scaled kinds: products carry UE8M0 or UE4M3 scales of A and B."""
    for a, b in _pairs(_NARROW):
        yield Unit(chip=chip, klass=klass, kind="mxf8f6f4", a=a, b=b, acc="f32", algorithm="tfs",
                   fraction=25, rounding="RZ32", floor=-133, splits=((32, 32),),
                   scale="ue8m0", scale_block=32, confidence="matches-model", source=_MMASIM)
    for kind, scale, block in (("mxf4", "ue8m0", 32), ("mxf4nvf4", "ue4m3", 16),
                               ("mxf4nvf4", "ue8m0", 16)):
        yield Unit(chip=chip, klass=klass, kind=kind, a="e2m1", b="e2m1", acc="f32",
                   variant=scale if kind == "mxf4nvf4" and scale == "ue8m0" else "",
                   algorithm="groups", fraction=35, rounding="RZ32", floor=-139,
                   splits=((64, 64),), scale=scale, scale_block=block,
                   confidence="matches-model", source=_MMASIM,
                   note="disputed: another probe saw 34 to 37 fraction bits")


def _blackwell() -> Iterator[Unit]:
    source = f"{_RECORDED}: B200"
    yield from _floats("sm_100", "mma", 25, {8: 8, 16: 16}, {4: 4, 8: 8}, "recorded", source)
    yield from _rewritten("sm_100", "recorded", f"{source}; {_SASS}")
    yield from _floats("sm_120", "mma", 25, {8: 8, 16: 16}, {4: 4, 8: 8}, "matches-model", _MMASIM)
    yield from _fused("sm_120", "mma", _pairs(_NARROW), "f32 f16", 25, {16: 16, 32: 32},
                      "matches-model", f"{_MMASIM}; mmaemu probes of an RTX 5070 Ti agree")
    yield from _floats("sm_100", "tcgen05", 25, {16: 16}, {8: 8}, "matches-model", _MMASIM)
    yield from _fused("sm_100", "tcgen05", _pairs(_NARROW), "f32 f16", 25, {32: 32},
                      "matches-model", f"{_MMASIM}; a B200 probe (DeepGEMM #176) finds 25 bits too")
    yield from _scaled("sm_100", "tcgen05")
    yield from _scaled("sm_120", "mma")
    yield from _integers("sm_100", "tcgen05", wide=True, nibbles=False, bits="")
    for chip in ("sm_100", "sm_120"):
        yield from _integers(chip, "mma", wide=True, nibbles=True, bits="xor and")
        yield from _doubles(chip, (4, 8, 16), "matches-model", _MMASIM)
        yield from _quad_pairs(chip)


#: Chips that repeat another's arithmetic, and how that is known.
_REPEATS: tuple[tuple[str, str, Confidence, str], ...] = (
    ("sm_86", "sm_80", "recorded", f"{_RECORDED}: A2"),
    ("sm_87", "sm_80", "inferred", "same generation as sm_80"),
    ("sm_88", "sm_80", "inferred", "same generation as sm_80"),
    ("sm_103", "sm_100", "inferred", "same family and the same SASS opcodes as sm_100"),
    ("sm_107", "sm_100", "inferred", "same family and the same SASS opcodes as sm_100"),
    ("sm_110", "sm_100", "inferred", "the same SASS opcodes as sm_100"),
    ("sm_121", "sm_120", "inferred", "same family as sm_120"),
)


def _weaker(unit: Unit, confidence: Confidence) -> Confidence:
    """What is exact by definition stays documented; a recording covers only fused sums."""
    if unit.confidence == "documented":
        return "documented"
    return "inferred" if unit.algorithm != "tfs" or unit.scale else confidence


def _absent(chip: str, unit: Unit) -> bool:
    """tcgen05 kind::i8 exists on sm_100 and sm_110 only."""
    return unit.klass == "tcgen05" and unit.algorithm == "integer" and chip in ("sm_103", "sm_107")


def rows() -> Iterator[Unit]:
    """Every unit, chip by chip."""
    originals = [*_volta_turing(), *_ampere_ada(), *_hopper(), *_blackwell()]
    yield from originals
    for chip, model, confidence, source in _REPEATS:
        for unit in originals:
            if unit.chip == model and not _absent(chip, unit):
                yield replace(unit, chip=chip, confidence=_weaker(unit, confidence), source=source,
                              note="; ".join(filter(None, (f"as {model}", unit.note))))
