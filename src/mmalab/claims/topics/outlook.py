"""Article B: what Rubin's compiler shows, other people's figures, and four predictions.

A prediction stands until its date; each is held against what can be seen from here, and says what
would break it.
"""

from __future__ import annotations

import importlib.util
import shutil

from mmalab import isa
from mmalab.claims.assembled import build, by_compilers, newest
from mmalab.claims.compare import derived
from mmalab.claims.model import Answer, Statement, answer, open_question, out_of_reach
from mmalab.claims.probe import Probe, body
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.plan.chips import CHIPS, Figure


@claim("B-155")
def _compressing_loads(_said: Statement) -> Answer:
    """The compiler already has such a load, for sm_107 only."""
    form = "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.min.sp::2:4.f32.b2"
    load = f"{form} {{%v0}}, {{%r12, %r13}}, [%r2];"
    text = Probe(multiply=False, version="9.5", target="sm_107a").text().replace(
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r2];", load)
    rubin = build(text, "sm_107a", newest())
    older = build(text.replace("sm_107a", "sm_103a"), "sm_103a", newest())
    loads = [i.text for i in rubin.made.sass if i.opcode.startswith("LDTM")]
    return answer(loads, by_compilers("sm_103a sm_107a", what=form),
                  derived("the record of tcgen05.ld.spcompress"),
                  must={"sm_107a has a load that keeps 2 of 4": bool(loads),
                        "with metadata as a second result": len(isa.find(form).operands) == 3,
                        "sm_103a has not": not older.accepted},
                  unchecked="what NVIDIA's post says of it; whether the scores take this way",
                  command=f"mmalab explain {form}")


@claim("B-157")
def _exponentials(_said: Statement) -> Answer:
    """How many MUFU a packed exponential takes, by chip."""
    packed = body(["ld.global.b32 %r1, [%rd1];", "ex2.approx.ftz.bf16x2 %r2, %r1;",
                   "st.global.b32 [%rd1], %r2;"], version="8.8")
    single = body(["ld.global.f32 %f1, [%rd1];", "ex2.approx.ftz.f32 %f2, %f1;",
                   "st.global.f32 [%rd1], %f2;"], version="8.8")
    found = {chip: {name: [op for op in build(text, chip, newest()).opcodes if "MUFU" in op]
                    for name, text in (("BF16 x 2", packed), ("FP32", single))}
             for chip in ("sm_100a", "sm_103a", "sm_107a")}
    return open_question("the code halves the instructions of two BF16 exponentials from sm_103a "
                         "on (one packed MUFU for two); rates in clocks need the chips",
                         by_compilers("sm_100a sm_103a sm_107a", what="ex2"), ours=found)


@claim("B-158")
def _descriptor_updates(_said: Statement) -> Answer:
    later = [key for key in isa.forms("cp.async.bulk*")
             if str(isa.find(key).targets).startswith("sm_107")]
    words = sorted({word for key in later for word in key.split(".") if "override" in word
                    or "update" in word or "tensormap" in word})
    seen = f"with the words {words}" if words else "none with an update in its name"
    return open_question(f"the table has {len(later)} bulk copies that sm_107 alone takes, {seen}; "
                         "counted writes are a library's. It needs NVIDIA's post and the chip",
                         derived("records of cp.async.bulk"), ours=words)


@claim("B-166")
def _prediction_2(_said: Statement) -> Answer:
    here = [name for name in ("triton", "tinygrad", "max") if importlib.util.find_spec(name)]
    return open_question("until 31 December 2027. Wrong once mainline Triton, Mojo or tinygrad is "
                         "within 10 % of CUTLASS without hand-written PTX: needs a B200 and their "
                         f"releases; installed here: {', '.join(here) or 'none of them'}")


@claim("B-167")
def _prediction_3(_said: Statement) -> Answer:
    profiler = shutil.which("ncu")
    return open_question("until the end of 2028. Wrong if no NVIDIA profiler reports Tensor Memory "
                         "allocation by then: `ncu --list-sections` would show it; installed here: "
                         f"{profiler or 'no ncu'}")


@claim("B-168")
def _prediction_4(_said: Statement) -> Answer:
    here = [name for name in ("tensorrt_llm", "modelopt") if importlib.util.find_spec(name)]
    return open_question("until the end of 2027. Wrong if TensorRT-LLM or NVIDIA's quantisation "
                         "tools default to block32 for four-bit weights; installed here: "
                         f"{', '.join(here) or 'neither'}")


_REPORTED = {
    "B-094": "a tutorial's measurement on rented B200s (gau-nernst)",
    "B-129": "a tutorial's kernel (gau-nernst); its pattern needs a B200 to run",
    "B-144": "throughput of two models, measured by arXiv 2512.02189 on a B200",
    "B-150": "bandwidth utilisation, measured by arXiv 2512.02189 on a B200",
    "B-153": "a worklog (M. Amjad, March 2026)",
    "B-154": "the date of a post",
    "B-169": "about the article's own earlier draft",
}


@claim(*_REPORTED)
def _reported(said: Statement) -> Answer:
    return out_of_reach(f"{_REPORTED[said.id]}: nothing here decides it")


@claim("B-143")
def _perplexity(said: Statement) -> Answer:
    row = source("delaware.perplexity")
    return answer(row.value, row.evidence,
                  must={f"{row.value} % is from 8 to 9 %": said.value[1] <= row.value
                        <= said.value[2]},
                  unchecked="FP8's 2 %; and the measurement")


@claim("B-179")
def _documents(_said: Statement) -> Answer:
    """Every figure of the chips' table names its document, and says when it is inferred."""
    figures = [figure for row in CHIPS.values() for figure in vars(row).values()
               if isinstance(figure, Figure)]
    rates = [rate for row in CHIPS.values() for rate in row.rates]
    bare = [figure for figure in figures if not figure.source] + [
        rate for rate in rates if not rate.source]
    inferred = sum(figure.evidence is isa.Evidence.INFERRED for figure in figures)
    return answer(f"{len(figures)} figures and {len(rates)} rates, {inferred} figures inferred",
                  derived("mmalab.plan.chips"),
                  must={"each names its source": not bare,
                        "those of the article's line are documents' or marked": all(
                            rate.source for name in ("V100", "A100", "H100 SXM", "B200")
                            for rate in CHIPS[name].rates)})

