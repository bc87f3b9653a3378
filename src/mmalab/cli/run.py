"""``mmalab run FILE.ptx``: a kernel executed on the CPU, with what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from mmalab.cli.numbers import extent
from mmalab.cli.output import Json, print_json, read_text, say
from mmalab.findings import summary, verdict

__all__ = ["run"]


def run(
    file: Annotated[Path, typer.Argument(help="PTX")],
    *,
    entry: Annotated[str | None, typer.Option(help="kernel; the only one if not given")] = None,
    grid: Annotated[str, typer.Option(help="CTAs, X,Y,Z")] = "1",
    block: Annotated[str | None, typer.Option(
        help="threads of a CTA, X,Y,Z; what .reqntid says if not given")] = None,
    cluster: Annotated[str | None, typer.Option(help="CTAs of a cluster, X,Y,Z")] = None,
    shared: Annotated[int, typer.Option(help="bytes of dynamic shared memory")] = 0,
    arg: Annotated[list[str] | None, typer.Option(
        help="a parameter, in order: in:F.npy, out:SHAPE:DTYPE:F.npy (starts as all ones, NaN), "
             "inout:F.npy:G.npy, s32:5, f32:1.5, bytes:HEX, tma:N:box=64,128:swizzle=128B (a map "
             "over the buffer of parameter N); types as in PTX; bf16 files hold u16 words, FP8 "
             "files u8 words")] = None,
    target: Annotated[str | None, typer.Option(help="whose arithmetic; the module's own")] = None,
    numerics: Annotated[str, typer.Option(help="exact or fast")] = "exact",
    schedule: Annotated[str, typer.Option(
        help="eager, lazy, or a seed; several (eager,lazy,1) run one after the other, their outputs"
             " are compared and those of the first written")] = "eager",
    sanitize: Annotated[bool, typer.Option(help="check order and protocols")] = True,
    max_steps: Annotated[int | None, typer.Option(help="warp instructions at most")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="warnings are findings too")] = False,
    json: Json = False,
) -> None:
    """Execute, write the output files, print findings, counters and fidelity.

    Exit 1 for any error found (with --strict, any warning), 2 where an instruction is refused.
    """
    from mmalab.cli.arguments import read_arguments
    from mmalab.cli.outputs import described
    from mmalab.ptx import parse
    from mmalab.sanitizer import emulate

    module = parse(read_text(file), str(file))
    arguments = read_arguments(arg or [], file.parent)
    done = emulate(
        module, [argument.value for argument in arguments], entry=entry,
        grid=extent("--grid", grid), block=extent("--block", block) if block else None,
        cluster=extent("--cluster", cluster) if cluster else None, dynamic_shared=shared,
        target=target, numerics=numerics, schedule=schedule, sanitize=sanitize,
        max_steps=max_steps)
    for argument in arguments:
        argument.save()
    judged = verdict(done.findings, strict=strict)
    if json:
        print_json(done.as_dict() | {"verdict": judged})
    else:
        _print(done, described(arguments), strict=strict, sanitized=sanitize)
    if judged == "findings":
        raise typer.Exit(1)


#: Findings printed in full: errors first, in order of place.
_SHOWN = 8


#: Parts of a witness that are addresses, descriptors or masks of lanes.
_IN_HEX = frozenset(("address", "descriptor", "fitting", "first", "behind", "lanes", "members",
                     "executing", "mask", "absent", "metadata"))


def _words(value: Any, name: str = "") -> str:
    """A witness's part in one line: an access by its text and place, lists cut short."""
    if name in _IN_HEX and isinstance(value, int):
        return f"{value:#x}"
    if isinstance(value, dict):
        if "text" in value:
            lanes = value.get("lanes") or []
            place = [f"line {value.get('line')}", f"CTA {value.get('cta')}",
                     f"warp {value.get('warp')}", f"lanes {_words(lanes)}" if lanes else ""]
            return f"{value['text']} ({', '.join(filter(None, place))})"
        return ", ".join(f"{part} {_words(item, part)}" for part, item in value.items())
    if isinstance(value, (list, tuple)):
        shown = ", ".join(map(_words, value[:4]))
        return f"{shown} and {len(value) - 4} more" if len(value) > 4 else shown
    return str(value)


def _deadlock_lines(report: dict[str, Any]) -> Iterator[str]:
    """The causes, then who waits: warps that wait for the same thing together."""
    for cause in report["causes"]:
        yield f"    cause ({cause['kind']}): {cause['words']}"
        yield f"    repair: {cause['repair']}"
    groups: dict[tuple[Any, ...], list[int]] = {}
    for one in report["waiting"]:
        key = (tuple(one["cta"]), one["line"], one["instruction"], one["because"],
               one["released_by"])
        groups.setdefault(key, []).append(one["warp"])
    for (cta, line, text, because, release), warps in groups.items():
        few = "warp" if len(warps) == 1 else "warps"
        yield f"    CTA {cta}, {few} {', '.join(map(str, warps))}, line {line}: {text}"
        yield f"        {because}" + (f"; released by {release}" if release else "")
    if report["count"] > len(report["waiting"]):
        yield f"    ... {report['count']} groups of lanes wait"


def _print(done: Any, outputs: list[str], *, strict: bool, sanitized: bool) -> None:
    for finding in done.findings[:_SHOWN]:
        say(str(finding))
        if finding.code != "deadlock":  # told below, once
            say(*(f"    {name}: {_words(value, name)}"
                  for name, value in (finding.witness or {}).items()))
    more = len(done.findings) - _SHOWN
    if more > 0:
        say(f"... and {more} more findings; one cause often has many: mend the first and run again"
            " (--json has them all)")
    if done.deadlock:
        say("deadlock:", *_deadlock_lines(done.deadlock))
    shown = {name: count for name, count in done.counters.items()
             if count and not name.startswith("instructions.")}
    say("counters: " + ", ".join(f"{name} {count:,}" for name, count in shown.items()))
    if outputs:
        say("outputs: " + "\n    ".join(outputs))
    inexact = {form: why for form, why in done.fidelity.items() if why != "exact"}
    say(f"fidelity: {len(done.fidelity) - len(inexact)} forms exact"
        + "".join(f"\n    {form}: {why}" for form, why in inexact.items()))
    words = f"verdict: {summary(done.findings, strict=strict)}"
    say(words if sanitized else f"{words} (order and initialisation not checked)")
