"""``--expect QMMA.SF:2``: what a build has to hold, for people and for continuous integration.

An opcode is named by its first parts: ``QMMA`` counts every QMMA, ``QMMA.SF`` the scaled ones,
``HGMMA.64x256x16`` one shape; a number behind a colon is the least count (1 without it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mmalab.errors import UsageError

__all__ = ["missing"]


def missing(wanted: Iterable[str], opcodes: Mapping[str, int]) -> list[str]:
    """What of `wanted` is not there, in words; `opcodes` counts full spellings.

    Raises:
        UsageError: a count that is none.
    """
    matrix = ", ".join(f"{n} {word}" for word, n in opcodes.items() if "MMA" in word)
    lines = []
    for text in wanted:
        word, colon, count = text.partition(":")
        if not word or (colon and not count.isdigit()):
            raise UsageError(f"--expect {text}", "is no opcode with a least count",
                             legal="QMMA.SF or QMMA.SF:2", where="mmalab asm --help")
        least = int(count or 1)
        found = sum(n for name, n in opcodes.items() if f"{name}.".startswith(f"{word}."))
        if found < least:
            lines.append(f"expected {least} {word}, found {found}; matrix instructions: "
                         f"{matrix or 'none'}")
    return lines
