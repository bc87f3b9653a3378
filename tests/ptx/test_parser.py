"""The grammar: every directive, statement and operand that real PTX files hold."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError

import pytest
from ptx_texts import HEADER, body

from mmalab.errors import SourceError, UsageError
from mmalab.ptx import parse
from mmalab.ptx.nodes import (
    Address,
    Block,
    Call,
    Directive,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Name,
    Negated,
    Pair,
    Parameter,
    Register,
    RegisterDeclaration,
    Sink,
    Variable,
    Vector,
)
from mmalab.ptx.parser import parse_with_spans


def statements(text: str) -> tuple:
    """The statements of a body, which both paths of the parser must give alike."""
    slow, _ = parse_with_spans(body(text), fast=False)
    fast = parse(body(text))
    assert fast == slow
    return fast.functions[0].body


def instruction(text: str) -> Instruction:
    (found,) = statements(text)
    assert isinstance(found, Instruction)
    return found


def operand(text: str, before: str = ""):
    """The last operand of an instruction that ends with `text`."""
    return statements(f"{before} op %d, {text};")[-1].operands[-1]


R1, R2 = Register("%r1"), Register("%r2")


def test_header_is_read():
    """Version, target, its options and the address size are fields of the module."""
    module = parse(".version 8.7\n.target sm_100a, debug, texmode_independent\n.address_size 64\n")
    assert module.version == (8, 7)
    assert (module.target, module.target_options) == ("sm_100a", ("debug", "texmode_independent"))
    assert module.address_size == 64


def test_address_size_defaults_to_32():
    """Without .address_size the manual says 32."""
    assert parse(".version 8.0\n.target sm_80").address_size == 32


@pytest.mark.parametrize(("text", "expected"), [
    ("%r1", R1),
    ("%tid.x", Register("%tid.x")),
    ("%v .x", Register("%v.x")),
    ("%v.r", Register("%v.x")),
    ("%v .a", Register("%v.w")),
    ("tile", Name("tile")),
    ("tile+4*4", Name("tile", 16)),
    ("$L__BB0_1", Name("$L__BB0_1")),
    ("_", Sink()),
    ("!%p1", Negated(Register("%p1"))),
    ("! %p1", Negated(Register("%p1"))),
    ("-%r1", Negated(R1, "-")),
    ("%p1|%p2", Pair(Register("%p1"), Register("%p2"))),
    ("_ | %p2", Pair(Sink(), Register("%p2"))),
    ("{%r1,%r2}", Vector((R1, R2))),
    ("{ %r1, _, 0x1F }", Vector((R1, Sink(), Immediate(31, "0x1F")))),
    ("[%rd1]", Address(Register("%rd1"))),
    ("[%rd1+8]", Address(Register("%rd1"), 8)),
    ("[ %rd1 + -8 ]", Address(Register("%rd1"), -8)),
    ("[%rd1+4*(2+1)]", Address(Register("%rd1"), 12)),
    ("[tile+16]", Address(Name("tile"), 16)),
    ("[16]", Address(None, 16)),
    ("[%rd1, {%r1, %r2}]", Address(Register("%rd1"), 0, (R1, R2))),
    ("[tex, {%r1}]", Address(Name("tex"), 0, (R1,))),
    ("[tex, %r1]", Address(Name("tex"), 0, (R1,))),
    ("[tex, smp, {%r1,%r2}]", Address(Name("tex"), 0, (Name("smp"), Vector((R1, R2))))),
    ("[%rd1].unified", Address(Register("%rd1"), 0, (), ".unified")),
])
def test_operands(text, expected):
    """Each kind of operand becomes its node, on the fast and on the slow path."""
    assert operand(text) == expected


@pytest.mark.parametrize(("text", "value", "bits"), [
    ("0", 0, None), ("-1", -1, None), ("+1", 1, None), ("- 1", -1, None), ("- -1", 1, None),
    ("017", 15, None), ("0x1F", 31, None), ("0XffU", 255, None), ("0b101", 5, None),
    ("12U", 12, None), ("18446744073709551615", 2**64 - 1, None), ("WARP_SZ", 32, None),
    ("1.5", 1.5, None), (".5", 0.5, None), ("1.", 1.0, None), ("1e5", 1e5, None),
    ("-2.5E-1", -0.25, None), ("0f3F800000", 1.0, 0x3F800000), ("0Fbf800000", -1.0, 0xBF800000),
    ("0d3FF8000000000000", 1.5, 0x3FF8000000000000),
])
def test_literals(text, value, bits):
    """Literals in all bases and both float spellings keep value, spelling and exact bits."""
    assert operand(text) == Immediate(value, text, bits)


def test_nan_literal_keeps_its_payload():
    """The bits of a NaN literal are exact, and nodes that hold it compare equal."""
    one, other = operand("0f7FC12345"), operand("0f7FC12345")
    assert math.isnan(one.value)
    assert one.bits == 0x7FC12345
    assert one == other


@pytest.mark.parametrize(("text", "value"), [
    ("4*8", 32), ("4*8+(1<<3)", 40), ("1?2:3", 2), ("0 ? 2 : 3", 3), ("~0", -1), ("!0", 1),
    ("(.u64)-1", 2**64 - 1), ("(.s64)5", 5), ("-1>0U", 1), ("-1>0", 0), ("-7/2", -3),
    ("-7 % 2", -1), ("1<<63", -(2**63)), ("1U<<63", 2**63), ("WARP_SZ/2", 16), ("1.5*2.0", 3.0),
    ("2&&0||1", 1), ("1|2^3&5", 3), ("3==3", 1), ("5>>1", 2), ("-5>>1", -3),
    ("2+3*4", 14), ("10-3-2", 5),
])
def test_constant_expressions(text, value):
    """Constant expressions are 64-bit C: precedence, signedness, truncating division."""
    found = operand(text)
    assert found == Immediate(value, text)
    assert type(found.value) is type(value)


def test_array_element_is_an_address():
    """``tile[2]`` of a .b32 array is the address 8 bytes behind ``tile``, as ptxas takes it."""
    assert operand("tile[2]", before=".shared .b32 tile[4];") == Name("tile", 8)


def test_declared_names_are_registers():
    """A name without % is a register where a .reg in reach declares it, with its count."""
    found = statements(".reg .b32 r<3>, a; op r2, r3, a, b, a.x; { .reg .pred b; op b; } op b;")
    assert found[1].operands == (Register("r2"), Name("r3"), Register("a"), Name("b"),
                                 Register("a.x"))
    assert found[2].statements[1].operands == (Register("b"),)
    assert found[3].operands == (Name("b"),)


def test_register_parameters_are_registers():
    """.reg parameters and results of a function count as declared."""
    module = parse(HEADER + ".func (.reg .b32 r) f(.reg .b32 a) { mov.b32 r, a; ret; }")
    assert module.functions[0].body[0].operands == (Register("r"), Register("a"))


@pytest.mark.parametrize(("text", "guard"), [
    ("@%p1 ret;", Guard("%p1")), ("@!%p1 ret;", Guard("%p1", negated=True)),
    ("@ ! %p1 ret;", Guard("%p1", negated=True)), ("@q ret;", Guard("q")),
])
def test_guards(text, guard):
    """A predicate, also negated, also with blanks."""
    assert instruction(text).guard == guard


@pytest.mark.parametrize("text", [
    "add.s32 %r1, %r2, 5;", "add.s32\t%r1,%r2,5 ;", "add .s32 %r1, %r2, 5;",
    "add\n.s32 %r1,\n %r2\n, 5\n;", "add/* a */.s32 %r1, // b\n%r2, 5;",
    "add.s32 %r1, /* ; */ %r2, 5;",
])
def test_blanks_and_comments_do_not_matter(text):
    """However an instruction is laid out, it has the same opcode and operands and its own text."""
    found = instruction(text)
    assert (found.opcode, found.operands) == ("add.s32", (R1, R2, Immediate(5, "5")))
    assert found.text == text


def test_opcodes_with_digits_and_qualifiers():
    """Modifiers may begin with digits and hold ``::``."""
    for opcode in ("tcgen05.ld.sync.aligned.32x32b.x16.b32",
                   "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"):
        assert instruction(f"{opcode} [%r1];").opcode == opcode
        assert instruction(f"{opcode} [%r1];").parts == tuple(opcode.split("."))


def test_several_statements_on_a_line():
    """Semicolons part statements, lines do not."""
    found = statements("L1: L2: mov.u32 %r1, 0; ret; L3:")
    assert [type(item) for item in found] == [Label, Label, Instruction, Instruction, Label]
    assert {item.line for item in found} == {6}


def test_lines_are_counted():
    """A statement's line is where it begins, with comments and split statements between."""
    found = statements("ret; // x\n\n/* a\nb */ mov.u32\n %r1,\n 0;\n.loc 1 2 3\nL:\n{\nret;\n}")
    assert [item.line for item in found] == [6, 9, 12, 13, 14]
    assert found[-1].statements[0].line == 15


