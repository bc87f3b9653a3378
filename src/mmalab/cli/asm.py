"""``mmalab asm FILE --target T``: what the assembler makes of a kernel, chip by chip."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from mmalab.cli.output import Json, print_json, read_text, say, table
from mmalab.errors import MmalabError, ToolError, UsageError

__all__ = ["asm"]


def asm(
    file: Annotated[Path, typer.Argument(help="PTX or CUDA C++")],
    *,
    target: Annotated[list[str] | None, typer.Option(help="chip; may be given again")] = None,
    toolkit: Annotated[str | None, typer.Option(help="release of the assembler: 12.9, 13")] = None,
    maxrregcount: Annotated[int | None, typer.Option(help="registers per thread at most")] = None,
    opt_level: Annotated[int, typer.Option("--opt-level", "-O", help="0 to 3")] = 3,
    output: Annotated[Path | None, typer.Option("-o", help="write the cubin here")] = None,
    expect: Annotated[list[str] | None, typer.Option(
        help="an opcode that has to be there, and how often: QMMA.SF:2; may be given again")]
        = None,
    json: Json = False,
) -> None:
    """Assemble, then print opcodes, registers, loops, FLOPs per instruction, native or emulated.

    With several targets the answer is a table by chip; a chip that refuses the text has its row,
    and the exit code is then 1, as when an opcode of --expect is missing.
    """
    targets: list[str | None] = list(target or []) or [None]
    if output is not None and len(targets) > 1:
        raise UsageError("-o with several targets", "names one file", legal="one --target",
                         where="mmalab asm --help")
    options = {"toolkit": toolkit, "maxrregcount": maxrregcount, "opt_level": opt_level}
    text = read_text(file)
    made: list[dict[str, Any]] = []
    for each in targets:
        try:
            made.append(_one(file, text, each, options, output, tuple(expect or ())))
        except MmalabError as refused:
            if len(targets) == 1:
                raise
            made.append({"target": each, "error": str(refused)})
    if json:
        print_json(made[0] if len(targets) == 1 else made)
    elif len(targets) == 1:
        _print_one(made[0])
    else:
        _print_table(made)
    lacking = [] if json else [
        f"{row['target']}: {line}" for row in made for line in row.get("missing", ())]
    say(*lacking)
    if any("error" in row or row["missing"] for row in made):
        raise typer.Exit(1)


def _one(file: Path, text: str, target: str | None, options: dict[str, Any],
         output: Path | None, expected: tuple[str, ...]) -> dict[str, Any]:
    from mmalab.cli.expected import missing
    from mmalab.cli.listing import function_data, resource_data, summary_lines
    from mmalab.toolchain import AssemblyError, assemble, compile_cuda, lowerings

    compiler = None
    if file.suffix == ".cu":
        if target is None:
            raise UsageError(str(file), "is CUDA C++: it has no target of its own",
                             legal="--target sm_90a ...", where="mmalab asm --help")
        compiled = compile_cuda(text, target, toolkit=options["toolkit"])
        text, compiler = compiled.text, compiled.compiler
    try:
        cubin = assemble(text, target, **options)
    except AssemblyError as refused:
        other = _sibling(text, target)
        if other is None:
            raise
        raise ToolError(refused.given, f"{refused.rule}; {other} has the instructions that "
                        f"{target or 'its target'} lacks", command=refused.command,
                        output=refused.output, legal=f"--target {other}: the same chip, and what "
                        "only it can") from None
    if output is not None:
        cubin.save(output)
    return {
        "missing": missing(expected, Counter(i.mnemonic for i in cubin.sass)),
        "target": cubin.target, "toolkit": cubin.toolkit, "compiler": compiler,
        "bytes": len(cubin), "resources": resource_data(cubin),
        "warnings": [str(warning) for warning in cubin.warnings],
        "functions": [function_data(f) for f in cubin.sass.functions],
        "lowering": [{"line": row.line, "ptx": row.opcode, "verdict": row.verdict,
                      "why": row.why, "sass": dict(row.sass), "others": dict(row.others)}
                     for row in lowerings(cubin)],
        "summary": [line for f in cubin.sass.functions for line in summary_lines(f)],
    }


def _sibling(text: str, target: str | None) -> str | None:
    """The target of the same chip that has the instructions which `target` lacks, if one does."""
    from mmalab.checker import check
    from mmalab.isa.targets import TARGETS
    from mmalab.ptx import parse

    try:
        module = parse(text)
        here = TARGETS[target or module.target.split(",")[0].strip()]
        lacking = {each.name: any(found.code == "target-unsupported"
                                  for found in check(module, each.name))
                   for each in TARGETS.values() if each.number == here.number}
    except (MmalabError, KeyError, AttributeError):
        return None
    if not lacking[here.name]:
        return None
    return next((name for name, lacks in lacking.items() if not lacks), None)


def _print_one(row: dict[str, Any]) -> None:
    say(f"{row['target']}, ptxas {row['toolkit']}, {row['bytes']:,} bytes"
        + (f", from {row['compiler']}" if row["compiler"] else ""))
    for name, need in row["resources"].items():
        if need["entry"]:
            say(f"{name}: {need['registers']} registers, {need['shared']:,} bytes shared, "
                f"{need['spill_stores'] + need['spill_loads']} bytes spilled, "
                f"{need['stack']} bytes stack, {need['barriers']} barriers")
    say(*row["warnings"], *row["summary"])
    for line in _lowering_lines(row):
        say(line)


def _lowering_lines(row: dict[str, Any]) -> list[str]:
    """Equal judgements of equal opcodes once, with the lines where they stand."""
    lines: dict[tuple[str, str, str], list[int]] = {}
    for each in row["lowering"]:
        lines.setdefault((each["ptx"], each["verdict"], each["why"]), []).append(each["line"])
    return [f"{verdict}: {ptx} (line {', '.join(map(str, at[:4]))}"
            f"{f' and {len(at) - 4} more' if len(at) > 4 else ''}): {why}"
            for (ptx, verdict, why), at in lines.items()]


def _print_table(rows: list[dict[str, Any]]) -> None:
    cells: list[tuple[object, ...]] = []
    for row in rows:
        if "error" in row:
            cells.append((row["target"], "-", "-", "-", "-", "refused",
                          " ".join(row["error"].split())[:90]))
            continue
        entries = [need for need in row["resources"].values() if need["entry"]]
        per = [loop["flops_per_instruction"] for f in row["functions"] for loop in f["loops"]
               if loop["header"] == f["main_loop"]]
        matrix: dict[str, int] = {}
        traps = sum(function["opcodes"].get("BPT", 0) for function in row["functions"])
        for function in row["functions"]:
            for word, n in function["matrix"].items():
                matrix[word] = matrix.get(word, 0) + n
        cells.append((
            row["target"], max((need["registers"] for need in entries), default=0),
            sum(need["spill_stores"] + need["spill_loads"] for need in entries),
            sum(function["instructions"] for function in row["functions"]),
            f"{per[0]:,.0f}" if per and per[0] is not None else "-",
            "/".join(sorted({each["verdict"] for each in row["lowering"]})) or "-",
            ", ".join(f"{n} {word}" for word, n in matrix.items())
            or (f"none; {traps} BPT.TRAP" if traps else "-")))
    say(table(cells, ("target", "registers", "spilled", "instructions", "FLOPs/instruction",
                      "matrix", "opcodes")))
