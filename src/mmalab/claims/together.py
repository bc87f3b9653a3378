"""Many kernels read back at once: the disassembler's start-up costs more than its work.

Each text is tried alone, so that a refusal is that text's; what is accepted becomes a kernel of one
module, which is assembled and disassembled once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mmalab.claims.assembled import build, build_many
from mmalab.toolchain import Function

__all__ = ["Read", "join_kernels", "read_together"]

_HEADER = re.compile(r"\s*\.version (\S+)\s+\.target (\S+)\s+\.address_size 64\n")


@dataclass(frozen=True)
class Read:
    """One kernel: its code, or the words with which it was refused."""

    function: Function | None
    message: str = ""

    @property
    def opcodes(self) -> list[str]:
        """Opcodes with modifiers, in order; none where it was refused."""
        return [] if self.function is None else [i.mnemonic for i in self.function.instructions]

    @property
    def products(self) -> list[str]:
        """The matrix instructions as text, in order."""
        return [] if self.function is None else [
            i.text for i in self.function.instructions if i.matrix]


def read_together(texts: Mapping[str, str], target: str, toolkit: str) -> Mapping[str, Read]:
    """Every text for one target by one release, by name."""
    return _read(tuple(texts.items()), target, toolkit)


@lru_cache(maxsize=64)
def _read(texts: tuple[tuple[str, str], ...], target: str, toolkit: str) -> Mapping[str, Read]:
    tried = build_many({name: (text, target, toolkit) for name, text in texts})
    taken = [(name, text) for name, text in texts if tried[name].accepted]
    found = {name: Read(None, each.message) for name, each in tried.items()}
    if taken:
        sass = build(join_kernels([text for _, text in taken]), target, toolkit).made.sass
        entries = {function.name: function for function in sass.entries}
        found |= {name: Read(entries[f"kernel_{at}"]) for at, (name, _) in enumerate(taken)}
    return found


def join_kernels(modules: Sequence[str]) -> str:
    """One module with the kernels of several, ``kernel_0`` ... in order, under the newest of their
    versions and the first's target.

    Raises:
        ValueError: a module that does not begin with version, target and address size.
    """
    headers = [_HEADER.match(text) for text in modules]
    bodies, versions = [], []
    for at, (text, header) in enumerate(zip(modules, headers, strict=True)):
        if header is None:
            raise ValueError(f"module {at} has no header of version, target and address size")
        versions.append(tuple(map(int, header[1].split("."))))
        bodies.append(re.sub(r"\.entry \w+", f".entry kernel_{at}", text[header.end():]))
    major, minor = max(versions)
    target = headers[0][2] if headers[0] else ""
    return "\n".join((f".version {major}.{minor}", f".target {target}", ".address_size 64",
                      *bodies))
