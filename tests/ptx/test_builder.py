"""The builder: one call, one instruction; its text parses, and assembles where ptxas is."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmalab.errors import UsageError
from mmalab.ptx import parse, same_structure
from mmalab.ptx.builder import KernelBuilder, join
from mmalab.ptx.nodes import Address, Immediate, Instruction, Name, Register, Vector
from mmalab.ptx.printer import module_text


def scale() -> KernelBuilder:
    """The example of the module's docstring."""
    b = KernelBuilder("scale", target="sm_80", version=(7, 8))
    p = b.load_param(b.param("x", "u64"))
    i = b.mov("u32", b.tid.x)
    p = b.add("s64", p, b.mul_wide("u32", i, 4))
    x = b.ld("global.f32", b.at(p))
    with b.guard(b.setp("lt", "u32", i, 100)):
        b.emit("mul.f32", x, x, 1.5)
    b.st("global.f32", b.at(p), x)
    b.emit("ret")
    return b


def matmul() -> KernelBuilder:
    """Everything at once: shared memory, fragments, loops, directives, comments."""
    b = KernelBuilder("matmul", target="sm_80", version=(7, 8))
    out, n = b.load_param(b.param("out", "u64")), b.load_param(b.param("n", "u32"))
    b.param("table", "b8", dims=[128], align=64)
    b.maxntid(128)
    b.minnctapersm(2)
    b.comment("operands\nin shared memory")
    tile, dynamic = b.shared("tile", 4096, 128), b.dynamic_shared(1024)
    weights = b.constant("weights", "f32", [0.5, -1.0])
    local = b.local("spill", 16)
    lane = b.mov("u32", b.laneid)
    base = b.add("u32", b.mov("u32", tile), b.shl("b32", b.and_("b32", lane, 15), 4))
    b.st("shared.v2.b32", b.at(base, 8), [n, 7])
    b.st("local.f32", b.at(local), b.ld("const.f32", b.at(weights, 4)))
    b.st("shared.u32", b.at(dynamic), n)
    b.emit("bar.sync", 0)
    a, w = b.ldmatrix(4, b.at(base)), b.ldmatrix(2, b.at(base), trans=True)
    d = b.regs("f32", 4)
    for item in d:
        b.mov("f32", 0.0, out=item)
    with b.loop(10, unroll=False):
        b.emit("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", d, a, w, d)
    with b.loop(n, 2, 3, dtype="u32") as i:
        b.add("f32", d[0], b.cvt("rn.f32.u32", i), out=d[0])
    with b.loop(0, 8, -2):
        b.fma("rn.f32", d[1], d[1], 2.0, out=d[1])
    big = b.cvt("f64.f32", d[2])
    b.emit("mul.f64", big, big, 0.1, comment="a tenth")
    q, r = b.regs("pred", 2)
    b.emit("setp.eq.and.u32", b.pair(q, r), n, 3, b.negated(b.setp("gt", "u32", n, 5)))
    with b.when(q, negated=True):
        b.st("global.v4.f32", b.at(b.cvta("to.global.u64", out), 16), d)
    b.emit("ret")
    return b


def test_text_of_the_example():
    """The whole text: header, parameters, one declaration for each kind of register, statements."""
    assert scale().text() == """\
.version 7.8
.target sm_80
.address_size 64

.visible .entry scale(
    .param .u64 x
)
{
    .reg .b64 %rd<3>;
    .reg .b32 %r<1>;
    .reg .f32 %f<1>;
    .reg .pred %p<1>;
    ld.param.u64 %rd0, [x];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    add.s64 %rd2, %rd0, %rd1;
    ld.global.f32 %f0, [%rd2];
    setp.lt.u32 %p0, %r0, 100;
    @%p0 mul.f32 %f0, %f0, 0f3FC00000;
    st.global.f32 [%rd2], %f0;
    ret;
}
"""


@pytest.mark.parametrize("builder", [scale(), matmul()], ids=lambda item: item.name)
def test_built_modules_round_trip(builder):
    """build() is the parse of text(), and the canonical text of it means the same."""
    module = builder.build()
    assert str(module) == builder.text()
    assert same_structure(parse(module_text(module)), module)
    assert module.entries[0].name == builder.name


