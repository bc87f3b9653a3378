"""Article A, step 5: how wide the sums are, what rounding costs, what promotion buys.

Every figure is computed with the arithmetic of the article's own chip (sm_89), whose units
reproduce 5,000 recorded dot products of an Ada chip bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mmalab import formats, numerics
from mmalab.claims.compare import derived, emulated, equal, measured, near, same, within
from mmalab.claims.emulated import held, run
from mmalab.claims.model import Answer, Evidence, Statement, answer
from mmalab.claims.records import BENCH, WARPGROUPS, load
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.kernels import sm80_mma
from mmalab.numerics.error import ChainError, chain_error

K = 4096
BF16, E4M3 = "sm_89.mma.bf16.f32", "sm_89.mma.e4m3.f32"


@lru_cache(maxsize=32)
def chain(unit: str, *, promote_every: int | None = None, low: float = -1.0) -> ChainError:
    """Errors of K = 4096 products of uniform numbers, as the article measures them."""
    return chain_error(unit, K, promote_every=promote_every, low=low)


def _model(unit: str) -> Evidence:
    row = numerics.unit(unit)
    return emulated(f"{unit}: {row.source} ({row.confidence})")


@claim("A-009", "A-122")
def _fp8_accumulator(said: Statement) -> Answer:
    """The article's one-instruction probe."""
    found = numerics.probe(E4M3)
    ours = found.bits if said.id == "A-009" else found.exponent
    others = {name: numerics.probe(name).bits
              for name in ("sm_90.wgmma.e4m3.f32", "sm_90.mma.e4m3.f32", "sm_100.tcgen05.e4m3.f32")}
    return equal(said, ours, _model(E4M3), unchecked=f"other chips differ, bits: {others}",
                 command=f"mmalab numerics probe --unit {E4M3}")


@claim("A-017")
def _scalar_against_tensor(_said: Statement) -> Answer:
    """The same probe through a fused multiply-add, and through the FP8 instruction."""
    exponents = np.arange(1, 30)
    c = np.float32(2.0) ** exponents.astype(np.float32)
    kept = c + np.float32(1) * np.float32(1) != c
    scalar = int(exponents[~kept][0])
    fp8, bf16 = numerics.probe(E4M3).bits, numerics.probe(BF16).bits
    return answer({"FFMA": scalar, "BF16": bf16, "FP8": fp8}, _model(E4M3),
                  derived("IEEE FP32 addition"),
                  must={"CUDA cores keep FP32's 24 bits": scalar == 24,
                        "the FP8 sum is narrower": fp8 < scalar},
                  command=f"mmalab numerics probe --unit {E4M3}")


@claim("A-063")
def _error_of_bf16(said: Statement) -> Answer:
    found = chain(BF16).from_sums
    return within(said, found, 0.2, _model(BF16),
                  unchecked="the chip: same arithmetic, other random numbers",
                  command=f"mmalab numerics error --unit {BF16} --k {K}")


