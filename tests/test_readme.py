"""The README's blocks are run: what they show is what comes out."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from mutants.faults import MUTANTS
from mutants.hopper_pipeline import text
from typer.testing import CliRunner

from mmalab.cli.main import VERBS, app
from mmalab.toolchain import assemble

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CONSOLE = re.findall(r"^\$ mmalab (.+)\n((?:(?!\$|```).*\n)*)", README, re.MULTILINE)


@pytest.mark.toolkit
def test_python_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The first block runs as it stands, and its first print shows what its comment says."""
    block, _ = BLOCKS
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "clean 33554432"
    assert f"# {first}" in block


def test_hopper_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """The second block runs a right kernel and a broken one."""
    _, block = BLOCKS
    exec(compile(block, "README.md", "exec"), {})  # noqa: S102
    verdict, finding = capsys.readouterr().out.splitlines()[:2]
    assert verdict == "clean"
    assert finding.startswith("error[deadlock]")


@pytest.mark.toolkit
def test_mutants_are_as_many_as_it_says() -> None:
    """The number of faults, and of those that ptxas mentions."""
    mentioned = 0
    for mutant in MUTANTS.values():
        said = assemble(text(mutant.fault), "sm_90a").diagnostics
        mentioned += any(re.match(r"\(C75", diagnostic.message) for diagnostic in said)
    assert f"{len(MUTANTS)} of them" in README
    assert (f"Of the {len(MUTANTS)}, ptxas mentions "
            f"{('none', 'one', 'two', 'three', 'four', 'five')[mentioned]}.") in README


@pytest.mark.parametrize(("command", "shown"), CONSOLE)
def test_console_blocks(command: str, shown: str) -> None:
    """Each command prints what stands below it."""
    result = CliRunner().invoke(app, shlex.split(command))
    assert result.exit_code == 0
    assert result.stdout == shown


def test_every_verb_is_named() -> None:
    """The table of verbs holds all of them, and no other."""
    rows = re.findall(r"^\| (`.+?`) \|", README, re.MULTILINE)
    named = {word for row in rows for word in re.findall(r"`(\w+)`", row)}
    assert named == set(VERBS)
    assert CONSOLE


def test_figures_are_those_of_the_records() -> None:
    """Every figure of the table of measurements stands in the record that it names."""
    equality = json.loads((ROOT / "records/h200/equality.json").read_text())
    assert f"{equality['mismatches']} of {equality['outputs']:,} outputs differ" in README
    wgmma = json.loads((ROOT / "records/h200/wgmma_equality.json").read_text())
    assert f"{wgmma['mismatches']} of {wgmma['outputs']:,} outputs differ" in README
    assert f"every form of `wgmma` ({wgmma['forms']:,})" in README
    copies = json.loads((ROOT / "records/h200/tma_equality.json").read_text())
    differ, made = (sum(copies[kind].values()) if kind == "kernels" else len(copies[kind])
                    for kind in ("differ", "kernels"))
    assert f"{differ} of {made} kernels differ in any byte" in README
    cluster = json.loads((ROOT / "records/h200/cluster_equality.json").read_text())
    assert f"{cluster['mismatches']} of {cluster['bytes']:,} bytes differ" in README
    maps = json.loads((ROOT / "records/h200/tensormaps.json").read_text())
    encoded = sum("bytes" in row for row in maps["cases"])
    assert f"{encoded} of {encoded} agree" in README
    seconds = json.loads((ROOT / "records/bench/emulate.json").read_text())["seconds"]
    plain, checked = (seconds[f"bf16 mma.sync, exact{tail}"] for tail in ("", ", sanitized"))
    assert f"{plain:.2f} s / {checked:.2f} s" in README
    hopper = json.loads((ROOT / "records/bench/wgmma.json").read_text())["seconds"]
    plain, checked = (hopper[f"bf16 TMA and wgmma, exact{tail}"] for tail in ("", ", sanitized"))
    assert f"{plain:.2f} s / {checked:.2f} s | `records/bench/wgmma.json`" in README
    rates = {row["what"]: row.get("GMAC/s")
             for row in json.loads((ROOT / "records/bench/numerics.json").read_text())["rows"]}
    fp8, bf16 = (rates[f"{unit} 1024^3, 2 threads"]
                 for unit in ("sm_90.wgmma.e4m3.f32", "sm_80.mma.bf16.f32"))
    assert f"{fp8:.1f} / {bf16:.1f} GMAC/s" in README
