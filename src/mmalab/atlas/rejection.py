"""Why a PTX text is rejected: its neighbours, assembled.

A message of ptxas says what failed, rarely what would not. The answer is found by changing one
thing at a time: the PTX version, the suffix of the target, both, the chip, the toolkit. What is
then accepted names the cause::

    suffix               .target sm_120   sm_120a takes it: the chip has what the target hides
    version              .version 8.6     8.7 takes it
    suffix and version   both at once
    chip                 no target of this chip takes it, another chip does
    toolkit              this release does not know target, version or instruction; another one does
    text                 nobody takes it: the instruction itself is wrong
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from mmalab import isa
from mmalab.atlas.modules import least
from mmalab.atlas.releases import PTX_VERSIONS, known_targets, newest_ptx, releases, written
from mmalab.atlas.releases import release as find_release
from mmalab.errors import ToolError
from mmalab.isa.ports import instead as port
from mmalab.isa.targets import TARGETS, TargetSet
from mmalab.isa.targets import target as target_row
from mmalab.ptx import parse
from mmalab.ptx.edit import retarget
from mmalab.ptx.nodes import Module
from mmalab.toolchain import AssemblyError, Diagnostic, assemble
from mmalab.toolchain.locate import Tool, supported_targets

__all__ = ["Because", "Rejection", "Trial", "why"]

Because = Literal["accepted", "suffix", "version", "suffix and version", "chip", "toolkit", "text"]

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Trial:
    """One neighbour: what was changed, and ptxas's first error ("" where it accepts)."""

    change: str
    target: str
    version: str
    toolkit: str
    accepted: bool
    message: str
    ptx: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Rejection:
    """The answer: `because` is the class of the cause, `reason` the words, `instead` what to write.

    `line` is the line of the first error and `text` the instruction there; `trials` holds every
    neighbour that was assembled, the text as given first.
    """

    because: Because
    reason: str
    instead: tuple[str, ...]
    target: str
    version: str
    toolkit: str
    line: int | None
    text: str
    diagnostics: tuple[Diagnostic, ...]
    trials: tuple[Trial, ...]

    @property
    def accepted(self) -> bool:
        """Whether the text as given assembles."""
        return self.because == "accepted"


def why(text: str, target: str | None = None, toolkit: str | None = None) -> Rejection:
    """Assemble a module and, where it is refused, its neighbours.

    Args:
        text: a whole PTX module.
        target: instead of the module's own; the version stays.
        toolkit: release; None for the newest.

    Raises:
        SourceError: the text does not parse.
        UsageError: a target that does not exist.
        ToolError: the release is not installed.
    """
    ptxas, module = find_release(toolkit), parse(text)
    given = target_row(target or module.target).name
    bench = _Bench(module, ptxas)
    first, diagnostics = bench.given(given)
    if first.accepted:
        return _answer("accepted", f"ptxas {ptxas} takes it", (), first, diagnostics, module, bench)
    because, reason, instead = _cause(bench, given)
    return _answer(because, reason, tuple(dict.fromkeys(instead)), first, diagnostics, module,
                   bench)


def _answer(because: Because, reason: str, instead: tuple[str, ...], first: Trial,
            diagnostics: tuple[Diagnostic, ...], module: Module, bench: _Bench) -> Rejection:
    line = next((d.line for d in diagnostics
                 if d.severity in ("error", "fatal") and d.line is not None), None)
    return Rejection(because, reason, instead, first.target, first.version, first.toolkit, line,
                     _instruction_at(module, line), diagnostics, tuple(bench.trials))


class _Bench:
    """Assembles variants of one module and keeps the trials."""

    def __init__(self, module: Module, ptxas: Tool) -> None:
        self.module, self.ptxas, self.trials = module, ptxas, list[Trial]()

    @property
    def version(self) -> Version:
        """The version of the text as given."""
        return self.module.version

    def given(self, target: str) -> tuple[Trial, tuple[Diagnostic, ...]]:
        """The text as it is (for `target`)."""
        trial, diagnostics = self._assemble("as given", target, self.version, self.ptxas)
        self.trials.append(trial)
        return trial, diagnostics

    def take(self, change: str, target: str, version: Version, ptxas: Tool | None = None) -> bool:
        """Whether this neighbour assembles."""
        trial, _ = self._assemble(change, target, version, ptxas or self.ptxas)
        self.trials.append(trial)
        return trial.accepted

    def takes(self, change: str, targets: list[str], version: Version) -> list[str]:
        """Of these targets, those for which it assembles."""
        def one(name: str) -> Trial:
            newer = max(version, TARGETS[name].ptx)
            return self._assemble(f"{change} {name}", name, newer, self.ptxas)[0]

        with ThreadPoolExecutor() as pool:
            made = list(pool.map(one, targets))
        self.trials += made
        return [trial.target for trial in made if trial.accepted]

    def _assemble(self, change: str, target: str, version: Version, ptxas: Tool
                  ) -> tuple[Trial, tuple[Diagnostic, ...]]:
        text = str(retarget(self.module, target, version=version))
        said: tuple[Diagnostic, ...]
        try:
            said, message = assemble(text, None, ptxas.toolkit).diagnostics, ""
        except AssemblyError as refused:
            said = refused.diagnostics
            message = next(d.message for d in said if d.severity in ("error", "fatal"))
        except ToolError as unable:
            said, message = (), f"{unable.given}: {unable.rule}"
        return Trial(change, target, written(version), ptxas.toolkit, not message, message,
                     text), said


# --- the cause ------------------------------------------------------------------------------------


