"""Article B: a register file that did not grow, rates that did, and the tile that needs 256."""

from __future__ import annotations

from functools import lru_cache
from math import log2

from mmalab import isa
from mmalab.claims.assembled import ARTICLE, Build, build, builds, by_compilers, newest
from mmalab.claims.compare import derived, elsewhere, equal, measured, near, same, within
from mmalab.claims.model import Answer, Evidence, Statement, answer, out_of_reach
from mmalab.claims.probe import Probe, body, tensor_copy
from mmalab.claims.records import OCCUPANCY, largest_occupancy
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.isa.targets import LIMITS
from mmalab.plan.chips import chip
from mmalab.plan.rates import identities, register_file_ratio
from mmalab.plan.registers import accumulators

#: The data-centre line, one product a generation.
LINE = ("V100", "A100", "H100 SXM", "B200")


def rates() -> list[int]:
    """FP16 operations per clock and SM along the data-centre line."""
    return [chip(name).rate("f16").per_clock for name in LINE]


def _sheet(name: str) -> Evidence:
    row = chip(name)
    return elsewhere(f"{row.sms.source}; {row.clock.source}")


@lru_cache(maxsize=8)
def wgmma(count: int, *, touched: bool = False) -> str:
    """PTX with `count` accumulators of m64n256 and four products each; `touched` adds to a sum
    before the wait."""
    sums = [[f"%f{at}" for at in range(128 * c, 128 * c + 128)] for c in range(count)]
    lines = [f"mov.f32 {name}, 0f00000000;" for row in sums for name in row]
    lines.append("wgmma.fence.sync.aligned;")
    for _ in range(4):
        lines += [f"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {{{', '.join(row)}}}, %rd2,"
                  " %rd3, 1, 1, 1, 0, 0;" for row in sums]
        lines.append("wgmma.commit_group.sync.aligned;")
        lines += ["add.f32 %f0, %f0, 0f3F800000;"] if touched else []
    lines.append("wgmma.wait_group.sync.aligned 0;")
    lines += [f"st.global.f32 [%rd1+{4 * at}], %f{at};" for at in range(128 * count)]
    return body(lines, params=("out", "a", "b"), version="8.0", target="sm_90a",
                registers=128 * count + 8)


@claim("B-001")
def _one_too_many(said: Statement) -> Answer:
    needed = accumulators(128, 256)
    words = _ceiling(256)
    return answer([needed.per_thread, needed.limit], derived("128 x 256 / 128 threads"),
                  by_compilers(what="-maxrregcount=256"),
                  must={"256 against 255": same([needed.per_thread, needed.limit], said.value),
                        "it does not fit": not needed.fits,
                        "no ptxas takes 256": all("Too big" in said for said in words.values())},
                  command="mmalab plan registers --mma 128x256")


@claim("B-002")
def _almost_four(said: Statement) -> Answer:
    doublings = log2(rates()[-1] / rates()[0])
    grown = {4 * limits.registers for limits in LIMITS.values()}
    return answer([0, doublings], derived("log2(8,192 / 1,024)"), _sheet("B200"),
                  must={"the register file is flat": len(grown) == 1},
                  should={f"{said.value[1]} doublings": doublings == said.value[1]},
                  right=f"exactly {doublings:g} doublings, 8 times; the same article says so below")


@claim("B-009")
def _registers(said: Statement) -> Answer:
    found = {f"{major}.{minor}": row.registers for (major, minor), row in LIMITS.items()}
    ours = [max(found.values()), 4 * max(found.values())]
    return answer(ours, elsewhere("CUDA C++ Programming Guide, technical specifications"),
                  measured(OCCUPANCY),
                  must={"65,536 registers, 262,144 bytes": same(ours, said.value),
                        "an H200 gives out as many": largest_occupancy()["registers"]
                        == said.value[0],
                        "on every chip since Turing": len(set(found.values())) == 1},
                  unchecked="Volta, which the instruction table does not reach")


def _ceiling(count: int) -> dict[str, str]:
    """What each release says to ``-maxrregcount``; empty where it says nothing."""
    return {release: "; ".join(d.message for d in tried.made.warnings
                               if "maxrregcount" in d.message)
            for release, tried in builds(Probe().text(), "sm_100a",
                                         options=(f"-maxrregcount={count}",)).items()}


