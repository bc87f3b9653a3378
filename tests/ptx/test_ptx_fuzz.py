"""Any text at all: a Module or a SourceError, in bounded time and depth, both paths alike."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ptx_texts import HEADER, body, corpus_files, read

from mmalab.errors import SourceError
from mmalab.ptx import parse, print_module, same_structure
from mmalab.ptx.expressions import MAX_DEPTH
from mmalab.ptx.nodes import Module
from mmalab.ptx.parser import parse_with_spans
from mmalab.ptx.printer import module_text
from mmalab.ptx.statements import MAX_BLOCKS

SMALL = [text for text in map(read, corpus_files()) if len(text) < 12_000]

PIECES = st.sampled_from([
    "{", "}", "[", "]", "(", ")", ";", ",", ":", "//", "/*", "*/", '"', "@", "!", "-", "+", "|",
    "_", "%", "$", "0x", "0f", "1.5", ".reg", ".loc 1 2 3", "\n", "\r\n", " ", ".", "::", "<",
    ">", "=", "?", "call", "L:", ".branchtargets", "#", '\n# 1 "x"\n', "\0", "é", "9" * 30,
    "1<<3", "%r1.x", ".shared .b32 q[2];", "{.reg .b32 t; mov.b32 t, 1;}", "\\", "&&", "~",
    '.pragma "x";', "generic(", "WARP_SZ", "%r1|%r2", "{%r1,%r2}", "[%rd1,{%r1}]", ".unified",
])


@st.composite
def mutants(draw):
    """A file of the corpus with one to four places inserted into, cut, moved or overwritten."""
    text = draw(st.sampled_from(SMALL))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 30))
        match draw(st.integers(0, 2)):
            case 0:
                text = text[:at] + draw(PIECES) + text[at:]
            case 1:
                text = text[:at] + text[at + length :]
            case _:
                other = draw(st.integers(0, len(text)))
                text = text[:at] + text[other : other + length] + text[at:]
    return text


def outcome(text: str, *, fast: bool) -> Module | str:
    try:
        return parse_with_spans(text, fast=fast)[0]
    except SourceError as error:
        return str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutants())
def test_mutants_of_real_files(text):
    """Either a Module or a SourceError; fast equals slow; what parses prints back and re-parses."""
    module = outcome(text, fast=True)
    assert module == outcome(text, fast=False)
    if isinstance(module, Module):
        assert print_module(module) == text
        assert same_structure(parse(module_text(module)), module)


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES | st.text(max_size=5), max_size=30).map("".join))
def test_noise_in_a_body(text):
    """Random pieces inside a body: a Module or a SourceError, alike on both paths."""
    assert outcome(body(text), fast=True) == outcome(body(text), fast=False)


DEEP = 20_000


@pytest.mark.parametrize("text", [
    "{" * DEEP, "mov.u32 %r1, " + "(" * DEEP, "mov.u32 %r1, " + "-" * DEEP,
    "mov.u32 %r1, " + "1?" * DEEP, "mov.u32 %r1, " + "1+" * DEEP,
    "mov.u32 %r1, " + "1||1&&1|1^1&1==1<1<<1+1*(" * DEEP, "mov.u32 %r1, " + "[" * DEEP,
    "mov.u32 " + "%r1, " * DEEP, "mov.u32 " + "{%r1, " * DEEP, "mov" + ".x" * DEEP,
    "mov.u32 %r1, " + "9" * DEEP + ";", "/*" * DEEP, "/" * DEEP, '"' * DEEP, "@" * DEEP,
    "L:" * DEEP, "call (" + "a," * DEEP, " \n" * DEEP, "%" * DEEP, ".branchtargets " + "a," * DEEP,
    ".pragma " + '"a",' * DEEP, "a" * DEEP, ".global .u32 x = " + "{" * DEEP,
    ".global .u32 x[1000000][1000000] = {{1}, {2}};", "P: .callprototype " + "(" * DEEP,
    ".reg .b32 x" + "1" * DEEP + "; mov.b32 x" + "1" * DEEP + ", 1;", "add " + ".s32 " * DEEP,
    ".reg .b32 y; mov.b32 x" + "1" * DEEP + ", 1;",
    "mov.u32 %r1, 1<<" + "9" * 19 + ";", ".section .a {" + '"' * DEEP,
])
def test_hostile_text_ends(text):
    """No depth or length makes the parser recurse without bound or run away."""
    assert outcome(body(text), fast=True) == outcome(body(text), fast=False)


@pytest.mark.parametrize("text", [".section .x {" * DEEP, ".global .u32 " + "a," * DEEP,
                                  ".entry k(" + ".param .u64 a," * 10_000, ".file 1 " + '"' * DEEP])
def test_hostile_modules_end(text):
    """The same between functions."""
    assert isinstance(outcome(HEADER + text, fast=True), str)


def test_depth_limits_are_the_stated_ones():
    """Nesting up to the limit parses; one more is refused by a message that names the limit."""
    def blocks(depth: int) -> str:
        return body("{" * depth + "}" * depth)

    def parentheses(depth: int) -> str:
        return body("mov.u32 %r1, " + "(" * depth + "1" + ")" * depth + ";")

    parse(blocks(MAX_BLOCKS))
    parse(parentheses(MAX_DEPTH))
    with pytest.raises(SourceError, match=f"deeper than {MAX_BLOCKS}"):
        parse(blocks(MAX_BLOCKS + 1))
    with pytest.raises(SourceError, match=f"deeper than {MAX_DEPTH}"):
        parse(parentheses(MAX_DEPTH + 1))
