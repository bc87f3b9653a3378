"""The steps of the tour: each computes something, and knows what should come out."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from mmalab import isa, ptx
from mmalab.cli.gemm import operands, run_gemm
from mmalab.cli.output import table
from mmalab.kernels import ladder, sm80_mma
from mmalab.layouts import Swizzle
from mmalab.plan import banks
from mmalab.ptx.kernel import Kernel
from mmalab.sanitizer import emulate
from mmalab.toolchain import Cubin, assemble, lowerings

__all__ = ["Outcome", "bank_conflicts", "chips", "compiled", "emulated", "fragment", "inner_loops",
           "legality", "matmul", "planted_bug", "wavefronts"]

_BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
_FP8 = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
_TARGETS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
_SIZE = 256


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step shows, and whether it is what it should be."""

    ok: bool
    lines: tuple[str, ...]
    data: dict[str, Any] = field(default_factory=dict)


def fragment() -> Outcome:
    """Element (9, 5) of an accumulator: who holds it, and back."""
    place = isa.layout(_BF16, "D", at=(9, 5))
    back = isa.layout(_BF16, "D", lane=place.lane, slot=place.slot)
    grid = isa.show(_BF16, "D").splitlines()
    lines = (f"D[9][5] of {_BF16}",
             f"is in lane {place.lane}, slot {place.slot}: register {place.register}",
             "", *grid[2:7], "   ...")
    return Outcome((place.lane, place.slot) == (6, 3) and back.at == (9, 5), lines,
                   place.as_dict())


def bank_conflicts() -> Outcome:
    """Eight rows of a tile with 32 BF16 values a row: plain, padded, swizzled."""
    found = {
        "plain": banks.ldmatrix(8, 64),
        "padded": banks.ldmatrix(8, 64, pad=16),
        "swizzled": banks.ldmatrix(8, 64, swizzle=Swizzle(2, 3, 3), dtype="bf16"),
    }
    passes = {name: access.passes for name, access in found.items()}
    lines = tuple(f"{name:<8}  {access.line()}" for name, access in found.items())
    return Outcome(list(passes.values()) == [4, 1, 1], lines, {"passes": passes})


@lru_cache(maxsize=1)
def _kernel() -> Kernel:
    return sm80_mma.gemm(_SIZE, _SIZE, _SIZE)


def matmul() -> Outcome:
    """Our BF16 GEMM, executed with the sanitizer listening."""
    found = run_gemm(_kernel())
    counters = found["counters"]
    bits = "every bit equal" if found["bits_equal"] else "bits differ"
    lines = (
        f"{found['kernel']}: {len(_kernel().ptx.splitlines()):,} lines of PTX",
        f"{counters['instructions']:,} warp instructions, {counters['tensor.flops']:,} FLOPs",
        f"sanitizer: {found['verdict']}",
        f"against an FP64 product: relative RMS error {found['relative_rms']:.2e}",
        f"against the arithmetic of {found['unit']}: {bits}",
    )
    ok = found["bits_equal"] and found["verdict"] == "clean" and found["relative_rms"] < 1e-6
    return Outcome(bool(ok), lines, found)


def wavefronts() -> Outcome:
    """The same kernel over three layouts: wavefronts of each ldmatrix as it happens."""
    rows, per = [], {}
    for layout in ("plain", "padded", "swizzled"):
        kernel = sm80_mma.gemm(128, 128, 64, layout=layout)
        counters = run_gemm(kernel, sanitize=False)["counters"]
        issued = counters["instructions.ldmatrix"]
        per[layout] = counters["shared.wavefronts.ldmatrix"] / issued
        rows.append((layout, f"{kernel.facts['shared_bytes']:,}", f"{issued:,}",
                     f"{per[layout]:g}"))
    head = ("layout", "shared bytes", "ldmatrix", "wavefronts each")
    return Outcome(list(per.values()) == [16, 4, 4], tuple(table(rows, head).splitlines()), per)


def chips() -> Outcome:
    """An FP8 GEMM as Ada and as Hopper: the same PTX, different bits."""
    kernel = sm80_mma.gemm(128, 128, _SIZE, dtype="e4m3")
    found = {chip: run_gemm(kernel, target=chip, sanitize=False) for chip in ("sm_89", "sm_90")}
    lines = [f"{_FP8}, the same PTX:"]
    for chip, row in found.items():
        how = isa.execution(isa.find(_FP8), chip)
        lines.append(f"{chip}: {how}; error of the sums {row['relative_rms']:.1e}, bits "
                     + ("as its unit computes them" if row["bits_equal"] else "differ"))
    ada, hopper = (row["relative_rms"] for row in found.values())
    ok = ada > 100 * hopper and all(row["bits_equal"] for row in found.values())
    return Outcome(ok, tuple(lines), {chip: row["relative_rms"] for chip, row in found.items()})