def _ptxas() -> str | None:
    beside = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "ptxas"
    return str(beside) if beside.exists() else shutil.which("ptxas")


@pytest.mark.toolkit
@pytest.mark.parametrize("builder", [scale(), matmul()], ids=lambda item: item.name)
def test_built_text_assembles(builder, tmp_path):
    """ptxas accepts what the builder writes."""
    ptxas = _ptxas()
    if ptxas is None:
        pytest.skip("no ptxas: install the toolchain extra")
    source = tmp_path / "k.ptx"
    source.write_text(builder.text())
    done = subprocess.run([ptxas, "-arch=sm_80", source, "-o", tmp_path / "k.cubin"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def last(b: KernelBuilder) -> Instruction:
    return list(b.build().entries[0].instructions())[-1]


def test_operands_from_python_values():
    """Numbers, strings, lists, nodes and NumPy scalars become the operands that they mean."""
    b = KernelBuilder("k")
    r = b.reg("b32")
    b.emit("op", r, "%acc", "tile", 5, -1, np.int64(7), [r, 0], b.at(r, 4), b.at(16), b.sink)
    assert last(b).operands == (
        r, Register("%acc"), Name("tile"), Immediate(5, "5"), Immediate(-1, "-1"),
        Immediate(7, "7"), Vector((r, Immediate(0, "0"))), Address(r, 4), Address(None, 16),
        b.sink)


def test_tensor_coordinates():
    """Coordinates of an address go into its braces."""
    b = KernelBuilder("k")
    tensor, r = b.reg("u64"), b.reg("u32")
    b.emit("op", b.at(tensor, coordinates=[r, 0]))
    assert last(b).text == "op [%rd0, {%r0, 0}];"


@given(st.floats(width=32))
def test_floats_are_exact_words(value):
    """A float operand is the 0f word of an f32 instruction, the 0d word of an f64 one."""
    for dtype, code in (("f32", ">f"), ("f64", ">d")):
        b = KernelBuilder("k")
        b.emit(f"mov.{dtype}", "%x", value)
        expected = int.from_bytes(struct.pack(code, value))
        assert last(b).operands[1].bits == expected


def test_floats_take_the_last_type():
    """cvt.f64.f32 reads an f32."""
    b = KernelBuilder("k")
    b.cvt("f64.f32", 1.0)
    assert last(b).operands[1].text == "0f3F800000"


def test_registers_by_file():
    """All types of one width share a register file; predicates and floats have their own."""
    b = KernelBuilder("k")
    names = [b.reg(t).name for t in ("u32", "s32", "b32", "f32", "pred", "u64", "f64", "bf16",
                                     "f16x2", "b128", "u8")]
    assert names == ["%r0", "%r1", "%r2", "%f0", "%p0", "%rd0", "%fd0", "%h0", "%r3", "%rq0", "%b0"]
    assert b.reg("f32", "acc") == Register("%acc")


def test_wide_and_vector_results():
    """mul.wide gives twice the width; a vector load as many registers as it names."""
    b = KernelBuilder("k")
    assert b.mul_wide("s32", 1, 2).name == "%rd0"
    assert len(b.ld("shared.v4.b32", b.at(0))) == 4
    assert b.ld("shared.b32", b.at(0)).name == "%r4"


def test_loops_are_counted():
    """A loop between numbers has no test before it; one up to a register has; step 0 is refused."""
    b = KernelBuilder("k")
    with b.loop(3):
        b.emit("nop")
    assert [i.opcode for i in b.build().entries[0].instructions()] == [
        "mov.s32", "nop", "add.s32", "setp.lt.s32", "bra"]
    b = KernelBuilder("k")
    with b.loop(0):
        pass
    assert "setp.ge.s32" in b.text()
    with pytest.raises(UsageError, match="never ends"), b.loop(3, 0, 0):
        pass


def test_several_kernels_in_one_module():
    """join puts kernels of one header together, and refuses two headers."""
    module = join([scale(), matmul()])
    assert [item.name for item in module.entries] == ["scale", "matmul"]
    with pytest.raises(UsageError, match="differ"):
        join([scale(), KernelBuilder("k", target="sm_90")])


@pytest.mark.parametrize(("make", "message"), [
    (lambda b: b.emit("add s32"), "'add s32' is not spelled like an opcode"),
    (lambda b: b.emit("mov.b32", "%x", 1.5), "1.5 is a float"),
    (lambda b: b.emit("mov.f32", "%x", 1e39), "too large for f32"),
    (lambda b: b.emit("mov.u64", "%x", 1 << 64), "does not fit in 64 bits"),
    (lambda b: b.emit("mov.u64", "a b"), "is not a name"),
    (lambda b: b.reg("u33"), "u33 is not a type"),
    (lambda b: [b.param("a", "u64"), b.shared("a", 4)], "a is declared twice"),
    (lambda b: b.shared("a", 4, 3), "needs a size from 0 and a power of two"),
    (lambda b: b.load_param(Name("z")), "z is not a parameter"),
    (lambda b: b.mul_wide("u64", 1, 2), "no type of twice the width"),
    (lambda b: b.ldmatrix(3, b.at(0)), "3 matrices"),
    (lambda b: b.add("s33", 1, 2), "no type at its end"),
    (lambda b: b.pragma('a"b'), "no quotes"),
    (lambda b: b.add("u32", b.tid.x, 1), "%tid.x: is read by mov and cvt alone"),
])
def test_wrong_use(make, message):
    """Mistakes are UsageErrors where they are made, not broken PTX later."""
    with pytest.raises(UsageError, match=message):
        make(KernelBuilder("k"))


def test_guards_do_not_nest():
    """PTX has one predicate for each instruction."""
    b = KernelBuilder("k")
    p = b.reg("pred")
    with b.guard(p), pytest.raises(UsageError, match="one predicate"), b.guard(p):
        pass
    b.emit("ret")
    assert last(b).guard is None


@dataclass(frozen=True)
class Spec:
    name: str
    role: str
    count: int = 1
    vector: bool = False
    packs: bool = False
    optional: bool = False


@dataclass(frozen=True)
class Form:
    operands: tuple[Spec, ...]

    def fit(self, kinds):
        return self.take(len(kinds))

    def take(self, count: int):
        least = sum(not spec.optional for spec in self.operands)
        return self.operands[:count] if least <= count <= len(self.operands) else None


FORMS = {
    "ld.v2": Form((Spec("d", "write", 2, vector=True), Spec("a", "address"),
                   Spec("policy", "read", optional=True))),
    "mov.b64": Form((Spec("d", "write", packs=True), Spec("a", "read", packs=True))),
}


@pytest.mark.parametrize(("opcode", "operands", "message"), [
    ("ld.v2", (["%a", "%b"], Address(None, 0)), None),
    ("ld.v2", (["%a", "%b"], Address(None, 0), "%c"), None),
    ("mov.b64", ("%a", ["%b", "%c"]), None),
    ("ld.v2", (["%a", "%b"],), r"1 operands: takes 2 to 3\n  legal: {d x 2}, \[a\], policy"),
    ("ld.v2", (["%a"], Address(None, 0)), "operand d is a vector of 1: takes a vector of 2"),
    ("ld.v2", ("%a", Address(None, 0)), "operand d is a single operand"),
    ("ld.v2", (["%a", "%b"], "%c"), "operand a is no address"),
    ("mov.b64", ("%a", Address(None, 0)), "operand a is an address"),
    ("mov.b64", ("%a", ["%b"] * 3), "operand a is a vector of 3"),
    ("foo", (), r"foo is not a known form"),
])
def test_arity_is_checked_against_forms(opcode, operands, message):
    """Operand lists are compared with the form that `arity` gives; unknown forms need a word."""
    b = KernelBuilder("k", arity=FORMS.get)
    if message is None:
        b.emit(opcode, *operands)
    else:
        with pytest.raises(UsageError, match=message):
            b.emit(opcode, *operands)
    b.emit("whatever.else", 1, unchecked=True)
    assert last(b).opcode == "whatever.else"
