"""The handed fact matrices as specimens: what ptxas 13.5 accepted, instruction by instruction."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mmalab.atlas.specimens import Specimen

#: Names of the matrices' registers and variables; a specimen's module has others.
_NAME = re.compile(r"(?<![.%\w:])(fd|addr|[rfhpbd])(\d*)\b(?!:)")
_FILES = {"fd": "d", "d": "q"}


@dataclass(frozen=True)
class Fact:
    """One row: its name, targets that took it, messages of the others."""

    name: str
    accepted: tuple[str, ...]
    messages: Mapping[str, str]
    specimen: Specimen

    @property
    def targets(self) -> tuple[str, ...]:
        return (*self.accepted, *self.messages)


def read_facts(folder: Path) -> list[Fact]:
    """Every row of the four matrices of instructions. (The message of a refusal is the first line
    that was printed, which may be advice.)"""
    found = []
    for path in sorted(folder.glob("isa_*_matrix.json")):
        for name, row in json.loads(path.read_text(encoding="utf-8")).items():
            messages = {target: re.sub(r"^(error|fatal|info)\s*:\s*", "", words)
                        for target, words in row["err"].items()}
            found.append(Fact(name, tuple(row["ok"]), messages, _specimen(name, row["ptx"])))
    return found


def _specimen(name: str, ptx: str) -> Specimen:
    text = re.sub(r"^\{\s*\.reg[^;]*;|\}$", "", ptx) if ptx[0] == "{" else ptx
    pieces = [piece.strip() for piece in text.split(";") if piece.strip()]
    text = "; ".join(_renamed(piece) for piece in pieces) + ";"
    highest: dict[str, int] = {}
    for file, number in re.findall(r"%([pbhrqofd])(\d+)", text):
        highest[file] = max(highest.get(file, 0), int(number))
    return Specimen(name, pieces[-1].split()[0], text, "straight", tuple(highest.items()))


def _renamed(piece: str) -> str:
    """Operands stand behind the opcode, whose own words look like some of their names."""
    opcode, space, rest = piece.partition(" ")
    return opcode + space + _NAME.sub(_name, rest)


def _name(found: re.Match[str]) -> str:
    file, number = found.groups()
    if file == "addr":
        return "%q999" if number else "tile"
    return f"%{_FILES.get(file, file)}{number}" if number else found[0]
