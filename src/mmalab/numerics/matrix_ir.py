"""Code for whole matrices: packing of A and B, and the product of a block of rows.

A is kept row by row, B in panels of `width` columns, both as floats and packed exponents::

    av[row][k]  ae[row][k]      bv[panel][k][column]  be[panel][k / per][column] (packed words)

Four rows meet one panel at a time; the caller chooses which rows and which stretch of K, so that
they stay in cache, and calls from as many threads as it likes.
"""

from __future__ import annotations

from functools import lru_cache

from mmalab import formats
from mmalab.numerics.decode_ir import exponent_kind, exponents, values
from mmalab.numerics.fused_ir import instruction, plan
from mmalab.numerics.ir import Emitter, bare, vector
from mmalab.numerics.slow_ir import slow_function
from mmalab.numerics.unit import Unit

__all__ = ["PIECE", "ROWS", "matrix_ir"]

#: Rows of A that share a load of B: as many as 16 vector registers hold with their scales.
ROWS = 4

#: Words of A decoded in one turn.
PIECE = 16


@lru_cache(maxsize=64)
def matrix_ir(unit: Unit, k: int, width: int) -> str:
    """A module with ``pack_a``, ``pack_b`` and ``rows`` for instructions of K = `k`."""
    parts = [_pack_a(unit), _pack_b(unit, width), _rows(unit, k, width), _tables(unit, k, width)]
    for number, block in enumerate(plan(unit, k)):
        parts.append(slow_function(f"slow{number}", unit, width, len(block.ks)))
    return "\n".join(parts)


def _function(signature: str, out: Emitter) -> str:
    return "\n".join([f"define void {signature} {{", "entry:", *out.lines, "  ret void", "}"])


def _word(type_name: str) -> str:
    return f"i{8 * formats.get(type_name).dtype.itemsize}"


def _pack_a(unit: Unit) -> str:
    """void pack_a(raw, av, ae, pieces): decode pieces of 16 words."""
    out, packing, word = Emitter(), exponent_kind(unit.a), _word(unit.a)
    with out.loop("%pieces") as piece:
        at = out.value(f"mul i64 {piece.index}, {PIECE}")
        words = out.load(vector(PIECE, word), out.at("%raw", at, word), 1)
        wide = out.cast("zext", vector(PIECE, word), words, vector(PIECE, "i32"))
        out.store(vector(PIECE, "float"), values(out, unit.a, wide, PIECE),
                  out.at("%av", at, "float"))
        short = exponents(out, unit.a, words, PIECE, word, normalised=unit.algorithm == "rewrite")
        out.store(vector(PIECE, packing.element), short, out.at("%ae", at, packing.element), 1)
    return _function("@pack_a(ptr %raw, ptr %av, ptr %ae, i64 %pieces)", out)


def _pack_b(unit: Unit, width: int) -> str:
    """void pack_b(raw, bv, be, stride, groups, panels, depth): `panels` panels side by side.

    `stride` words from k to k + 1, `groups` packed exponent words along K, `depth` elements along
    K of a packed panel.
    """
    out, packing, word = Emitter(), exponent_kind(unit.b), _word(unit.b)
    with out.loop("%panels") as panel:
        left = out.value(f"mul i64 {panel.index}, {width}")
        there = out.binary("mul", "i64", left, "%depth")
        raw, bv = out.at("%raw", left, word), out.at("%bv", there, "float")
        be = out.at("%be", out.value(f"mul i64 {there}, {packing.bytes}"))
        with out.loop("%groups") as group:
            _pack_group(out, unit, width, group.index, raw, bv, be)
    return _function("@pack_b(ptr %raw, ptr %bv, ptr %be, i64 %stride, i64 %groups, i64 %panels, "
                     "i64 %depth)", out)