@claim("B-010")
def _ceiling_of_a_thread(said: Statement) -> Answer:
    spilled = {release: tried.made.resources.registers
               for release, tried in builds(wgmma(2), "sm_90a").items()}
    return answer(max(spilled.values()), by_compilers("sm_90a sm_100a"),
                  must={"256 live values never get more": set(spilled.values()) == {said.value},
                        "255 is taken silently": not any(_ceiling(255).values()),
                        "256 is not": all(_ceiling(256).values()),
                        "so say the limits": {row.registers_per_thread
                                              for row in LIMITS.values()} == {said.value}})


@claim("B-022")
def _warning(said: Statement) -> Answer:
    found = {release: f"ptxas warning : {words}" for release, words in _ceiling(256).items()}
    return answer(found, by_compilers(what="-maxrregcount=255 and 256"),
                  must={f"ptxas {release}: in these words": words == said.value
                        for release, words in found.items()}
                  | {f"ptxas {release}: 255 is silent": not words
                     for release, words in _ceiling(255).items()})


@claim("B-012")
def _doublings(said: Statement) -> Answer:
    return answer(rates(), *(_sheet(name) for name in LINE),
                  must={"the four rates": same(rates(), said.value),
                        "each is twice the one before": all(
                            b == 2 * a for a, b in zip(rates(), rates()[1:], strict=False))})


@claim("B-013")
def _volta(said: Statement) -> Answer:
    row = source("volta").value
    per_sm = row["fma"] * 2 * row["cores"]
    again = next(i for i in identities("V100") if i.dtype == "f16")
    return answer(per_sm, source("volta").evidence,
                  must={"64 x 2 x 8": per_sm == said.value == again.per_clock,
                        "and the sheet comes out": near(again.computed, again.published, 0.005)})


@claim("B-014", "B-015")
def _sheet_identity(said: Statement) -> Answer:
    """SMs x rate x clock, once as the article computes, once beside the sheet."""
    name = "A100" if said.id == "B-014" else "H100 SXM"
    found = next(i for i in identities(name) if (i.dtype, i.acc) == ("f16", "f32"))
    wanted = said.value if isinstance(said.value, list) else [said.value]
    return answer([round(found.computed, 2), found.published], _sheet(name),
                  derived(f"{found.sms} x {found.per_clock} x {found.clock / 1000:.3f} GHz"),
                  must={f"{found.computed:.2f} within 0.1 % of the published {found.published}":
                        near(found.computed, found.published, 0.001)},
                  should={f"the product is {wanted[0]}": round(found.computed, 1) == wanted[0]
                          or round(found.computed) == wanted[0]},
                  right=f"the product is {found.computed:.1f}, the published figure itself",
                  command="mmalab plan traffic --mma 128x256 --dtype f16")


@claim("B-016")
def _b200(said: Statement) -> Answer:
    row, b200 = source("b200.dies"), chip("B200")
    sheet = next(s for s in b200.published if s.dtype == "f16")
    ours = [row.value["dies"], row.value["of"], row.value["enabled"],
            row.value["dies"] * row.value["enabled"], sheet.dense / 1000]
    return answer(ours, row.evidence, elsewhere(sheet.source),
                  must={"2 x 74 = 148, 2.25 PFLOPS": same(ours, said.value),
                        "148 in the table of chips": int(b200.sms) == ours[3]})


@claim("B-017")
def _implied_clock(said: Statement) -> Answer:
    found = next(i for i in identities("B200") if i.dtype == "f16")
    ours = [found.per_clock, found.implied_clock / 1000]
    return within(said, ours, 0.005, derived("2.25e15 / (148 x 8,192)"), _sheet("B200"),
                  unchecked="the clock of the chip: no document states it")


