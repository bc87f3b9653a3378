"""Article B: bytes per operation of accumulators and operands, and what follows from them."""

from __future__ import annotations

from mmalab import formats
from mmalab.claims.compare import derived, elsewhere, equal, near, same, within
from mmalab.claims.model import Answer, Statement, answer, open_question
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.isa.tensor_memory import KINDS
from mmalab.plan.chips import chip
from mmalab.plan.traffic import (
    accumulator_bytes_per_flop,
    invariance,
    operand_bytes_per_flop,
    traffic,
)

#: The three widths of the article, with K of their instruction.
WIDTHS = {"fp16": ("f16", "f16"), "fp8": ("e4m3", "f8f6f4"), "fp4": ("e2m1", "mxf4")}
_TILE = "mmalab plan traffic --mma 128x256 --dtype f16"
_MODEL = derived("m128n256 on a B200 at its dense peak")


@claim("B-101")
def _always_256type_bits(said: Statement) -> Answer:
    row = source("cutlass.k-bits")
    bits = {kind.name: kind.k * (kind.container_bits or formats.get(kind.operands[0]).bits)
            for kind in KINDS.values()}
    own = {kind.name: sorted({kind.k * formats.get(t).bits for t in kind.operands})
           for kind in KINDS.values()}
    later = sorted({k * 4 for kind in KINDS.values() for k, _ in kind.later_k if kind.k == 64})
    return answer({**row.value, "of the elements": own}, row.evidence,
                  derived("K x bits of every kind"),
                  must={"sparse too": row.value["sparse"] == said.value,
                        "for every element type": all(v == [said.value] for v in own.values())},
                  should={"in shared memory, dense": set(bits.values()) == {said.value}},
                  right=f"dense FP16, BF16, TF32, INT8 and FP4 only: sparse atoms have "
                        f"{row.value['sparse']} bits (half of A is stored), f8f6f4 has K = 32 for "
                        f"4, 6 and 8 bits, later chips {' and '.join(map(str, later))} bits of FP4")


@claim("B-102")
def _k_of_each(said: Statement) -> Answer:
    ours = {name: KINDS[kind].k for name, (_, kind) in WIDTHS.items()}
    return equal(said, ours, derived("table of tcgen05 shapes"),
                 unchecked="FP4 has K = 64 only under mxf4 and mxf4nvf4; under f8f6f4 it is 32")


@claim("B-103")
def _exact_inverse(_said: Statement) -> Answer:
    kinds = [KINDS[name] for name in ("f16", "tf32", "f8f6f4", "i8", "mxf4")]
    # Later kinds win: FP4's own kind is mxf4.
    product = {t: kind.k * formats.get(t).bits for kind in kinds for t in kind.operands}
    off = {t: bits for t, bits in product.items() if bits != 256}
    return answer(product, derived("K x bits of every element type"),
                  must={"FP16, FP8 and FP4": all(product[t] == 256
                                                 for t in ("f16", "e4m3", "e2m1"))},
                  should={"every type": not off},
                  right="not for 6-bit types: 256 / 6 is no integer, they have K = 32 "
                        f"({', '.join(off)})")


@claim("B-104")
def _accumulator_rule(_said: Statement) -> Answer:
    ours = {name: accumulator_bytes_per_flop(KINDS[kind].k) for name, (_, kind) in WIDTHS.items()}
    return answer(ours, derived("8 M N / (2 M N K)"),
                  must={f"{name}: 4 / K = bits / 64": value == 4 / KINDS[WIDTHS[name][1]].k
                        == formats.get(WIDTHS[name][0]).bits / 64 for name, value in ours.items()},
                  command=_TILE)


@claim("B-105")
def _same_bandwidth(said: Statement) -> Answer:
    ours = {name: traffic(128, 256, dtype, k=KINDS[kind].k).accumulator_tb_s
            for name, (dtype, kind) in WIDTHS.items()}
    return within(said, ours, 1e-9, _MODEL, elsewhere(chip("B200").published[0].source),
                  command=_TILE)


