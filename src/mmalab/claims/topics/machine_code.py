"""Article A, step 4: PTX and SASS side by side, and how much work an instruction is.

Counted in two kernels: article A's, written again in CUDA C++ (``tiled.cu``, compiled by nvcc to
the PTX beside it), and the ladder's FP32 kernel for its kernel 8.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

from mmalab.claims.assembled import build, builds, by_compilers, newest, releases
from mmalab.claims.compare import compiled, derived, equal, near, same, within
from mmalab.claims.model import Answer, Statement, answer
from mmalab.claims.probe import WARP_MMA, warp_kernels
from mmalab.claims.registry import claim
from mmalab.claims.together import read_together
from mmalab.kernels import sm80_mma
from mmalab.toolchain import Loop

_TILED = Path(__file__).parents[1] / "tiled.ptx"
_SYNCHRONISATION = ("BAR", "DEPBAR", "LDGDEPBAR")
#: Article A's own figures: 32 slices of 4,096 x 4,096 x 4,096.
SIZE = 4096
OPERATIONS = 2 * SIZE**3


@lru_cache(maxsize=1)
def tiled() -> str:
    """PTX of the article's kernel, written again."""
    return _TILED.read_text("utf-8")


@lru_cache(maxsize=8)
def main_loop(text: str, toolkit: str) -> Loop:
    """The main loop of a kernel for sm_89.

    Raises:
        LookupError: it has none.
    """
    loop = build(text, "sm_89", toolkit).made.sass.entries[0].main_loop
    if loop is None:
        raise LookupError("no main loop")
    return loop


@lru_cache(maxsize=1)
def fp32_loop() -> tuple[Loop, int]:
    """The main loop of the FP32 kernel, and how many slices of 8 in K it holds."""
    kernel = sm80_mma.ffma(1024, 1024, 1024)
    return main_loop(kernel.ptx, newest()), kernel.facts["slices_per_iteration"]


def _budget(loop: Loop) -> dict[str, int]:
    """Issued instructions of a slice, in the article's classes."""
    issued = Counter(i.opcode for i in loop.issued)
    named = {name: issued[name] for name in ("HMMA", "LDSM", "LDGSTS")}
    sync = sum(issued[name] for name in _SYNCHRONISATION)
    total = len(loop.issued)
    return {"total": total, **named, "sync": sync,
            "int_branch": total - sum(named.values()) - sync}


@claim("A-055")
def _work_of_a_slice(said: Statement) -> Answer:
    loops = {release: main_loop(tiled(), release) for release in builds(tiled(), "sm_89")}
    ours = {release: {"ldmatrix": loop.histogram()["LDSM"], "mma": loop.histogram()["HMMA"]}
            for release, loop in loops.items()}
    want = {name: said.value[name] for name in ("ldmatrix", "mma")}
    return answer(ours[newest()], by_compilers("sm_89", what="tiled.ptx"),
                  must={f"ptxas {release}: 12 LDSM and 32 HMMA": same(counts, want)
                        for release, counts in ours.items()},
                  command="mmalab asm src/mmalab/claims/tiled.ptx --target sm_89")


@claim("A-088")
def _one_to_one(_said: Statement) -> Answer:
    pairs = {"ldmatrix.": "LDSM", "mma.sync.": "HMMA", "cp.async.cg": "LDGSTS"}
    written = {word: len(re.findall(rf"^\s*{re.escape(word)}", tiled(), re.MULTILINE))
               for word in pairs}
    # Copies stand before the loop, too, which nvcc unrolls: the whole kernel is compared.
    found = {release: tried.made.sass.histogram()
             for release, tried in builds(tiled(), "sm_89").items()}
    return answer(written, by_compilers("sm_89", what="tiled.ptx"),
                  must={f"ptxas {release}: as many {opcode} as {word}": counts[opcode]
                        == written[word]
                        for release, counts in found.items() for word, opcode in pairs.items()},
                  command="mmalab asm src/mmalab/claims/tiled.ptx --target sm_89")


