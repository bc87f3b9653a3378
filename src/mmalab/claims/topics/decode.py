"""Article B: rows that nobody fills, and what number formats mean for the scales."""

from __future__ import annotations

import numpy as np

from mmalab import formats, isa, numerics
from mmalab.claims.assembled import builds, by_compilers, newest
from mmalab.claims.compare import derived, emulated, equal, same
from mmalab.claims.model import Answer, Statement, answer, open_question
from mmalab.claims.probe import Probe
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.isa.tensor_memory import legal_sizes
from mmalab.plan.block_formats import block_format
from mmalab.plan.decode import fill, grouped
from mmalab.plan.tmem import ledger

_CURVE = "mmalab plan decode --rows 8 --target sm_100a"


@claim("B-145")
def _two_heights(said: Statement) -> Answer:
    """Every kind, every form; the smallest M needs ``.ws``, which assembles."""
    plain = sorted({m for kind in ("f16", "tf32", "f8f6f4", "i8") for m in legal_sizes(kind)[0]})
    ws = sorted({m for kind in ("f16", "tf32", "f8f6f4", "i8")
                 for m in legal_sizes(kind, ws=True)[0]})
    made = {release: tried.matrix for release, tried
            in builds(Probe(stationary=True).text(), "sm_100a").items()}
    row = source("ptx.m32")
    smaller = [m for m in (*plain, *ws, row.value["m"]) if m < min(said.value)]
    return answer({"plain": plain, ".ws": ws}, derived("table of tcgen05 shapes"), row.evidence,
                  by_compilers(what="tcgen05.mma.ws"),
                  must={"64 and 128 for the plain form": same(plain, said.value),
                        "nothing smaller in any form": not smaller or not all(made.values())},
                  right="M = 32 too, with tcgen05.mma.ws (layout G), which assembles as "
                        f"{made[newest()][0]}; CUTLASS uses 64 and 128 only")


@claim("B-146")
def _tile_decides(_said: Statement) -> Answer:
    columns = {m: ledger(m, 256).columns for m in (64, 128)}
    return answer(columns, derived("the ledger of n256 at both M"),
                  must={"N columns whatever M": set(columns.values()) == {256},
                        "rows in use are no parameter": fill(8, "tcgen05").reserved
                        == fill(64, "tcgen05").reserved},
                  command="mmalab plan tmem --mma 64x256 --dtype f16")


@claim("B-147")
def _an_eighth(said: Statement) -> Answer:
    return equal(said, fill(8, "tcgen05").filled, derived("8 of 64 rows"), command=_CURVE,
                 unchecked=f"with tcgen05.mma.ws it is {fill(8, 'tcgen05.ws').filled}, with the "
                           f"operands swapped {fill(8, 'tcgen05', arrangement='swapped').filled}")


@claim("B-148")
def _figure_9(_said: Statement) -> Answer:
    """Figure 9, which was an image."""
    curve = {batch: fill(batch, "tcgen05").filled for batch in (1, 2, 4, 8, 16, 32, 64)}
    return answer(curve, derived("batch / 64"),
                  must={"batch / 64": all(share == batch / 64 for batch, share in curve.items())},
                  command=_CURVE)


@claim("B-151")
def _speculation(_said: Statement) -> Answer:
    cases = {(batch, tokens): fill(batch * tokens, "tcgen05").filled
             for batch in (1, 4, 8) for tokens in (1, 2, 4, 8) if batch * tokens <= 64}
    return answer({f"{batch} x {tokens}": share for (batch, tokens), share in cases.items()},
                  derived("batch x tokens of 64 rows"),
                  must={"min(1, batch k / 64)": all(
                      share == min(1, batch * tokens / 64)
                      for (batch, tokens), share in cases.items()),
                      "no further tile is reserved": all(
                          fill(batch * tokens, "tcgen05").reserved == 64
                          for batch, tokens in cases)}, command=_CURVE)


@claim("B-152")
def _grouped(_said: Statement) -> Answer:
    uneven = grouped([3, 17, 40, 64, 5, 90])
    return open_question("rows that the tiles reserve beyond the tokens are counted; what the "
                         "atomic costs, and how often, needs a chip with Tensor Memory",
                         derived("six experts of 3 to 90 tokens in tiles of 64 and 128"),
                         ours=str(uneven))


@claim("B-163")
def _below_64(said: Statement) -> Answer:
    some = [batch for batch in range(1, said.value) if fill(batch, "tcgen05").filled >= 1]
    return answer(said.value, derived("batch / 64 rows"),
                  must={"every batch below 64 leaves rows": not some,
                        "64 fills them": fill(said.value, "tcgen05").filled == 1},
                  unchecked="other arrangements: tcgen05.mma.ws has tiles of 32, swapped operands "
                            "steps of 8", command=_CURVE)


@claim("B-133")
def _block_scaling(said: Statement) -> Answer:
    """Against exact arithmetic, on numbers whose products and sums are exact."""
    rng = np.random.default_rng(133)
    wrong = {}
    for name, block in (("sm_100.tcgen05.mxf4.f32", 32),
                        ("sm_100.tcgen05.mxf4nvf4.f32", 16)):
        unit = numerics.unit(name)
        a, b = (rng.choice([-3.0, -1.0, 0.5, 2.0], (32, 64)) for _ in range(2))
        c = rng.integers(-8, 9, 32).astype(np.float32)
        scales = [2.0 ** rng.integers(-2, 3, (32, 64 // block)) for _ in range(2)]
        got = numerics.dot(formats.encode(a, "e2m1"), formats.encode(b, "e2m1"), c.view(np.uint32),
                           unit=unit, raw=True, scale_a=formats.encode(scales[0], unit.scale),
                           scale_b=formats.encode(scales[1], unit.scale)).view(np.float32)
        full = [np.repeat(scale, block, axis=1) for scale in scales]
        want = c + np.sum(a * full[0] * b * full[1], axis=1)
        wrong[block] = int(np.sum(got != want))
    return answer({f"block of {block}": f"{n} of 32 differ" for block, n in wrong.items()},
                  emulated("mxf4 and mxf4nvf4 of sm_100: matches a public model, no chip here"),
                  must={f"D = C + (A SFA)(B SFB), blocks of {block}": not n
                        for block, n in wrong.items()}
                  | {"16 and 32": same(sorted(wrong), said.value)},
                  unchecked="where a chip rounds when the sum is not exact")


@claim("B-137", "B-138")
def _formats(said: Statement) -> Answer:
    row = block_format("mxfp4" if said.id == "B-137" else "nvfp4")
    ours = [row.block, {"ue8m0": "E8M0", "ue4m3": "E4M3"}[row.scale],
            *(["FP32"] if row.global_scale else [])]
    kind = ("mma.sync.aligned.m16n8k64.row.col.kind::{kind}.block_scale.scale_vec::{size}.f32"
            ".e2m1.e2m1.f32.{scale}")
    own = kind.format(kind="mxf4" if said.id == "B-137" else "mxf4nvf4",
                      size="2X" if said.id == "B-137" else "4X", scale=row.scale)
    other = kind.format(kind="mxf4", size="2X", scale="ue4m3")
    return answer(ours, derived("records of the format and of mma.sync"),
                  must={"block and scale": same(ours, said.value),
                        "the instruction takes that scale": isa.legal(own, "sm_120a").legal,
                        "kind::mxf4 takes no E4M3": not isa.legal(other, "sm_120a").legal},
                  unchecked="" if said.id == "B-137" else "the FP32 scale is the library's: no "
                            "instruction has it",
                  command=f"mmalab plan formats {row.name} --rows 128 --cols 64")