def _one_error(checks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all contestants of a product, cublasLt's among them, have one error."""
    return (any("cublasLt" in check["subject"] for check in checks)
            and len({check["relative_rms"] for check in checks}) == 1)


@claim("A-062")
def _bf16_kernels_agree(_said: Statement) -> Answer:
    """All rungs, and the order of cuBLAS's smaller instruction, m16n8k8, in the model."""
    rng = np.random.default_rng(62)
    a, b = (rng.uniform(-1, 1, (128, 256)) for _ in range(2))
    size = (128, 128, 256)
    kernels = {layout: sm80_mma.gemm(*size, layout=layout)
               for layout in ("plain", "padded", "swizzled")}
    kernels["textbook"] = sm80_mma.textbook(*size)
    results = {name: run(kernel, a, b)[0].tobytes() for name, kernel in kernels.items()}
    small = numerics.matmul(held(a), np.ascontiguousarray(held(b).T), unit=BF16, k=8)
    rows = [row["checks"] for row in load(BENCH)["rows"]
            if row["row"]["kernel"] == "sm80_mma.gemm"]
    return answer(f"{len(results)} kernels, {len(set(results.values()))} result",
                  emulated("the BF16 kernels on sm_89, 128 x 128 x 256"), _model(BF16),
                  measured(BENCH),
                  must={"an H200's cublasLt and ours have one error to the last digit": bool(
                      rows) and all(_one_error(checks) for checks in rows),
                        "the kernels agree bit for bit": len(set(results.values())) == 1,
                        "m16n8k8 gives the same bits": small.tobytes() == results["plain"]},
                  unchecked="cuBLAS on the article's chip: whether it splits K there")


@claim("A-107")
def _format_fields(said: Statement) -> Answer:
    ours = {name: [formats.get(kind).exponent_bits, formats.get(kind).mantissa_bits]
            for name, kind in (("bf16", "bf16"), ("fp16", "f16"), ("e4m3", "e4m3"))}
    return equal(said, ours, derived("records of the formats"))


@claim("A-108")
def _products_then_sums(_said: Statement) -> Answer:
    """(1 + 2^-10)^2 needs 21 bits: an FP32 sum has it, an FP16 sum rounds it."""
    x = np.array([[1 + 2.0**-10] + [0.0] * 15]).astype(np.float16)
    wide = float(numerics.dot(x, x, unit="sm_89.mma.f16.f32")[0])
    narrow = float(numerics.dot(x, x, unit="sm_89.mma.f16.f16")[0])
    exact = (1 + 2.0**-10) ** 2
    return answer({"FP32": wide, "FP16": narrow}, _model("sm_89.mma.f16.f32"),
                  must={"the product is exact before it is added": wide == exact,
                        "an FP16 sum rounds it": narrow == float(np.float16(exact)) != exact})


@claim("A-037")
def _distribution(_said: Statement) -> Answer:
    """The article's two BF16 errors come out of this distribution and not of its neighbours."""
    uniform, positive = chain(BF16), chain(BF16, low=0.0)
    right = near([uniform.total, uniform.from_sums], [0.002, 4.7e-6], 0.2)
    return answer({"[-1, 1)": [uniform.total, uniform.from_sums],
                   "[0, 1)": [positive.total, positive.from_sums]}, _model(BF16),
                  must={"[-1, 1) gives 0.2 % and 4.7e-6": right,
                        "[0, 1) does not": not near([positive.total, positive.from_sums],
                                                    [0.002, 4.7e-6], 0.2)})


@claim("A-111")
def _two_errors(_said: Statement) -> Answer:
    """By the definitions, on numbers small enough to do by hand."""
    exact, rounded, result = np.array([[4.0, 4.0]]), np.array([[4.0, 2.0]]), np.array([[4.0, 3.0]])
    ours = {"total": numerics.relative_rms(result, exact),
            "from the sums": numerics.relative_rms(result, rounded)}
    found = chain(E4M3)
    return answer(ours, derived("rms(D - T) / rms(T), rms(D - S) / rms(S)"), _model(E4M3),
                  must={"total": near(ours["total"], (1 / 32) ** 0.5, 1e-12),
                        "from the sums": near(ours["from the sums"], (1 / 20) ** 0.5, 1e-12),
                        "they differ for FP8": found.total > 10 * found.from_sums},
                  command=f"mmalab numerics error --unit {E4M3} --k {K}")


@claim("A-112", "A-113", "A-114")
def _rounding_of_inputs(said: Statement) -> Answer:
    unit = {"A-112": BF16, "A-113": "sm_89.mma.f16.f32", "A-114": E4M3}[said.id]
    found = chain(unit)
    # The article promotes its FP8 total, or not, with the same 3.3 %.
    return answer(100 * found.total, _model(unit),
                  must={f"{100 * found.total:.3g} % within 5 % of {said.value} %": near(
                      100 * found.total, said.value, 0.05)},
                  should={"the sums add less than a tenth of it": found.from_sums
                          < 0.1 * found.total},
                  command=f"mmalab numerics error --unit {unit} --k {K}")


@claim("A-115")
def _tf32_row(_said: Statement) -> Answer:
    """The table was an image; this is its row."""
    found = chain("sm_89.mma.tf32.f32")
    rng = np.random.default_rng(115)
    a, b = rng.uniform(-1, 1, (64, K)), rng.uniform(-1, 1, (K, 64))
    a32, b32 = a.astype(np.float32), b.astype(np.float32)
    cut = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
           for x in (a32, b32)]
    truncated = numerics.relative_rms(cut[0] @ cut[1], a @ b)
    ours = {"total, rounded inputs": found.total, "total, truncated inputs": truncated,
            "from the sums": found.from_sums}
    return answer(ours, _model("sm_89.mma.tf32.f32"),
                  must={"TF32 keeps FP16's 10 bits: the same total": near(
                      found.total, chain("sm_89.mma.f16.f32").total, 0.05),
                      "truncating is worse": truncated > 2 * found.total},
                  unchecked="the speed: it needs the chip",
                  command=f"mmalab numerics error --unit sm_89.mma.tf32.f32 --k {K}")


@claim("A-117")
def _fp16_sums(said: Statement) -> Answer:
    sums, total = chain("sm_89.mma.f16.f16").from_sums, chain("sm_89.mma.f16.f32").total
    return within(said, sums / total, 0.2, _model("sm_89.mma.f16.f16"),
                  command=f"mmalab numerics error --unit sm_89.mma.f16.f16 --k {K}")