#: Kernel of each claim, and how the instruction begins that it is about.
_SPELLINGS = {"A-089": ("ldmatrix", "LDSM"), "A-090": ("bf16", "HMMA"),
              "A-091": ("cp.async", "LDGSTS"), "A-092": ("f16.f16", "HMMA")}
_CHIPS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


@claim("A-089", "A-090", "A-091", "A-092")
def _spelling(said: Statement) -> Answer:
    """Every chip from Ampere to Blackwell that has it, every compiler."""
    kernel, opcode = _SPELLINGS[said.id]
    found = {f"{release} {chip}": next(op for op in read_together(
        warp_kernels(), chip, release)[kernel].opcodes if op.startswith(opcode))
        for chip in _CHIPS for release in releases()}
    return answer(sorted(set(found.values())), by_compilers(" ".join(_CHIPS)),
                  must={f"{where}: {said.value}": word == said.value
                        for where, word in found.items() if "sm_89" in where},
                  should={"on other chips too": set(found.values()) == {said.value}})


@claim("A-093")
def _fp8_spelling(said: Statement) -> Answer:
    """On the article's chip; Hopper and data-centre Blackwell have no such instruction."""
    found = {chip: {release: sorted({line.split(maxsplit=1)[0] for line in read_together(
        warp_kernels(), chip, release)["e4m3"].products}) for release in releases()}
        for chip in _CHIPS[1:]}
    plain = {release: [word.replace(".ROW", "").replace(".COL", "") for word in words]
             for release, words in found["sm_89"].items()}
    rewritten = [chip for chip, rows in found.items()
                 if all(word.startswith("HMMA") for words in rows.values() for word in words)]
    return answer({chip: rows[newest()] for chip, rows in found.items()},
                  by_compilers(" ".join(_CHIPS[1:])),
                  must={f"{release} sm_89: {said.value}": words == [said.value]
                        for release, words in plain.items()},
                  unchecked=f"other chips: {' and '.join(rewritten)} unpack FP8 to FP16 and run "
                            "HMMA",
                  command="mmalab explain "
                          "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")


@claim("A-096")
def _tensor_instructions(said: Statement) -> Answer:
    """Operations of the product over those of an instruction, as the SASS says them."""
    large = next(i.flops for i in main_loop(tiled(), newest()).issued if i.matrix)
    small = build(WARP_MMA.replace("m16n8k16", "m16n8k8")
                  .replace("{%r0, %r1, %r2, %r3}, {%r4, %r5}", "{%r0, %r1}, {%r4}"),
                  "sm_89", newest()).made.sass
    eight = next(i.flops for i in small if i.matrix)
    ours = [OPERATIONS / (eight or 1), OPERATIONS / (large or 1)]
    return within(said, ours, 0.005, derived("2 x 4096^3 / operations of one HMMA"),
                  compiled("HMMA.1688 and HMMA.16816"),
                  unchecked="that cuBLAS launches m16n8k8: see A-095")


@claim("A-097")
def _budget_of_a_slice(said: Statement) -> Answer:
    ours = {release: _budget(main_loop(tiled(), release)) for release in builds(tiled(), "sm_89")}
    exact = ("HMMA", "LDSM", "LDGSTS", "sync")
    must = {f"ptxas {release}: {name} {counts[name]}": counts[name] == said.value[name]
            for release, counts in ours.items() for name in exact}
    must |= {f"ptxas {release}: {name} {counts[name]} within 10 %": near(
        counts[name], said.value[name], 0.1)
        for release, counts in ours.items() for name in ("total", "int_branch")}
    lean = main_loop(sm80_mma.gemm(1024, 1024, 1024).ptx, newest())
    slices = sm80_mma.gemm(1024, 1024, 1024).facts["slices_per_iteration"]
    return answer(ours[newest()], by_compilers("sm_89", what="tiled.ptx"), must=must,
                  unchecked=f"the 45 are the source's: our own kernel needs "
                            f"{len(lean.issued) / slices:.1f} instructions a slice in all",
                  command="mmalab asm src/mmalab/claims/tiled.ptx --target sm_89")


