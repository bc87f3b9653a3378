"""The checker against ptxas: the same lines, the same verdicts.

Instructions are made from the table (every operand a register of a type that will do), mutated in
one operand, and given to both. One module holds hundreds of lines; ptxas names the lines that it
refuses, those are taken out, and the rest must assemble. Seeds are fresh and printed.

Deliberate differences, left out here: barrier counts beyond a CTA's 1024 threads and LUTs beyond a
byte (refused here, taken there), predicates in fragments (taken there, to no good), ``.f16x2``
registers as integers (taken or refused there by no rule).
"""

from __future__ import annotations

import random
import re

import pytest
from checking import SPACES, errors, header, kernel

from mmalab import isa
from mmalab.checker.types import REGISTER_TYPES, takes_register
from mmalab.errors import ToolError
from mmalab.isa import OperandSpec
from mmalab.toolchain import AssemblyError, assemble

TYPES = [t for t in REGISTER_TYPES if t != "f16x2"]
#: Findings about what a run would do: ptxas does not look.
BEYOND = {"misaligned-access", "out-of-bounds", "mbarrier-wait-unchecked"}
#: Deliberate differences by the words of the finding.
DELIBERATE = re.compile(r"in steps of 32|\(lut\)|\(a\) of bar\S* is |is a \.pred register")


def _register(wanted: str, rng: random.Random) -> str:
    return rng.choice([t for t in TYPES if takes_register(wanted, t)])


def _operand(spec: OperandSpec, rng: random.Random) -> str:
    match spec.role:
        case "address":
            return "[%u64_1]"
        case "immediate":
            return "{0, 0}" if spec.vector else str(spec.values[0] if spec.values else 1)
        case "sink":
            return "_"
    kind = _register(spec.type, rng)
    if spec.vector:
        return "{" + ", ".join(f"%{kind}_{i % 8}" for i in range(spec.count)) + "}"
    return f"%{kind}_{rng.randrange(8)}" + ("|%pred_3" if spec.pair_required else "")


def _swap(text: str, rng: random.Random) -> str:
    named = re.findall(r"%\w+_\d", text)
    return text.replace(rng.choice(named), f"%{rng.choice(TYPES)}_5", 1) if named else text


_MUTATIONS = {
    "swap": _swap,
    "integer": lambda _, rng: str(rng.choice([0, 1, 5, -1, 16, 31, 64, 255])),
    "float": lambda _, rng: rng.choice(["1.5", "0f3F800000", "0d3FF0000000000000"]),
    "sink": lambda *_: "_",
    "special": lambda _, rng: rng.choice(["%tid.x", "%clock64", "%laneid"]),
    "symbol": lambda _, rng: rng.choice(["tile", "gmem"]),
    "address": lambda _, rng: rng.choice(["[tile]", "[gmem]", "[%f32_2]", "[16]", "[p0]"]),
    "minus": lambda text, _: f"-{text}" if text[0] == "%" and "|" not in text else text,
    "not": lambda text, _: f"!{text}" if text[0] == "%" and "|" not in text else text,
    "shorter": lambda text, _: re.sub(r", [^,]*}$", "}", text),
    "unbraced": lambda text, _: text.strip("{}").split(",")[0],
    "pair": lambda text, _: f"{text}|%pred_5" if text[0] == "%" and "|" not in text else text,
}


def _lines(target: str, count: int, rng: random.Random) -> list[str]:
    heads: dict[str, list[str]] = {}
    for opcode in isa.forms():
        heads.setdefault(".".join(opcode.split(".")[:2]), []).append(opcode)
    found: list[str] = []
    while len(found) < count:
        opcode = rng.choice(heads[rng.choice(sorted(heads))])
        if opcode.startswith(("call", "bra", "brx")) or not isa.legal(opcode, target, (9, 5)):
            continue
        operands = [_operand(spec, rng) for spec in isa.find(opcode).operands]
        if operands and rng.random() < 0.8:
            at = rng.randrange(len(operands))
            choice = rng.choice([*_MUTATIONS, "drop", "add"])
            if choice == "drop":
                del operands[at]
            elif choice == "add":
                operands.insert(at, rng.choice(["%u32_7", "5", "%pred_7"]))
            else:
                operands[at] = _MUTATIONS[choice](operands[at], rng)
        found.append(f"{opcode} {', '.join(operands)};")
    return found