def _cubins(kernel: Kernel, targets: tuple[str, ...]) -> dict[str, Cubin]:
    """Assembled and read back for each chip; the tools run side by side."""
    def make(target: str) -> Cubin:
        cubin = assemble(kernel, target)
        _ = cubin.sass
        return cubin

    with ThreadPoolExecutor() as pool:
        return dict(zip(targets, pool.map(make, targets), strict=True))


def compiled() -> Outcome:
    """The matmul through ptxas for five chips, and its main loop read back."""
    rows, ok, data = [], True, {}
    for target, cubin in _cubins(_kernel(), _TARGETS).items():
        entry = cubin.sass.entries[0]
        loop = entry.main_loop
        words = loop.histogram(full=True) if loop else {}
        products = sum(n for word, n in words.items() if word == "HMMA.16816.F32.BF16")
        per = loop.flops_per_instruction if loop else 0.0
        ok &= products > 0 and cubin.resources.spills == 0
        rows.append((target, cubin.resources.registers, len(loop.issued) if loop else 0, products,
                     f"{per or 0:,.0f}"))
        data[target] = {"products": products, "flops_per_instruction": per}
    head = ("chip", "registers", "loop", "HMMA.16816.F32.BF16", "FLOPs per instruction")
    return Outcome(ok, tuple(table(rows, head).splitlines()), data)


#: The article's counts of its kernels' main loops, per warp and slice of K (its step 4).
_ARTICLE = {"swizzled_3": (96, 32, 12, 4, 1365), "ffma": (577, 512, None, None, 57)}


def inner_loops() -> Outcome:
    """The main loop for sm_89, per slice of K, beside what the article counted in its own."""
    rows, ok, data = [], True, {}
    for name, (total, products, ldsm, copies, per) in _ARTICLE.items():
        kernel = ladder()[name](1024, 1024, 1024)
        loop = assemble(kernel, "sm_89").sass.entries[0].main_loop
        if loop is None:
            return Outcome(ok=False, lines=(f"{name}: no loop found",))
        slices = kernel.facts["slices_per_iteration"]
        counts = {op: count / slices for op, count in loop.histogram().items()}
        counts["all"] = sum(counts.values())
        counts["FLOPs per instruction"] = loop.flops_per_instruction or 0.0
        for what, theirs in (("all", total), ("FFMA" if name == "ffma" else "HMMA", products),
                             ("LDSM", ldsm), ("LDGSTS", copies), ("FLOPs per instruction", per)):
            if theirs is not None:
                rows.append((name, what, f"{counts.get(what, 0):,.1f}", f"{theirs:,}"))
        ok &= counts["FLOPs per instruction"] >= per
        data[name] = counts
    head = ("kernel", "per slice of K", "here", "article")
    return Outcome(ok, tuple(table(rows, head).splitlines()), data)


def emulated() -> Outcome:
    """FP8 mma.sync on three chips: what the assembler made of it."""
    kernel = sm80_mma.gemm(128, 128, 64, dtype="e4m3")
    rows, verdicts = [], {}
    for target, cubin in _cubins(kernel, ("sm_89", "sm_90a", "sm_120a")).items():
        first = lowerings(cubin)[0]
        verdicts[target] = first.verdict
        rows.append((target, first.verdict, first.why))
    expected = {"sm_89": "native", "sm_90a": "emulated", "sm_120a": "native"}
    return Outcome(verdicts == expected, (_FP8, *table(rows).splitlines()), verdicts)


def legality() -> Outcome:
    """An instruction that a chip lacks, with what to write instead, and one that it has."""
    lacks, has = isa.legal(_BF16, "sm_75"), isa.legal(_BF16, "sm_80")
    lines = (f"sm_75: illegal: {lacks.reason}", f"       instead: {lacks.nearest[0]}",
             f"sm_80: legal: {has.reason}")
    return Outcome(has.legal and not lacks.legal, lines, {"sm_75": lacks.legal,
                                                          "sm_80": has.legal})


def planted_bug() -> Outcome:
    """The matmul without its waits for cp.async: found, with the line and the repair."""
    kernel = sm80_mma.gemm(128, 128, 64)
    module = ptx.parse(kernel.ptx)
    editor = ptx.Editor(module)
    waits = [i for i in module.functions[0].instructions()
             if i.opcode.startswith("cp.async.wait")]
    for wait in waits:
        editor.remove(wait)
    broken = replace(kernel, ptx=editor.text())
    run = emulate(broken, operands(broken, 0))
    errors = [finding for finding in run.findings if finding.severity == "error"]
    codes = sorted({finding.code for finding in errors})
    lines = [f"{len(waits)} cp.async.wait_group taken out; found: {', '.join(codes) or 'nothing'}"]
    if errors:
        lines += ["", str(errors[0])]
    return Outcome("missing-cp-async-wait" in codes, tuple(lines), {"codes": codes})