@claim("A-118")
def _first_lost_integer(_said: Statement) -> Answer:
    """The smallest power of two that swallows a 1, by format."""
    first = {}
    for kind in ("f16", "bf16"):
        powers = 2.0 ** np.arange(1, 15)
        kept = formats.decode(formats.encode(powers + 1, kind), kind) == powers + 1
        first[kind] = int(powers[~kept][0])
    lossy = chain("sm_89.mma.f16.f16").from_sums > 100 * chain("sm_89.mma.f16.f32").from_sums
    return answer(first, derived("round to nearest even of 2^e + 1"), _model("sm_89.mma.f16.f16"),
                  must={"FP16 sums lose low bits": lossy,
                        "in some format 256 + 1 = 256": 256 in first.values()},
                  should={"in FP16, the format in question": first["f16"] == 256},
                  right=f"256 + 1 = 256 is BF16; in FP16 the first is {first['f16']} + 1 = "
                        f"{first['f16']}")


@claim("A-119")
def _fp8_against_bf16(said: Statement) -> Answer:
    fp8, bf16 = chain(E4M3).from_sums, chain(BF16).from_sums
    half = chain("sm_89.mma.e4m3.f16").from_sums / bf16
    ours = fp8 / bf16
    return answer(round(ours, 1), _model(E4M3), _model(BF16),
                  must={f"{ours:.0f} within a factor of 2 of {said.value}":
                        said.value / 2 < ours < said.value * 2},
                  right=f"{ours:.0f} times with an FP32 accumulator; {half:.0f} times comes out "
                        "with FP16 accumulation",
                  unchecked="the chip itself",
                  command=f"mmalab numerics error --unit {E4M3} --k {K}")


@claim("A-120")
def _exact_until(said: Statement) -> Answer:
    exponents = np.arange(1, 40)
    exact = (np.float32(2.0) ** exponents.astype(np.float32)) + np.float32(1)
    kept = exact.astype(np.float64) == 2.0**exponents + 1
    return equal(said, int(exponents[kept].max()), derived("IEEE FP32, 24 significant bits"))


@claim("A-121")
def _bf16_accumulator(said: Statement) -> Answer:
    return equal(said, numerics.probe(BF16).exponent, _model(BF16),
                 command=f"mmalab numerics probe --unit {BF16}")


@claim("A-123")
def _promise(said: Statement) -> Answer:
    """The promise is the manual's; the chip does not keep it."""
    row, later = source("ptx.mma-precision"), source("ptx.wgmma-precision")
    bits = numerics.probe(E4M3).bits
    return answer(row.value, row.evidence, later.evidence, _model(E4M3),
                  must={"the manual says so": row.value == said.value,
                        f"and the unit keeps {bits} bits": bits < 24},
                  unchecked=f"of wgmma it says since version 9.2: {later.value}")


@claim("A-124")
def _hopper_bits(said: Statement) -> Answer:
    wgmma = numerics.probe("sm_90.wgmma.e4m3.f32").bits
    seen = [case for case in load(WARPGROUPS)["cases"] if "f32.e4m3.e4m3" in case["kernel"]]
    return answer(wgmma, source("deepseek.bits").evidence, _model("sm_90.wgmma.e4m3.f32"),
                  measured(WARPGROUPS),
                  must={"an H200's bits are the model's": bool(seen) and not any(
                      case["mismatches"] for case in seen),
                        "the report says 14": source("deepseek.bits").value == said.value,
                        "wgmma keeps 14": wgmma == said.value},
                  unchecked="mma.sync keeps 24 on the same chip: it runs as FP16 there",
                  command="mmalab numerics probe --unit sm_90.wgmma.e4m3.f32")


