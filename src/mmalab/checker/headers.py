"""The module's first lines: that there is such a target, such a version, and that they fit.

sm_120a came with PTX 8.7: ``.version 8.6`` with it is an error that names 8.7.
"""

from __future__ import annotations

from collections.abc import Iterable

from mmalab.checker.rule import Fault, message
from mmalab.checker.subject import Subject
from mmalab.isa.targets import TARGETS

__all__ = ["NEWEST", "known_target", "known_version", "options", "target_in_version"]

#: The newest version that the assembler of CUDA 13.5 takes.
NEWEST = (9, 5)


def _header_line(subject: Subject, word: str) -> int:
    before = subject.module.text.partition(word)[0]
    return before.count("\n") + 1


def known_target(subject: Subject) -> Iterable[Fault]:
    """``.target`` names a chip that the assembler knows."""
    if subject.target is None:
        yield Fault(message(f".target {subject.module.target}", "is no target of the PTX ISA that "
                            "is still assembled; instructions are judged for no chip in particular",
                            TARGETS), _header_line(subject, ".target"))


def known_version(subject: Subject) -> Iterable[Fault]:
    """``.version`` is not newer than the newest assembler."""
    if subject.version > NEWEST:
        yield Fault(message(f".version {_dotted(subject.version)}",
                            f"is newer than {_dotted(NEWEST)}, the newest that ptxas 13.5 takes",
                            [f"up to {_dotted(NEWEST)}"]), _header_line(subject, ".version"))


def target_in_version(subject: Subject) -> Iterable[Fault]:
    """The target exists in the module's PTX version."""
    on, version = subject.target, subject.version
    if on is not None and version < on.ptx:
        yield Fault(message(f".version {_dotted(version)}", f"does not know {on}, which came with "
                            f"{_dotted(on.ptx)}", [f".version {_dotted(on.ptx)} or newer"]),
                    _header_line(subject, ".version"))
    # Without the directive the assembler takes the host's size.
    if subject.module.address_size != 64 and ".address_size" in subject.module.text:
        yield Fault(message(f".address_size {subject.module.address_size}",
                            "is not assembled any more on sm_90 and later",
                            [".address_size 64"]), _header_line(subject, ".address_size"),
                    code="directive-conflict",
                    severity="error" if on is not None and on.number >= 90 else "warning")


def options(subject: Subject) -> Iterable[Fault]:
    """Options behind the target that no chip of today has."""
    if "map_f64_to_f32" in subject.module.target_options:
        yield Fault(message("map_f64_to_f32", "is for chips without double precision"),
                    _header_line(subject, ".target"))


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