@pytest.mark.parametrize(("text", "expected"), [
    ("call f;", Call((), Name("f"), ())),
    ("call.uni f, (%r1, 5);", Call((), Name("f"), (R1, Immediate(5, "5")))),
    ("call.uni (retval0), f, (param0);", Call((Name("retval0"),), Name("f"), (Name("param0"),))),
    ("call (r), %rd1, (a), proto;",
     Call((Name("r"),), Register("%rd1"), (Name("a"),), Name("proto"))),
    ("call %rd1, (), proto;", Call((), Register("%rd1"), (), Name("proto"))),
    ("call %rd1, proto;", Call((), Register("%rd1"), (), Name("proto"))),
    ("call.uni\n(\nretval0\n),\nf,\n(\np0,\np1\n);",
     Call((Name("retval0"),), Name("f"), (Name("p0"), Name("p1")))),
])
def test_calls(text, expected):
    """All forms of call, nvcc's one-token-a-line form included."""
    assert instruction(text).operands == (expected,)


def test_loc_has_no_semicolon_and_swallows_nothing():
    """The statement behind a .loc is there, whatever stands between."""
    found = statements(".loc 1 2 3\nret;\n.loc\t1 2 3 // x.py:2\nret;\n.loc 1 2 3 ret;\n"
                       ".loc 1 4 5, function_name $L__info_string0, inlined_at 1 40 3\nret;")
    assert [type(item) for item in found] == [Directive, Instruction] * 4
    assert found[0] == Directive(".loc", "1 2 3", "", 6)
    assert found[6].arguments == "1 4 5, function_name $L__info_string0, inlined_at 1 40 3"


