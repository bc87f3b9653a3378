"""What a warpgroup executes together: a part of it, in another order, twice without a meeting."""

from __future__ import annotations

import pytest
from mutants.hopper_snippets import descriptor, product, run

FENCE, COMMIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
WAIT = "wgmma.wait_group.sync.aligned 0;\n"
DEC, INC = "setmaxnreg.dec.sync.aligned.u32 {};\n", "setmaxnreg.inc.sync.aligned.u32 {};\n"
ZEROES = "".join(f"st.shared.b32 [%r1+{at}], 0;\n" for at in range(0, 4096, 512))
OPERANDS = ("shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s;\n" + ZEROES
            + "fence.proxy.async.shared::cta; bar.sync 0;\n"
            + descriptor("%rd0", leading=128, stride=256, swizzle=0)
            + descriptor("%rd1", 2048, leading=128, stride=256, swizzle=0))
#: Registers at entry are known, so that setmaxnreg counts.
KNOWN = ".reqntid 128 .maxnreg 128"
ROUND = "bar.sync 1, 128;\n"


def found(body: str, **options: object) -> list[tuple[str, str]]:
    """Codes and severities."""
    return [(f.code, f.severity) for f in run(body, **options).findings]


def only_some(instruction: str, condition: str = "lt", warp: int = 1,
              otherwise: str = "ret") -> str:
    """Warps that fulfil the condition go on, the others take `otherwise`."""
    return (f"setp.{condition}.u32 %p1, %w, {warp};\n@%p1 bra GO;\n{otherwise};\nGO:\n"
            + instruction)


@pytest.mark.parametrize("instruction", [FENCE, COMMIT, WAIT, DEC.format(40)])
@pytest.mark.parametrize("otherwise", ["ret", "bra OUT"])
@pytest.mark.parametrize(("condition", "warp"), [("lt", 1), ("eq", 3), ("ne", 2)])
def test_an_instruction_by_a_part_of_a_warpgroup(instruction, otherwise, condition, warp):
    """The rest ends, or comes later past the instruction: one error, at the instruction."""
    body = only_some(instruction, condition, warp, otherwise) + "OUT: bar.sync 0;\n"
    if otherwise == "ret":
        body = body.replace("bar.sync 0;", "")
    result = run(body, attributes=KNOWN)
    assert [(f.code, f.severity) for f in result.findings] == [("divergent-collective", "error")]
    assert "all warps of a warpgroup must execute it" in result.findings[0].message
    line = next(n for n, words in enumerate(result.program.sites)
                if words.shown.startswith(instruction[:9]))
    assert result.findings[0].where.line == result.program.sites[line].line


@pytest.mark.parametrize("instruction", [FENCE, COMMIT, WAIT, DEC.format(40)])
def test_an_instruction_by_a_whole_warpgroup(instruction):
    """One of three warpgroups goes another way as a whole."""
    body = only_some(instruction, "lt", 4, "bra OUT") + "OUT: bar.sync 0;\n"
    assert found(body, block=384, attributes=".reqntid 384 .maxnreg 128") == []


@pytest.mark.parametrize("left_out", ["wgmma.fence", "wgmma.commit", "wgmma.wait"])
def test_one_warp_leaves_out_one_step(left_out):
    """The product is executed by all, but one warp skips a step beside it."""
    steps = [FENCE, product(), COMMIT, WAIT]
    body = OPERANDS + "setp.eq.u32 %p1, %w, 2;\n"
    for number, step in enumerate(steps):
        skipped = f"@%p1 bra L{number};\n{step}L{number}:\n"
        body += skipped if step.startswith(left_out) else step
    codes = found(body)
    assert ("divergent-collective", "error") in codes
    assert found(OPERANDS + "".join(steps)) == []


def test_two_copies_of_one_instruction():
    """Warps that execute another line in its place; the finding names both."""
    body = only_some(FENCE + "bra OUT;\n", "lt", 2, "\n" + FENCE + "bra OUT") + "OUT:\n"
    result = run(body)
    assert [f.code for f in result.findings] == ["divergent-collective"]
    assert "has executed 'wgmma.fence.sync.aligned" in result.findings[0].message


def test_a_loop_that_one_warp_leaves_earlier():
    """Three rounds in warps 0 to 2, two in warp 3."""
    body = ("setp.eq.u32 %p1, %w, 3; selp.u32 %r1, 2, 3, %p1;\nAGAIN:\n" + FENCE + COMMIT + WAIT
            + "sub.u32 %r1, %r1, 1; setp.gt.u32 %p2, %r1, 0; @%p2 bra AGAIN;\n")
    assert found(body) == [("divergent-collective", "error")]
    assert found(body.replace("%w, 3", "%w, 9")) == []


def test_lanes_that_have_ended():
    """Half of a warp ends before; the rest is no warp of a warpgroup."""
    body = "setp.eq.u32 %p1, %t, 5; @%p1 ret;\n" + FENCE
    assert ("divergent-collective", "error") in found(body)


@pytest.mark.parametrize(("between", "codes"), [
    ("", [("divergent-collective", "warning")]),
    ("bar.warp.sync -1;\n", [("divergent-collective", "warning")]),
    (ROUND, []),
    ("bar.sync 0;\n", []),
])
def test_two_setmaxnreg_need_a_meeting_between(between, codes):
    """PTX asks for an explicit synchronisation of the warpgroup's warps."""
    body = DEC.format(40) + between + INC.format(64)
    assert found(body, attributes=KNOWN) == codes


def test_other_counts_in_one_warpgroup():
    """Two setmaxnreg with different counts; unknown registers at entry change nothing."""
    body = only_some(DEC.format(40) + "bra OUT;\n", "lt", 2,
                     "\n" + DEC.format(48) + "bra OUT") + "OUT:\n"
    for attributes in (KNOWN, ""):
        assert found(body, attributes=attributes) == [("divergent-collective", "error")]