@claim("A-125")
def _promotion_scheme(said: Statement) -> Answer:
    """The emulated kernel gives the bits of two k32 instructions from zero, added in FP32."""
    rng = np.random.default_rng(125)
    a, b = (held(rng.uniform(-1, 1, (128, 256)), "e4m3") for _ in range(2))
    kernel = sm80_mma.gemm(128, 128, 256, dtype="e4m3", promote_every=64)
    c, _ = run(kernel, a.astype(np.float64), b.astype(np.float64))
    want = np.zeros((128, 128), np.float32)
    columns = np.ascontiguousarray(b.T)
    for at in range(0, 256, 64):
        want = want + numerics.matmul(a[:, at:at + 64], columns[at:at + 64], unit=E4M3)
    ours = {"K": 64, "mma": 64 // numerics.unit(E4M3).k}
    return answer(ours, emulated("gemm e4m3, promote_every=64, on sm_89"),
                  must={"two instructions of K = 32": same(ours, said.value),
                        "the kernel's bits are those of the scheme": c.tobytes()
                        == want.tobytes()})


@claim("A-126")
def _promotion_gain(said: Statement) -> Answer:
    plain, promoted = chain(E4M3).from_sums, chain(E4M3, promote_every=64).from_sums
    half = chain("sm_89.mma.e4m3.f16").from_sums / promoted
    ours = plain / promoted
    return answer(round(ours, 1), _model(E4M3),
                  must={f"{ours:.1f} within a factor of 2 of {said.value}":
                        said.value / 2 < ours < said.value * 2},
                  right=f"{ours:.0f} times against an FP32 accumulator; {half:.0f} times against "
                        "FP16 accumulation",
                  unchecked="the chip itself",
                  command=f"mmalab numerics error --unit {E4M3} --k {K} --promote 64")


@claim("A-128")
def _default_promotes(_said: Statement) -> Answer:
    row = source("cublas.fast-accumulation")
    fast, promoted = chain(E4M3), chain(E4M3, promote_every=128)
    return answer({"fast": fast.from_sums, "promoted every 128": promoted.from_sums},
                  row.evidence, _model(E4M3),
                  must={"the flag is off unless asked for": row.value["default"] == 0
                        and row.value["disabled"] == "promotes",
                        "on Ada and Hopper": row.value["chips"] == ["Ada", "Hopper"],
                        "promotion is more accurate": promoted.from_sums < fast.from_sums},
                  unchecked="cuBLAS itself, and that it is slower",
                  command=f"mmalab numerics error --unit {E4M3} --k {K} --promote 128")


@claim("A-129")
def _fast_accumulation(said: Statement) -> Answer:
    """cuBLAS adds to FP32 registers every 128 of K."""
    ours = chain(E4M3).from_sums / chain(E4M3, promote_every=128).from_sums
    return answer(round(ours, 1), _model(E4M3),
                  must={f"{ours:.1f} within a factor of 1.5 of {said.value}":
                        said.value / 1.5 < ours < said.value * 1.5},
                  unchecked="cuBLAS's interval of 128 is documented for Hopper",
                  command=f"mmalab numerics error --unit {E4M3} --k {K} --promote 128")


@claim("A-155")
def _unpromoted_error(said: Statement) -> Answer:
    row = source("deepseek.error")
    centred, positive = chain("sm_90.wgmma.e4m3.f32"), chain("sm_90.wgmma.e4m3.f32", low=0.0)
    return answer({"[-1, 1)": centred.from_sums, "[0, 1)": positive.from_sums}, row.evidence,
                  _model("sm_90.wgmma.e4m3.f32"),
                  must={"the report says 2 %": row.value == said.value,
                        "errors of that size occur in the model": 100 * centred.from_sums
                        < said.value < 100 * positive.from_sums},
                  unchecked="the report's data; on centred data the largest relative error of "
                            "single elements has no bound, sums near 0 spoil it")


@claim("A-156")
def _range_of_bf16(said: Statement) -> Answer:
    bf16, f32 = formats.get("bf16"), formats.get("f32")
    return answer(bf16.exponent_bits, derived("records of the formats"),
                  must={str(said.value): bf16.exponent_bits == f32.exponent_bits == 8,
                        "the same bias": bf16.bias == f32.bias,
                        "the largest numbers within 0.4 %": near(
                            float(formats.decode(np.array([0x7F7F], np.uint16), "bf16")[0]),
                            float(np.finfo(np.float32).max), 0.004)})


@claim("A-159")
def _accumulator_is_not_accuracy(said: Statement) -> Answer:
    bits = [numerics.probe(BF16).bits, numerics.probe(E4M3).bits]
    promoted = chain(E4M3, promote_every=64).from_sums
    return answer([*bits, 64], _model(BF16), _model(E4M3),
                  must={"24 and 14 bits": same(bits, said.value[:2]),
                        "FP16 inputs keep 24 too": numerics.probe("sm_89.mma.f16.f32").bits == 24,
                        "promotion every 64 mends most of it": promoted
                        < chain(E4M3).from_sums / 10},
                  command=f"mmalab numerics probe --unit {E4M3}")


@claim("A-162")
def _fp16_accumulation_costs(said: Statement) -> Answer:
    found, bf16 = chain("sm_89.mma.f16.f16").from_sums, chain(BF16).total
    return answer(found, _model("sm_89.mma.f16.f16"),
                  must={f"{found:.2e} within 20 % of {said.value[1]}": near(
                      found, said.value[1], 0.2),
                      "more than all of BF16's rounding": found > bf16},
                  unchecked="1.58 times faster: it needs the chip",
                  command=f"mmalab numerics error --unit sm_89.mma.f16.f16 --k {K}")

