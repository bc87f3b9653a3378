"""Whatever the text, there is an answer: findings, or one clear error."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from checking import SPACES, codes, found, header

from mmalab.checker import RULES, check
from mmalab.errors import SourceError, UsageError
from mmalab.findings import CODES, verdict
from mmalab.ptx import parse
from mmalab.ptx.kernel import Kernel

CORPUS = sorted((Path(__file__).parent.parent / "corpus" / "ptx").glob("*.ptx"))


def _mutant(text: str, rng: random.Random) -> str:
    """The text with one word dropped, doubled, or replaced by another of its words."""
    words = text.split(" ")
    at, other = rng.randrange(len(words)), rng.choice(words)
    words[at:at + 1] = rng.choice([[], [words[at]] * 2, [other], [words[at], other]])
    return " ".join(words)


def test_mutated_text_is_judged_or_refused():
    """Random damage to compilers' output ends in findings or a SourceError, never in a crash."""
    seed = random.randrange(1 << 32)  # noqa: S311
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311
    judged = 0
    for path in rng.sample(CORPUS, 12):
        text = "\n".join(path.read_text().splitlines()[:400])
        text = text[: text.rfind(";") + 1] + "\n}\n"
        for _ in range(8):
            try:
                findings = check(_mutant(text, rng))
            except SourceError:
                continue
            judged += 1
            assert all(f.where.line is None or f.where.line >= 1 for f in findings)
    assert judged


def test_a_name_that_is_missing_everywhere_is_one_finding():
    """A thousand uses of one undeclared register are one finding with all its lines."""
    [finding] = found("mov.u32 %r1, 5;\n" * 1000, registers=False)
    assert finding.witness is not None
    assert len(finding.witness["lines"]) == 1000


def test_findings_come_in_line_order():
    """Whatever rule found them, findings are sorted by line."""
    lines = [f.where.line or 0 for f in found(
        "add.f31 %f32_0, %f32_1;\nmov.u32 %nosuch, 5;\nadd.f32 %f32_0, %u32_1, %f32_2;\n"
        "ld.shared.b32 %b32_0, [tile+2];")]
    assert lines == sorted(lines)
    assert len(lines) == 4


def test_text_module_and_kernel_are_one():
    """Text, a parsed module and a kernel value give the same findings."""
    text = f"{header('sm_80')}{SPACES}.visible .entry k() {{ bra L; ret; }}\n"
    value = Kernel("k", text, "k", (1, 1, 1), (32, 1, 1), (), "sm_80")
    assert check(text) == check(parse(text)) == check(value)
    assert codes(check(text)) == ["undeclared-name"]


def test_bad_arguments_are_errors():
    """Text that is no PTX and targets that are none raise, with the place and the choices."""
    with pytest.raises(SourceError, match=r"begins with \.version"):
        check("hello")
    with pytest.raises(UsageError, match="sm_90a"):
        check(header(), "sm_91")


def test_verdicts():
    """Errors make a verdict, warnings only when strict."""
    warned = found("", attributes=".maxnreg 300")
    assert (verdict(warned), verdict(warned, strict=True)) == ("clean", "findings")
    assert verdict(found("bra L;")) == "findings"


def test_the_table_of_rules():
    """Rules have distinct names, codes that exist, and a sentence each."""
    assert len({rule.name for rule in RULES}) == len(RULES)
    assert {rule.code for rule in RULES} <= set(CODES)
    assert all(rule.summary and rule.source for rule in RULES)
