"""``mmalab bench gemm``: our kernels against the best of cublasLt on the GPU that is here."""

from __future__ import annotations

import shlex
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mmalab.cli.choices import choices_of, factory_of
from mmalab.cli.described import in_short
from mmalab.cli.output import Json, plain, print_json, say, table
from mmalab.errors import UsageError

__all__ = ["bench"]

_WHERE = "mmalab bench --help"
#: Baselines that are no kernels of ours.
_NO_KERNELS = ("cublasLt", "none")
_HEAD = ("case", "regime", "ours", "baseline", "ratio (95 %)", "MHz", "share", "J/TFLOP")


def bench(
    what: Annotated[str, typer.Argument(help="gemm")],
    size: Annotated[list[int] | None, typer.Argument(help="M N K, where no table is asked")] = None,
    *,
    tables: Annotated[list[str] | None, typer.Option(
        "--table",
        help="bf16, llm, fp8, scaled, int8, tf32, unaligned, skinny, mma; repeatable")] = None,
    only: Annotated[str, typer.Option(help="rows of the table whose title holds this")] = "",
    kernel: Annotated[str, typer.Option(help="family.factory of mmalab.kernels")] = (
        "sm90_wgmma.gemm"),
    choices: Annotated[list[str] | None, typer.Option(
        "--set", help="argument of the kernel, KEY=VALUE[,KEY=VALUE]; each use is a candidate")
    ] = None,
    baseline: Annotated[str, typer.Option(
        help="cublasLt, another family.factory[:KEY=VALUE,...], or none")] = "cublasLt",
    burst: Annotated[int, typer.Option(help="pairs of short blocks after rest")] = 5,
    sustained: Annotated[int, typer.Option(help="pairs of blocks of 1.5 s")] = 2,
    gpu: Annotated[list[int] | None, typer.Option(help="device; more than once")] = None,
    seed: Annotated[int | None, typer.Option(help="of the operands; fresh if not given")] = None,
    out: Annotated[Path | None, typer.Option(help="write the record here")] = None,
    dry_run: Annotated[bool, typer.Option(help="say what would be measured, and how long")] = False,
    json: Json = False,
) -> None:
    """Time matrix products; exit 1 when a row could not be measured, or a result was wrong."""
    if what != "gemm":
        raise UsageError(f"bench {what}", "is nothing to measure", legal="gemm", where=_WHERE)

    from mmalab.bench import Plan
    from mmalab.bench.record import describe, save

    plan = Plan(burst, sustained, seed)
    if min(burst, sustained) < 0 or not plan.regimes():
        raise UsageError(f"--burst {burst} --sustained {sustained}", "measure nothing",
                         legal="pairs of blocks, 0 leaves a regime out", where=_WHERE)
    rows = _rows(size or [], tables or [], only, kernel, choices or [], baseline)
    expected = sum(row.expected_seconds(pairs_burst=burst, pairs_sustained=sustained)
                   for row in rows) / len(gpu or [0])
    count = "1 row" if len(rows) == 1 else f"{len(rows)} rows"
    sys.stderr.write(f"{count}, about {expected:.0f} s, against {_against(rows)}\n")
    if dry_run:
        _list(rows, as_json=json)
        return
    gpus, command = gpu or [0], _command(sys.argv[2:])

    _check_gpus(gpus)
    record = describe("matrix products on the GPU against cublasLt", command, [], gpus[0])

    def keep(done: list[dict[str, Any]]) -> None:
        record["rows"] = done
        if out is not None:
            save(record, out)

    records = _measured(rows, plan, gpus, keep)
    keep(records)
    if json:
        print_json(record)
    else:
        _tell(records)
    if any("problem" in each for each in records):
        raise typer.Exit(1)


def _tell(records: list[dict[str, Any]]) -> None:
    """The rows, and under them the candidates of each that had several."""
    from mmalab.bench.record import candidates_of, rows_of

    say(table(rows_of(records), _HEAD))
    for each in records:
        if len(each["row"]["arguments"]) > 1 and "ours_candidates" in each:
            say("", each["row"]["title"], table(
                candidates_of(each), ("candidate", "us", "burst us", "sustained us", "problem"),
                indent="  "))


