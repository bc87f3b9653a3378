"""The WMMA API's instructions, with the register placement that the chip uses.

PTX calls wmma fragments opaque. The emulator needs one placement, and programs that mix wmma with
their own register arithmetic see the chip's, so these rows hold what an H200 did: each fragment was
loaded from a matrix of distinct values and its registers dumped, for every shape, type and memory
order (the order makes no difference), and wmma.store was run the other way round. Registers of f16
A and B repeat: 8 registers are documented where 4 or 2 would do.

``wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {d0, ..., d7}, [a], stride`` fills fragment A;
the stride is in elements and defaults to the dense one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from mmalab.isa.chapter import chapter
from mmalab.isa.form import Evidence, Fragment
from mmalab.isa.syntax import Row, row
from mmalab.isa.table.fragments import MEASURED_ON, Spread, spread
from mmalab.isa.vocabulary import type_bits

__all__ = ["ROWS"]

#: By (role, shape, type or bits of an element). Lanes are (lane mod 4, lane div 4).
_SPREADS: dict[tuple[str, str, str | int], Spread] = {
    ("A", "m16n16k16", "f16"): Spread("((4,8),(2,2,2,2)):((32,1),(16,8,128,0))", 16, 16, 2),
    ("A", "m16n16k16", 16): Spread("((4,8),(2,2,2)):((32,1),(16,8,128))", 16, 16),
    ("A", "m16n16k16", 8): Spread("((4,8),(4,2)):((64,1),(16,8))", 16, 16),
    ("A", "m32n8k16", 16): Spread("((4,8),(2,2,2,2)):((64,1),(32,8,256,16))", 32, 16),
    ("A", "m32n8k16", 8): Spread("((4,8),(4,2,2)):((128,1),(32,8,16))", 32, 16),
    ("A", "m8n32k16", "f16"): Spread("((4,8),(2,2,4)):((16,1),(8,64,0))", 8, 16, 4),
    ("A", "m8n32k16", 16): Spread("((4,8),(2,2)):((16,1),(8,64))", 8, 16),
    ("A", "m8n32k16", 8): Spread("((4,8),4):((32,1),8)", 8, 16),
    ("A", "m16n16k8", 32): Spread("((4,8),(2,2)):((16,1),(8,64))", 16, 8),
    ("A", "m8n8k4", 64): Spread("((4,8),1):((8,1),0)", 8, 4),
    ("A", "m8n8k32", 4): Spread("((4,8),8):((64,1),8)", 8, 32),
    ("A", "m8n8k128", 1): Spread("((4,8),32):((256,1),8)", 8, 128),
    ("B", "m16n16k16", "f16"): Spread("((4,8),(2,2,2,2)):((2,16),(1,8,128,0))", 16, 16, 2),
    ("B", "m16n16k16", 16): Spread("((4,8),(2,2,2)):((2,16),(1,8,128))", 16, 16),
    ("B", "m16n16k16", 8): Spread("((4,8),(4,2)):((4,16),(1,128))", 16, 16),
    ("B", "m32n8k16", "f16"): Spread("((4,8),(2,2,4)):((2,16),(1,8,0))", 16, 8, 4),
    ("B", "m32n8k16", 16): Spread("((4,8),(2,2)):((2,16),(1,8))", 16, 8),
    ("B", "m32n8k16", 8): Spread("((4,8),4):((4,16),1)", 16, 8),
    ("B", "m8n32k16", 16): Spread("((4,8),(2,2,2,2)):((2,16),(1,128,8,256))", 16, 32),
    ("B", "m8n32k16", 8): Spread("((4,8),(4,2,2)):((4,16),(1,128,256))", 16, 32),
    ("B", "m16n16k8", 32): Spread("((4,8),(2,2)):((1,8),(4,64))", 8, 16),
    ("B", "m8n8k4", 64): Spread("((4,8),1):((1,4),0)", 4, 8),
    ("B", "m8n8k32", 4): Spread("((4,8),8):((8,32),1)", 32, 8),
    ("B", "m8n8k128", 1): Spread("((4,8),32):((32,128),1)", 128, 8),
}

#: C and D, by M and N: one placement for every type.
_ACCUMULATORS: dict[str, Spread] = {
    "m16n16": Spread("((4,8),(2,2,2)):((32,1),(16,8,128))", 16, 16),
    "m32n8": Spread("((4,8),(2,2,2)):((64,1),(32,8,16))", 32, 8),
    "m8n32": Spread("((4,8),(2,2,2)):((2,8),(1,64,128))", 8, 32),
    "m8n8": Spread("((4,8),2):((16,1),8)", 8, 8),
}


def _fragment(role: str, shape: str, type_name: str) -> Fragment:
    if role in "CD":
        return spread(_ACCUMULATORS[shape.partition("k")[0]], type_name)
    bits = type_bits(type_name)
    found = _SPREADS.get((role, shape, type_name)) or _SPREADS[role, shape, bits]
    return spread(found, type_name)


def _one(role: str, modifiers: Mapping[str, str]) -> dict[str, Fragment]:
    return {role: _fragment(role, modifiers["shape"], modifiers["type"])}


def _all(modifiers: Mapping[str, str]) -> dict[str, Fragment]:
    return {
        role: _fragment(role, modifiers["shape"], modifiers[f"{role.lower()}type"])
        for role in "ABCD"
    }


_SQUARE = "m16n16k16|m8n32k16|m32n8k16"
_BYTES = "s8|u8"
_NIBBLES = "s4|u4"
_SM80 = ("sm_80+", (7, 0))

#: shapes, input types, accumulator types of load and store, A order, B order, floor, first PTX.
_GROUPS = (
    (_SQUARE, "f16", "f16|f32", "row|col", "row|col", "any", (6, 1)),
    (_SQUARE, _BYTES, "s32", "row|col", "row|col", "any", (6, 3)),
    (_SQUARE, "bf16", "f32", "row|col", "row|col", *_SM80),
    ("m16n16k8", "tf32", "f32", "row|col", "row|col", *_SM80),
    ("m8n8k4", "f64", "f64", "row|col", "row|col", *_SM80),
    ("m8n8k32", _NIBBLES, "s32", "row", "col", "any", (6, 3)),
    ("m8n8k128", "b1", "s32", "row", "col", "any", (6, 3)),
)


def _moves() -> Iterator[Row]:
    seen: set[tuple[str, str]] = set()
    for shapes, inputs, outputs, a_order, b_order, targets, ptx in _GROUPS:
        for operand, order in (("a", a_order), ("b", b_order)):
            yield row(
                f"wmma.load.operand={operand}.sync.aligned.layout={order}.shape={shapes}"
                f"{{.space}}.type={inputs} d<{operand.upper()}>, [a]{{, stride:u32}}",
                f"load fragment {operand.upper()}", space="global shared shared::cta",
                targets=targets, ptx=ptx, evidence=Evidence.MEASURED,
                notes=(MEASURED_ON,), spread=partial(_one, operand.upper()))
        if (shapes, outputs) in seen or (shapes, outputs) == (_SQUARE, "f32"):
            continue
        seen.add((shapes, outputs))
        for operation, operands in (("load.operand=c", "d<C>, [a]"),
                                    ("store.operand=d", "[a], b<D>")):
            name = operation[-1].upper()
            yield row(
                f"wmma.{operation}.sync.aligned.layout=row|col.shape={shapes}{{.space}}"
                f".type={outputs} {operands}{{, stride:u32}}",
                f"{operation.partition('.')[0]} fragment {name}",
                space="global shared shared::cta", targets=targets, ptx=ptx,
                evidence=Evidence.MEASURED, notes=(MEASURED_ON,), spread=partial(_one, name))


def _product(
    shape: str, types: str, targets: str, ptx: tuple[int, int], *, op: str = "",
    a_order: str = "row|col", b_order: str = "row|col", flags: str = "", end: str = "",
    needs: Mapping[str, tuple[str, tuple[int, int]]] | None = None,
) -> Row:
    """One product; `types` is the part of the opcode that names them."""
    return row(
        f"wmma.mma{op}.sync.aligned.alayout={a_order}.blayout={b_order}.{shape}{flags}{types}{end}"
        " d<D>, a<A>, b<B>, c<C>",
        "D = A B + C, one warp",
        targets=targets,
        ptx=ptx,
        needs=needs,
        shape=_size(shape),
        spread=_all,
        evidence=Evidence.MEASURED,
        notes=(MEASURED_ON,),
        implied={} if ".atype" in types else {"atype": "f16", "btype": "f16"},
    )


def _types(result: str, element: str) -> str:
    return f".dtype={result}.atype={element}.btype={element}.ctype={result}"


def _products() -> Iterator[Row]:
    for shape in _SQUARE.split("|"):
        yield _product(shape, ".dtype=f16|f32.ctype=f16|f32", "any", (6, 1))
        for element in ("s8", "u8"):
            yield _product(shape, _types("s32", element), "any", (6, 3), end="{.satfinite}")
        yield _product(shape, _types("f32", "bf16"), *_SM80)
    yield _product("m16n16k8", _types("f32", "tf32"), *_SM80)
    yield _product("m8n8k4", _types("f64", "f64"), *_SM80, flags="{.rounding}")
    for element in ("s4", "u4"):
        yield _product("m8n8k32", _types("s32", element), "any", (6, 3), a_order="row",
                       b_order="col", end="{.satfinite}")
    yield _product("m8n8k128", _types("s32", "b1"), "any", (6, 3), op=".op=xor|and.popc",
                   a_order="row", b_order="col", needs={"and": ("sm_80+", (7, 1))})


def _size(shape: str) -> tuple[int, int, int]:
    m, _, rest = shape[1:].partition("n")
    n, _, k = rest.partition("k")
    return int(m), int(n), int(k)


ROWS = chapter(
    "Matrix Multiply-Accumulate Operation Using wmma Instructions", *_moves(), *_products()
)
