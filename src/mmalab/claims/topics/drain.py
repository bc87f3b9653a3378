"""Article B: what it costs to bring an accumulator back into registers."""

from __future__ import annotations

from functools import lru_cache

from mmalab import atlas, isa
from mmalab.claims.assembled import ARTICLE, builds, by_compilers, newest, releases
from mmalab.claims.compare import derived, near, same
from mmalab.claims.model import Answer, Statement, answer
from mmalab.claims.probe import WARPGROUP, Probe
from mmalab.claims.registry import claim

WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128)


@lru_cache(maxsize=1)
def registers() -> dict[str, dict[str, int]]:
    """Registers of a kernel that loads xN and stores every register, by release and N."""
    return {release: {str(point.num): point.registers for point in atlas.drain(["32x32b"], release)}
            for release in releases()}


@claim("B-095")
def _registers_loaded(_said: Statement) -> Answer:
    """The record's vector length, and ptxas refusing another."""
    sizes = {n: next(o.count for o in isa.find(
        f"tcgen05.ld.sync.aligned.32x32b.x{n}.b32").operands if o.role == "write")
        for n in WIDTHS}
    short = Probe(drain=4, multiply=False).text().replace("32x32b.x4", "32x32b.x8")
    refused = {release: not tried.accepted for release, tried in builds(short, "sm_100a").items()}
    return answer(sizes, derived("records of tcgen05.ld"), by_compilers(),
                  must={"N registers for xN": all(n == count for n, count in sizes.items()),
                        **{f"ptxas {release} refuses 4 for x8": no
                           for release, no in refused.items()}},
                  unchecked="other shapes: 16x128b takes 2 N registers, 16x256b 4 N",
                  command="mmalab explain tcgen05.ld.sync.aligned.32x32b.x32.b32")


@claim("B-096")
def _curve(said: Statement) -> Answer:
    """Figure 4, generated."""
    found = registers()
    wide = {release: all(row[str(n)] == n + 6 for n in WIDTHS if n > 1)
            for release, row in found.items()}
    return answer(found, by_compilers(what="a kernel that only drains and stores"),
                  must={f"ptxas {release}: N + 6 from x2 on": ok for release, ok in wide.items()},
                  should={f"ptxas {release}: at x1 too": same(row, said.value)
                          for release, row in found.items()},
                  right="max(8, N + 6): no kernel takes fewer than 8; in the probe, beside a "
                        "product, the floor is 14 under 12.9",
                  command="mmalab atlas --what drain")


@claim("B-097")
def _widest(said: Statement) -> Answer:
    found = {release: row["128"] for release, row in registers().items()}
    return answer(found, by_compilers(),
                  across={f"ptxas {r}": value == said.value for r, value in found.items()},
                  as_written=f"ptxas {ARTICLE}")


@claim("B-098")
def _of_the_file(said: Statement) -> Answer:
    limits = isa.limits("sm_100a")
    taken = registers()[ARTICLE]["128"] * 128 * 4
    ours = [taken / 1024, 100 * taken / (4 * limits.registers)]
    return answer([round(each, 2) for each in ours], by_compilers(),
                  derived("registers x 128 threads x 4 bytes / 256 KiB"),
                  must={"67 KiB and 26.2 %": near(ours, said.value, 0.002)})


@claim("B-099")
def _one_load(_said: Statement) -> Answer:
    found = {}
    for n in WIDTHS:
        for release, tried in builds(Probe(drain=n).text(), "sm_100a").items():
            loads = [op for op in tried.opcodes if op.startswith("LDTM")]
            found[f"{release} x{n}"] = loads
    expected = {f"x{n}": ["LDTM" if n == 1 else f"LDTM.x{n}"] for n in WIDTHS}
    return answer({where: loads for where, loads in found.items() if where.startswith(newest())},
                  by_compilers(),
                  must={f"{where}: one LDTM": loads == expected[where.split()[1]]
                        for where, loads in found.items()})


@claim("B-100")
def _fetched_first(_said: Statement) -> Answer:
    """On Hopper the stores read what HGMMA wrote; on Blackwell what LDTM brought."""
    hopper = {}
    for release, tried in builds(WARPGROUP, "sm_90a").items():
        sass = list(tried.made.sass)
        product = next(i for i in sass if i.matrix)
        base = product.operands[0]
        first = next(i for i in sass if i.opcode == "STG")
        hopper[release] = str(base) in first.text
    blackwell = {release: any(op.startswith("LDTM") for op in tried.opcodes)
                 for release, tried in builds(Probe().text(), "sm_100a").items()}
    return answer({"Hopper stores the product's registers": hopper,
                   "Blackwell loads first": blackwell}, by_compilers("sm_90a sm_100a"),
                  must={f"ptxas {r}: Hopper stores them as they are": ok
                        for r, ok in hopper.items()}
                  | {f"ptxas {r}: Blackwell needs LDTM": ok for r, ok in blackwell.items()})
