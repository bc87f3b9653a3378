"""What the parser says about a fault: the whole message, caret included."""

from __future__ import annotations

import pytest
from ptx_texts import HEADER, body

from mmalab.errors import SourceError
from mmalab.ptx import parse
from mmalab.ptx.parser import parse_with_spans

MODULE = [
    ("", """\
<ptx>:1:1: a PTX file begins with .version, found the end of the text
  legal: .version 8.0

^"""),
    (".version 8\n", """\
<ptx>:1:10: expected a version, found '8'
  legal: .version 8.0
.version 8
         ^"""),
    (".version 8.0\n.entry k() {}\n", """\
<ptx>:2:1: .target follows .version, found '.entry'
  legal: .target sm_80
.entry k() {}
^^^^^^"""),
    (HEADER + ".entyr k() {}\n", """\
<ptx>:4:1: .entyr is no directive of a module
  legal: .entry
.entyr k() {}
^^^^^^"""),
    (HEADER + ".entry k() { ret; }\n}\n", """\
<ptx>:5:1: expected a function, a variable or a directive, found '}'
}
^"""),
    (HEADER + ".entry k(.param .u64 a .param .u64 b) {}\n", """\
<ptx>:4:24: expected ',' or ')' after a parameter, found '.param'
.entry k(.param .u64 a .param .u64 b) {}
                       ^^^^^^"""),
    (HEADER + ".entry k() .maxntidd 5 {}\n", """\
<ptx>:4:12: .maxntidd is no directive of a function
  legal: .maxntid
.entry k() .maxntidd 5 {}
           ^^^^^^^^^"""),
    (HEADER + ".global .u23 x;\n", """\
<ptx>:4:9: expected a type, found '.u23'
  legal: .u32, .u16x2
.global .u23 x;
        ^^^^"""),
    (HEADER + ".global .u32 x[2] = {1, 2;\n", """\
<ptx>:4:26: expected '}' after an initialiser, found ';'
  legal: }
.global .u32 x[2] = {1, 2;
                         ^"""),
    (HEADER + ".entry k() {\n  ret;\n", """\
<ptx>:5:7: the text ends inside a body
  legal: }
  ret;
      ^"""),
    (HEADER + "/* no end", """\
<ptx>:4:1: this comment has no end
  legal: */
/* no end
^^"""),
    (HEADER + '.file 1 "a.cu\n', """\
<ptx>:4:9: this string has no end on its line
  legal: "..."
.file 1 "a.cu
        ^"""),
]

BODY = [
    ("  add.s32 %r1, %r2, %r3\n  ret;", """\
<ptx>:6:24: expected ';' after add.s32, found 'ret'
  legal: ;
  add.s32 %r1, %r2, %r3
                       ^"""),
    ("  ret\n  .loc 1 2 3\n", """\
<ptx>:6:6: expected ';' after ret, found '.loc'
  legal: ;
  ret
     ^"""),
    ("  add.s32 %r1, %r2,;", """\
<ptx>:6:20: expected an operand, found ';'
  add.s32 %r1, %r2,;
                   ^"""),
    ("  ld.u32 %r1, [%rd1-4];", """\
<ptx>:6:20: an offset follows '+', also a negative one
  legal: [%rd1+-8]
  ld.u32 %r1, [%rd1-4];
                   ^"""),
    ("  ld.u32 %r1, [%rd1;", """\
<ptx>:6:20: expected ']' after an address, found ';'
  legal: ]
  ld.u32 %r1, [%rd1;
                   ^"""),
    ("  mov.b64 %rd1, {%r1, {%r2}};", """\
<ptx>:6:23: expected an operand, found '{'
  mov.b64 %rd1, {%r1, {%r2}};
                      ^"""),
    ("\tmov.f32 %f1, 1.0f;", """\
<ptx>:6:15: 1.0f is not a number
  legal: 12, 0x1F, 017, 0b101, 12U, 1.5, 0f3F800000, 0d3FF0000000000000
\tmov.f32 %f1, 1.0f;
\t             ^^^^"""),
    ("  mov.u64 %rd1, 99999999999999999999;", """\
<ptx>:6:17: 99999999999999999999 does not fit in 64 bits
  legal: 0 to 18446744073709551615
  mov.u64 %rd1, 99999999999999999999;
                ^^^^^^^^^^^^^^^^^^^^"""),
    ("  mov.u32 %r1, 1/0;", """\
<ptx>:6:17: division by zero in a constant expression
  mov.u32 %r1, 1/0;
                ^"""),
    ("  mov.u32 %r1, x[1];", """\
<ptx>:6:17: x[...] is an address only if the array x is declared before
  mov.u32 %r1, x[1];
                ^"""),
    ("  and.pred %p1, %p2, !x;", """\
<ptx>:6:23: '!' stands before a register or a number, not before x
  and.pred %p1, %p2, !x;
                      ^"""),
    ("  setp.eq.s32 %p|4, %r1, %r2;", """\
<ptx>:6:18: '|' pairs two destinations
  setp.eq.s32 %p|4, %r1, %r2;
                 ^"""),
    ("  @ ;", """\
<ptx>:6:5: expected a predicate, found ';'
  @ ;
    ^"""),
    ("  ;", """\
<ptx>:6:3: expected a statement, found ';'
  ;
  ^"""),
    ("  .branchtargets A;", """\
<ptx>:6:3: .branchtargets needs a label before it
  legal: name: .branchtargets ...;
  .branchtargets A;
  ^^^^^^^^^^^^^^"""),
    ("  .rge .b32 %r<4>;", """\
<ptx>:6:3: .rge is no directive of a body
  legal: .reg
  .rge .b32 %r<4>;
  ^^^^"""),
    ("  .reg .b32 %r<-1>;", """\
<ptx>:6:16: a register count cannot be negative
  .reg .b32 %r<-1>;
               ^^"""),
    ("  call (%r1) f;", """\
<ptx>:6:14: expected ',' between the results and the target of a call, found 'f'
  legal: ,
  call (%r1) f;
             ^"""),
    ("  .loc 1 2;", """\
<ptx>:6:11: expected a number in .loc, found ';'
  .loc 1 2;
          ^"""),
    ("  mov.u32 %r1, 0\0;", """\
<ptx>:6:17: '\\x00' begins nothing in PTX
  legal: ASCII text, without a byte order mark
  mov.u32 %r1, 0�;
                ^"""),
]


