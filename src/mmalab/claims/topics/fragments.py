"""Article A, step 1: one mma.sync, its fragments, and WMMA.

The maps are read from the instruction's record, which proves itself a bijection, and from the
article's own formulas (groupID = lane >> 2, threadID_in_group = lane % 4); the instruction is then
executed with operands placed by hand.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

import mmalab
from mmalab import formats, isa
from mmalab.claims.assembled import builds, by_compilers
from mmalab.claims.compare import derived, emulated, equal, measured, same
from mmalab.claims.emulated import held, integers, run
from mmalab.claims.model import Answer, Statement, answer
from mmalab.claims.probe import WARP_MMA, body, warp_kernels
from mmalab.claims.records import EQUALITY, equality_mismatches
from mmalab.claims.registry import claim
from mmalab.kernels import sm80_mma
from mmalab.layouts import Layout

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
_FORM = f"the record of {MMA}"
Index = NDArray[np.int64]


def fragment_cells(operand: str) -> Index:
    """(lane, slot) -> (row, column) as the instruction's record has it."""
    return isa.find(MMA).fragments[operand].coordinates()


def _grouped(rows: Index, columns: Index) -> Index:
    return np.stack(np.broadcast_arrays(rows, columns), axis=-1)


@lru_cache(maxsize=1)
def _formulas() -> dict[str, Index]:
    """The article's formulas, evaluated for every lane and slot."""
    lane, at = np.arange(32)[:, None], np.arange(8)[None, :]
    g, t = lane >> 2, lane % 4
    a = _grouped(g + 8 * (at // 2 % 2), 2 * t + at % 2 + 8 * (at // 4))
    b = _grouped((2 * t + at % 2 + 8 * (at // 2))[:, :4], g)
    c = _grouped((g + 8 * (at // 2))[:, :4], (2 * t + at % 2)[:, :4])
    return {"A": a, "B": b, "D": c}


@lru_cache(maxsize=1)
def one_mma_run() -> tuple[int, int]:
    """Execute the demo on small integers: outputs that differ from the CPU's product, and of."""
    a, b = integers(6, (16, 16), (16, 8))
    c, _ = run(sm80_mma.one_mma(), a, b)
    return int(np.sum(c != a @ b)), c.size


@lru_cache(maxsize=1)
def one_wmma_run() -> tuple[int, int]:
    """The same through WMMA's 16 x 16 x 16 tiles."""
    a, b = integers(7, (16, 16), (16, 16))
    c, _ = run(sm80_mma.one_wmma(), a, b)
    return int(np.sum(c != a @ b)), c.size


@claim("A-001")
def _shape_of_one_instruction(said: Statement) -> Answer:
    m, n, k = isa.find(MMA).shape or (0, 0, 0)
    wrong, outputs = one_mma_run()
    return answer([m, n, k], emulated("one_mma on sm_89 with random integers"), derived(_FORM),
                  must={f"M, N, K = {said.value}": same([m, n, k], said.value),
                        f"{outputs} outputs, all equal to the product": not wrong},
                  command=f"mmalab explain {MMA}")


@claim("A-002")
def _operations_of_one_instruction(said: Statement) -> Answer:
    return equal(said, 2 * prod(isa.find(MMA).shape or ()), derived("2 M N K of the record"),
                 command=f"mmalab explain {MMA}")


@claim("A-003")
def _operands_over_lanes(said: Statement) -> Answer:
    fragments = isa.find(MMA).fragments
    lanes = {fragments[name].lanes for name in "ABD"}
    return answer(max(lanes), derived(_FORM),
                  must={"32 lanes hold each operand": lanes == {said.value},
                        "each element held exactly once": not any(
                            fragments[name].problem() for name in "ABD")},
                  command=f"mmalab layout {MMA} -A")


@claim("A-014")
def _fmas_of_one_instruction(said: Statement) -> Answer:
    return equal(said, prod(isa.find(MMA).shape or ()) // 32, derived("M N K / 32 lanes"))


@claim("A-016")
def _multiply_adds(said: Statement) -> Answer:
    return equal(said, prod(isa.find(MMA).shape or ()), derived("M N K of the record"))


@claim("A-019")
def _adds_c(_said: Statement) -> Answer:
    """Execute with C different from zero, and D apart from C."""
    product = (f"{MMA} {{%f4, %f5, %f6, %f7}}, {{%r4, %r5, %r6, %r7}}, {{%r8, %r9}}, "
               "{%f0, %f1, %f2, %f3};")
    text = body([
        "mov.u32 %r1, %tid.x;", "mul.wide.u32 %rd4, %r1, 16;", "add.s64 %rd5, %rd2, %rd4;",
        "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd5];",
        "mul.wide.u32 %rd6, %r1, 8;", "add.s64 %rd7, %rd3, %rd6;",
        "ld.global.v2.b32 {%r8, %r9}, [%rd7];",
        "add.s64 %rd8, %rd1, %rd4;", "ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd8];",
        product,
        "st.global.v4.f32 [%rd8], {%f4, %f5, %f6, %f7};",
    ], params=("c", "a", "b"), version="7.0", target="sm_80")
    a, b, c = integers(19, (16, 16), (16, 8), (16, 8))
    placed = {name: matrix[tuple(np.moveaxis(_formulas()[name], -1, 0))]
              for name, matrix in (("A", a), ("B", b), ("D", c))}
    d = placed["D"].astype(np.float32)
    mmalab.emulate(text, [d, held(placed["A"]), held(placed["B"])], block=32, target="sm_89",
                   sanitize=False)
    want = (a @ b + c)[tuple(np.moveaxis(_formulas()["D"], -1, 0))]
    wrong = int(np.sum(d != want))
    return answer(f"{want.size - wrong} of {want.size} outputs are A B + C",
                  emulated("mma.sync on sm_89, integers in fragments placed by the formulas"),
                  must={"every output is A B + C": not wrong})


@claim("A-020")
def _main_shape(said: Statement) -> Answer:
    """Assemble it for every data-centre and consumer chip since Ampere."""
    forms = [MMA, MMA.replace("bf16", "f16")]
    chips = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
    refused = [f"{release} {chip}" for chip in chips
               for release, tried in builds(WARP_MMA, chip).items() if not tried.accepted]
    shapes = {form: isa.find(form).modifiers["shape"] for form in forms}
    largest = max((isa.find(key).shape or (0, 0, 0))[2] for key in isa.forms("mma.sync.*bf16.f32")
                  if isa.find(key).family == "mma.sync")
    return answer(said.value, derived("records of mma.sync"), by_compilers(" ".join(chips)),
                  must={"both 16-bit types have it": set(shapes.values()) == {said.value},
                        "every chip takes it": not refused,
                        "no dense bf16 shape has a larger K": largest == 16},
                  command=f"mmalab legal {MMA} --target sm_80")


@claim("A-021")
def _fragment_sizes(said: Statement) -> Answer:
    fragments = isa.find(MMA).fragments
    ours = {name: [fragments[key].slots, fragments[key].registers]
            for name, key in (("A", "A"), ("B", "B"), ("C", "D"))}
    return equal(said, ours, derived("M K / 32, K N / 32, M N / 32 elements; 32-bit registers"))


@claim("A-022")
def _group_and_thread(_said: Statement) -> Answer:
    agree = {name: np.array_equal(cells, fragment_cells(name))
             for name, cells in _formulas().items()}
    return answer({name: "same map" if ok else "another map" for name, ok in agree.items()},
                  derived(f"the article's formulas against {_FORM}"),
                  must={f"{name} by lane >> 2 and lane % 4": ok for name, ok in agree.items()},
                  command=f"mmalab layout {MMA} -A")


@claim("A-023", "A-024", "A-025")
def _fragment_map(said: Statement) -> Answer:
    """The formulas give the record's map, and the demo that loads by that map computes A B."""
    name = {"A-023": "A", "A-024": "B", "A-025": "D"}[said.id]
    cells = _formulas()[name]
    wrong, _ = one_mma_run()
    must = {"the article's formula is the record's map":
            np.array_equal(cells, fragment_cells(name)),
            "operands placed so give A B": not wrong}
    if name == "D":
        layout = isa.find(MMA).fragments["D"].layout
        must["it is CuTe's ((4,8),(2,2)):((32,1),(16,8))"] = (
            layout == Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))))
    return answer(str(isa.find(MMA).fragments[name].layout), derived(_FORM),
                  emulated("one_mma on sm_89"), must=must,
                  command=f"mmalab layout {MMA} -{name}")


@claim("A-026", "A-031")
def _demo(said: Statement) -> Answer:
    """Emulated here; the same kernels ran on an H200 against the emulator."""
    kernel = "one_mma" if said.id == "A-026" else "one_wmma"
    wrong, outputs = one_mma_run() if said.id == "A-026" else one_wmma_run()
    on_chip = equality_mismatches(kernel)
    return answer({"wrong": wrong, "of": outputs}, emulated(f"{kernel} on sm_89"),
                  measured(EQUALITY),
                  must={f"{wrong} of {outputs} differ": same({"wrong": wrong, "of": outputs},
                                                             said.value),
                        "the chip's bits are the emulator's": on_chip == 0})


@claim("A-027")
def _owners(said: Statement) -> Answer:
    ours = {f"D{row}{column}": f"lane {isa.layout(MMA, 'D', at=(row, column)).lane}"
            for row, column in ((0, 0), (9, 5))}
    return answer(ours, derived(_FORM),
                  must={f"{at} is held by {lane}": lane == said.value[at][1]
                        for at, lane in ours.items()},
                  unchecked="the values -28 and -3: the article does not print its inputs",
                  command=f"mmalab layout {MMA} -D --at 9,5")


@claim("A-028")
def _owner_of_9_5(said: Statement) -> Answer:
    place = isa.layout(MMA, "D", at=(9, 5))
    group, thread = divmod(place.lane, 4)
    return answer(place.lane, derived(_FORM),
                  must={"lane 6": place.lane == said.value,
                        "row 9 = group 1 + 8": group + 8 == 9,
                        "column 5 = 2 x thread 2 + 1": 2 * thread + 1 == 5},
                  command=f"mmalab layout {MMA} -D --at 9,5")


@claim("A-029")
def _integers_in_bf16(_said: Statement) -> Answer:
    values = np.arange(-256, 257).astype(np.float64)
    kept = formats.decode(formats.encode(values, "bf16"), "bf16")
    beyond = formats.decode(formats.encode(np.array([257.0]), "bf16"), "bf16")[0]
    return answer("all integers up to 256", derived("round trip through BF16; 8 significant bits"),
                  must={"-256 to 256 come back": np.array_equal(kept, values),
                        "257 does not": beyond != 257})


@claim("A-030")
def _wmma_fragments(said: Statement) -> Answer:
    fragments = isa.find("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32").fragments
    ours = [fragments[name].slots for name in "ABD"]
    wrong, _ = one_wmma_run()
    return answer(ours, derived("the record of wmma.mma m16n16k16"), emulated("one_wmma"),
                  must={f"{ours} elements": same(ours, said.value),
                        "a product in fragments of that size is right": not wrong})


@claim("A-033")
def _wmma_types(_said: Statement) -> Answer:
    """Neither the table of instructions nor any assembler has wmma with FP8."""
    eight = [key for key in isa.forms("wmma") if "e4m3" in key or "e5m2" in key]
    load = "wmma.load.a.sync.aligned.row.m16n16k32.global.e4m3 {%r1, %r2, %r3, %r4}, [%rd1], 32;"
    text = body([load], version="8.7", target="sm_120a")
    taken = [release for release, tried in builds(text, "sm_120a").items() if tried.accepted]
    return answer(f"{len(isa.forms('wmma'))} forms of wmma, none with FP8",
                  derived("records of wmma"), by_compilers("sm_120a", what="wmma.load .e4m3"),
                  must={"no record has FP8": not eight, "no ptxas takes it": not taken},
                  unchecked="the C++ header: it adds no type that PTX lacks",
                  command="mmalab forms wmma")


@claim("A-034")
def _fp8_needs_mma(_said: Statement) -> Answer:
    form = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"
    text = warp_kernels()["e4m3"]
    chips = ("sm_89", "sm_90a", "sm_100a", "sm_120a")
    refused = [f"{release} {chip}" for chip in chips for release, tried
               in builds(text, chip).items() if not tried.accepted]
    return answer("mma.sync m16n8k32, from sm_89 on", by_compilers(" ".join(chips)),
                  derived(f"the record of {form}"),
                  must={"every chip since Ada takes it": not refused,
                        "sm_80 does not": not isa.legal(form, "sm_80").legal},
                  command=f"mmalab legal {form} --target sm_89")


@claim("A-036")
def _b_stored_by_columns(_said: Statement) -> Answer:
    """A whole GEMM with B stored N x K, nothing transposed, computes A B^T."""
    a, b = integers(36, (128, 32), (128, 32))
    c, _ = run(sm80_mma.gemm(128, 128, 32), a, b)
    # A register of the B fragment holds two neighbouring k of one column: contiguous if N x K.
    pairs = fragment_cells("B").reshape(32, 2, 2, 2)
    return answer("C = A B^T without a transposition", emulated("gemm 128 x 128 x 32 on sm_89"),
                  derived(_FORM),
                  must={"every output": np.array_equal(c, a @ b.T),
                        "a register of B holds k and k + 1 of one column": bool(np.all(
                            pairs[:, :, 1] - pairs[:, :, 0] == [1, 0]))})


@claim("A-151")
def _atoms_as_layouts(_said: Statement) -> Answer:
    """Every fragment of the three families that has one is one layout."""
    keys = [MMA, "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"]
    layouts = {f"{key.partition('.')[0]} {name}": str(fragment.layout) for key in keys
               for name, fragment in isa.find(key).fragments.items() if name in "ABD"}
    return answer(layouts, derived("records of mma.sync and wgmma"),
                  must={"each fragment is a layout, a bijection": not any(
                      isa.find(key).fragments[name].problem() for key in keys
                      for name in isa.find(key).fragments),
                      "the article's formulas are those layouts": all(
                          np.array_equal(cells, fragment_cells(name))
                          for name, cells in _formulas().items())},
                  unchecked="tcgen05's atom: its accumulator is in no register")


@claim("A-161")
def _wmma_is_mma(said: Statement) -> Answer:
    """Both demos, compiled: the same opcode."""
    found = {name: {op for tried in builds(kernel.ptx, "sm_89").values() for op in tried.matrix}
             for name, kernel in (("mma.sync", sm80_mma.one_mma()), ("WMMA", sm80_mma.one_wmma()))}
    ours = {name: sorted(words) for name, words in found.items()}
    return answer(ours, by_compilers("sm_89"),
                  must={"the same opcodes": found["mma.sync"] == found["WMMA"],
                        f"{said.value}": all(op.startswith(said.value)
                                             for ops in found.values() for op in ops)})


@claim("A-094")
def _wmma_is_two(said: Statement) -> Answer:
    counts = {release: len(tried.matrix)
              for release, tried in builds(sm80_mma.one_wmma().ptx, "sm_89").items()}
    words = {op for tried in builds(sm80_mma.one_wmma().ptx, "sm_89").values()
             for op in tried.matrix}
    return answer(counts, by_compilers("sm_89"),
                  must={"two in every release": set(counts.values()) == {said.value},
                        "both HMMA.16816": all(w.startswith("HMMA.16816")
                                                         for w in words)})
