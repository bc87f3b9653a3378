"""The capability matrix: which form assembles for which target, and ptxas's words where not.

    >>> row, = matrix(["wgmma.fence.sync.aligned"], ["sm_90a", "sm_100a"])     # doctest: +SKIP
    >>> row.targets, row.messages
    (('sm_90a',), {'sm_100a': "Instruction 'wgmma.fence' not supported on .target 'sm_100a'"})

A row of the instruction table stands for a family of spellings. The matrix has one answer for each
*spelling class*: every combination of a row's required words where these are at most 64, else each
word once, then each optional word once (:func:`mmalab.isa.forms`); and for each of its operand
lists, with and without the operands that may be missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mmalab import isa
from mmalab.atlas.judging import Judgement, judge_all
from mmalab.atlas.releases import known_targets, newest_ptx, release, written
from mmalab.atlas.specimens import Specimen, chosen
from mmalab.errors import UsageError

__all__ = ["Answer", "matrix"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One form, one toolkit: the targets that take it, and what ptxas says for the others.

    `form` is the opcode; where an opcode takes several operand lists, the further ones follow it.
    `messages` has every refused target with ptxas's words (several errors joined by ``; ``),
    `advice` its performance advisories by target. A target that the toolkit does not know is in
    neither.
    """

    form: str
    toolkit: str
    targets: tuple[str, ...]
    messages: Mapping[str, str]
    advice: Mapping[str, str]
    version: str
    specimen: Specimen = field(repr=False)

    @property
    def ptx(self) -> str:
        """The module to repeat it with, for the first target that takes it (or refuses it)."""
        return self.module(next(iter(self.targets or self.messages)))

    def module(self, target: str) -> str:
        """The module for one target."""
        return self.specimen.module(target, self.version)

    def reason(self, target: str) -> str:
        """Why, in words: by which rule of the instruction table, and what does the job there."""
        verdict = isa.legal(self.specimen.text, target, self.version)
        return verdict.reason + (f"; instead: {verdict.instead}" if verdict.instead else "")


def matrix(
    forms: str | Iterable[str] | None = None,
    targets: Iterable[str] | None = None,
    toolkit: str | None = None,
    ptx_version: str | None = None,
) -> tuple[Answer, ...]:
    """Assemble forms for targets, many at a time; kept by content.

    Args:
        forms: a pattern as of :func:`mmalab.isa.forms`, opcodes, or None for all.
        targets: names; None for all that the toolkit knows.
        toolkit: ``"12.9"``; None for the newest.
        ptx_version: ``"8.6"``; None for the newest that the toolkit reads.

    Raises:
        UsageError: no such target, form or version.
        ToolError: the toolkit is not installed, or does not know a target or the version.
    """
    specimens, ptxas = chosen(forms), release(toolkit)
    names = known_targets(ptxas, targets)
    version = ptx_version or written(newest_ptx(ptxas))
    if tuple(map(int, version.split("."))) > newest_ptx(ptxas):
        raise UsageError(f"PTX {version}", f"is newer than ptxas {ptxas} reads",
                         legal=f"up to {written(newest_ptx(ptxas))}", where="mmalab atlas --help")
    judged = judge_all(ptxas, specimens, [(name, version) for name in names])
    columns = [judged[name, version] for name in names]
    return tuple(_answer(specimen, ptxas.toolkit, version, names, verdicts)
                 for specimen, *verdicts in zip(specimens, *columns, strict=True))


def _answer(specimen: Specimen, toolkit: str, version: str, names: Sequence[str],
            verdicts: Sequence[Judgement]) -> Answer:
    pairs = list(zip(names, verdicts, strict=True))
    return Answer(
        specimen.name, toolkit, tuple(name for name, v in pairs if not v.errors),
        {name: "; ".join(v.errors) for name, v in pairs if v.errors},
        {name: "; ".join(v.advice) for name, v in pairs if v.advice}, version, specimen)
