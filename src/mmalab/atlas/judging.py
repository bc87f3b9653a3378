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
#: Lines of the module's directives.
_HEADER = 3


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
    ptxas: Tool, specimens: Sequence[Specimen], where: Iterable[tuple[str, str]], *,
    front_end: bool = False,
) -> dict[tuple[str, str], list[Judgement]]:
    """:func:`judge` for many (target, PTX version), the assembler on all processors.

    With `front_end` no code is generated, and accepted means that reading finds no fault: a line
    that no version takes ends every batch.
    """
    places = list(dict.fromkeys(where))
    batches = [_Batch(ptxas, at, [specimens[i] for i in at], front_end)
               for at in _batches(specimens)]
    tasks = [(place, batch) for place in places for batch in batches]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        done = list(pool.map(lambda task: task[1].judged(*task[0]), tasks))
    found = {place: [_FINE] * len(specimens) for place in places}
    for (place, batch), judged in zip(tasks, done, strict=True):
        for at, judgement in judged.items():
            found[place][batch.positions[at]] = judgement
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


class _Batch:
    """Specimens that are judged together, by any target and version."""

    def __init__(self, ptxas: Tool, positions: list[int], specimens: Sequence[Specimen],
                 front_end: bool) -> None:
        self.ptxas, self.positions, self.specimens = ptxas, positions, specimens
        self.tail = _IMPOSSIBLE if front_end else ""
        text, _ = module(specimens, "target", "version")
        self.content = cache.digest("atlas batch 3", ptxas.identity, text, self.tail)

    def judged(self, target: str, version: str) -> Mapping[int, Judgement]:
        """Judgements that are not simply `accepted`, by position in the batch."""
        key = cache.digest(self.content, target, version)
        kept = cache.load(key)
        if kept is None:
            found: dict[int, Judgement] = {}
            everything = list(range(len(self.specimens)))
            self._settle(everything, target, version, found)
            kept = _packed(found)
            cache.store(key, kept)
        words, judgements, rows = json.loads(kept)
        made = [Judgement(tuple(words[i] for i in errors), tuple(words[i] for i in advice))
                for errors, advice in judgements]
        return {at: made[number] for at, number in rows}

    def _settle(self, todo: list[int], target: str, version: str,
                found: dict[int, Judgement]) -> None:
        """Judge the specimens at the positions `todo`; those that are not plainly accepted go into
        `found`."""
        while todo:
            outcome, owners = self._run(todo, target, version)
            errors, advice = _by_line(outcome, owners)
            if outcome.code == 0 or (not errors and self.tail and _ended_by_tail(outcome)):
                found.update({todo[i]: Judgement((), words) for i, words in advice.items()})
                return
            if not errors:
                if len(todo) == 1:
                    found[todo[0]] = Judgement((_unlined(outcome),))
                    return
                half = len(todo) // 2
                self._settle(todo[:half], target, version, found)
                self._settle(todo[half:], target, version, found)
                return
            found.update({todo[i]: Judgement(words, advice.get(i, ()))
                          for i, words in errors.items()})
            todo = [at for i, at in enumerate(todo) if i not in errors]

    def _run(self, todo: list[int], target: str, version: str
             ) -> tuple[Outcome, dict[int, tuple[int, ...]]]:
        text, owners = module([self.specimens[at] for at in todo], target, version)
        with workspace() as folder:
            (folder / "batch.ptx").write_text(text, encoding="utf-8", errors="surrogateescape")
            (folder / "tail.ptx").write_text(
                self.tail.format(target=target, version=version), encoding="utf-8")
            files = ["batch.ptx", "tail.ptx"] if self.tail else ["batch.ptx"]
            command = [str(self.ptxas.path), f"-arch={target}", *files, "-o", "batch.cubin"]
            return invoke(command, timeout=600.0, folder=folder), owners


#: Read after a batch, it is the only fault of a batch without faults, and found as late as any:
#: an instruction that exists, with operands that it does not take.
_IMPOSSIBLE = """.version {version}
.target {target}
.address_size 64
.visible .entry impossible()
{{
    .reg .b32 %r<2>;
    add.u32 %r0, %r1;
    ret;
}}
"""


def _ended_by_tail(outcome: Outcome) -> bool:
    faults = [line for line in outcome.output.splitlines() if _OTHER.match(line)]
    return all(line.startswith("ptxas tail.ptx,") or _ABORTED in line for line in faults)


def _packed(found: Mapping[int, Judgement]) -> bytes:
    """Words once, judgements once (thousands of specimens share a few), then who has which."""
    kinds = {judgement: i for i, judgement in enumerate(dict.fromkeys(found.values()))}
    words = {word: i for i, word in enumerate(dict.fromkeys(
        word for kind in kinds for word in (*kind.errors, *kind.advice)))}
    judgements = [([words[w] for w in kind.errors], [words[w] for w in kind.advice])
                  for kind in kinds]
    rows = [(at, kinds[judgement]) for at, judgement in sorted(found.items())]
    return json.dumps([list(words), judgements, rows]).encode()


def _by_line(outcome: Outcome, owners: Mapping[int, tuple[int, ...]]
             ) -> tuple[dict[int, tuple[str, ...]], dict[int, tuple[str, ...]]]:
    """Errors and advice by specimen, in the order in which they are said, each once."""
    errors: dict[int, dict[str, None]] = {}
    advice: dict[int, dict[str, None]] = {}
    for line in outcome.output.splitlines():
        said = _LINE.match(line)
        if said is None:
            continue
        kind = errors if said[2] in ("fatal", "error") else advice
        concerned: Iterable[int] = owners.get(int(said[1]), ())
        if kind is errors and int(said[1]) <= _HEADER:
            concerned = {at for whose in owners.values() for at in whose}
        elif not concerned:
            raise ToolError("ptxas", "judges a line that holds no specimen",
                            command=outcome.command, output=line)
        for at in concerned:
            kind.setdefault(at, {})[said[3].strip()] = None
    return ({at: tuple(words) for at, words in errors.items()},
            {at: tuple(words) for at, words in advice.items()})


def _unlined(outcome: Outcome) -> str:
    """What is said of the only specimen, without a line of it."""
    said = [m[2].strip() for m in map(_OTHER.match, outcome.output.splitlines())
            if m and not m[2].startswith(_ABORTED)]
    return said[0] if said else f"ptxas ended with code {outcome.code}"