@claim("B-106")
def _per_sm(said: Statement) -> Answer:
    found = traffic(128, 256, "f16")
    ours = [found.accumulator_per_sm_tb_s, chip("B200").bandwidth / 1000, found.to_hbm]
    return within(said, ours, 0.01, _MODEL, unchecked="newer sheets print 7.7 TB/s of HBM",
                  command=_TILE)


@claim("B-107")
def _invariant(_said: Statement) -> Answer:
    """Over tiles and over every kind, dense, sparse and later K."""
    tiles = {traffic(m, n, "f16").accumulator_tb_s for m in (64, 128) for n in (64, 128, 256)}
    rows = invariance(on="B200")
    dense = {row.name: row.holds for row in rows if "sparse" not in row.name}
    ultra = invariance(on="B300")
    off = [row.name for row in ultra if not row.holds]
    at_96 = accumulator_bytes_per_flop(96) * 13.5e15 / 1e12
    return answer({row.name: round(row.accumulator_tb_s, 1) for row in rows}, _MODEL,
                  must={"the tile cancels": len(tiles) == 1,
                        "FP16, FP8, FP4 agree": all(dense[name] for name in (
                            "f16 (f16)", "e4m3 (f8f6f4)", "e2m1 (mxf4)"))},
                  unchecked=f"other rates: B300's FP4 at K = 96 gives {at_96:.1f} TB/s again; of "
                            f"its table {len(off)} rows differ",
                  command=_TILE)


@claim("B-108")
def _operand_rule(_said: Statement) -> Answer:
    agree = all(abs(operand_bytes_per_flop(m, n, b)
                    - ((m + n) * k * b) / (2 * m * n * k)) < 1e-15
                for m in (64, 128, 256) for n in (8, 64, 256) for b in (0.5, 1, 2)
                for k in (16, 32, 64))
    return answer("(M + N) b / (2 M N)", derived("(M + N) K b bytes for 2 M N K operations"),
                  must={"K cancels": agree}, command=_TILE)


@claim("B-109")
def _operand_bandwidth(said: Statement) -> Answer:
    ours = {name: traffic(128, 256, dtype, k=KINDS[kind].k).operand_tb_s
            for name, (dtype, kind) in WIDTHS.items()}
    per = {name: traffic(128, 256, dtype).operands for name, (dtype, _) in WIDTHS.items()}
    return answer({name: round(value, 2) for name, value in ours.items()}, _MODEL,
                  must={f"{name}: {value:.2f} within 0.5 %": near(value, said.value, 0.005)
                        for name, value in ours.items()}
                  | {"0.01172, 0.00586, 0.00293 bytes per operation": near(
                      list(per.values()), [0.01172, 0.00586, 0.00293], 0.001)},
                  command=_TILE)


@claim("B-110", "B-112")
def _ratio(said: Statement) -> Answer:
    ours = traffic(128, 256, "f16").ratio
    tolerance = 0.005 if said.id == "B-110" else 0.02
    return within(said, ours, tolerance, _MODEL,
                  unchecked="" if said.id == "B-110" else "that this is the reason for the places",
                  command=_TILE)


@claim("B-111")
def _no_more_bytes(said: Statement) -> Answer:
    fp16, fp4 = (traffic(128, 256, dtype) for dtype in ("f16", "e2m1"))
    return answer(fp4.peak / fp16.peak, _MODEL,
                  must={"four times the operations": fp4.peak
                        == said.value * fp16.peak,
                        "no more accumulator bytes": near(fp4.accumulator_tb_s,
                                                          fp16.accumulator_tb_s, 1e-9),
                        "no more operand bytes": near(fp4.operand_tb_s, fp16.operand_tb_s, 1e-9)},
                  command=_TILE)


@claim("B-114")
def _pair(said: Statement) -> Answer:
    """Operand bytes that one SM reads for each operation it does, alone and in a pair."""
    alone = operand_bytes_per_flop(128, 256, 2)
    # A pair does 256 x 256; each SM reads its 128 rows of A and half of B.
    pair = (128 + 128) * 2 / (2 * 128 * 256)
    ours = pair / alone
    b_alone, b_pair = 256 / (2 * 128 * 256), 128 / (2 * 128 * 256)
    return answer(round(ours, 4), derived("(M + N / CTAs) b / (2 M N), m128n256 in each SM"),
                  must={f"{ours:.3f} = {said.value}": same(ours, said.value)},
                  should={"B's part is halved": b_pair == b_alone / 2},
                  right=f"to {100 * ours:.0f} %: B's part halves, A's stays; half in all needs "
                        "A and B shared, as multicast over 2 x 2 would",
                  command="mmalab plan traffic --mma 256x256 --dtype f16")


