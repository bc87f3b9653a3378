"""The table against the assembler itself: random spellings of every row, both verdicts compared."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path

import pytest

from mmalab import isa
from mmalab.isa.index import all_rows
from mmalab.toolchain.locate import Tool, find

pytestmark = pytest.mark.toolkit

#: Rows whose operands (labels, functions, kernels' ends) do not fit into one straight line.
_NOT_STRAIGHT = frozenset({"brx", "call", "alloca", "stackrestore", "trap", "exit", "ret", "bra",
                           "st.bulk"})
#: Their 32-bit forms belong to .address_size 32, which assemblers no longer take.
_POINTERS = frozenset({"cvta", "mapa", "getctarank", "stacksave"})
_WINDOWS = {"shared": "tile", "shared::cta": "tile", "shared::cluster": "tile", "const": "table",
            "local": "own", "param": "given", "param::entry": "given"}
_FILES = {8: "%b", 16: "%h", 32: "%r", 64: "%q", 128: "%o", 1: "%p"}
_HEAD = """.version 9.5
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.const .align 16 .b8 table[256];
.visible .entry k(.param .align 16 .b8 given[256]) {{
.reg .pred %p<400>; .reg .b8 %b<400>; .reg .b16 %h<400>; .reg .b32 %r<400>; .reg .b64 %q<400>;
.reg .f32 %f<400>; .reg .f64 %d<400>; .reg .b128 %o<400>; .local .align 16 .b8 own[64];
"""


def _register(type_name: str, number: int) -> str:
    file = {"f32": "%f", "f64": "%d", "s2": "%r", "u2": "%r"}.get(type_name)
    return f"{file or _FILES[isa.type_bits(type_name)]}{number}"


#: Families whose addresses are each in a space of their own, or in Tensor Memory.
_ASYNCHRONOUS = ("cp.async.bulk", "cp.reduce", "tensormap", "multimem", "tcgen05")


def _base(form: isa.Form, spec: isa.OperandSpec) -> str:
    """A variable or register of the space that the address must be in."""
    if form.family.startswith("tcgen05"):
        near = spec.name == "mbar" or "shared::cta" in form.modifiers
        generic = form.family in ("tcgen05.alloc", "tcgen05.commit")
        return "tile" if near else "%q399" if generic else "%r399"
    if spec.vector:
        return "%q399"
    if form.family.endswith(".tensor") or spec.name == "mbar":
        return "tile"
    space = form.modifiers.get("source" if spec.name == "b" else "space", "")
    return "tile" if space.startswith("shared") else "%q399"


def _operand(form: isa.Form, spec: isa.OperandSpec, number: int) -> str:
    if spec.role == "address" and form.family.startswith(_ASYNCHRONOUS):
        base = _base(form, spec)
        inside = ", ".join(f"%r{number + i}" for i in range(spec.count))
        return f"[{base}, {{{inside}}}]" if spec.vector else f"[{base}]"
    if spec.role == "address":
        window = _WINDOWS.get(form.modifiers.get("space", ""), "%q63")
        mine = spec.name != "a" or form.family != "cp.async"
        return f"[{'tile' if spec.name == 'mbar' else window if mine else '%q63'}]"
    if spec.role == "immediate":
        value = str(spec.values[0] if spec.values else 0)
        return f"{{{value}, {value}}}" if spec.vector else value
    if spec.role == "sink":
        return "_"
    if spec.values:
        return str(spec.values[1])
    if spec.vector:
        inside = (_register(spec.type, number + i) for i in range(spec.count))
        return "{" + ", ".join(inside) + "}"
    return _register(spec.type, number) + (f"|%p{number + 1}" if spec.pair else "")


def _instruction(form: isa.Form, specs: tuple[isa.OperandSpec, ...]) -> str:
    texts, number = [], 0
    for spec in specs:
        texts.append(_operand(form, spec, number))
        number += spec.count
    return f"{form.key} {', '.join(texts)};"


def _spellings(rng: random.Random) -> list[str]:
    """One random spelling of each row, whole with operands."""
    found, other = [], rng.choice("12")  # a function has one .cta_group
    for row in all_rows():
        if row.head in _NOT_STRAIGHT or row.syntax.startswith("st.bulk"):
            continue
        words = [rng.choice(e.words) for e in rng.choice(row.variants)
                 if not e.optional or rng.random() < 0.35]
        form = isa.find(".".join((row.head, *words)))
        if row.head in _POINTERS and form.key.endswith(".u32"):
            continue
        if form.modifiers.get("space", "").startswith("param") and row.head in ("ld", "st"):
            continue
        listed = rng.choice((form.operands, *form.others))
        whole = rng.random() < 0.5
        specs = tuple(spec for spec in listed if whole or not spec.optional)
        if form.until is None and form.modifiers.get("cta_group") != other:
            found.append(_instruction(form, specs))
    return found


def _refused(ptxas: Tool, target: str, instructions: list[str], folder: Path) -> dict[str, str]:
    """What the assembler refuses and its message, taking the rest again until it assembles."""
    head = _HEAD.format(target=target)
    todo, refused = list(instructions), {}
    while todo:
        body = "".join(f"{one}\n" for one in todo)
        (folder / "all.ptx").write_text(head + body + "ret;\n}\n", encoding="utf-8")
        done = subprocess.run([ptxas.path, "-O0", f"-arch={target}", folder / "all.ptx", "-o",
                               folder / "all.cubin"], capture_output=True, text=True, check=False)
        if done.returncode == 0 or "C7600" in done.stderr:
            break  # (C7600: too many accumulators at once, which is not what was asked)
        lines = re.findall(r"line (\d+); (?:error|fatal)\s*: (.*)", done.stderr)
        bad = {int(line) - head.count("\n") - 1: message for line, message in lines}
        assert bad, done.stderr[:2000]
        refused |= {todo[i]: message for i, message in bad.items()}
        todo = [one for i, one in enumerate(todo) if i not in bad]
    return refused


@pytest.mark.parametrize("target", ["sm_75", "sm_90a", "sm_107a", "sm_120f"])
def test_the_assembler_agrees(target: str, tmp_path: Path) -> None:
    """What is legal by the table assembles, what is not does not (fresh spellings each time)."""
    seed = random.randrange(1 << 32)  # noqa: S311 - not cryptography
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311 - not cryptography
    instructions = _spellings(rng)
    assert len(instructions) > 500
    refused = _refused(find("ptxas", "13.5"), target, instructions, tmp_path)
    wrong = [
        (one, isa.legal(one, target).reason, refused.get(one, "assembles"))
        for one in instructions if isa.legal(one, target).legal == (one in refused)
    ]
    assert wrong == []