def test_labelled_directives():
    """.branchtargets, .callprototype and .calltargets take the label before them."""
    found = statements("T: .branchtargets A, B<2>;\nP:\n.callprototype (.param .b32 _) _ "
                       "(.param .b64 _);\nC: /* x */ .calltargets f,\n g; brx.idx %r1, T;")
    assert found[0] == Directive(".branchtargets", "A, B<2>", "T", 6)
    assert found[1] == Directive(".callprototype", "(.param .b32 _) _ (.param .b64 _)", "P", 7)
    assert found[2] == Directive(".calltargets", "f, g", "C", 9)
    assert found[3].operands == (R1, Name("T"))


def test_register_declarations():
    """Counts, lists and vectors."""
    found = statements(".reg .b32 %r<10>, a;\n.reg .v4 .f32 %v;\n.reg .pred p, q;")
    assert found == (
        RegisterDeclaration("b32", (("%r", 10), ("a", None)), "", 6),
        RegisterDeclaration("f32", (("%v", None),), "v4", 7),
        RegisterDeclaration("pred", (("p", None), ("q", None)), "", 8),
    )


def test_variables_of_a_body():
    """All state spaces, with and without alignment, arrays and scalars, lists."""
    found = statements(".shared .align 8 .b8 s[64];\n.shared .u32 x, y[4];\n"
                       ".local .align 16 .b8 depot[4*8][2];\n.param .b32 param0;\n"
                       ".extern .shared .b8 dyn[];")
    assert found == (
        Variable("shared", "b8", "s", (64,), 8, line=6),
        Variable("shared", "u32", "x", line=7), Variable("shared", "u32", "y", (4,), line=7),
        Variable("local", "b8", "depot", (32, 2), 16, line=8),
        Variable("param", "b32", "param0", line=9),
        Variable("shared", "b8", "dyn", (0,), linkage="extern", line=10),
    )