@claim("B-115")
def _no_register_file(_said: Statement) -> Answer:
    hopper = traffic(64, 256, "f16", on="H100 SXM")
    return open_question("an inference: Hopper's register file carries half of it already "
                         f"({hopper.accumulator_per_sm_tb_s:.2f} TB/s and "
                         f"{hopper.accumulator_per_clock:.0f} bytes per clock and SM by the same "
                         "model); what the next one could needs its designers", _MODEL,
                         ours={"H100": hopper.accumulator_per_sm_tb_s,
                               "B200": traffic(128, 256, "f16").accumulator_per_sm_tb_s})


@claim("B-116")
def _measured_bandwidth(said: Statement) -> Answer:
    row = source("delaware.tmem-read")
    need = traffic(128, 256, "f16").accumulator_per_sm_tb_s
    ours = row.value["tbytes"] / need
    return answer([row.value["tbytes"], round(ours, 2)], row.evidence, _MODEL,
                  must={"16 TB/s, of one SM": (row.value["tbytes"], row.value["per"])
                        == (said.value[0], "SM"),
                        f"{ours:.1f} is about 4": abs(ours - said.value[1]) < 0.5},
                  unchecked="the measurement (it means 8,600 bytes per clock and SM); and reading "
                            "alone is half of the requirement")


@claim("B-117")
def _implied_peaks(said: Statement) -> Answer:
    peaks = [7700 / 0.962, 1929.6 / 0.965]
    sheet = {p.dtype: p.dense for p in chip("B200").published}
    below = [100 * (1 - peak / sheet[t]) for peak, t in zip(peaks, ("e2m1", "f16"), strict=True)]
    ours = [*peaks, sum(below) / 2]
    return answer([round(each, 1) for each in ours], derived("achieved / share of peak"),
                  elsewhere(chip("B200").published[0].source),
                  must={"8,004 and 1,999": near(peaks, said.value[:2], 0.001),
                        "11.1 % below the sheet, both": all(abs(b - said.value[2]) < 0.1
                                                            for b in below)},
                  unchecked="the paper's achieved rates")


@claim("B-132")
def _sixteenfold(said: Statement) -> Answer:
    return equal(said, 256 * 256 // (64 * 64), derived("256 x 256 / (64 x 64)"))


@claim("B-156")
def _doubled_k(said: Statement) -> Answer:
    """The later chip's instructions have that K in the table."""
    later = dict(KINDS["mxf4nvf4"].later_k)
    now = KINDS["mxf4nvf4"].k
    ratio = accumulator_bytes_per_flop(2 * now) / accumulator_bytes_per_flop(now)
    return answer([now, 2 * now, ratio], derived("4 / K"),
                  elsewhere("the table of tcgen05 shapes, sm_107"),
                  must={"64, 128, half": same([now, 2 * now, ratio], said.value),
                        "sm_107 has K = 128": "sm_107" in later.get(2 * now, "")})


@claim("B-159")
def _bound(_said: Statement) -> Answer:
    """With sums kept inside, nothing moves: the model's other end."""
    ends = [traffic(128, 256, "f16", passes=passes).accumulator_tb_s for passes in (2, 1, 0)]
    return answer(ends, derived("passes over the accumulator: 2, 1, 0"),
                  must={"562.5 TB/s is the largest": ends[0] == max(ends) == 562.5,
                        "kept inside, it is 0": ends[-1] == 0})


@claim("B-160")
def _earlier_draft(said: Statement) -> Answer:
    fixed, true = (traffic(128, 256, "e2m1", k=k).accumulator_tb_s for k in (16, 64))
    return equal(said, fixed / true, derived("4 / 16 against 4 / 64 at FP4's peak"))
