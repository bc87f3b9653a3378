"""Articles A and B: what Tensor Memory is, who reaches it, and how 512 columns are shared out."""

from __future__ import annotations

import re
from functools import lru_cache

from mmalab import isa
from mmalab.claims.assembled import ARTICLE, build, builds, by_compilers, newest
from mmalab.claims.compare import derived, equal, measured, same
from mmalab.claims.model import Answer, Statement, answer, open_question, out_of_reach
from mmalab.claims.probe import KINDS, Probe
from mmalab.claims.records import EQUALITY, OCCUPANCY, largest_occupancy, load
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.claims.topics.allocator import CHECKED, handlers, in_order, probes
from mmalab.isa.targets import LIMITS
from mmalab.isa.tensor_memory import COLUMNS, GRANULE, LANES, legal_sizes
from mmalab.plan.block_formats import format_plan
from mmalab.plan.chips import chip
from mmalab.plan.occupancy import occupancy
from mmalab.plan.tmem import admitted, ledger

_BYTES = LANES * COLUMNS * 4


@claim("A-145", "B-027")
def _size(said: Statement) -> Answer:
    sizes = {"columns": COLUMNS, "lanes": LANES, "bits": 32, "KiB": _BYTES // 1024}
    ours = ([COLUMNS, LANES, 32, _BYTES // 1024] if said.id == "A-145"
            else [_BYTES // 1024, LANES, COLUMNS, 32])
    row = source("cutlass.tmem")
    return answer(sizes, derived("512 columns x 128 lanes x 4 bytes"), row.evidence,
                  must={"the article's numbers": same(ours, said.value),
                        "CUTLASS's allocator has them": (
                            row.value["columns"], row.value["lanes"]) == (COLUMNS, LANES)},
                  command="mmalab plan tmem --mma 128x256 --dtype f16")


@claim("A-146", "B-038")
def _operand_places(_said: Statement) -> Answer:
    """Every other place is refused."""
    base, product = Probe().text(), Probe().product()
    forms = {
        "A in shared memory": product,
        "A in Tensor Memory": product.replace("%rd2, %rd3", "[%r2], %rd3"),
        "B in Tensor Memory": product.replace("%rd2, %rd3", "%rd2, [%r2]"),
        "D in a register": product.replace("[%r2], %rd2", "%r2, %rd2"),
        "D by descriptor": product.replace("[%r2], %rd2", "%rd2, %rd2"),
        "A in a register": product.replace("%rd2, %rd3", "%r2, %rd3"),
    }
    found = {name: {release: tried.accepted for release, tried in builds(
        base.replace(product, form), "sm_100a").items()} for name, form in forms.items()}
    legal = ("A in shared memory", "A in Tensor Memory")
    return answer({name: row[newest()] for name, row in found.items()}, by_compilers(),
                  must={f"{name}: {'taken' if name in legal else 'refused'}": all(
                      ok is (name in legal) for ok in row.values())
                      for name, row in found.items()},
                  command="mmalab explain tcgen05.mma.cta_group::1.kind::f16")


@claim("A-147", "B-039")
def _one_thread(said: Statement) -> Answer:
    """Under elect.sync there is one product; without, the compiler elects one itself."""
    base, product = Probe().text(), Probe().product()
    # %p0 is free: the probe uses %p1.
    elected = base.replace(product, f"elect.sync _|%p0, 0xffffffff;\n    @%p0 {product}")
    counts = {release: sum(i.matrix for i in tried.made.sass)
              for release, tried in builds(elected, "sm_100a").items()}
    alone = {release: in_order(tried.lines, ("ELECT", "UTCHMMA"))
             for release, tried in probes().items()}
    row = source("ptx.one-thread")
    return answer(counts, by_compilers(), row.evidence,
                  must={"the manual says one": row.value == said.value,
                        **{f"ptxas {r}: one product": n == 1 for r, n in counts.items()},
                        **{f"ptxas {r}: elects where nobody did": ok for r, ok in alone.items()}})


@claim("A-148")
def _largest_shapes(said: Statement) -> Answer:
    one, pair = (legal_sizes("f16", cta_group=group) for group in (1, 2))
    ours = [[max(one[0]), max(one[1]), 16], [max(pair[0]), max(pair[1]), 16]]
    row = source("cutlass.m")
    return answer(ours, derived("table of tcgen05 shapes"), row.evidence,
                  must={"the article's shapes": same(ours, said.value),
                        "CUTLASS asserts the same": same(
                            [max(row.value["one"]), max(row.value["pair"])],
                            [ours[0][0], ours[1][0]])})


@claim("B-007")
def _coherence(_said: Statement) -> Answer:
    row = source("ptx.coherence")
    waits = [key for key in isa.forms("tcgen05.*") if isa.find(key).family
             in ("tcgen05.wait", "tcgen05.fence")]
    return answer(waits, row.evidence, derived("records of tcgen05.wait and tcgen05.fence"),
                  must={"order must be asked for": len(waits) == 4,
                        "so says the manual": row.value == "explicit waits and fences"})


@claim("B-028")
def _address(_said: Statement) -> Answer:
    """The compiler takes an address apart: dealloc masks 16 bits and divides by 32."""
    lines = build(Probe().text(), "sm_100a", ARTICLE).lines
    masked = [line for line in lines if "LOP3" in line and "0xffff, RZ" in line]
    return answer("lane << 16 | column", by_compilers(what="dealloc of the probe"),
                  must={"columns are the low 16 bits": bool(masked),
                        "in granules of 32": in_order(lines, ("0xffff, RZ", "0x5, R")),
                        "512 columns and 128 lanes fit": COLUMNS <= 1 << 16 and LANES <= 1 << 16},
                  unchecked="the lane's half: only the chip reads it")


@claim("B-029")
def _lane_stride(said: Statement) -> Answer:
    return equal(said, 1 << 16, derived("lane << 16 | column"))


@claim("B-031")
def _whole_columns(said: Statement) -> Answer:
    operands = [o.name for o in isa.find("tcgen05.alloc.cta_group::1.sync.aligned.b32").operands]
    granules = COLUMNS // GRANULE
    lines = build(Probe().text(), "sm_100a", ARTICLE).lines
    starts = in_order(lines, ("0x10", "ATOMS.OR"))
    return answer({"operands": operands, "granules": granules}, derived("the record of alloc"),
                  by_compilers(),
                  must={"128 lanes": said.value == LANES,
                        "alloc has no lane": operands == ["a", "columns"],
                        "a mask of 16 granules, their starts beside it": granules == 16 and starts})


@claim("B-032")
def _same_warp(_said: Statement) -> Answer:
    taken = {release: tried.accepted for release, tried in
             builds(Probe(free=False).text(), "sm_100a").items()}
    return open_question("the manual asks for it, and ptxas takes a kernel without dealloc "
                         f"({', '.join(f'{r}: {ok}' for r, ok in taken.items())}): what then "
                         "becomes of the columns needs a chip with Tensor Memory",
                         by_compilers(), source("ptx.same-warp").evidence)


@claim("B-034")
def _quarters(said: Statement) -> Answer:
    """The opt-in checks trap where a warp leaves its quarter."""
    checks = {name for tried in probes(options=CHECKED).values() for name in handlers(tried)}
    quarters = [[32 * w, 32 * w + 31] for w in range(LANES // 32)]
    return answer(quarters, by_compilers(what=CHECKED[0]), derived("128 lanes / 4 warps"),
                  must={"32 lanes a warp": same(quarters, said.value),
                        "there is a check for it": any("warp_owner" in name for name in checks)},
                  unchecked="that the chip forbids it: it needs one")


@claim("B-035")
def _four_warps(said: Statement) -> Answer:
    row = source("cutlass.tmem-copy")
    return answer(row.value, row.evidence, derived("128 lanes / 32 lanes a warp"),
                  must={"the copy has four warps": row.value == said.value,
                        "which 128 lanes need": said.value == LANES // 32})


@claim("B-036")
def _largest_accumulator(said: Statement) -> Answer:
    found = ledger(128, 256)
    return answer([COLUMNS, found.columns], derived("the ledger of m128n256"),
                  must={"512 and 256": same([COLUMNS, found.columns], said.value)},
                  command="mmalab plan tmem --mma 128x256 --dtype f16")


@claim("B-037")
def _ledger(_said: Statement) -> Answer:
    """Figure 3, which was an image: one product with NVFP4 scales, and what is left."""
    found = ledger(128, 256, scales="nvfp4")
    parts = {part.name: part.columns for part in found.parts}
    return answer({**parts, "left": COLUMNS - found.columns}, derived("the ledger of m128n256k64"),
                  must={"the accumulator takes half": parts["D"] == COLUMNS // 2,
                        "scales a few": sum(n for name, n in parts.items() if name != "D") < 32,
                        "the rest is free": found.columns < COLUMNS and found.fits},
                  unchecked="two accumulators and scales: "
                            + str(ledger(128, 256, stages=2, scales="nvfp4").misfit).split("\n")[0],
                  command="mmalab plan tmem --mma 128x256 --dtype e2m1 --scales nvfp4")


@claim("B-040")
def _thread_id(said: Statement) -> Answer:
    row = source("cutlass.thrid").value
    ours = [f"_{row['sm80']}", f"_{row['sm90']}", f"_{row['sm100'][0]}"]
    return answer(ours, source("cutlass.thrid").evidence,
                  must={"32, 128, 1": same(ours, said.value)},
                  unchecked="the atoms of two SMs have Layout<_2>, one thread of each CTA")


@claim("B-068")
def _leader(_said: Statement) -> Answer:
    row = source("cutlass.leader")
    return answer(row.value, row.evidence, must={"the tutorial's word": row.value == "leader"})


@claim("B-113", "B-119", "B-120")
def _unchanged(said: Statement) -> Answer:
    """Compute capability 10.0 beside Hopper's."""
    rows = {name: isa.limits(name) for name in ("sm_90", "sm_100")}
    values = {name: {"B-113": row.shared_per_sm // 1024, "B-119": row.ctas,
                     "B-120": [row.shared_per_sm // 1024, row.shared_per_cta // 1024,
                               row.shared_reserved // 1024]}[said.id]
              for name, row in rows.items()}
    must = {f"{name}: {value}": same(value, said.value) for name, value in values.items()}
    evidence = [derived("limits of the compute capabilities (CUDA guide)")]
    if said.id == "B-119":
        must["an H200's driver says so"] = largest_occupancy()["blocks"] == said.value
        evidence.append(measured(OCCUPANCY))
    else:
        seen, hopper = load(EQUALITY)["device"], rows["sm_90"]
        must["an H200 reports the same"] = same(
            [seen["shared_per_multiprocessor"], seen["shared_per_block"]],
            [hopper.shared_per_sm, hopper.shared_per_cta])
        evidence.append(measured(EQUALITY))
    return answer(values, *evidence, must=must,
                  command="mmalab plan occupancy --registers 32 --shared 0 --threads 128 "
                          "--target sm_100a")


@claim("B-118")
def _registers_and_warps(said: Statement) -> Answer:
    found = {f"{major}.{minor}": [row.registers, row.warps]
             for (major, minor), row in LIMITS.items()}
    line = {chip(name).capability for name in ("A100", "H100 SXM", "B200")}
    keep = {name: value for name, value in found.items()
            if tuple(map(int, name.split("."))) in line}
    others = {name: value[1] for name, value in found.items() if value[1] != said.value[1]}
    seen = largest_occupancy()
    return answer(found, derived("limits of the compute capabilities (CUDA guide)"),
                  measured(OCCUPANCY),
                  must={f"{name}: {value}": same(value, said.value)
                        for name, value in keep.items()}
                  | {"an H200 holds as many": same([seen["registers"], seen["warps"]],
                                                   said.value)},
                  should={"on every chip in between": not others},
                  right="the data-centre line; between them the warps are "
                        + ", ".join(f"{warps} on {name}" for name, warps in others.items()))


@claim("B-121")
def _first_level(said: Statement) -> Answer:
    rows = [source(name) for name in ("guide.l1.90", "guide.l1.100")]
    return answer([row.value for row in rows], *(row.evidence for row in rows),
                  must={f"{row.document}: 256 KB": row.value == said.value for row in rows})


@claim("B-122")
def _only_growth(said: Statement) -> Answer:
    """Every limit of 10.0 beside 9.0."""
    old, new = isa.limits("sm_90"), isa.limits("sm_100")
    differ = [name for name in old.__dataclass_fields__ if name not in ("capability", "evidence")
              and getattr(old, name) != getattr(new, name)]
    return answer(differ, derived("limits of 9.0 and 10.0, field by field"),
                  must={"Tensor Memory and nothing else": differ == ["tmem_columns"],
                        f"it is {said.value} KB": said.value == _BYTES // 1024})


@claim("B-123")
def _admitted(said: Statement) -> Answer:
    ours = {str(columns): admitted(columns) for columns in (32, 64, 128, 256, 512)}
    return equal(said, ours, derived("512 / columns, powers of two"),
                 command="mmalab plan occupancy --registers 32 --shared 0 --threads 128 --tmem 32 "
                         "--target sm_100a")


@claim("B-124")
def _half_of_the_blocks(said: Statement) -> Answer:
    return equal(said, admitted(32) / isa.limits("sm_100").ctas, derived("16 / 32 blocks"))


@lru_cache(maxsize=1)
def figure_6() -> dict[int, int]:
    """CTAs per SM by columns: what the pool and the other resources admit."""
    return {columns: occupancy(registers=32, shared=8 * 1024, threads=128, target="sm_100a",
                               tmem=columns).ctas for columns in (32, 64, 128, 256, 512)}


@claim("B-125")
def _upper_bound(_said: Statement) -> Answer:
    return open_question("what the pool admits is a bound; what becomes resident needs a chip with "
                         "Tensor Memory. Figure 6, an image, is generated here", derived(
                             "128 threads, 32 registers, 8 KB of shared memory on sm_100a"),
                         ours=figure_6())


@claim("B-126")
def _one_resident(_said: Statement) -> Answer:
    return out_of_reach("needs a B200 or another chip with Tensor Memory: a post says one CTA per "
                        "SM")


@claim("B-130")
def _latency(said: Statement) -> Answer:
    """Nothing ends before its operations are done: count their clocks at the peak rate."""
    row = source("delaware.latency")
    rate = chip("B200").rate("f16")
    least = {f"m{m}n{n}k16": 2 * m * n * 16 / (rate.per_clock * pair)
             for m, n, pair in ((64, 64, 1), (128, 256, 1), (256, 256, 2))}
    return answer(least, row.evidence, derived("2 M N K / 8,192 operations per clock and SM"),
                  must={"the paper reports 11.0 to 11.4": same(row.value, said.value),
                        **{f"{shape} can end in {said.value[1]} clocks": clocks <= said.value[1]
                           for shape, clocks in least.items()}},
                  right="no product ends before its operations are done: "
                        + ", ".join(f"{clocks:g} clocks for {shape}"
                                    for shape, clocks in least.items())
                        + " at the peak rate; 11 clocks is the time between two issues at most",
                  unchecked="the chip")


@claim("B-127")
def _all_columns(said: Statement) -> Answer:
    row = source("cutlass.tutorial")
    need = ledger(128, 256)
    return answer(row.value, row.evidence, derived("the ledger of m128n256"),
                  must={"all 512": row.value == said.value == COLUMNS,
                        "for a tile that needs half": need.allocated == COLUMNS // 2},
                  unchecked="Colfax's own text; its kernel is CUTLASS's tutorial")


@claim("B-162")
def _flat(said: Statement) -> Answer:
    """If so: the smaller of the pool's bound and one."""
    flat = {columns: min(1, bound) for columns, bound in figure_6().items()}
    return answer(flat, derived("min(1, bound of the pool)"),
                  must={"a flat line at 1": set(flat.values()) == {said.value}},
                  unchecked="whether it is so: B-126")


@claim("B-178")
def _seven(said: Statement) -> Answer:
    row = source("cutlass.seven")
    kinds = {re.search(r"kind::(\w+)", key)[1] for key in isa.forms("tcgen05.mma*")  # type: ignore[index]
             if "sm_100" in str(isa.find(key).targets)}
    return answer(row.value, row.evidence, derived("kinds of tcgen05.mma on sm_100a"),
                  must={"CUTLASS counts seven": row.value == said.value,
                        "the table has as many kinds": len(kinds) == said.value,
                        "the four plain ones among them": set(KINDS) <= kinds})


@claim("B-140")
def _footprint(said: Statement) -> Answer:
    """Bytes of scales, and columns where a word of four scales is full."""
    plans = {name: format_plan(name, rows=128, cols=256) for name in ("nvfp4", "mxfp4")}
    small = {name: format_plan(name, rows=128, cols=64) for name in ("nvfp4", "mxfp4")}
    ours = [plans["nvfp4"].scale_bytes / plans["mxfp4"].scale_bytes,
            plans["nvfp4"].scale_columns / plans["mxfp4"].scale_columns]
    return answer(ours[0], derived("K / 16 against K / 32 bytes a row; columns of K = 256"),
                  must={"twice the bytes": ours[0] == said.value,
                        "and twice the columns": ours[1] == said.value},
                  unchecked=f"K = 64 alone: both take {small['nvfp4'].scale_columns} columns of "
                            f"128 rows ({small['mxfp4'].scale_columns} for MXFP4, half filled)",
                  command="mmalab plan formats nvfp4 --rows 128 --cols 256")


@claim("B-141")
def _figure_8(_said: Statement) -> Answer:
    """Figure 8, which was an image: both formats of an m128n256 tile, K = 256."""
    ours = {}
    for name in ("mxfp4", "nvfp4"):
        a, b = (format_plan(name, rows=rows, cols=256) for rows in (128, 256))
        ours[name] = {"bits per element": a.bits_per_element,
                      "scale bytes": a.scale_bytes + b.scale_bytes,
                      "columns": a.scale_columns + b.scale_columns}
    return answer(ours, derived("the format planner, m128n256, K = 256"),
                  must={"NVFP4 takes twice MXFP4's scales": ours["nvfp4"]["scale bytes"]
                        == 2 * ours["mxfp4"]["scale bytes"],
                        "which is a quarter bit an element": ours["nvfp4"]["bits per element"]
                        - ours["mxfp4"]["bits per element"] == 0.25},
                  command="mmalab plan formats nvfp4 --rows 128 --cols 256")
