"""Article A: the peak rates of Ada, and what was measured on the laptop.

A rate is the whitepaper's figure for an RTX 4090 over its SMs and its clock. What needs the laptop
is `not checkable here`; where the article's own figures determine it, that is shown.
"""

from __future__ import annotations

from mmalab.claims.compare import derived, elsewhere, near, same
from mmalab.claims.model import Answer, Statement, answer, out_of_reach
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.claims.topics.machine_code import OPERATIONS
from mmalab.plan.chips import chip

_RTX4090 = chip("RTX 4090")
_SHEET = elsewhere(_RTX4090.published[0].source)
_LAPTOP = "an RTX 4060 Laptop GPU at 40 W"
SMS, TENSOR_MHZ, FP32_MHZ = 24, 1672, 1275


def rate(kind: str) -> float:
    """Operations per clock and SM of an Ada chip, by ``input.accumulator`` or ``fp32``."""
    dtype, _, acc = kind.partition(".")
    if kind == "fp32":
        return float(source("ada.fp32").value * 1e6 / (_RTX4090.sms * _RTX4090.clock))
    sheet = next(p for p in _RTX4090.published if (p.dtype, p.acc) == (dtype, acc))
    return float(sheet.dense * 1e6 / (_RTX4090.sms * _RTX4090.clock))


def share(tflops: float, per_clock: float, mhz: float) -> float:
    """Share of the laptop's peak at a clock, in percent."""
    return 100 * tflops * 1e12 / (SMS * per_clock * mhz * 1e6)


@claim("A-042", "A-043", "A-044", "A-045")
def _rate(said: Statement) -> Answer:
    kinds = {"A-042": ["fp32"], "A-043": ["f16.f32"], "A-044": ["f16.f16", "e4m3.f32"],
             "A-045": ["e4m3.f16"]}[said.id]
    ours = {kind: round(rate(kind), 1) for kind in kinds}
    return answer(ours, _SHEET, derived("TFLOPS / 128 SMs / 2.52 GHz"),
                  must={f"{kind}: {value} within 0.5 % of {said.value}": near(
                      value, said.value, 0.005) for kind, value in ours.items()})


@claim("A-008", "A-109")
def _ladder_of_rates(said: Statement) -> Answer:
    wide, half, fp8 = (rate(kind) for kind in ("f16.f32", "f16.f16", "e4m3.f16"))
    ours = [1, half / wide, fp8 / wide] if said.id == "A-008" else [half / wide, fp8 / half]
    return answer([round(each, 2) for each in ours], _SHEET,
                  must={"each step doubles": near(ours, said.value, 0.02)},
                  unchecked=f"that the rates are reached, on {_LAPTOP}")


@claim("A-158")
def _ratio_on_geforce(said: Statement) -> Answer:
    ours = rate("f16.f32") / rate("fp32")
    return answer(round(ours, 2), _SHEET,
                  must={f"{ours:.2f} within 1 % of {said.value}": near(ours, said.value, 0.01)})


@claim("A-018")
def _tensor_cores(said: Statement) -> Answer:
    row = source("ada.tensor-cores")
    return answer(row.value, row.evidence, must={"four": row.value == said.value})


@claim("A-013")
def _times_and_rates(said: Statement) -> Answer:
    ours = [OPERATIONS / ms / 1e9 for ms in (25.1, 7.0, 2.3)]
    return answer([round(each, 2) for each in ours], derived("2 x 4096^3 / milliseconds"),
                  must={"the listed rates": near(ours, said.value, 0.015),
                        "5.5, 19.7 and 60.4 as printed": near(ours, [5.5, 19.7, 60.4], 0.015)})


@claim("A-046")
def _share_of_peak(_said: Statement) -> Answer:
    """The formula gives the article's two shares from its clocks."""
    ours = [share(19.7, 512, TENSOR_MHZ), share(5.5, 256, FP32_MHZ)]
    return answer([round(each, 1) for each in ours], derived("TFLOPS / (24 x rate x clock)"),
                  must={"96 % and 70 %": same([round(each) for each in ours], [96, 70])})


@claim("A-059")
def _factors(said: Statement) -> Answer:
    ours = [rate("f16.f32") / rate("fp32"), 0.96 / 0.70, TENSOR_MHZ / FP32_MHZ]
    product = ours[0] * ours[1] * ours[2]
    return answer([round(each, 3) for each in (*ours, product)],
                  derived("peak x efficiency x clock"), _SHEET,
                  must={"2 x 1.37 x 1.31 = 3.59": near([*ours, product], said.value, 0.01)},
                  unchecked="the clocks and shares that go in")


@claim("A-061")
def _per_joule(said: Statement) -> Answer:
    ours = 19.7 / 5.5
    return answer(round(ours, 2), derived("rates at the same power"),
                  must={f"{ours:.2f} within 5 % of {said.value}": near(ours, said.value, 0.05)},
                  unchecked="that both kernels drew the same 40 W")


