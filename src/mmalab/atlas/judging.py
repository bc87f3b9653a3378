"""Many specimens in one run of the assembler, each judged as if it were alone.

ptxas names the line of every error and goes on, so one run finds all refusals of thousands of
instructions, in a tenth of a second; a second run, without them, must then succeed. Two things
would make a batch differ from a run alone, and both are excluded:

* an error without a line of ours (a fatal one, one in a macro of the assembler) could belong to
  any instruction: the batch is halved until it is alone;
* a text that cannot be tokenised stops the reading there: what follows is judged in the next run.

Accepted means that a cubin was written, code generation included. Answers are kept by content: the
assembler itself, target, version and the texts.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mmalab.atlas.specimens import Specimen, module
from mmalab.errors import ToolError
from mmalab.toolchain import cache
from mmalab.toolchain.invoke import Outcome, invoke, workspace
from mmalab.toolchain.locate import Tool

__all__ = ["Judgement", "judge", "judge_all"]

#: Specimens of one run: enough that starting the assembler costs little, few enough that halving
#: is cheap and that the processors share the work.
_BATCH = 1000

_LINE = re.compile(r"^ptxas batch\.ptx, line (\d+); (fatal|error|warning|info)\s*: ?(.*)$")
_OTHER = re.compile(r"^ptxas .*?(fatal|error)\s*: *(.*)$")
_ABORTED = "Ptx assembly aborted"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the assembler says of one specimen: errors (none: it assembles) and advice."""

    errors: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether a cubin was written."""
        return not self.errors


_FINE = Judgement()


def judge_all(
    ptxas: Tool, specimens: Sequence[Specimen], where: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], list[Judgement]]:
    """:func:`judge` for many (target, PTX version), the assembler on all processors."""
    places = list(dict.fromkeys(where))
    batches = _batches(specimens)
    tasks = [(place, batch) for place in places for batch in batches]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        done = list(pool.map(
            lambda task: _kept(ptxas, [specimens[at] for at in task[1]], *task[0]), tasks))
    found = {place: [_FINE] * len(specimens) for place in places}
    for (place, batch), judged in zip(tasks, done, strict=True):
        for at, judgement in judged.items():
            found[place][batch[at]] = judgement
    return found


def judge(ptxas: Tool, specimens: Sequence[Specimen], target: str, version: str) -> list[Judgement]:
    """One judgement for each specimen, in order.

    Raises:
        ToolError: the assembler ends with something that is no verdict (a crash of one specimen
            alone is a verdict).
    """
    return judge_all(ptxas, specimens, [(target, version)])[target, version]


def _batches(specimens: Sequence[Specimen]) -> list[list[int]]:
    """Positions of each batch; those that are refused without a line are kept together."""
    apart = [at for at, s in enumerate(specimens) if s.frame == "apart"]
    rest = [at for at, s in enumerate(specimens) if s.frame != "apart"]
    batches = [rest[first:first + _BATCH] for first in range(0, len(rest), _BATCH)]
    return [*batches, apart] if apart else batches


def _kept(ptxas: Tool, specimens: Sequence[Specimen], target: str, version: str
          ) -> Mapping[int, Judgement]:
    """Judgements that are not simply `accepted`, by position."""
    text, _ = module(specimens, target, version)
    key = cache.digest("atlas batch 1", ptxas.identity, target, text)
    kept = cache.load(key)
    if kept is not None:
        words, rows = json.loads(kept)
        return {at: Judgement(tuple(words[i] for i in errors), tuple(words[i] for i in advice))
                for at, errors, advice in rows}
    found: dict[int, Judgement] = {}
    _settle(ptxas, specimens, list(range(len(specimens))), target, version, found)
    words = list(dict.fromkeys(w for j in found.values() for w in (*j.errors, *j.advice)))
    number = {word: i for i, word in enumerate(words)}
    cache.store(key, json.dumps([words, [
        (at, [number[w] for w in j.errors], [number[w] for w in j.advice])
        for at, j in sorted(found.items())]]).encode())
    return found


def _settle(ptxas: Tool, specimens: Sequence[Specimen], todo: list[int], target: str,
            version: str, found: dict[int, Judgement]) -> None:
    """Judge the specimens at the positions `todo`; those that are not plainly accepted go into
    `found`."""
    while todo:
        outcome, owners = _run(ptxas, [specimens[at] for at in todo], target, version)
        errors, advice = _by_line(outcome, owners)
        if outcome.code == 0:
            found.update({todo[i]: Judgement((), words) for i, words in advice.items()})
            return
        if not errors:
            if len(todo) == 1:
                found[todo[0]] = Judgement((_unlined(outcome),))
                return
            half = len(todo) // 2
            _settle(ptxas, specimens, todo[:half], target, version, found)
            _settle(ptxas, specimens, todo[half:], target, version, found)
            return
        found.update({todo[i]: Judgement(words) for i, words in errors.items()})
        todo = [at for i, at in enumerate(todo) if i not in errors]


def _run(ptxas: Tool, specimens: Sequence[Specimen], target: str, version: str
         ) -> tuple[Outcome, dict[int, int]]:
    text, owners = module(specimens, target, version)
    with workspace() as folder:
        (folder / "batch.ptx").write_text(text, encoding="utf-8")
        command = [str(ptxas.path), f"-arch={target}", "batch.ptx", "-o", "batch.cubin"]
        return invoke(command, timeout=600.0, folder=folder), owners


def _by_line(outcome: Outcome, owners: Mapping[int, int]
             ) -> tuple[dict[int, tuple[str, ...]], dict[int, tuple[str, ...]]]:
    """Errors and advice by specimen, in the order in which they are said, each once."""
    errors: dict[int, dict[str, None]] = {}
    advice: dict[int, dict[str, None]] = {}
    for line in outcome.output.splitlines():
        said = _LINE.match(line)
        if said is None:
            continue
        owner = owners.get(int(said[1]))
        if owner is None:
            raise ToolError("ptxas", "judges a line that holds no specimen",
                            command=outcome.command, output=line)
        kind = errors if said[2] in ("fatal", "error") else advice
        kind.setdefault(owner, {})[said[3].strip()] = None
    return ({at: tuple(words) for at, words in errors.items()},
            {at: tuple(words) for at, words in advice.items()})


def _unlined(outcome: Outcome) -> str:
    """What is said of the only specimen, without a line of it."""
    said = [m[2].strip() for m in map(_OTHER.match, outcome.output.splitlines())
            if m and not m[2].startswith(_ABORTED)]
    return said[0] if said else f"ptxas ended with code {outcome.code}"