def _refused(lines: list[str], target: str) -> dict[str, str]:
    """The lines that ptxas refuses, with its words; lines that crash it get the word "crash"."""
    refused: dict[str, str] = {}
    live = list(lines)
    while live:
        text = kernel("\n".join(f"{{ {line} }}" for line in live), target)
        first = text[: text.index(live[0])].count("\n") + 1
        try:
            assemble(text, target, opt_level=0)
        except AssemblyError as error:
            named = {live[d.line - first]: d.message for d in error.diagnostics
                     if d.line is not None and 0 <= d.line - first < len(live)
                     and d.severity in ("error", "fatal")}
            if named:
                refused |= named
                live = [line for line in live if line not in named]
                continue
        except ToolError:
            pass
        else:
            return refused
        if len(live) == 1:
            return refused | {live[0]: "crash"}
        half = len(live) // 2
        return refused | _refused(live[:half], target) | _refused(live[half:], target)
    return refused


def _muddled(line: str, words: str) -> bool:
    """ptxas died, or speaks of another instruction than the line's: no verdict on it."""
    about = re.search(r"instruction '_?(\w+)", words)
    return words == "crash" or "Internal compiler" in words or (
        about is not None and about[1] not in line and not line.startswith(about[1]))


@pytest.mark.toolkit
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_the_checker_and_ptxas_agree(target):
    """On mutated instructions of every family, at least 98 in 100 verdicts are the same."""
    seed = random.randrange(1 << 32)  # noqa: S311
    rng = random.Random(seed)  # noqa: S311
    lines = list(dict.fromkeys(_lines(target, 300, rng)))
    refused = _refused(lines, target)
    judged, differ = 0, []
    for line in lines:
        said = [f for f in errors(kernel(line, target)) if f.code not in BEYOND]
        words = refused.get(line, "")
        if _muddled(line, words) or any(DELIBERATE.search(f.message) for f in said):
            continue
        judged += 1
        if bool(said) != bool(words):
            differ.append(f"{line}\n    ptxas: {words or 'ok'}\n    here:  {said}")
    print(f"seed {seed}, {target}: {judged - len(differ)} of {judged} agree")
    assert judged > 250
    assert len(differ) <= 0.02 * judged, "\n".join([f"seed {seed}", *differ])


MODULES = [
    (".shared .b32 a; .shared .b32 a;", True),
    (".reg .b32 %r<4>; .reg .b32 %r1;", True),
    (".reg .b32 a; { .reg .f32 a; add.f32 a,a,a; } add.u32 a,a,a;", False),
    ("bra L; { L: ret; }", True),
    ("{ bra L; } L: ret;", False),
    ("L: { L: bra L; } bra L;", False),
    (".reg .b32 L; L: ret;", True),
    (".reg .u32 r; T: .branchtargets A, B; brx.idx r, T; A: ret;", True),
    (".reg .u32 r; mov.u32 r, s; .shared .b32 s;", True),
    (".shared .align 3 .b8 a[4];", True),
    (".shared .b32 a = 5;", True),
    (".reg .b32 %r<0>;", False),
    ("call nofunc;", True),
    (".reg .u32 r; mov.u32 r, %tid.w;", False),
    (".reg .u32 r; mov.b32 r, %envreg32;", True),
]


@pytest.mark.toolkit
@pytest.mark.parametrize(("body", "wrong"), MODULES)
def test_declarations_as_ptxas_judges_them(body, wrong):
    """Scopes, labels and declarations: refused by both, or by neither."""
    text = f"{header()}{SPACES}.visible .entry k() {{\n{body}\nret;\n}}\n"
    assert bool(errors(text)) is wrong
    try:
        assemble(text)
    except AssemblyError:
        assert wrong
    else:
        assert not wrong
