"""Tensor Memory and the products that use it: which shapes exist, and where their parts lie.

Tensor Memory is 128 lanes x 512 columns of 32 bits on each SM; an address has the lane in its high
half and the column in its low half. A ``tcgen05.mma`` has a *kind* (its types), a shape M x N x K
and a *data path*, the rule that spreads D over lanes and columns::

    >>> path = data_path(64, 64)          # layout F: 16 lanes of every 32
    >>> path.name, path.columns(64), path.place(17, 5, m=64, n=64)
    ('F', 64, (0, 33, 5))
    >>> shape_problem("mxf4nvf4", 64, 256)
    ('M = 64', 'mxf4nvf4 with cta_group::1 has M = 128', ('M = 128',))

Sources: PTX ISA 9.7.16.2 (matrix shapes), 9.7.16.10.5 (data-path layouts A to G), 9.7.16.10.7
(scale factors); layouts compared element by element with CUTLASS's ``tmem_frg_*`` and
``tmem_sf_frg``.
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.errors import UsageError
from mmalab.isa.form import Evidence, Source

__all__ = ["COLUMNS", "GRANULE", "KINDS", "LANES", "PATHS", "DataPath", "Kind", "data_path",
           "kind_of", "legal_sizes", "metadata_columns", "operand_columns", "scale_columns",
           "shape_problem", "warp_lanes"]

#: Lanes and columns of Tensor Memory on one SM; columns are allocated in granules.
LANES, COLUMNS, GRANULE = 128, 512, 32

SHAPES = Source("PTX ISA", "tcgen05 matrix shapes")
PATH_LAYOUTS = Source("PTX ISA", "tcgen05 data path layout organization")


@dataclass(frozen=True, slots=True)
class Kind:
    """One ``.kind``: what A, B and D may be, and the K of one instruction.

    `k` is the dense K (sparse: twice that); `later_k` other dense K with the targets that have
    them. `blocks` are the elements that share a scale factor (empty: no block scaling).
    `container_bits` is what an element takes in shared memory where that is not its own width.
    """

    name: str
    operands: tuple[str, ...]
    accumulators: tuple[str, ...]
    k: int
    blocks: tuple[int, ...] = ()
    scales: tuple[str, ...] = ()
    container_bits: int = 0
    later_k: tuple[tuple[int, str], ...] = ()
    evidence: Evidence = Evidence.DOCUMENTED

    @property
    def scaled(self) -> bool:
        """Whether it takes block scale factors."""
        return bool(self.blocks)

    def spelling(self, *, cta_group: int = 1, sparse: bool = False, ws: bool = False,
                 block: int = 32) -> str:
        """The PTX opcode, which has the targets (:func:`mmalab.isa.find`)."""
        head = f"tcgen05.mma{'.ws' * ws}{'.sp' * sparse}.cta_group::{cta_group}.kind::{self.name}"
        return f"{head}.block_scale.block{block}" if self.scaled else head


_NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")

#: Every kind of ``tcgen05.mma`` by name.
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("f16", ("f16", "bf16"), ("f32", "f16"), 16),
        Kind("tf32", ("tf32",), ("f32",), 8),
        Kind("f8f6f4", _NARROW, ("f32", "f16"), 32, container_bits=8, later_k=((64, "sm_107f"),)),
        Kind("i8", ("s8", "u8"), ("s32",), 32),
        Kind("mxf8f6f4", _NARROW, ("f32",), 32, blocks=(32,), scales=("ue8m0",), container_bits=8,
             later_k=((64, "sm_107f"),)),
        Kind("mxf4", ("e2m1",), ("f32",), 64, blocks=(32,), scales=("ue8m0",),
             later_k=((96, "sm_103a sm_107a"), (128, "sm_107f"))),
        Kind("mxf4nvf4", ("e2m1",), ("f32",), 64, blocks=(16, 32), scales=("ue4m3", "ue8m0"),
             later_k=((96, "sm_103a sm_107a"), (128, "sm_107f"))),
    )
}


def kind_of(name: str) -> Kind:
    """The kind called `name`.

    Raises:
        UsageError: there is none; the message lists those that exist.
    """
    found = KINDS.get(name)
    if found is None:
        raise UsageError(f"kind {name!r}", "is no kind of tcgen05.mma", legal=list(KINDS),
                         where=str(SHAPES))
    return found


@dataclass(frozen=True, slots=True)
class DataPath:
    """How D (M x N) lies in Tensor Memory. Row m of the tile is row m % `rows` of one CTA.

    A CTA holds `rows` rows. `spread` says how its rows take lanes: in order, or 16 of every 32
    lanes (then a second accumulator fits into the other 16: base lane 16). `parts` column ranges
    of N lie below each other, in lanes further down.
    """

    name: str
    rows: int
    parts: int = 1
    half: bool = False

    def columns(self, n: int) -> int:
        """Columns of an accumulator with `n` columns of D; 32 bits each, also for an f16 D."""
        return n // self.parts

    @property
    def lanes(self) -> int:
        """Lanes that hold elements."""
        return self.rows * self.parts

    def place(self, row: int, col: int, *, m: int, n: int) -> tuple[int, int, int]:
        """(CTA of the pair, lane, column) of element (`row`, `col`) of an `m` x `n` D at address 0.

        Raises:
            UsageError: outside the matrix.
        """
        if not (0 <= row < m and 0 <= col < n):
            raise UsageError(f"element ({row}, {col})", f"is outside of D, {m} x {n}",
                             legal=f"rows 0 to {m - 1}, columns 0 to {n - 1}",
                             where="PTX ISA, tcgen05.mma")
        cta, inner = divmod(row, self.rows)
        part, column = divmod(col, self.columns(n))
        lane = 32 * (inner // 16) + inner % 16 if self.half else inner
        return cta, lane + part * self.rows, column


#: Layouts A to G by name.
PATHS: dict[str, DataPath] = {
    path.name: path
    for path in (
        DataPath("A", 128), DataPath("B", 64, parts=2), DataPath("C", 64, half=True),
        DataPath("D", 128), DataPath("E", 64, parts=2), DataPath("F", 64, half=True),
        DataPath("G", 32, parts=4),
    )
}


def warp_lanes(warp: int) -> range:
    """The lanes that a warp reaches with tcgen05.ld and st: its quarter, 32 x (warp mod 4) on.

    `warp` is the warp's number in its CTA.
    """
    return range(32 * (warp % 4), 32 * (warp % 4) + 32)


def data_path(m: int, n: int, *, cta_group: int = 1, sparse: bool = False,
              ws: bool = False) -> DataPath:
    """The layout of D for an M = `m` product (`ws`: tcgen05.mma.ws).

    Raises:
        UsageError: no product has this M.
    """
    name = {
        (1, 128): "D", (1, 64): "E" if ws else "F", (1, 32): "G" if ws else "",
        (2, 256): "A", (2, 128): "C" if sparse else "B",
    }.get((cta_group, m), "")
    if not name:
        legal = (32, 64, 128) if ws else (64, 128) if cta_group == 1 else (128, 256)
        raise UsageError(f"M = {m} with cta_group::{cta_group}", "no data path has it",
                         legal=[f"M = {value}" for value in legal], where=str(PATH_LAYOUTS))
    path = PATHS[name]
    if n % path.parts:
        raise UsageError(f"N = {n} in layout {name}", f"is no multiple of {path.parts}",
                         legal=f"N = {-(-n // path.parts) * path.parts}", where=str(PATH_LAYOUTS))
    return path


def legal_sizes(kind: str, *, cta_group: int = 1, sparse: bool = False,
                ws: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The legal (M, ...) and (N, ...) of one kind; both empty where the combination is invalid."""
    row = kind_of(kind)
    if ws:
        if row.scaled or cta_group != 1:
            return (), ()
        return (32, 64, 128), ((64, 128) if sparse else (64, 128, 256))
    if row.name == "i8":
        ns = (8, 16, 24, *range(32, 257, 16)) if cta_group == 1 else tuple(range(32, 257, 32))
    else:
        step = 8 * cta_group
        ns = tuple(range(step, 257, step))
    if cta_group == 1:
        return ((128,) if row.scaled else (64, 128)), ns
    return ((256,) if row.scaled and sparse else (128, 256)), ns