def test_blocks_nest():
    """A block is a statement with statements of its own."""
    (outer,) = statements("{ .reg .b32 t; { ret; } }")
    assert isinstance(outer, Block)
    assert isinstance(outer.statements[1], Block)


@pytest.mark.parametrize(("text", "dims", "values"), [
    (".u32 a = 5", (), (5,)),
    (".u32 a[3] = {1, -2, 0x3U}", (3,), (1, -2, 3)),
    (".f32 a[2] = {1.5, 0f3F800000}", (2,), (1.5, 1.0)),
    (".u32 a[2][3] = {{1}, {2, 3}}", (2, 3), (1, 0, 0, 2, 3, 0)),
    (".u32 a[][2] = {{1, 2}, {3, 4}}", (0, 2), (1, 2, 3, 4)),
    (".u32 a[4] = {}", (4,), ()),
    (".u64 a = f", (), ("f",)),
    (".u64 a[3] = {b+4, generic(b), generic(b)+8}", (3,), ("b+4", "generic(b)", "generic(b)+8")),
    (".u8 a[2] = {0xff(b), 0xff00(generic(b)+4)}", (2,), ("0xff(b)", "0xff00(generic(b)+4)")),
])
def test_initialisers(text, dims, values):
    """Values come in memory order, inner braces filled up with zeros."""
    (variable,) = parse(f"{HEADER}.visible .global .align 8 {text};").variables
    assert (variable.dims, variable.initializer) == (dims, values)
    assert (variable.linkage, variable.align) == ("visible", 8)


def test_initialiser_of_vectors():
    """The elements of a vector are an innermost dimension."""
    (variable,) = parse(HEADER + ".const .v2 .u32 a[2] = {{1}, {3, 4}};").variables
    assert variable.initializer == (1, 0, 3, 4)


def test_variable_attributes_and_samplers():
    """.attribute, opaque types and a sampler's fields."""
    module = parse(HEADER + ".global .attribute(.managed) .align 4 .u32 x;\n.global .texref t;\n"
                   ".global .samplerref s = { filter_mode = nearest, addr_mode_0 = wrap };")
    assert module.variables[0].attributes == (".managed",)
    assert module.variables[1].type == "texref"
    assert module.variables[2].initializer == ("filter_mode = nearest", "addr_mode_0 = wrap")


def test_entry_with_everything():
    """Parameters with pointers and arrays, and all performance directives, in order."""
    module = parse(HEADER + """.weak .entry k(
        .param .u64 .ptr .global .align 16 a,
        .param .align 64 .b8 map[128],
        .param .f32 x
    )
    .reqntid 128, 1, 1 .minnctapersm 2 .maxnreg 0x20 .reqnctapercluster 2
    .explicitcluster .pragma "nounroll"; { ret; }""")
    (entry,) = module.entries
    assert entry.linkage == "weak"
    assert entry.parameters == (
        Parameter("a", "u64", attributes=(".ptr", ".global", ".align 16")),
        Parameter("map", "b8", (128,), 64), Parameter("x", "f32"))
    assert entry.attributes == (
        (".reqntid", "128, 1, 1"), (".minnctapersm", "2"), (".maxnreg", "32"),
        (".reqnctapercluster", "2"), (".explicitcluster", ""), (".pragma", '"nounroll"'))