def _cause(bench: _Bench, target: str) -> tuple[Because, str, list[str]]:
    """Change one thing at a time, the cheapest for a user first."""
    able, newest = supported_targets(bench.ptxas), newest_ptx(bench.ptxas)
    if bench.version > newest or target not in able:
        return _toolkit_is_old(bench, target, newest, able)
    if bench.version < newest and bench.take("newest version", target, newest):
        first = _first_version(bench, target, bench.version, newest)
        return "version", (f"PTX {written(bench.version)} is too old for it: {written(first)} is "
                           f"the first that {target} takes"), [f".version {written(first)}"]
    same = [name for name in known_targets(bench.ptxas) if name != target
            and TARGETS[name].number == TARGETS[target].number]
    taken = bench.takes("suffix", same, bench.version)
    if taken:
        return _suffix(bench, target, taken)
    if bench.version < newest and (taken := bench.takes("suffix, newest version", same, newest)):
        first = _first_version(bench, taken[0], bench.version, newest)
        return "suffix and version", (
            f"the chip has it, but neither the target {target} nor PTX {written(bench.version)} "
            f"tells: it needs {' or '.join(taken)} and PTX {written(first)}"), [
                f".target {name} with .version {written(max(first, TARGETS[name].ptx))}"
                for name in taken]
    others = [name for name in known_targets(bench.ptxas)
              if TARGETS[name].number != TARGETS[target].number]
    taken = bench.takes("chip", others, newest)
    if taken:
        return _other_chip(bench, target, taken)
    if elsewhere := _other_toolkits(bench, target):
        return "toolkit", f"ptxas {bench.ptxas} refuses what another release takes", elsewhere
    return _text_is_wrong(bench, target)


def _toolkit_is_old(bench: _Bench, target: str, newest: Version, able: tuple[str, ...]
                    ) -> tuple[Because, str, list[str]]:
    instead = []
    if bench.version > newest:
        reason = (f"ptxas {bench.ptxas} reads PTX up to {written(newest)}, the text declares "
                  f"{written(bench.version)}")
        if target in able and bench.take("older version", target, newest):
            first = _first_version(bench, target, PTX_VERSIONS[0], newest)
            instead.append(f".version {written(first)} (all that the text needs)")
    else:
        known = [name for name in known_targets(bench.ptxas)
                 if TARGETS[name].number == TARGETS[target].number]
        reason = f"ptxas {bench.ptxas} does not know {target}" + (
            f", only {', '.join(known)} of that chip" if known else "")
    return "toolkit", reason, [*instead, *_other_toolkits(bench, target)]


def _other_toolkits(bench: _Bench, target: str) -> list[str]:
    """Other releases that take the text, its version raised where the target is younger."""
    version = max(bench.version, TARGETS[target].ptx)
    raised = f" with .version {written(version)}" * (version > bench.version)
    return [f"--toolkit {other.toolkit}{raised}" for other in releases() if other != bench.ptxas
            and bench.take(f"toolkit {other.toolkit}", target, version, other)]


def _first_version(bench: _Bench, target: str, low: Version, high: Version) -> Version:
    """The first accepted version above `low`, which is refused or unknown; `high` is accepted."""
    return least(lambda version: bench.take("version", target, version), low, high)


def _suffix(bench: _Bench, target: str, taken: list[str]) -> tuple[Because, str, list[str]]:
    """A target's name may be younger than the text's version: then both must change."""
    needed = {name: max(bench.version, TARGETS[name].ptx) for name in taken}
    named = " or ".join(taken)
    reason = f"the chip has it, but the target {target} does not tell: it needs {named}"
    if min(needed.values()) == bench.version:
        return "suffix", reason, [
            f".target {name}" + f" with .version {written(v)}" * (v > bench.version)
            for name, v in needed.items()]
    return "suffix and version", f"{reason} and PTX {written(min(needed.values()))}", [
        f".target {name} with .version {written(v)}" for name, v in needed.items()]


def _other_chip(bench: _Bench, target: str, taken: list[str]) -> tuple[Because, str, list[str]]:
    texts = _faulty_instructions(bench)
    instead = [words for text in texts
               if (words := port(text.split()[0].rstrip(";"), target_row(target)))]
    for text in texts:
        instead += isa.legal(text, target).nearest
    return "chip", (f"no target of this chip takes it ({bench.trials[0].message}); it assembles "
                    f"for {TargetSet(taken)}"), instead


def _text_is_wrong(bench: _Bench, target: str) -> tuple[Because, str, list[str]]:
    nearest: list[str] = []
    words = bench.trials[0].message
    for text in _faulty_instructions(bench):
        verdict = isa.legal(text, target)
        if not verdict.legal:
            words += f"; {verdict.reason}"
            nearest += verdict.nearest
    return "text", f"no installed ptxas takes it for any target: {words}", nearest


def _faulty_instructions(bench: _Bench) -> list[str]:
    """Opcode-and-operand texts of the lines that the text as given is refused for."""
    try:
        assemble(bench.trials[0].ptx, None, bench.trials[0].toolkit)
    except AssemblyError as refused:
        lines = dict.fromkeys(d.line for d in refused.diagnostics if d.line is not None)
        texts = (_instruction_at(bench.module, line) for line in lines)
        return [text for text in dict.fromkeys(texts) if text][:8]
    except ToolError:
        return []
    return []


def _instruction_at(module: Module, line: int | None) -> str:
    """The instruction that stands on a line; ptxas names the first or the last of several."""
    return next((text for lines, text in _instructions(module) if line in lines), "")


def _instructions(module: Module) -> Iterator[tuple[range, str]]:
    """Every instruction in one line, and the lines that it has in the text."""
    for function in module.functions:
        for instruction in function.instructions():
            last = instruction.line + instruction.text.count("\n")
            yield range(instruction.line, last + 1), " ".join(instruction.text.split())
