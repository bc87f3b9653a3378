"""Article A, step 6: TMA and wgmma, which the article knows from documents."""

from __future__ import annotations

import re

from mmalab import isa
from mmalab.claims.assembled import build, builds, by_compilers, newest
from mmalab.claims.compare import derived, measured, near
from mmalab.claims.model import Answer, Statement, answer
from mmalab.claims.probe import WARPGROUP, body, tensor_copy
from mmalab.claims.records import COPIES, load
from mmalab.claims.registry import claim
from mmalab.claims.topics.machine_code import main_loop, tiled
from mmalab.claims.topics.register_file import wgmma
from mmalab.plan.chips import chip

WGMMA = "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.f16.f16"


@claim("A-136")
def _dimensions(said: Statement) -> Answer:
    taken = {release: [n for n in range(1, 8) if build(tensor_copy(n), "sm_90a", release).accepted]
             for release in builds(tensor_copy(1), "sm_90a")}
    return answer(taken, by_compilers("sm_90a"),
                  must={f"ptxas {release}: 1D to 5D": [min(row), max(row)] == list(said.value)
                        and len(row) == 5 for release, row in taken.items()},
                  command="mmalab forms 'cp.async.bulk.tensor*'")


@claim("A-137")
def _one_thread(said: Statement) -> Answer:
    """The copy is one instruction of the uniform datapath: it has no lanes to differ in."""
    copies = {release: [i.text for i in tried.made.sass if i.opcode == "UTMALDG"]
              for release, tried in builds(tensor_copy(2), "sm_90a").items()}
    vector = [line for lines in copies.values() for line in lines if re.search(r"\bR\d", line)]
    on_chip = load(COPIES)
    return answer(copies[newest()], by_compilers("sm_90a"), measured(COPIES),
                  must={f"ptxas {release}: one instruction": len(lines) == said.value
                        for release, lines in copies.items()}
                  | {"it reads uniform registers alone": not vector,
                     "an H200 copied whole boxes, byte for byte": on_chip["kernels"]["tiled"] > 0
                     and not on_chip["differ"].get("tiled")})


@claim("A-138")
def _size_of_a_map(said: Statement) -> Answer:
    """The size that PTX's own copy of a map takes."""
    copy = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned"
    def text(size: int) -> str:
        return body([f"{copy} [%rd1], [held], {size};"], version="8.3", target="sm_90a",
                    shared=(".align 128 .b8 held[256]",))

    taken = [size for size in (64, 128, 256)
             if all(tried.accepted for tried in builds(text(size), "sm_90a").values())]
    return answer(taken, by_compilers("sm_90a", what=f"{copy} of 64, 128, 256 bytes"),
                  must={"128 and no other": taken == [said.value]})


_LOOP = """\
AGAIN:
  add.u32 %r1, %r1, 1;
  and.b32 %r2, %r1, 3;
  shl.b32 %r3, %r2, 15;
  add.u32 %r4, %r3, %r5;
  shl.b32 %r6, %r2, 3;
  add.u32 %r7, %r6, %r8;
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r7], %r9;
  @!%p1 bra WAIT;
  wgmma.fence.sync.aligned;
{products}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  @%p2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r7], 32768;
  @%p2 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], \
[%rd1, {{%r1, %r10}}], [%r7];
  setp.lt.u32 %p3, %r1, 999;
  @%p3 bra AGAIN;"""


def pipeline() -> str:
    """A main loop as TMA and wgmma make it: wait, four products of one slice, refill, repeat."""
    sums = [f"%f{at}" for at in range(64)]
    products = "\n".join(
        f"  add.s64 %rd4, %rd2, {2 * k};\n  add.s64 %rd5, %rd3, {2 * k};\n"
        f"  {WGMMA.format(n=128)} {{{', '.join(sums)}}}, %rd4, %rd5, 1, 1, 1, 0, 0;"
        for k in range(4))
    return body([
        *(f"mov.f32 {name}, 0f00000000;" for name in sums),
        "mov.u32 %r1, %tid.x;", "setp.eq.u32 %p2, %r1, 0;", "mov.u32 %r1, 0;",
        "mov.u32 %r5, tiles;", "mov.u32 %r8, done;", "mov.u32 %r9, 0;", "mov.u32 %r10, 0;",
        *_LOOP.format(products=products).splitlines(),
        *(f"st.global.f32 [%rd6+{4 * at}], {name};" for at, name in enumerate(sums)),
    ], params=("map", "a", "b", "d", "e", "out"), version="8.0", target="sm_90a", registers=72,
        shared=(".align 128 .b8 tiles[131072]", ".align 8 .b64 done[4]"))


@claim("A-139")
def _no_address_arithmetic(said: Statement) -> Answer:
    """Integer instructions of a slice of 32 in K: cp.async and ldmatrix against TMA and wgmma."""
    classes = re.compile(r"U?(IADD|IMAD|LEA|LOP3|SHF|ISETP|MOV|SEL|BRA|R2UR|IADD3|VIADD|USHF|ULEA"
                         r"|UIADD|ULOP|UMOV)")
    loops = [loop for function in build(pipeline(), "sm_90a", newest()).made.sass.functions
             for loop in function.loops if any(i.matrix for i in loop.instructions)]
    loop = min(loops, key=len)
    # One slice here is 64 in K: half of it is comparable.
    new = sum(bool(classes.match(i.opcode)) for i in loop.issued) / 2
    old = sum(bool(classes.match(i.opcode)) for i in main_loop(tiled(), newest()).issued)
    return answer({"cp.async and ldmatrix": old, "TMA and wgmma": new},
                  by_compilers("sm_89 sm_90a", what="tiled.ptx and a TMA pipeline"),
                  must={f"about {said.value} before": abs(old - said.value) <= 5,
                        "less than half of it after": new < old / 2})