def test_functions_and_declarations():
    """Results, .noreturn, a declaration without body; entries are only the defined kernels."""
    module = parse(HEADER + """.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b)
;
.func .attribute(.unified(1, 2)) stop() .noreturn { trap; }
.entry empty {}""")
    vprintf, stop, empty = module.functions
    assert vprintf == Function("vprintf", "func", (Parameter("a", "b64"), Parameter("b", "b64")),
                               (Parameter("r", "b32"),), None, "extern", (), 4)
    assert stop.attributes == ((".attribute", ".unified(1, 2)"), (".noreturn", ""))
    assert module.entries == (empty,)
    assert module.function("stop") is stop


def test_module_directives():
    """.file, .section with its block, .alias and .pragma each end where they should."""
    module = parse(HEADER + '.file 1 "a b.cu", 17, 42\n.pragma "x", "y";\n.func f() {ret;}\n'
                   ".func g();\n.alias g, f;\n.section .debug_str\n{\n$L: .b8 1, 2 // }\n}\n"
                   ".global .u32 z;")
    assert [(item.name, item.arguments) for item in module.directives] == [
        (".file", '1 "a b.cu", 17, 42'), (".pragma", '"x", "y"'), (".alias", "g, f"),
        (".section", ".debug_str\n{\n$L: .b8 1, 2 // }\n}")]
    assert module.variables[0].name == "z"


def test_carriage_returns():
    """CR LF files parse to the same nodes and print back with their CR LF."""
    text = body("mov.u32 %r1, 0;\n.loc 1 2 3\nL:\nadd.s32 %r1,\n %r1, 1; // x\n{ ret; }")
    dos = text.replace("\n", "\r\n")
    unix, found = parse(text), parse(dos)
    assert str(found) == dos
    assert [(i.opcode, i.operands, i.line) for i in found.functions[0].instructions()] == [
        (i.opcode, i.operands, i.line) for i in unix.functions[0].instructions()]


def test_line_markers_are_blank():
    """What a C preprocessor leaves at the beginning of a line is skipped like a comment."""
    assert len(statements('# 12 "k.cu"\nret;\n#line 5 "x"\nret;')) == 2


def test_names_may_be_keywords():
    """A kernel or a variable called like an instruction is fine."""
    module = parse(HEADER + ".global .u32 add;\n.entry mov() { add.u32 %r1, %r2, add; }")
    assert module.entries[0].body[0].operands[2] == Name("add")


def test_nodes_are_ordinary_values():
    """Parsed nodes, made on the fast path too, are frozen, hash, pickle and copy."""
    module = parse(body("add.s32 %r1, %r2, 5;\n{ .reg .b32 t; mov.b32 t, {%r1, %r2}; }\nL:"))
    first = module.functions[0].body[0]
    assert first == Instruction("add.s32", (R1, R2, Immediate(5, "5")), None, 6, first.text)
    assert hash(first) == hash(copy.deepcopy(first))
    assert pickle.loads(pickle.dumps(module)) == module  # noqa: S301  our own bytes
    with pytest.raises(FrozenInstanceError):
        first.line = 7
    with pytest.raises(FrozenInstanceError):
        first.operands[0].name = "%r9"
    assert repr(first.operands[0]) == "Register(name='%r1')"


def test_text_is_a_string():
    """Bytes and paths are refused with the way to read them."""
    with pytest.raises(UsageError, match="not bytes"):
        parse(b".version 8.0")


def test_file_name_is_in_messages():
    """`file` stands at the head of a message."""
    with pytest.raises(SourceError, match=r"^k\.ptx:1:1: "):
        parse("", "k.ptx")