def shape_problem(kind: str, m: int, n: int, *, cta_group: int = 1, sparse: bool = False,
                  ws: bool = False) -> tuple[str, str, tuple[str, ...]] | None:
    """Why no ``tcgen05.mma`` has this M and N: (given, rule, nearest legal); None when one has."""
    ms, ns = legal_sizes(kind, cta_group=cta_group, sparse=sparse, ws=ws)
    what = f"{kind} with cta_group::{cta_group}" + (".sp" if sparse else "") + (".ws" * ws)
    if not ms:
        return what, "does not exist", ("without .ws",)
    if m not in ms:
        near = sorted(ms, key=lambda legal: abs(legal - m))
        listed = " or ".join(map(str, ms))
        return f"M = {m}", f"{what} has M = {listed}", tuple(f"M = {value}" for value in near)
    if n not in ns:
        below = [legal for legal in ns if legal < n][-1:]
        above = [legal for legal in ns if legal > n][:1]
        step = ns[-1] - ns[-2]
        return (f"N = {n}", f"{what} has N from {ns[0]} to {ns[-1]} in steps of {step}",
                tuple(f"N = {value}" for value in (*below, *above)))
    return None


def scale_columns(rows: int, scales: int) -> int:
    """Columns for the scale factors of `rows` rows of A (or columns of B) with `scales` each.

    Row m has its scales in lane m % 32 (of each quarter), column m / 32, four to a word; a copy
    (``tcgen05.cp.32x128b.warpx4``) fills 128 rows x 4 scales: 4 columns.
    """
    return 4 * -(-rows // 128) * -(-scales // 4)


def metadata_columns(kind: str) -> int:
    """Columns of sparse metadata for one ``.sp`` instruction: 32 bits a lane, 64 for 8-bit and FP4
    types."""
    return 1 if kind_of(kind).name in ("f16", "tf32") else 2


def operand_columns(kind: str, bits: int, k: int) -> int:
    """Columns of an A operand in Tensor Memory with `k` elements of `bits` bits in each lane."""
    width = kind_of(kind).container_bits or bits
    return -(-k * width // 32)