def _command(words: list[str]) -> str:
    """The command that remakes a record, without where it was written."""
    kept = [word for at, word in enumerate(words)
            if not word.startswith("--out") and words[max(at - 1, 0)] != "--out"]
    return "mmalab bench " + shlex.join(kept)


def _list(rows: list[Any], *, as_json: bool) -> None:
    """What would be measured: each row's candidates, by what their kernels are made of."""
    plans = [_plans(row) for row in rows]
    if as_json:
        print_json([{**plain(row), "plans": said}
                    for row, said in zip(rows, plans, strict=True)])
        return
    lines: list[tuple[str, ...]] = []
    for row, said in zip(rows, plans, strict=True):
        head = (row.title, f"{row.m} x {row.n} x {row.k}", row.kernel)
        for text, count in Counter(said).items():
            lines.append((*head, text + (f" ({count} candidates)" if count > 1 else "")))
            head = ("", "", "")
    say(table(lines, ("case", "M x N x K", "kernel", "plan")))


def _against(rows: list[Any]) -> str:
    """The baselines of the rows, each once."""
    return ", ".join(dict.fromkeys(row.baseline for row in rows))


def _plans(row: Any) -> list[str]:
    """What the kernel of each candidate is made of, or why there is none.

    Raises:
        UsageError: no candidate is left.
    """
    from mmalab.bench.row import make_kernel

    said: list[str] = []
    refused: list[UsageError] = []
    for each in row.arguments:
        try:
            said.append(in_short(make_kernel(row.kernel, row.m, row.n, row.k, each)))
        except UsageError as words:
            refused.append(words)
            said.append(f"refused: {str(words).splitlines()[0]}")
    if len(refused) == len(said):
        raise refused[0]
    return said


def _check_gpus(gpus: list[int]) -> None:
    from mmalab.device.gpu import device_count

    count = device_count()
    missing = [gpu for gpu in gpus if not 0 <= gpu < count]
    if missing:
        raise UsageError(f"--gpu {missing[0]}", f"the driver sees {count} devices",
                         legal=[str(i) for i in range(count)] or "none", where=_WHERE)


def _measured(rows: list[Any], plan: Any, gpus: list[int],
              keep: Callable[[list[dict[str, Any]]], object]) -> list[dict[str, Any]]:
    """The rows' records in order; `keep` is told all that are there, after each."""
    from mmalab.bench.duel import measure
    from mmalab.bench.machines import over_gpus
    from mmalab.bench.record import rows_of

    lock = threading.Lock()
    done: list[dict[str, Any]] = []

    def told(record: dict[str, Any]) -> None:
        with lock:
            done.append(record)
            keep(list(done))
        for line in rows_of([record]):
            sys.stderr.write("  ".join(cell for cell in line if cell) + "\n")
            sys.stderr.flush()

    return over_gpus(rows, gpus, partial(measure, plan=plan), told)


def _rows(size: list[int], tables: list[str], only: str, kernel: str, choices: list[str],
          baseline: str) -> list[Any]:
    """The rows of the tables, or the one that sizes and options describe."""
    from mmalab.bench import Row
    from mmalab.bench.tables import TABLES, table_rows

    if tables:
        rows = [row for row in table_rows(tables) if only in row.title]
        if not rows:
            raise UsageError(f"--only {only!r}", "no title in these tables holds it",
                             legal=[row.title for row in table_rows(tables)], where=_WHERE)
        return rows
    if len(size) != 3:
        raise UsageError("bench gemm " + " ".join(map(str, size)), "needs a size or a table",
                         legal=["M N K", "--table " + "|".join(TABLES)], where=_WHERE)
    name, _, given = baseline.partition(":")
    other = name if name in _NO_KERNELS else factory_of(name)
    arguments = tuple(choices_of(choice, "--set") for choice in choices) or ({},)
    m, n, k = size
    return [Row(f"{m}x{n}x{k}", m, n, k, factory_of(kernel), arguments, other,
                choices_of(given, "--baseline"))]