@claim("A-140")
def _warpgroup(said: Statement) -> Answer:
    form = isa.find(WGMMA.format(n=256))
    fragment = form.fragments["D"]
    used = {r: tried.made.resources.registers for r, tried in builds(wgmma(1), "sm_90a").items()}
    return answer(fragment.lanes // 32, derived(f"the record of {form.key}"),
                  by_compilers("sm_90a"),
                  must={"four warps hold D": fragment.lanes // 32 == said.value,
                        "64 x 256 values over them are 128 registers": fragment.registers == 128,
                        "which the compiler gives": all(n > 128 for n in used.values())})


@claim("A-141")
def _largest_shape(said: Statement) -> Answer:
    base = WARPGROUP.replace("m64n8k16", "{shape}")
    shapes = {"m64n256k16": wgmma(1), "m64n264k16": wgmma(1).replace("n256", "n264"),
              "m128n256k16": wgmma(1).replace("m64", "m128"),
              "m32n8k16": base.replace("{shape}", "m32n8k16")}
    taken = {shape: all(tried.accepted for tried in builds(text, "sm_90a").values())
             for shape, text in shapes.items()}
    listed = max((isa.find(key).shape or (0, 0, 0))
                 for key in isa.forms("wgmma.mma_async.*k16.f32.f16.f16"))
    return answer(f"m{listed[0]}n{listed[1]}k{listed[2]}", by_compilers("sm_90a"),
                  derived("records of wgmma"),
                  must={f"{said.value} is taken": taken[said.value],
                        "and nothing larger": not taken["m64n264k16"] and not taken["m128n256k16"],
                        "the record ends there": f"m{listed[0]}n{listed[1]}k{listed[2]}"
                        == said.value})


@claim("B-149")
def _same_floor(said: Statement) -> Answer:
    rows = {(isa.find(key).shape or (0,))[0] for key in isa.forms("wgmma.mma_async*")}
    small = WARPGROUP.replace("m64n8k16", "m32n8k16")
    refused = {release: not tried.accepted for release, tried in builds(small, "sm_90a").items()}
    return answer(min(rows), derived(f"{len(isa.forms('wgmma.mma_async*'))} forms of wgmma"),
                  by_compilers("sm_90a"),
                  must={"M is 64 in every form": rows == {said.value},
                        **{f"ptxas {r} refuses 32": no for r, no in refused.items()}})


@claim("A-142")
def _operands(_said: Statement) -> Answer:
    """A as four registers, B as registers."""
    base = WARPGROUP
    register_a = base.replace("%rd2, %rd3, 1, 1, 1, 0, 0;",
                              "{%r1, %r2, %r3, %r4}, %rd3, 1, 1, 1, 0;")
    register_b = base.replace("%rd2, %rd3, 1, 1, 1, 0, 0;",
                              "%rd2, {%r1, %r2, %r3, %r4}, 1, 1, 1, 0;")
    found = {name: {release: tried.accepted for release, tried in builds(text, "sm_90a").items()}
             for name, text in (("A, B in shared memory", base), ("A in registers", register_a),
                                ("B in registers", register_b))}
    return answer({name: row[newest()] for name, row in found.items()}, by_compilers("sm_90a"),
                  must={"both from shared memory": all(found["A, B in shared memory"].values()),
                        "A from registers": all(found["A in registers"].values()),
                        "B from registers is refused": not any(found["B in registers"].values())})


@claim("A-143")
def _asynchronous(said: Statement) -> Answer:
    found = {}
    for release, tried in builds(WARPGROUP, "sm_90a").items():
        product = next(i.text for i in tried.made.sass if i.matrix)
        found[release] = ["gsb0" in product, "WARPGROUP.DEPBAR.LE" in tried.opcodes]
    return answer(list(said.value), by_compilers("sm_90a"),
                  must={f"ptxas {release}: a scoreboard, and a wait for it": all(both)
                        for release, both in found.items()}
                  | {f"{name} is an instruction": bool(isa.forms(f"{name}*"))
                     for name in said.value},
                  command="mmalab forms 'wgmma*'")


@claim("B-131")
def _clocks_by_width(said: Statement) -> Answer:
    """Operations of one instruction over the rate that an H200 was measured to have."""
    rate = chip("H200").rate("f16")
    ours = {f"n{n}": 2 * 64 * n * 16 / rate.per_clock for n in (64, 256)}
    middle = 2 * 64 * 128 * 16 / rate.per_clock
    return answer(ours, derived("2 M N K / 4,096 operations a clock"), measured(rate.source),
                  must={f"{name}: {clocks:g} within 10 %": near(clocks, said.value[name], 0.1)
                        for name, clocks in ours.items()}
                  | {"linear in N": middle == 2 * ours["n64"]},
                  unchecked="a single instruction's latency, which is longer than its share of the "
                            "pipe")
