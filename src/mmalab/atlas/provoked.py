"""Kernels that provoke ptxas's advisories, so that what a release says can be asked for.

    >>> [said.number for said in provoked("13.5") if "wait_group is injected" in said.text]
    ['C7517']                                                                 # doctest: +SKIP

Each case breaks one rule of the pipeline of wgmma, or asks for registers that nobody can give.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mmalab.atlas.explained import Message, explain_message
from mmalab.atlas.registers import setmaxnreg_text
from mmalab.atlas.releases import release, releases
from mmalab.errors import UsageError
from mmalab.toolchain import assemble

__all__ = ["CASES", "Provoked", "numbered", "provoked", "wgmma_text"]


@dataclass(frozen=True, slots=True)
class Provoked:
    """One message of one release: the case that brings it about, its number ("" where it has none),
    its words, and the row that explains it. `spills` and `registers` are the kernel's."""

    case: str
    toolkit: str
    number: str
    text: str
    message: Message
    registers: int
    spills: int
    stack: int
    ptx: str = field(repr=False)


def wgmma_text(
    *,
    n: int = 8,
    tiles: int = 1,
    fence: bool = True,
    wait: bool = True,
    between: Sequence[str] = (),
    before_wait: Sequence[str] = (),
    a: str = "%rd2",
) -> str:
    """A warpgroup's product m64nNk16 of BF16, `tiles` accumulators at once, two products each.

    Args:
        n: 8 to 256, in steps of 8.
        tiles: accumulators of N/2 FP32 registers each.
        fence: whether ``wgmma.fence`` stands before the products.
        wait: whether ``wgmma.wait_group`` stands after them.
        between: lines between the first and the second product.
        before_wait: lines between commit and wait.
        a: operand A, a descriptor or registers ``{%r2, %r3, %r4, %r5}``.

    Raises:
        UsageError: an N that wgmma has not.
    """
    if n % 8 or not 8 <= n <= 256:
        raise UsageError(f"N = {n}", "is not one of wgmma's", legal="8 to 256 in steps of 8",
                         where="mmalab atlas --help")
    each = n // 2
    count = each * tiles
    tail = "1, 1, 0, 0" if a.startswith("%") else "1, 1, 0"
    products = [
        f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{"
        + ", ".join(f"%f{each * tile + i}" for i in range(each)) + f"}}, {a}, %rd3, %p1, {tail};"
        for tile in range(tiles)]
    body = [
        *(f"ld.global.f32 %f{i}, [%rd1+{4 * i}];" for i in range(count)),
        *(f"ld.global.u32 %r{i}, [%rd1+{4 * (count + i)}];" for i in range(2, 6)),
        *(["wgmma.fence.sync.aligned;"] if fence else []),
        *products, *between, *products,
        "wgmma.commit_group.sync.aligned;", *before_wait,
        *(["wgmma.wait_group.sync.aligned 0;"] if wait else []),
        "done:",
        *(f"st.global.f32 [%rd1+{4 * i}], %f{i};" for i in range(count)),
    ]
    lines = "".join(f"    {line}\n" for line in body)
    return f""".version 8.4
.target sm_90a
.address_size 64

.visible .entry pipeline(.param .u64 p_out, .param .u64 p_adesc, .param .u64 p_bdesc)
.maxntid 128, 1, 1
{{
    .reg .f32 %f<{count}>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<6>;
    .reg .pred %p<3>;
    ld.param.u64 %rd1, [p_out];
    ld.param.u64 %rd2, [p_adesc];
    ld.param.u64 %rd3, [p_bdesc];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd1, %rd1, %rd4;
    setp.ne.u32 %p1, %r1, 5;
    setp.lt.u32 %p2, %r1, 64;
{lines}    ret;
}}
"""


@dataclass(frozen=True, slots=True)
class _Case:
    text: str
    options: tuple[str, ...] = ()
    opt_level: int = 3


CASES: dict[str, _Case] = {
    "as it should be": _Case(wgmma_text()),
    "no fence": _Case(wgmma_text(fence=False)),
    "no wait": _Case(wgmma_text(wait=False)),
    "accumulator read in flight": _Case(
        wgmma_text(between=["st.global.f32 [%rd1+4096], %f0;"])),
    "A written in flight": _Case(
        wgmma_text(a="{%r2, %r3, %r4, %r5}", between=["add.u32 %r2, %r2, 1;"])),
    "wait of some warps": _Case(wgmma_text(before_wait=["@%p2 bra done;"])),
    "two m64n256 accumulators": _Case(wgmma_text(n=256, tiles=2)),
    "one m64n256 accumulator": _Case(wgmma_text(n=256)),
    "two m64n256 accumulators, spills told": _Case(
        wgmma_text(n=256, tiles=2), ("--warn-on-spills",)),
    "setmaxnreg, registers unknown": _Case(setmaxnreg_text()),
    "setmaxnreg under -g": _Case(setmaxnreg_text(), ("-g",), 0),
    "wgmma under -g": _Case(wgmma_text(), ("-g",), 0),
}


def provoked(toolkit: str | None = None, case: str | None = None) -> tuple[Provoked, ...]:
    """What a release says to each case (or one); cases without a word have no row.

    Raises:
        UsageError: no such case, or a message that :mod:`mmalab.atlas.explained` lacks.
        ToolError: the release is not installed.
    """
    if case is not None and case not in CASES:
        raise UsageError(f"case {case!r}", "is not one of the atlas", legal=list(CASES),
                         where="mmalab atlas --help")
    name = release(toolkit).toolkit
    return tuple(row for key in CASES if case in (None, key) for row in _said(key, name))


def numbered(number: str) -> tuple[Provoked, ...]:
    """What a number (``C7511``) stands for, release by release: the first case that shows it.

    Raises:
        UsageError: no case of any installed release has it.
    """
    seen = [row for tool in releases() for row in provoked(tool.toolkit)]
    found = {row.toolkit: row for row in reversed(seen) if row.number == number}
    if not found:
        raise UsageError(f"message {number}", "is not provoked by a case of the atlas",
                         legal=sorted({row.number for row in seen if row.number}),
                         where="mmalab atlas --what messages")
    return tuple(reversed(found.values()))


def _said(name: str, toolkit: str) -> Iterator[Provoked]:
    case = CASES[name]
    cubin = assemble(case.text, None, toolkit, opt_level=case.opt_level, options=case.options,
                     line_info=not case.options)
    need = cubin.resources.only
    for diagnostic in cubin.diagnostics:
        if diagnostic.message.startswith(".debug_"):
            continue  # a text without debug information under -g
        found = re.match(r"\((C\d+)\) (.*)", diagnostic.message)
        number, words = (found[1], found[2]) if found else ("", diagnostic.message)
        yield Provoked(name, toolkit, number, words, explain_message(words), need.registers,
                       need.spill_stores + need.spill_loads, need.stack, case.text)