@pytest.mark.parametrize(("text", "message"), MODULE + [(body(t), m) for t, m in BODY])
def test_message(text, message):
    """Each fault is shown as its line with a caret, on both paths alike."""
    for fast in (True, False):
        with pytest.raises(SourceError) as caught:
            parse_with_spans(text, fast=fast)
        assert str(caught.value) == message


@pytest.mark.parametrize("text", [
    "add.s32 %r1, %r2, %r3,;", "ret .loc 1 2 3;", "add.s32 %r1 %r2;", "mov.u32 , 0;",
    "ld.u32 %r1, [];", "mov.b64 %rd1, {};", "mov.b64 %rd1, {%r1,};", "mov.u32 %r1, (1;",
    "mov.u32 %r1, 018;", "mov.u32 %r1, 5u;", "mov.f32 %f1, -0f3F800000;", "mov.f32 %f1, 0f3F80;",
    "@%p1 L: ret;", "@%p1 { ret; }", "L:;", "{ ret; };", "$x %r1;", "add. s32 %r1, %r2;",
    "ld.shared :: cta.u32 %r1, [%r2];", "mov.u32 %r1, a%b;", "mov.u32 %r1, tile-16;",
    "ld.u32 %r1, [4+%r2];", "ld.u32 %r1, [%r1+%r2];", "ld.u32 %r1, [tile[1]];", ".reg u32 x;",
    ".shared .u32 .align 8 z;", ".reg .b32 %;", r'.pragma "a\"b";', "@@DWARF .b8 1", "ret;\f",
    '.file 1 "a"', "1: ret;", "mov.u32 %r1, 1.5 % 2;",
])
def test_what_ptxas_refuses_is_refused(text):
    """Forms that ptxas 13.0 and 13.5 call syntax errors are SourceErrors with a place."""
    with pytest.raises(SourceError) as caught:
        parse(body(text))
    assert caught.value.line >= 6


def test_of_a_long_line_the_part_around_the_fault_is_shown():
    """A file of one line, or a binary one, does not flood the screen, and moves no cursor."""
    long = "// " + "x" * 100_000
    with pytest.raises(SourceError) as caught:
        parse(".version 8.0 .target sm_80 /*" + "y" * 5000 + "*/ \x1b[2J ?" + long)
    told = str(caught.value)
    assert len(told) < 500
    assert "\x1b" not in told
    line, caret = told.splitlines()[-2:]
    assert "begins nothing" in told
    assert line[caret.index("^")] == "\N{REPLACEMENT CHARACTER}"