@claim("A-012")
def _fp8_time(said: Statement) -> Answer:
    """Which FP8 kernel it can be follows from the peaks."""
    least = {kind: 1e3 * OPERATIONS / (SMS * rate(kind) * TENSOR_MHZ * 1e6)
             for kind in ("e4m3.f32", "e4m3.f16")}
    fits = [kind for kind, ms in least.items() if ms <= said.value]
    return out_of_reach(f"needs {_LAPTOP}; at its {TENSOR_MHZ} MHz FP32 accumulation cannot take "
                        f"less than {least['e4m3.f32']:.2f} ms, so {' or '.join(fits)} was timed",
                        derived("operations / (24 SMs x rate x clock)"),
                        _SHEET, ours=least)


#: Measured on the laptop, and what the article's other figures give.
_MEASURED = {
    "A-004": ("", None), "A-006": ("", None), "A-007": ("", None),
    "A-005": ("19.7 TFLOPS at 1,672 MHz", lambda: share(19.7, 512, TENSOR_MHZ)),
    "A-010": ("5.5 TFLOPS", lambda: OPERATIONS / 5.5e9),
    "A-011": ("19.7 TFLOPS", lambda: OPERATIONS / 19.7e9),
    "A-040": ("", None), "A-041": ("", None), "A-047": ("", None),
    "A-048": ("5.29 TFLOPS at 1,672 MHz", lambda: share(5.29, 512, TENSOR_MHZ)),
    "A-057": ("5.5 TFLOPS at 1,275 MHz", lambda: share(5.5, 256, FP32_MHZ)),
    "A-058": ("19.7 / 5.5", lambda: 19.7 / 5.5),
    "A-060": ("", None), "A-104": ("", None), "A-116": ("", None),
    "A-127": ("", None), "A-130": ("", None), "A-132": ("", None), "A-134": ("", None),
    "A-164": ("", None),
}


@claim(*_MEASURED)
def _measured(said: Statement) -> Answer:
    words, figure = _MEASURED[said.id]
    if figure is None:
        return out_of_reach(f"a measurement; needs {_LAPTOP}")
    value = figure()
    return out_of_reach(f"a measurement; needs {_LAPTOP}. {words} gives {value:.4g}",
                        derived("the article's own figures"), ours=round(value, 2))


_ORDER = {
    "A-064": "swizzled before plain", "A-080": "padding and swizzling before plain",
    "A-083": "padding last with three stages", "A-163": "fragments from global memory last",
}


@claim(*_ORDER)
def _order(said: Statement) -> Answer:
    """What makes the order is settled elsewhere: wavefronts in A-078, blocks in A-082."""
    return out_of_reach(f"a measurement ({_ORDER[said.id]}); needs {_LAPTOP}. On another GPU, "
                        "`mmalab bench` times the same kernels")


#: What the article says about its own doing.
_DECLARED = {
    "A-038": "the article's environment; ours stands in `mmalab doctor`",
    "A-039": "a protocol, not a result; repeating it needs a GPU",
    "A-077": "the article's profiler settings",
    "A-135": "about the article itself; what it says of Hopper is checked one by one (A-136 on)",
}


@claim(*_DECLARED)
def _declared(said: Statement) -> Answer:
    return out_of_reach(_DECLARED[said.id])


_LIBRARY = {
    "A-095": "cuBLAS 12.8 on an Ada chip",
    "A-110": "PyTorch with an Ada GPU: it is a switch of the library, not of the chip",
    "A-152": "cuBLAS 12.8 on an Ada chip; the name's own fields say m16n8k8, 128 x 128, TN",
    "A-153": "cuBLAS 12.8 on an Ada chip; the name's own fields say 16 x 8 x 32, four stages",
}


@claim(*_LIBRARY)
def _library(said: Statement) -> Answer:
    return out_of_reach(f"needs {_LIBRARY[said.id]}")


@claim("A-032")
def _unspecified(_said: Statement) -> Answer:
    row = source("guide.wmma")
    return answer(row.value, row.evidence,
                  must={"the guide leaves it open": row.value == "mapping unspecified"},
                  unchecked="on the chips that ran our WMMA kernels the mapping is mma.sync's")


@claim("A-154")
def _flashattention(said: Statement) -> Answer:
    row = source("flashattention3")
    h100 = chip("H100 SXM").published[0]
    ours = 100 * row.value["fp16"] / h100.dense
    return answer([row.value["fp16"], round(ours, 1), row.value["fp8"]], row.evidence,
                  elsewhere(h100.source),
                  must={"the paper's figures": same(
                      [row.value["fp16"], row.value["share"], row.value["fp8"]], said.value),
                      "740 of 989.4 is 75 %": abs(ours - said.value[1]) < 1})


@claim("A-157")
def _data_centre_ratio(said: Statement) -> Answer:
    sheet = {p.dtype: p.dense for p in chip("H100 SXM").published}
    row = source("h100.fp32")
    ours = [sheet["bf16"] / row.value, sheet["e4m3"] / sheet["bf16"]]
    return answer([round(each, 2) for each in ours], row.evidence,
                  must={"15 and 2 within 3 %": near(ours, said.value, 0.03)})
