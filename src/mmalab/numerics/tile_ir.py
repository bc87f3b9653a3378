"""Code for products whose operands lie scattered: a warpgroup's, in shared memory and registers.

Whoever knows where the elements are makes tables of byte offsets; one call does many products, each
described by a row of :data:`JOB` words::

    A [64, k] words   raw[i] = *(a + a_table[i])     any order, any place, one table entry each
    B [k, n] words    likewise, its columns in the order in which D's chunks come
    D [64, n]         16 bytes at a time: d + d_table[chunk], four floats or eight halves

Then A and B are decoded and multiplied by the code of :mod:`~mmalab.numerics.matrix_ir` (bytes as
they are), and D goes back where it came from.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

from mmalab import formats
from mmalab.numerics.decode_ir import exponent_kind
from mmalab.numerics.ir import Emitter, vector
from mmalab.numerics.matrix_ir import PIECE, ROWS, matrix_ir
from mmalab.numerics.unit import Unit

__all__ = ["CHUNK", "JOB", "M", "Word", "scratch_bytes", "tile_ir"]

#: Rows of a warpgroup's product.
M = 64
#: Bytes of D that lie together.
CHUNK = 16


class Word(IntEnum):
    """Words (64-bit) of a job."""

    A = 0            # host pointers
    A_TABLE = 1      # u32 [64][k]
    B = 2
    B_TABLE = 3      # u32 [k][n], n rounded up to whole vectors
    D = 4
    D_TABLE = 5      # u32 [64][chunks]
    CHUNKS = 6       # of a row of D
    A_FLIP = 7       # XORed into each word of A, of B: the sign
    B_FLIP = 8
    ACCUMULATE = 9   # 0: D starts as zero
    N = 10           # columns, rounded up to whole vectors
    SCRATCH = 11     # host pointer, 64-byte aligned; see scratch_bytes


#: Words from one job to the next.
JOB = 12


def _sizes(unit: Unit, k: int, n: int) -> dict[str, int]:
    """Bytes of the scratch arrays, in order."""
    row = -(-k // PIECE) * PIECE
    a, b = (formats.get(name).dtype.itemsize for name in (unit.a, unit.b))
    if unit.algorithm == "integer":
        return {"raw_a": M * row * a, "raw_b": k * n * b, "d": M * n * 4}
    exponent = exponent_kind(unit.a).bytes
    return {"raw_a": M * row * a, "av": M * row * 4, "ae": M * row * exponent,
            "raw_b": k * n * b, "bv": k * n * 4, "be": k * n * exponent, "d": M * n * 4}


def scratch_bytes(unit: Unit, k: int, n: int) -> int:
    """What a job needs."""
    return sum(-(-size // 64) * 64 for size in _sizes(unit, k, n).values())


@lru_cache(maxsize=64)
def tile_ir(unit: Unit, k: int, width: int) -> str:
    """A module with ``void tiles(ptr jobs, i64 count)``, instructions of K = `k`."""
    code = [] if unit.algorithm == "integer" else [matrix_ir(unit, k, width)]
    if unit.saturate:
        kind = vector(width, "i32")
        code.append(f"declare {kind} @llvm.sadd.sat.v{width}i32({kind}, {kind})")
    return "\n".join([*code, _tiles(unit, k, width),
                      "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"])


def _tiles(unit: Unit, k: int, width: int) -> str:
    out = Emitter()
    with out.loop("%count") as job:
        words = {word: out.load("i64", out.at("%jobs", out.value(
            f"add i64 {out.value(f'mul i64 {job.index}, {JOB}')}, {int(word)}"), "i64"), 8)
            for word in Word}
        pointers = {word: out.cast("inttoptr", "i64", words[word], "ptr")
                    for word in (Word.A, Word.A_TABLE, Word.B, Word.B_TABLE, Word.D, Word.D_TABLE,
                                 Word.SCRATCH)}
        scratch = _scratch(out, unit, k, words[Word.N], pointers[Word.SCRATCH])
        _multiply(out, unit, k, width, words, pointers, scratch)
    return "\n".join(["define void @tiles(ptr %jobs, i64 %count) {", "entry:", *out.lines,
                      "  ret void", "}"])


def _scratch(out: Emitter, unit: Unit, k: int, n: str, base: str) -> dict[str, str]:
    """Pointers into the scratch memory; what depends on n comes last."""
    found, at = {}, "0"
    per_column = {"raw_b", "bv", "be", "d"}
    for name, size in _sizes(unit, k, 1).items():
        found[name] = out.at(base, at) if at != "0" else base
        step = out.value(f"mul i64 {n}, {size}") if name in per_column else str(size)
        more = out.value(f"add i64 {step}, 63")
        at = out.value(f"add i64 {at}, {out.value(f'and i64 {more}, -64')}")
    return found


def _multiply(out: Emitter, unit: Unit, k: int, width: int, words: dict[Word, str],
              pointers: dict[Word, str], scratch: dict[str, str]) -> None:
    n, row = words[Word.N], -(-k // PIECE) * PIECE
    with out.loop(M) as line:
        _gather(out, unit.a, str(k), pointers[Word.A], words[Word.A_FLIP],
                out.at(pointers[Word.A_TABLE], out.value(f"mul i64 {line.index}, {k}"), "i32"),
                out.at(scratch["raw_a"], out.value(f"mul i64 {line.index}, {row}"),
                       _word(unit.a)))
    count = out.value(f"mul i64 {n}, {k}")
    _gather(out, unit.b, count, pointers[Word.B], words[Word.B_FLIP], pointers[Word.B_TABLE],
            scratch["raw_b"])
    _accumulators(out, unit, words, pointers, scratch["d"], store=False)
    panels = out.value(f"udiv i64 {n}, {width}")
    if unit.algorithm == "integer":
        _integers(out, unit, k, width, n, panels, scratch)
    else:
        _floats(out, unit, k, width, n, panels, scratch)
    _accumulators(out, unit, words, pointers, scratch["d"], store=True)


def _floats(out: Emitter, unit: Unit, k: int, width: int, n: str, panels: str,
            scratch: dict[str, str]) -> None:
    row, packing = -(-k // PIECE) * PIECE, exponent_kind(unit.a)
    out.do(f"call void @pack_a(ptr {scratch['raw_a']}, ptr {scratch['av']}, ptr {scratch['ae']},"
           f" i64 {M * row // PIECE})")
    out.do(f"call void @pack_b(ptr {scratch['raw_b']}, ptr {scratch['bv']}, ptr {scratch['be']},"
           f" i64 {n}, i64 {k // packing.per}, i64 {panels}, i64 {k})")
    out.do(f"call void @rows(ptr {scratch['av']}, ptr {scratch['ae']}, ptr {scratch['bv']},"
           f" ptr {scratch['be']}, ptr {scratch['d']}, i64 {M // ROWS}, i64 {panels}, i64 1,"
           f" i64 {row}, i64 {k * width}, i64 {n})")


def _integers(out: Emitter, unit: Unit, k: int, width: int, n: str, panels: str,
              scratch: dict[str, str]) -> None:
    """Sums of products of bytes fit 32 bits; the accumulator is added at the end, clamped or not
    (8-bit units only)."""
    row, kind, narrow = -(-k // PIECE) * PIECE, vector(width, "i32"), vector(width, "i8")
    wider = ["sext" if name[0] == "s" else "zext" for name in (unit.a, unit.b)]
    with out.loop(panels) as panel:
        left = out.value(f"mul i64 {panel.index}, {width}")
        with out.loop(M // ROWS) as group:
            first = out.value(f"mul i64 {group.index}, {ROWS}")
            lines = [out.binary("add", "i64", first, str(r)) for r in range(ROWS)]
            rows = [out.at(scratch["raw_a"], out.value(f"mul i64 {line}, {row}")) for line in lines]
            sums = {f"s{r}": (kind, "zeroinitializer") for r in range(ROWS)}
            with out.loop(k, sums) as step:
                at = out.binary("add", "i64", out.value(f"mul i64 {step.index}, {n}"), left)
                b = out.cast(wider[1], narrow, out.load(narrow, out.at(scratch["raw_b"], at), 1),
                             kind)
                for r in range(ROWS):
                    one = out.cast(wider[0], "i8", out.load("i8", out.at(rows[r], step.index), 1),
                                   "i32")
                    product = out.binary("mul", kind, out.splat(width, "i32", one), b)
                    step[f"s{r}"] = out.binary("add", kind, step[f"s{r}"], product)
            for r in range(ROWS):
                there = out.at(scratch["d"], out.binary("add", "i64", out.value(
                    f"mul i64 {lines[r]}, {n}"), left), "i32")
                start, total = out.load(kind, there), step[f"s{r}"]
                result = (out.call(kind, f"llvm.sadd.sat.v{width}i32", f"{kind} {start}",
                                   f"{kind} {total}") if unit.saturate
                          else out.binary("add", kind, start, total))
                out.store(kind, result, there)


def _word(name: str) -> str:
    return f"i{8 * formats.get(name).dtype.itemsize}"


def _gather(out: Emitter, name: str, count: str, base: str, flip: str, table: str,
            target: str) -> None:
    """target[i] = base[table[i]] ^ flip."""
    word = _word(name)
    sign = out.cast("trunc", "i64", flip, word)
    with out.loop(count) as each:
        offset = out.cast("zext", "i32", out.load("i32", out.at(table, each.index, "i32")), "i64")
        value = out.load(word, out.at(base, offset), 1)
        out.store(word, out.binary("xor", word, value, sign), out.at(target, each.index, word), 1)


def _accumulators(out: Emitter, unit: Unit, words: dict[Word, str], pointers: dict[Word, str],
                  d: str, *, store: bool) -> None:
    """D from its chunks into the matrix, or back."""
    n, chunks = words[Word.N], words[Word.CHUNKS]
    halves = unit.acc == "f16"
    many, kind = (8, "half") if halves else (4, "float")
    name = out.fresh("d")
    if not store:
        size = out.value(f"mul i64 {n}, {4 * M}")
        out.do(f"call void @llvm.memset.p0.i64(ptr {d}, i8 0, i64 {size}, i1 false)")
        some = out.value(f"icmp ne i64 {words[Word.ACCUMULATE]}, 0")
        out.do(f"br i1 {some}, label %{name}.load, label %{name}.done")
        out.label(f"{name}.load")
    with out.loop(M) as line:
        table = out.at(pointers[Word.D_TABLE], out.value(f"mul i64 {line.index}, {chunks}"), "i32")
        row = out.at(d, out.value(f"mul i64 {line.index}, {n}"), "float")
        with out.loop(chunks) as each:
            offset = out.load("i32", out.at(table, each.index, "i32"))
            there = out.at(pointers[Word.D], out.cast("zext", "i32", offset, "i64"))
            here = out.at(row, out.value(f"mul i64 {each.index}, {many}"), "float")
            source, wide = vector(many, kind), vector(many, "float")
            if store:
                value = out.load(wide, here)
                out.store(source, out.cast("fptrunc", wide, value, source), there)
            else:
                value = out.load(source, there)
                out.store(wide, out.cast("fpext", source, value, wide), here)
    if not store:
        out.do(f"br label %{name}.done")
        out.label(f"{name}.done")
