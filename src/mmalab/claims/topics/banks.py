"""Article A, step 3: bank groups, padding, the XOR swizzle, and what a block then takes.

The bank model counts; the emulator's counters count the same kernel's accesses again; an H200's
counters are on record.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from mmalab import isa
from mmalab.claims.compare import derived, emulated, equal, measured, same
from mmalab.claims.emulated import count, integers, run
from mmalab.claims.model import Answer, Statement, answer, open_question
from mmalab.claims.records import COPIES, load
from mmalab.claims.registry import claim
from mmalab.kernels import sm80_mma
from mmalab.kernels.sm80_mma.tile import LINES, tile
from mmalab.layouts import TMA_SWIZZLES, Layout, Swizzle, compose
from mmalab.layouts.banks import BANK_BYTES, BANKS
from mmalab.plan import banks

LAYOUTS = ("plain", "padded", "swizzled")
_MODEL = "mmalab.plan.banks"
_LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
KIB = 1024


def soff(layout: str, row: int, chunk: int) -> int:
    """The article's byte offset of a 16-byte chunk."""
    if layout == "padded":
        return row * 80 + chunk * 16
    moved = chunk ^ (row >> 1 & 3) if layout == "swizzled" else chunk
    return row * 64 + moved * 16


@lru_cache(maxsize=8)
def wavefronts_per_ldmatrix(layout: str, stages: int = 3) -> float:
    """Wavefronts that the emulated kernel's ldmatrix.x4 take, on average."""
    ones = np.ones((128, 64))
    _, counters = run(sm80_mma.gemm(128, 128, 64, layout=layout, stages=stages), ones, ones)
    return (count(counters, "shared.wavefronts.ldmatrix")
            / count(counters, "instructions.ldmatrix"))


