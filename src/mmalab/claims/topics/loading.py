"""Article A, step 2: the way of a tile into the fragments.

cp.async past the registers, the addresses each lane gives to ldmatrix, and who computes what.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from mmalab import isa
from mmalab.claims.assembled import builds, by_compilers
from mmalab.claims.compare import derived, emulated, equal, same
from mmalab.claims.emulated import integers, run
from mmalab.claims.model import Answer, Statement, answer
from mmalab.claims.probe import body
from mmalab.claims.registry import claim
from mmalab.claims.topics.fragments import MMA, fragment_cells
from mmalab.kernels import sm80_mma
from mmalab.kernels.sm80_mma.tile import tile


@claim("A-050")
def _copies_past_registers(said: Statement) -> Answer:
    """LDGSTS names an address in shared memory where a load names a register."""
    text = body(["mov.u64 %rd4, tile;", "mov.u32 %r1, tile;",
                 f"cp.async.cg.shared.global [%r1], [%rd1], {said.value};",
                 "cp.async.wait_all;"], version="7.0", target="sm_80",
                shared=(".align 16 .b8 tile[64]",))
    copies = {release: next(i for i in tried.made.sass if i.opcode == "LDGSTS")
              for release, tried in builds(text, "sm_89").items()}
    old = isa.legal("cp.async.cg.shared.global", "sm_75")
    return answer([str(i.text) for i in copies.values()][-1], by_compilers("sm_89"),
                  must={"16 bytes": all("128" in i.modifiers for i in copies.values()),
                        "its destination is shared memory": all(
                            i.operands[0].file == "memory" for i in copies.values()),
                        "it came with sm_80": not old.legal},
                  command="mmalab explain cp.async.cg.shared.global")


@claim("A-052")
def _ldmatrix_delivers_a_fragment(_said: Statement) -> Answer:
    """The map of ldmatrix.x4 is the map of the A fragment."""
    loaded = isa.find("ldmatrix.sync.aligned.m8n8.x4.shared.b16").fragments["D"]
    index = loaded.indices()
    matrix, inside = index // 64, index % 64
    # Matrices 0 and 1 are rows 0-7 and 8-15 of the left half, 2 and 3 of the right one.
    row, column = inside % 8 + 8 * (matrix % 2), inside // 8 + 8 * (matrix // 2)
    return answer(f"{loaded.batch} matrices of {loaded.rows} x {loaded.cols}",
                  derived("records of ldmatrix and of mma.sync"),
                  must={"four of 8 x 8": (loaded.batch, loaded.rows, loaded.cols) == (4, 8, 8),
                        "in the order of the A fragment": np.array_equal(
                            np.stack((row, column), -1), fragment_cells("A"))},
                  command="mmalab layout ldmatrix.sync.aligned.m8n8.x4.shared.b16 -D")


@claim("A-053", "A-054")
def _ldmatrix_addresses(said: Statement) -> Answer:
    """The lanes' addresses in our kernel are the article's expressions."""
    operand = "A" if said.id == "A-053" else "B"
    lane = np.arange(32)
    if operand == "A":
        lines, chunks = lane & 15, lane >> 4
    else:
        lines, chunks = (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1
    ours = np.array([_ldmatrix_row(operand, int(each)) for each in lane])
    wrong, outputs = _gemm_run()
    return answer([list(map(int, pair)) for pair in ours[:4]],
                  derived("records of ldmatrix and mma.sync: whose row each lane supplies"),
                  emulated("gemm in all three layouts on sm_89"),
                  must={"line of each lane": np.array_equal(ours[:, 0], lines),
                        "16-byte chunk of each lane": np.array_equal(ours[:, 1], chunks),
                        f"{outputs} outputs of kernels that read so": not wrong},
                  command="mmalab gemm 128 128 64 --layout plain")


def _ldmatrix_row(operand: str, lane: int) -> tuple[int, int]:
    """(line, chunk) that a lane of ldmatrix.x4 must name so that fragments come out."""
    loaded = isa.find("ldmatrix.sync.aligned.m8n8.x4.shared.b16").fragments["D"].indices()
    matrix, row = divmod(lane, 8)
    # Who receives element 0 of that row, in which register: there the fragment wants (line, k).
    receiver, slot = np.argwhere(loaded == row + 64 * matrix)[0]
    if operand == "A":
        line, k = fragment_cells("A")[receiver, slot]
    else:  # registers 0 and 1 are the first 16 x 8 fragment, 2 and 3 that of the next 8 columns
        k, line = fragment_cells("B")[receiver, slot % 4]
        line += 8 * (slot // 4)
    return int(line), int(k) // 8


@lru_cache(maxsize=1)
def _gemm_run() -> tuple[int, int]:
    """Three layouts of one small product: wrong outputs, and of."""
    a, b = integers(53, (128, 64), (128, 64))
    wrong = outputs = 0
    for layout in ("plain", "padded", "swizzled"):
        c, _ = run(sm80_mma.gemm(128, 128, 64, layout=layout), a, b)
        wrong, outputs = wrong + int(np.sum(c != a @ b.T)), outputs + c.size
    return wrong, outputs


@claim("A-049")
def _work_split(said: Statement) -> Answer:
    made = sm80_mma.gemm(256, 256, 64).facts
    across, down = tile().warps
    ours = {"block": list(made["tile"][:2]), "warp": list(made["warp_tile"]),
            "warps": across * down, "k": made["tile"][2]}
    return answer(ours, derived("warps x warp tile = block tile"),
                  must={"the article's numbers": same(ours, said.value),
                        "they cover the block": prod(ours["warp"]) * ours["warps"]
                        == prod(ours["block"])})


@claim("A-056")
def _mma_per_step(said: Statement) -> Answer:
    m, n, _ = isa.find(MMA).shape or (1, 1, 1)
    height, width = tile().warp_tile
    return equal(said, height // m * (width // n), derived("(64 / 16) x (32 / 8)"))
