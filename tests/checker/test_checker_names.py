"""Names: declared before use, once per scope, visible from where they are used."""

from __future__ import annotations

import pytest
from checking import FIRST, codes, found, header, kernel

from mmalab.checker import check
from mmalab.errors import SourceError, ToolError
from mmalab.toolchain import AssemblyError, assemble


def _errors(body: str, before: str = "") -> list[str]:
    findings = found(body, registers=False, before=before)
    return codes([f for f in findings if f.severity == "error"])


@pytest.mark.parametrize("body", [
    ".reg .b32 a; { .reg .f32 a; add.f32 a, a, a; } add.u32 a, a, a;",
    "{ bra L; } L: ret;",
    "L: { L: bra L; } bra L;",
    "bra L; L:",
    ".reg .b32 %r<12>; .reg .b32 %r1<4>; add.u32 %r11, %r10, %r13;",
    ".reg .b32 %r<4>; add.u32 %r0, %r3, %r1;",
    ".shared .b32 gmem; .reg .u32 r; ld.shared.u32 r, [gmem];",
    ".reg .u32 r; T: .branchtargets A, B; brx.idx r, T; A: ret; B: ret;",
    ".reg .b32 %r<100000>; mov.b32 %r99999, %r0;",
])
def test_scopes_that_are_legal(body):
    """Shadowing, forward labels, families that touch, label lists: all clean."""
    assert _errors(body) == []


@pytest.mark.parametrize(("body", "code"), [
    ("mov.u32 %r1, 5;", "undeclared-name"),
    (".reg .u32 %r<4>; mov.u32 %r4, 5;", "undeclared-name"),
    (".reg .u32 r; mov.u32 r, nosuch;", "undeclared-name"),
    (".reg .u32 r; mov.u32 r, s; .shared .b32 s;", "undeclared-name"),
    (".reg .u32 r; mov.b32 r, %envreg32;", "undeclared-name"),
    ("@%nosuch ret;", "undeclared-name"),
    ("bra nolabel;", "undeclared-name"),
    ("bra L; { L: ret; }", "undeclared-name"),
    ("call nofunc;", "undeclared-name"),
    (".reg .u32 r; T: .branchtargets A, B; brx.idx r, T; A: ret;", "undeclared-name"),
    (".reg .b32 %r<4>; .reg .b32 %r1;", "duplicate-name"),
    (".reg .b32 a; .reg .f32 a;", "duplicate-name"),
    (".shared .b32 a; .shared .b32 a;", "duplicate-name"),
    (".shared .b32 a; .reg .b32 a;", "duplicate-name"),
    (".reg .b32 p0;", "duplicate-name"),
    ("L: bra M; M: ret; L: ret;", "duplicate-name"),
    (".reg .b32 L; L: ret;", "duplicate-name"),
    (".reg .e4m3 a;", "operand-mismatch"),
    (".shared .align 3 .b8 a[4];", "operand-mismatch"),
    (".shared .b32 a = 5;", "operand-mismatch"),
])
def test_scopes_that_are_not(body, code):
    """Each wrong declaration or use is an error with its code."""
    assert code in _errors(body)


#: Declarations and a line that uses them; whether ptxas 13.5 takes both.
COMPONENTS = [
    (".reg .b32 %x; .reg .b32 %tid;", "mov.u32 %x, %tid;", True),
    (".reg .b32 %x; .reg .b32 %tid;", "mov.u32 %x, %tid.x;", False),
    (".reg .b32 %x; .reg .b32 %tid;", "mov.u32 %x, %tid.r;", False),
    (".reg .b32 %x; .reg .v4 .b32 %tid;", "mov.u32 %x, %tid.w;", True),
    (".reg .b32 %x; .reg .b32 %tid<4>;", "add.u32 %tid1, %tid2, %x; mov.u32 %x, %tid.x;", True),
    (".reg .b32 %x; .reg .f32 %ctaid;", "mov.u32 %x, %ctaid.y;", False),
    (".reg .b32 %x;", "{ .reg .b32 %tid; mov.u32 %tid, 1; } mov.u32 %x, %tid.x;", True),
    (".reg .b32 %x;", "{ .reg .b32 %tid; mov.u32 %x, %tid.x; }", False),
    (".reg .b32 %x;", "mov.u32 %x, %tid.r;", True),
    (".reg .b32 %x;", "mov.u32 %x, %laneid.x;", False),
    (".reg .b32 %x, %v;", "add.u32 %x, %v.x, %x;", False),
    (".reg .b32 %x, %v;", "mov.b64 {%x, %v.x}, 5;", False),
    (".reg .b32 %x;", "ld.global.u32 %x, [%tid.x];", False),
    (".reg .b32 %x; .reg .v2 .b32 %v<3>;", "add.u32 %x, %v1.y, %v2.r;", True),
    (".reg .b32 %x; .reg .v2 .b32 %v;", "mov.b32 %x, %v.z;", False),  # ptxas dies of it
    (".reg .b32 %x; .reg .v4 .b32 %v;", "mov.b32 %x, %v.q;", False),
    (".reg .b32 %x; .reg .v2 .b64 %v;", "st.global.b32 [%v.x], %x;", False),
    (".reg .v2 .pred %p;", "", False),
    (".reg .pred %p;", "@%p.x ret;", False),
    (".reg .v4 .b8 %v;", "", True),
    (".reg .v8 .b16 %v;", "", False),
    (".reg .v2 .b64 %v;", "", True),
    (".reg .v4 .b64 %v;", "", False),
    (".reg .v2 .b128 %v;", "", False),
]