@claim("A-098")
def _never_executed(said: Statement) -> Answer:
    ours = {}
    for release in builds(tiled(), "sm_89"):
        loop = main_loop(tiled(), release)
        ours[release] = [len(loop), sum(i.never and i.opcode == "LDS" for i in loop.instructions)]
    return answer(ours[newest()], by_compilers("sm_89", what="tiled.ptx"),
                  must={f"ptxas {release}: 99, three of them @!PT LDS": same(found, said.value)
                        for release, found in ours.items()},
                  command="mmalab asm src/mmalab/claims/tiled.ptx --target sm_89")


@claim("A-099")
def _fp32_slice(said: Statement) -> Answer:
    loop, slices = fp32_loop()
    ours = [len(loop.issued) / slices, loop.histogram()["FFMA"] / slices]
    return answer(ours, compiled(f"the ladder's ffma, ptxas {newest()} for sm_89"),
                  must={"512 FFMA": ours[1] == said.value[1],
                        f"{ours[0]:.0f} instructions within 5 % of 577": near(
                            ours[0], said.value[0], 0.05)},
                  unchecked="the article's own kernel 8, whose source it does not print")


@claim("A-015", "A-100", "A-101")
def _work_per_instruction(said: Statement) -> Answer:
    tensor = main_loop(tiled(), newest())
    scalar, _ = fp32_loop()
    ours, article = (
        {"A-015": work[0] / work[1], "A-100": work[1], "A-101": work[0]}[said.id]
        for work in ((tensor.flops_per_instruction or 0, scalar.flops_per_instruction or 1),
                     (32 * 4096 / 96, 512 * 64 / 577)))
    return answer(round(ours, 2), compiled(f"tiled.ptx and ffma, ptxas {newest()} for sm_89"),
                  derived("operations of the main loop / instructions issued"),
                  must={f"{ours:.4g} within 5 % of {said.value}": near(ours, said.value, 0.05),
                        f"the article's counts give {article:.4g}": near(
                            article, said.value, 0.01)})


@claim("A-035")
def _operations_of_the_product(said: Statement) -> Answer:
    return within(said, OPERATIONS, 0.001, derived("2 x 4096^3"))


@claim("A-102")
def _issue_bound(_said: Statement) -> Answer:
    """An Ada scheduler issues one instruction a clock and has 32 FP32 lanes: both one warp."""
    loop, slices = fp32_loop()
    issue, ffma = len(loop.issued) / slices, loop.histogram()["FFMA"] / slices
    return answer({"issue slots": issue, "FFMA clocks": ffma},
                  compiled(f"the ladder's ffma, ptxas {newest()} for sm_89"),
                  derived("a scheduler issues one instruction and takes one FFMA a clock"),
                  must={"issuing takes longer than multiplying": issue > ffma},
                  unchecked="the chip's issue counter")


@claim("A-103")
def _issue_share(said: Statement) -> Answer:
    """A scheduler's tensor core does 512 / 4 operations a clock: an HMMA takes 32 clocks."""
    issued = len(main_loop(tiled(), newest()).issued)
    clocks = 32 * 4096 / (512 / 4)
    ours = 100 * issued / clocks
    return answer(round(ours, 2), compiled(f"tiled.ptx, ptxas {newest()} for sm_89"),
                  derived("instructions of a slice / clocks of its 32 HMMA at full rate"),
                  must={f"{ours:.1f} % within 1.5 points of {said.value} %":
                        abs(ours - said.value) < 1.5},
                  unchecked="the chip's issue counter")


@claim("A-105")
def _profilers_peak(said: Statement) -> Answer:
    return equal(said, 24 * 1024, derived("24 SMs x 1,024 operations with FP16 accumulation"))


@claim("A-106")
def _of_what_is_possible(said: Statement) -> Answer:
    """FP32 accumulation has half of the rate that the profiler calls 100 %."""
    return within(said, 2 * 48.6, 0.005, derived("48.6 % / (512 / 1,024)"))