def _pack_group(out: Emitter, unit: Unit, width: int, group: str, raw: str, bv: str,
                be: str) -> None:
    """The k of one packed exponent word, for the columns of one panel."""
    packing, word, lanes = exponent_kind(unit.b), _word(unit.b), vector(width, "i32")
    packed = ""
    for i in range(packing.per):
        k = out.binary("add", "i64", out.value(f"mul i64 {group}, {packing.per}"), str(i))
        source = out.at(raw, out.binary("mul", "i64", k, "%stride"), word)
        words = out.load(vector(width, word), source, 1)
        wide = out.cast("zext", vector(width, word), words, lanes)
        out.store(vector(width, "float"), values(out, unit.b, wide, width),
                  out.at(bv, out.value(f"mul i64 {k}, {width}"), "float"))
        short = exponents(out, unit.b, words, width, word, normalised=unit.algorithm == "rewrite")
        part = out.cast("zext", vector(width, packing.element), short, lanes)
        if i:
            shift = bare(width, "i32", i * 32 // packing.per)
            part = out.binary("or", lanes, packed, out.binary("shl", lanes, part, shift))
        packed = part
    out.store(lanes, packed, out.at(be, out.value(f"mul i64 {group}, {width}"), "i32"))


class _Operands:
    """Where one instruction's operands lie: pointers to its first k, for each row and the panel."""

    def __init__(self, unit: Unit, width: int, av: list[str], ae: list[str], bv: str, be: str,
                 ) -> None:
        self.packing, self.width = exponent_kind(unit.a), width
        self.av, self.ae, self.bv, self.be = av, ae, bv, be

    def a_value(self, out: Emitter, row: int, k: int) -> str:
        return out.load("float", out.at(self.av[row], k, "float"))

    def b_value(self, out: Emitter, k: int) -> str:
        return out.load(vector(self.width, "float"), out.at(self.bv, k * self.width, "float"))

    def a_exponents(self, out: Emitter, row: int, q: int) -> str:
        return out.load("i32", out.at(self.ae[row], q, "i32"))

    def b_exponents(self, out: Emitter, q: int) -> str:
        return out.load(vector(self.width, "i32"), out.at(self.be, q * self.width, "i32"))

    def redo(self, out: Emitter, block: int, row: int, c: str) -> str:
        kind = vector(self.width, "float")
        out.store(kind, c, "%scratch")
        out.do(f"call void @slow{block}(ptr %scratch, ptr {self.av[row]}, ptr {self.ae[row]}, "
               f"ptr {self.bv}, ptr {self.be}, ptr @places{block})")
        return out.load(kind, "%scratch")


def _tables(unit: Unit, k: int, width: int) -> str:
    """The offsets that the slow functions read."""
    packing = exponent_kind(unit.a)
    lines = []
    for number, block in enumerate(plan(unit, k)):
        in_word = [i % packing.per * packing.bytes for i in block.ks]
        table = [*block.ks, *(i * packing.bytes for i in block.ks),
                 *(i * width for i in block.ks),
                 *(i // packing.per * width * 4 + low
                   for i, low in zip(block.ks, in_word, strict=True))]
        body = ", ".join(f"i32 {entry}" for entry in table)
        lines.append(f"@places{number} = internal constant [{len(table)} x i32] [{body}]")
    return "\n".join(lines)


def _rows(unit: Unit, k: int, width: int) -> str:
    """void rows(av, ae, bv, be, d, groups, panels, steps, a_stride, b_stride, d_stride).

    `groups` of ROWS rows times `panels` of columns; `steps` instructions along K. Strides count
    elements: between rows of A, between panels of B, between rows of D. D holds C on entry.
    """
    out, packing = Emitter(), exponent_kind(unit.a)
    kind = vector(width, "float")
    out.do(f"%scratch = alloca {kind}, align 64")
    with out.loop("%panels") as panel:
        b0 = out.value(f"mul i64 {panel.index}, %b_stride")
        bv = out.at("%bv", b0, "float")
        be = out.at("%be", out.value(f"mul i64 {b0}, {packing.bytes}"))
        d_panel = out.at("%d", out.value(f"mul i64 {panel.index}, {width}"), "float")
        with out.loop("%groups") as group:
            first = out.value(f"mul i64 {group.index}, {ROWS}")
            rows = [out.binary("add", "i64", first, str(r)) for r in range(ROWS)]
            starts = [out.binary("mul", "i64", row, "%a_stride") for row in rows]
            av = [out.at("%av", start, "float") for start in starts]
            ae = [out.at("%ae", start, packing.element) for start in starts]
            ds = [out.at(d_panel, out.binary("mul", "i64", row, "%d_stride"), "float")
                  for row in rows]
            carried = {f"c{r}": (kind, out.load(kind, ds[r])) for r in range(ROWS)}
            with out.loop("%steps", carried) as step:
                at = out.value(f"mul i64 {step.index}, {k}")
                wide = out.value(f"mul i64 {at}, {width}")
                here = _Operands(
                    unit, width,
                    [out.at(p, at, "float") for p in av],
                    [out.at(p, at, packing.element) for p in ae],
                    out.at(bv, wide, "float"),
                    out.at(be, out.value(f"mul i64 {wide}, {packing.bytes}")))
                result = instruction(out, unit, k, width, ROWS, here,
                                     [step[f"c{r}"] for r in range(ROWS)])
                for r in range(ROWS):
                    step[f"c{r}"] = result[r]
            for r in range(ROWS):
                out.store(kind, step[f"c{r}"], ds[r])
    return _function("@rows(ptr noalias readonly %av, ptr noalias readonly %ae, "
                     "ptr noalias readonly %bv, ptr noalias readonly %be, ptr noalias %d, "
                     "i64 %groups, i64 %panels, i64 %steps, i64 %a_stride, i64 %b_stride, "
                     "i64 %d_stride)", out)