@pytest.mark.parametrize(("declared", "line", "legal"), COMPONENTS)
def test_components_belong_to_vectors(declared, line, legal):
    """A component wants a vector, also where a scalar hides a special register."""
    text = f"{declared}\n{line}"
    try:
        said = [f for f in found(text, registers=False) if f.severity == "error"]
    except SourceError:
        said = None
    assert (said == []) is legal


@pytest.mark.parametrize(("declared", "line", "legal"), COMPONENTS)
def test_the_assembler_judges_components_alike(declared, line, legal):
    """ptxas takes what is legal here and refuses the rest, or dies of it."""
    try:
        assemble(kernel(f"{declared}\n{line}", registers=False))
    except AssemblyError:
        assert not legal
    except ToolError as error:
        if "is not installed" in str(error):
            pytest.skip(str(error))
        assert not legal
    else:
        assert legal


def test_a_hidden_special_register_is_named():
    """The message says where the name was taken, and what would do."""
    [finding] = found(".reg .u32 %x;\n.reg .b32 %tid;\nmov.u32 %x, %tid.x;", registers=False)
    assert (finding.code, finding.where.line) == ("operand-mismatch", FIRST + 2)
    assert (f"%tid is declared in line {FIRST + 1} as a scalar, and hides the special register: it "
            "has no component .x\n  legal: %tid, .reg .v4 .b32 %tid") in finding.message


def test_an_undeclared_register_shows_how_far_its_family_goes():
    """A register just past its family names the members that there are."""
    [finding] = found(".reg .u32 %r<4>;\nmov.u32 %r4, 5;", registers=False)
    assert finding.message.startswith("%r4: no register of this name is declared here\n"
                                      "  legal: %r0 to %r3")
    assert finding.where.line == FIRST + 1


def test_a_misspelt_label_names_the_nearest():
    """A branch to a label that is nearly there says which is meant."""
    [finding] = found("bra DONE;\nDONE_: ret;", registers=False)
    assert "legal: DONE_" in finding.message


def test_a_module_that_declares_too_late():
    """Variables and functions are declared before the function that uses them."""
    late = header() + ".visible .entry k(){ .reg .u32 r;\nmov.u32 r, s; ret;}\n.shared .b32 s;\n"
    [finding] = check(late)
    assert finding.code == "undeclared-name"
    assert "declared only in line 6" in finding.message
    assert codes(check(header() + ".visible .entry k(){ call f; ret;}\n.func f(){ret;}\n")) == [
        "undeclared-name"]
    assert check(header() + ".func f();\n.visible .entry k(){ call f; ret;}\n.func f(){ret;}\n"
                 ) == []


@pytest.mark.parametrize(("text", "expected"), [
    (".func f(){ret;}\n.func f(){ret;}\n", ["duplicate-name"]),
    (".global .b32 g;\n.global .b32 g;\n", ["duplicate-name"]),
    (".extern .shared .b8 g[];\n.extern .shared .b8 g[];\n", []),
    (".global .u64 g = nosuch;\n", ["undeclared-name"]),
    (".global .b32 a;\n.global .u64 g = a;\n", []),
    (".func f();\n.func f(){ret;}\n", []),
])
def test_module_scope(text, expected):
    """Functions and variables have one definition; declarations may repeat."""
    assert codes(check(header() + text)) == expected


def test_special_registers_by_chip_and_version():
    """Cluster registers need sm_90 and PTX 7.8."""
    line = "mov.u32 %u32_0, %cluster_ctarank;"
    assert codes(found(line, "sm_80")) == ["target-unsupported"]
    assert codes(found(line, "sm_90", "7.8")) == []
    assert codes(found("mov.u32 %u32_0, %aggr_smem_size;", "sm_90", "8.0")) == ["ptx-version"]


CALLEE = ".func (.param .b32 r) f(.param .b64 a){ret;}\n"


@pytest.mark.parametrize(("call", "words"), [
    ("{.param .b64 a; .param .b32 r; call (r), f, (a);}", ""),
    ("{.param .b64 a; .param .b32 r; call (r), f, (a, a);}", "f has 1 arguments, 2 given"),
    ("{.param .b64 a; call f, (a);}", "f has 1 results, 0 given"),
    ("{.param .b32 a; .param .b32 r; call (r), f, (a);}", "a has 4 bytes, parameter a has 8"),
    ("call k;", "k is an entry"),
    (".reg .b64 x; call x, ();", "without a prototype"),
])
def test_calls_fit_their_callee(call, words):
    """Arguments and results match the declaration in number and size."""
    findings = check(f"{header()}{CALLEE}.visible .entry k(){{ {call} ret;}}\n")
    assert [f.code for f in findings] == (["operand-mismatch"] if words else [])
    assert all(words in f.message for f in findings)