def blocks_per_sm(shared: int, threads: int = 256, registers: int = 0,
                  target: str = "sm_89") -> int:
    """Blocks that shared memory, threads and registers admit."""
    row = isa.limits(target)
    by = [row.shared_per_sm // (shared + row.shared_reserved), row.threads // threads, row.ctas]
    return min(by + ([row.registers // (registers * threads)] if registers else []))


@claim("A-051")
def _three_stages(said: Statement) -> Answer:
    return equal(said, tile("swizzled", 3).shared_bytes / KIB,
                 derived("3 stages x 2 operands x 128 rows x 64 bytes"),
                 command="mmalab gemm 128 128 64 --layout swizzled --stages 3")


@claim("A-065")
def _banks_of_shared_memory(said: Statement) -> Answer:
    full, _ = banks.wavefronts(np.arange(32) * BANK_BYTES, 4)
    twice, _ = banks.wavefronts(np.arange(32) * BANK_BYTES * 2, 4)
    ours = [BANKS, BANK_BYTES, BANKS * BANK_BYTES]
    return answer(ours, derived("the model's constants"),
                  must={"32 banks of 4 bytes": same(ours, said.value),
                        "128 bytes in one wavefront": int(full) == 1,
                        "twice the stride takes two": int(twice) == 2},
                  unchecked="the constants themselves are the CUDA guide's")


@claim("A-066")
def _bank_group(_said: Statement) -> Answer:
    offsets = np.arange(0, 4096, 16)
    groups = banks.access(offsets, 16).groups
    return answer("(offset / 16) mod 8", derived(_MODEL),
                  must={"for every chunk of 4 KB": same(groups, offsets // 16 % 8)})


@claim("A-067")
def _one_wavefront(said: Statement) -> Answer:
    """Every choice of groups: one pass exactly when they differ."""
    rng = np.random.default_rng(67)
    picks = np.concatenate([rng.integers(0, 8, (2000, 8)), [rng.permutation(8) for _ in range(99)]])
    passes, _ = banks.wavefronts(picks * 16 + np.arange(8) * 128, 16)
    distinct = np.array([len(set(row)) == 8 for row in picks.tolist()])
    worst = np.array([max(np.bincount(row, minlength=8)) for row in picks])
    return answer("passes = the largest number of rows in one group", derived(_MODEL),
                  must={"one pass exactly for eight groups": np.array_equal(passes == said.value,
                                                                            distinct),
                        "else as many as rows share a group": np.array_equal(passes, worst)})


@claim("A-068")
def _plain_row(said: Statement) -> Answer:
    return equal(said, 32 * isa.type_bits("bf16") // 8, derived("32 BF16 values"))


@claim("A-069", "A-070", "A-071")
def _groups_and_passes(said: Statement) -> Answer:
    layout = {"A-069": "plain", "A-070": "padded", "A-071": "swizzled"}[said.id]
    access = banks.access([soff(layout, row, 0) for row in range(8)], 16)
    ours = {"groups": list(access.groups), "passes": access.passes}
    made = tile(layout).shared
    everywhere = {banks.access([soff(layout, row, chunk) for row in range(first, first + 8)],
                               16).passes for first in range(0, LINES, 8) for chunk in range(4)}
    return answer(ours, derived(_MODEL),
                  must={"groups and passes": same(ours, said.value),
                        "so for every chunk and every eight rows": everywhere == {access.passes},
                        "our kernel's layout puts them there": all(
                            made(row, 16 * chunk) == soff(layout, row, chunk)
                            for row in range(LINES) for chunk in range(4))},
                  command="mmalab banks")


@claim("A-072")
def _four_way(said: Statement) -> Answer:
    groups = banks.ldmatrix(8, 64).groups
    return answer(banks.ldmatrix(8, 64).ways, derived(_MODEL),
                  must={"4-way": banks.ldmatrix(8, 64).ways == said.value,
                        "rows 0, 2, 4, 6 share a group": len(set(groups[::2])) == 1},
                  command="mmalab banks --pitch 64")


@claim("A-073")
def _padding(said: Statement) -> Answer:
    pitch = tile("padded").pitch
    return answer([pitch - tile("plain").pitch, pitch], derived("the padded tile"),
                  must={"16 bytes more, 80 in all": same([pitch - 64, pitch], said.value),
                        "16 is the least that helps": banks.ldmatrix(8, 64, pad=16).passes == 1},
                  command="mmalab banks --pitch 64 --pad 16")


@claim("A-074")
def _swizzle_rule(_said: Statement) -> Answer:
    found = Swizzle(2, 4, 3)(np.arange(0, LINES * 64, 16))
    rule = [soff("swizzled", row, chunk) for row in range(LINES) for chunk in range(4)]
    return answer("Swizzle<2,4,3> on bytes", derived("every chunk of a 128 x 64-byte tile"),
                  must={"the rule is that XOR": same(found, rule)},
                  command="mmalab swizzle --tile 128,32 --dtype bf16 --find")


@claim("A-075")
def _worked_examples(said: Statement) -> Answer:
    ours = {f"row{row}": (soff("swizzled", row, 0) - 64 * row) // 16 for row in (2, 4)}
    return answer(ours, derived("c XOR ((r >> 1) & 3)"),
                  must={"1 and 2": same(ours, said.value),
                        "as the tile's layout has it": all(
                            tile("swizzled").shared(row, 0) == soff("swizzled", row, 0)
                            for row in (2, 4))})


@claim("A-076")
def _written_and_read(said: Statement) -> Answer:
    """The kernel that writes and reads through it is right, and the image has no holes."""
    image = {soff("swizzled", row, chunk) for row in range(LINES) for chunk in range(4)}
    a, b = integers(76, (128, 64), (128, 64))
    c, _ = run(sm80_mma.gemm(128, 128, 64), a, b)
    wasted = LINES * 64 - 16 * len(image)
    return answer(wasted, derived("the image of the rule"), emulated("gemm 128 x 128 x 64"),
                  must={"0 wasted bytes": wasted == said.value,
                        "it is the tile's own bytes": image == set(range(0, LINES * 64, 16)),
                        "what is written so is read so": np.array_equal(c, a @ b.T)})


@claim("A-078", "A-079")
def _wavefronts(said: Statement) -> Answer:
    layouts = ("plain",) if said.id == "A-078" else ("padded", "swizzled")
    ran = {layout: wavefronts_per_ldmatrix(layout) for layout in layouts}
    model = {layout: 4 * banks.access([soff(layout, row, 0) for row in range(8)], 16).passes
             for layout in layouts}
    want = said.value[0] if said.id == "A-078" else said.value
    must = {f"{layout}: {want} by the model": model[layout] == want for layout in layouts}
    must |= {f"{layout}: {want} counted in the emulator": ran[layout] == want
             for layout in layouts}
    if said.id == "A-078":
        must["4 are the least"] = banks.ldmatrix(32, 16).ideal == said.value[1]
    return answer(ran, emulated("wavefront counters of the kernel's ldmatrix.x4"), derived(_MODEL),
                  must=must, command="mmalab banks")


@claim("A-081")
def _padded_block(said: Statement) -> Answer:
    padded, plain = (tile(name, 3).shared_bytes for name in ("padded", "plain"))
    return equal(said, [100 * (padded - plain) // plain, padded / KIB],
                 derived("3 x 2 x 128 x 80 bytes against 64"))


@claim("A-082")
def _blocks_in_100_kb(said: Statement) -> Answer:
    ours = [blocks_per_sm(tile(name, 3).shared_bytes) for name in ("padded", "swizzled")]
    hopper = [blocks_per_sm(tile(name, 3).shared_bytes, target="sm_90")
              for name in ("padded", "swizzled")]
    return answer(ours, derived("100 KB / (tile + 1 KB reserved), compute capability 8.9"),
                  must={"one and two blocks": same(ours, said.value)},
                  unchecked=f"other chips: Hopper's 228 KB would hold {hopper[0]} and {hopper[1]}")


@claim("A-084")
def _three_stages_two_blocks(_said: Statement) -> Answer:
    """The conflict-free layouts are two; of all three, two fit twice."""
    fit = {name: blocks_per_sm(tile(name, 3).shared_bytes) >= 2 for name in LAYOUTS}
    free = {name: banks.access([soff(name, row, 0) for row in range(8)], 16).passes == 1
            for name in LAYOUTS}
    alone = [name for name in LAYOUTS if fit[name]]
    free_alone = [name for name in alone if free[name]]
    return answer({"fit twice": alone, "and without conflicts": free_alone},
                  derived("occupancy of 3 stages on sm_89"),
                  must={"swizzled alone, of the layouts without conflicts":
                        free_alone == ["swizzled"]},
                  should={"swizzled alone, of all three": alone == ["swizzled"]},
                  right="the plain layout fits twice too; swizzled is the only one without "
                        "conflicts that does")


@claim("A-085")
def _swizzle_definition(_said: Statement) -> Answer:
    """Bit by bit: bit M + i of the result is bit M + i XOR bit M + S + i of the offset."""
    def by_bits(offset: int, bits: int, base: int, shift: int) -> int:
        for i in range(bits):
            offset ^= (offset >> (base + shift + i) & 1) << (base + i)
        return offset

    cases = [(2, 3, 3), (2, 4, 3), (3, 4, 3), (1, 4, 3), (3, 3, 4), (1, 0, 1)]
    agree = all(Swizzle(*case)(offset) == by_bits(offset, *case)
                for case in cases for offset in range(4096))
    return answer("offset ^ ((offset & source) >> S)", derived("six swizzles, 4,096 offsets each"),
                  must={"bit by bit as the article words it": agree})


@claim("A-086")
def _swizzle_in_elements(said: Statement) -> Answer:
    swizzle = Swizzle(*said.value["swizzle"])
    agree = sum(2 * swizzle(32 * row + column)
                == soff("swizzled", row, column // 8) + 2 * (column % 8)
                for row in range(LINES) for column in range(32))
    return answer({"swizzle": list(said.value["swizzle"]), "match": agree},
                  derived("every element of a 128 x 32 tile"),
                  must={"4,096 of 4,096": agree == said.value["match"] == LINES * 32},
                  command="mmalab swizzle --tile 128,32 --dtype bf16 --find")


@claim("A-087")
def _tma_mode(said: Statement) -> Answer:
    """The table in 16-byte cells, 128 bytes a row, generated from the mode's XOR."""
    cells = TMA_SWIZZLES["64B"](np.arange(0, 512, 16)) // 16
    table = [[int(at) % 8 for at in row] for row in cells.reshape(4, 8)]
    return answer(table, derived("Swizzle<2,4,3>, TMA's 64-byte mode"), measured(COPIES),
                  must={"copies of an H200 agree with the mode": not load(COPIES)["differ"].get(
                      "tiled"),
                        "the printed rows": same(table[: len(said.value)], said.value),
                        "the article's rule is that mode": same(
                            TMA_SWIZZLES["64B"](np.arange(0, LINES * 64, 16)),
                            [soff("swizzled", row, chunk)
                             for row in range(LINES) for chunk in range(4)])})


@claim("A-149")
def _layout_is_a_pair(said: Statement) -> Answer:
    made = Layout((4, (2, 3)), (6, (1, 2)))
    offset = made(3, (1, 2))
    return answer(str(made), derived("mmalab.layouts.Layout"),
                  must={f"{said.value}": str(made) == "(4,(2,3)):(6,(1,2))",
                        "its value is the inner product": offset == 3 * 6 + 1 * 1 + 2 * 2})


@claim("A-150")
def _tile_as_layout(said: Statement) -> Answer:
    plain = Layout((128, 32), (32, 1))
    swizzled = compose(Swizzle(2, 3, 3), plain)
    agree = {
        name: sum(2 * made(row, column) == soff(name, row, column // 8) + 2 * (column % 8)
                  for row in range(128) for column in range(32))
        for name, made in (("plain", plain), ("swizzled", swizzled))}
    return answer({"plain": str(plain), "swizzled": str(swizzled)},
                  derived("all 4,096 elements of both"),
                  must={said.value: str(plain) == said.value,
                        "plain: 4,096 agree": agree["plain"] == 4096,
                        "swizzled: 4,096 agree": agree["swizzled"] == 4096})


@claim("A-131")
def _fewer_ldmatrix(said: Statement) -> Answer:
    """Counted in the emulated kernels."""
    ours = [_ldmatrix_per_mma((64, 32)), _ldmatrix_per_mma((64, 64))]
    return equal(said, ours, emulated("counters of gemm with both warp tiles"),
                 derived("(64 / 16 + 32 / 16) / 16 and (64 / 16 + 64 / 16) / 32"))


@lru_cache(maxsize=4)
def _ldmatrix_per_mma(warp_tile: tuple[int, int]) -> float:
    ones = np.ones((128, 64))
    _, counters = run(sm80_mma.gemm(128, 128, 64, warp_tile=warp_tile), ones, ones)
    return count(counters, "instructions.ldmatrix") / count(counters, "instructions.mma")


@claim("A-133")
def _ldmatrix_limits(_said: Statement) -> Answer:
    """Clocks of one slice: 4 per conflict-free ldmatrix.x4, M N K x 2 / rate per mma, 4 warps."""
    loads, clocks = {}, {}
    for warp, label in (((64, 32), "64 x 32"), ((64, 64), "64 x 64")):
        loads[label] = 4 * _ldmatrix_per_mma(warp)
    for name, rate in (("FP32 sums", 512), ("FP16 sums", 1024)):
        clocks[name] = 4096 / rate
    share = {f"{name}, {label}": load / clocks[name] for name in clocks
             for label, load in loads.items()}
    busy = {name: round(value, 3) for name, value in share.items()}
    return open_question("reading fragments keeps shared memory busy for 37 % of the cycles at the "
                         "doubled rate, 19 % before: it does not limit by itself; which stall does "
                         "needs counters of an Ada chip",
                         derived("wavefronts per mma / clocks per mma, shared by the SM"),
                         emulated("ldmatrix per mma"), ours=busy)


@claim("A-160")
def _padding_is_not_the_way(said: Statement) -> Answer:
    plain, padded, swizzled = (wavefronts_per_ldmatrix(name) for name in LAYOUTS)
    more = 100 * (tile("padded").pitch - 64) // 64
    blocks = [blocks_per_sm(tile(name, 3).shared_bytes) for name in ("padded", "swizzled")]
    return answer([plain, padded, more], emulated("wavefront counters"),
                  derived("occupancy on sm_89"),
                  must={"16, 4 and 25 %": same([plain, padded, more], said.value),
                        "swizzled takes 4 as well": swizzled == padded,
                        "one block against two": blocks == [1, 2]})
