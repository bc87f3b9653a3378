"""Kernels of the tests that show a finding code: the litmus set, the rules' own, static lines.

Each is run (or checked) when the site is built and is shown only for what it reports then.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import mmalab

__all__ = ["STATIC", "Example", "example", "static"]

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path += [str(TESTS / "litmus"), str(TESTS / "sanitizer"), str(TESTS / "checker")]

import checking  # noqa: E402
import litmus_kernels  # noqa: E402
import test_rule_kernels as rules  # noqa: E402


@dataclass(frozen=True, slots=True)
class Example:
    """A kernel that shows one code: its text, its clean twin's ("" without), what is reported."""

    file: str
    reason: str
    reported: str
    text: str
    twin: str


def example(code: str) -> Example | None:
    """The first kernel that reports `code` today, None when none does."""
    found = next(chain(_litmus(code, first=True), _rule(code), _litmus(code, first=False)), None)
    return found or static(code)


def _litmus(code: str, *, first: bool) -> Iterator[Example]:
    """Litmus kernels that prefer the code, or that merely accept it; those with a twin first."""
    rows = [row for row in litmus_kernels.KERNELS.values() if code in row["expect"]["any_of"]
            and (row["expect"]["any_of"][0] == code) == first]
    folder = TESTS / "litmus" / "kernels"
    for row in sorted(rows, key=lambda row: row["clean_twin"] is None):
        for said in _said_by_litmus(row["entry"], code):
            twin = _text(folder, row["clean_twin"]) if row["clean_twin"] else ""
            yield Example(f"tests/litmus/kernels/{row['file']}", row["reason"], said,
                          _text(folder, row["entry"]), twin)


@functools.cache
def _run_of_litmus(entry: str) -> tuple[tuple[str, str], ...]:
    run, _ = litmus_kernels.launch(mmalab.emulate, entry)
    return tuple((finding.code, str(finding)) for finding in run.findings)


def _said_by_litmus(entry: str, code: str) -> list[str]:
    return [words for found, words in _run_of_litmus(entry) if found == code][:1]


def _rule(code: str) -> Iterator[Example]:
    """Kernels of the sanitizer's rules, whose comments say what they show."""
    for name in rules.NAMES:
        header = rules.header(name)
        if code not in header["expect"].split():
            continue
        said = [str(one) for one in rules.findings(name) if one.code == code]
        twin = header.get("clean twin", "")
        if said:
            yield Example(f"tests/sanitizer/kernels/{name}.ptx", _reason(name), said[0],
                          _text(rules.FOLDER, name), _text(rules.FOLDER, twin) if twin else "")


def _reason(name: str) -> str:
    """The comment of a rule's kernel that is no field."""
    lines = (rules.FOLDER / f"{name}.ptx").read_text(encoding="utf-8").splitlines()
    words = [line[3:] for line in lines if line.startswith("// ") and ": " not in line]
    return words[0] if words else name.replace("_", " ")


def _text(folder: Path, name: str) -> str:
    """A kernel without its own name, which differs from its twin's anyway, and with empty lines
    for comments, so that line numbers stay."""
    text = (folder / f"{name}.ptx").read_text(encoding="utf-8").replace(name, "kernel")
    return "\n".join("" if line.startswith("//") else line for line in text.splitlines())


# --- what `check` finds without running -----------------------------------------------------------

#: Code -> (why, target, PTX version, the wrong line, the right one), in the kernel of
#: tests/checker/checking.py, which has registers of every type.
STATIC = {
    "unknown-instruction": (
        "a modifier that add does not have", "sm_90a", "9.5",
        "add.rn.s32 %s32_0, %s32_1, %s32_2;", "add.s32 %s32_0, %s32_1, %s32_2;"),
    "target-unsupported": (
        "wgmma on a chip after Hopper", "sm_100a", "9.5",
        "wgmma.fence.sync.aligned;", "tcgen05.fence::before_thread_sync;"),
    "ptx-version": (
        "packed 16-bit sums came with PTX 8.0", "sm_90", "7.8",
        "add.u16x2 %b32_0, %b32_1, %b32_2;", "add.u32 %b32_0, %b32_1, %b32_2;"),
    "operand-mismatch": (
        "a 32-bit register where the instruction wants 64 bits", "sm_90a", "9.5",
        "add.s64 %s64_0, %s64_1, %s32_2;", "add.s64 %s64_0, %s64_1, %s64_2;"),
    "undeclared-name": (
        "a register that nobody declared", "sm_90a", "9.5",
        "mov.b32 %b32_0, %nobody;", "mov.b32 %b32_0, %b32_1;"),
    "emulated-instruction": (
        "4-bit products are built from 8-bit ones from Hopper on", "sm_90a", "9.5",
        ("mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {%s32_0, %s32_1, %s32_2, %s32_3}, "
        "{%b32_0, %b32_1}, {%b32_2}, {%s32_4, %s32_5, %s32_6, %s32_7};"), ""),
    "duplicate-name": (
        "a register that the kernel has already", "sm_90a", "9.5",
        ".reg .b32 %b32_0;", ".reg .b32 %another;"),
}


def static(code: str) -> Example | None:
    """The example of a code that `check` reports; None when the right line reports it too."""
    if code not in STATIC:
        return None
    reason, target, version, wrong, right = STATIC[code]
    said = [str(one) for one in checking.found(wrong, target, version) if one.code == code]
    if not said or code in checking.codes(checking.found(right, target, version)):
        return None
    return Example("", f"{reason} ({target}, PTX {version})", said[0], wrong, right)