@claim("B-018")
def _per_core(said: Statement) -> Answer:
    row = source("scaling-book")
    ours = [chip("B200").rate("f16").per_clock // row.value["cores"], row.value["cores"]]
    return answer(ours, derived("8,192 / 4"), row.evidence,
                  must={"2,048 for each of four": same(ours, said.value),
                        "so does the book divide": row.value["per_core"] == ours[0]})


@claim("B-019")
def _bytes_per_operation(said: Statement) -> Answer:
    return equal(said, [register_file_ratio(name) for name in LINE],
                 derived("262,144 bytes / operations per clock"))


@claim("B-164")
def _inferred(_said: Statement) -> Answer:
    row = chip("B200").rate("f16")
    return answer(f"{row.per_clock}, {row.evidence}", elsewhere(row.source),
                  must={"our table holds it as inferred": row.evidence is isa.Evidence.INFERRED},
                  should={}, unchecked="that no later document states it")


@claim("B-020")
def _evictions(_said: Statement) -> Answer:
    """The machine instructions that took something out of registers, and since when."""
    copies = body(["mov.u32 %r1, tile;", "cp.async.cg.shared.global [%r1], [%rd1], 16;"],
                  version="7.0", target="sm_80", shared=(".align 16 .b8 tile[16]",))
    budget = body(["setmaxnreg.dec.sync.aligned.u32 24;"], version="8.0", target="sm_90a").replace(
        "\n{\n", "\n.maxntid 128,1,1\n.maxnreg 168\n{\n")
    found = {
        "cp.async": _has(builds(copies, "sm_80"), "LDGSTS"),
        "TMA": _has(builds(tensor_copy(2), "sm_90a"), "UTMALDG"),
        "setmaxnreg": _has(builds(budget, "sm_90a"), "USETMAXREG")}
    older = {"cp.async": isa.legal("cp.async.cg.shared.global", "sm_75").legal,
             "TMA": isa.legal(isa.forms("cp.async.bulk.tensor*")[0], "sm_80").legal,
             "setmaxnreg": isa.legal("setmaxnreg.dec.sync.aligned.u32", "sm_89").legal}
    return answer(found, by_compilers("sm_80 sm_90a"),
                  must={f"{name}: its own instruction": bool(word) for name, word in found.items()}
                  | {f"{name}: not a generation earlier": not had for name, had in older.items()})


def _has(tried: dict[str, Build], opcode: str) -> str:
    """The full opcode that begins so in every release; empty if one lacks it."""
    words = [next((op for op in each.opcodes if op.startswith(opcode)), "")
             for each in tried.values()]
    return words[-1] if all(words) else ""


@claim("B-021")
def _hopper_accumulator(said: Statement) -> Answer:
    form = isa.find("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16")
    fragment = form.fragments["D"]
    used = {release: tried.made.resources for release, tried in builds(wgmma(1), "sm_90a").items()}
    ours = [fragment.rows * fragment.cols, fragment.registers]
    return answer(ours, derived("the record of wgmma m64n256k16"), by_compilers("sm_90a"),
                  must={"16,384 values, 128 registers": same(ours, said.value),
                        "a kernel with one takes more than 128 and spills nothing": all(
                            row.registers > 128 and not row.spills for row in used.values())},
                  command="mmalab explain wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16")


@claim("B-023")
def _half_of_the_space(said: Statement) -> Answer:
    return within(said, accumulators(64, 256).share, 0.01, derived("128 / 255"))


@claim("B-024")
def _blackwell_accumulator(said: Statement) -> Answer:
    ours = [128 * 256, accumulators(128, 256).per_thread]
    return equal(said, ours, derived("M N / 128 threads"))


@claim("B-025")
def _unrepresentable(said: Statement) -> Answer:
    """The tile as two halves of m64n256 in one warpgroup: ptxas must spill."""
    found = {release: {"registers": tried.made.resources.registers,
                       "spilled bytes": tried.made.resources.spills}
             for release, tried in builds(wgmma(2), "sm_90a").items()}
    advice = [d.message for d in build(wgmma(2), "sm_90a", newest()).made.diagnostics]
    needed = accumulators(128, 256)
    return answer(found, by_compilers("sm_90a", what="two m64n256 accumulators"),
                  must={"one register too many": needed.per_thread - needed.limit == said.value}
                  | {f"ptxas {release}: it spills at the ceiling": row["registers"] == 255
                     and row["spilled bytes"] > 0 for release, row in found.items()},
                  unchecked=f"ptxas {newest()} says: {advice[0] if advice else 'nothing'}")


@claim("B-026")
def _busy_registers(_said: Statement) -> Answer:
    """Touch a sum between two products: the compiler puts a wait in front."""
    plain, touched = (
        {release: [d.message for d in tried.made.diagnostics if "inject" in d.message]
         for release, tried in builds(wgmma(1, touched=each), "sm_90a").items()}
        for each in (False, True))
    return answer({release: len(words) for release, words in touched.items()},
                  by_compilers("sm_90a"), source("ptx.wgmma-registers").evidence,
                  must={f"ptxas {release}: waits where they are touched": bool(touched[release])
                        for release in touched}
                  | {f"ptxas {release}: and not otherwise": not plain[release]
                     for release in plain},
                  unchecked=f"that specialised warps were needed for it ({ARTICLE} and later agree "
                            "on the waits)")


@claim("B-011")
def _history(_said: Statement) -> Answer:
    return out_of_reach("a count over nine years of products: whitepapers of each, which are not "
                        "read here")
