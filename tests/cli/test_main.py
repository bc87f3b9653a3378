"""The frame: verbs load lazily, errors have their exit codes, output is for pipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mmalab.cli.main import VERBS


def test_every_verb_has_help(mmalab) -> None:
    """Each verb in the table loads, explains itself and knows --json."""
    for verb in VERBS:
        answer = mmalab(verb, "--help")
        assert answer.code == 0, verb
        assert "--json" in answer.out, verb


def test_help_lists_every_verb(mmalab) -> None:
    """The help of the command has one line for each verb, and no verb is loaded for it."""
    answer = mmalab("--help")
    assert answer.code == 0
    for verb, question in VERBS.items():
        assert f"  {verb}" in answer.out
        assert question in answer.out


def test_version(mmalab) -> None:
    """--version prints one line."""
    assert mmalab("--version").out == "mmalab 0.1.0\n"


def test_unknown_verb_is_wrong_use(mmalab) -> None:
    """A verb that does not exist ends with 2."""
    answer = mmalab("frobnicate")
    assert answer.code == 2
    assert "frobnicate" in answer.err


@pytest.mark.parametrize(("words", "said"), [
    (["rnu"], ["No such command 'rnu'", "  legal: run", "  see:   mmalab --help"]),
    (["plan", "tmen"], ["No such command 'tmen'", "  legal: tmem", "  see:   mmalab plan --help"]),
    (["layout", "add.f32", "--lan", "5"], [
        "No such option: --lan", "  legal: --lane, --at", "  see:   mmalab layout --help"]),
    (["explain"], ["Missing argument 'form'", "  legal: mmalab explain [OPTIONS] {form}",
                   "  see:   mmalab explain --help"]),
    (["layout", "add.f32", "-A", "--lane", "x"], [
        "Invalid value for '--lane': 'x' is not a valid int",
        "  legal: mmalab layout [OPTIONS] {form}", "  see:   mmalab layout --help"]),
    (["layout", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "-A", "--svg",
      "nowhere/a.svg"], ["nowhere/a.svg: No such file or directory",
                         "  legal: a file that can be read, a folder that can be written",
                         "  see:   mmalab layout --help"]),
])
def test_what_no_verb_takes_is_told_like_any_refusal(mmalab, words: list[str],
                                                     said: list[str]) -> None:
    """What was given, what would do, whose help says so; with --json as one object."""
    answer = mmalab(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines() == said
    answer = mmalab(*words, "--json")
    assert answer.json["verdict"] == "refused"
    assert answer.json["reason"].splitlines() == said


def test_error_goes_to_stderr_with_2(mmalab) -> None:
    """An error of the library is its text on standard error, and nothing on standard output."""
    answer = mmalab("explain", "mma.sync.nonsense")
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("mma.sync.nonsense: is not an instruction of the PTX ISA")
    assert "  legal: " in answer.err


def test_syntax_error_shows_its_caret(mmalab, tmp_path: Path) -> None:
    """Text that is no PTX is shown with file, line, column and a caret."""
    bad = tmp_path / "bad.ptx"
    bad.write_text(".version 8.0\n.target sm_80\n.address_size 64\n"
                   ".entry k() { add.f32 %f1 %f2; }\n")
    answer = mmalab("run", bad, "--block", "32")
    assert answer.code == 2
    assert answer.err.startswith(f"{bad}:4:")
    assert "^" in answer.err


def test_missing_file_is_wrong_use(mmalab) -> None:
    """A file that is not there ends with 2."""
    assert mmalab("asm", "nowhere.ptx").code == 2


@pytest.mark.parametrize(("verb", "heavy"), [
    ("forms", ["mmalab.emulator", "mmalab.toolchain", "llvmlite", "rich"]),
    ("legal", ["mmalab.emulator", "mmalab.toolchain", "llvmlite", "rich"]),
    ("banks", ["mmalab.emulator", "mmalab.toolchain", "mmalab.isa", "llvmlite", "rich"]),
])
def test_verbs_load_what_they_need(verb: str, heavy: list[str]) -> None:
    """A quick verb does not load the layers that it does not use."""
    words = {"forms": ["add.f32"], "legal": ["add.f32"], "banks": ["--pitch", "64"]}[verb]
    code = (f"import sys; sys.argv = ['mmalab', {verb!r}, *{words!r}]\n"
            "from mmalab.cli.main import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            f"print('LOADED', [m for m in {heavy!r} if m in sys.modules])")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines()[-1] == "LOADED []"


def test_closed_pipe_is_no_error() -> None:
    """`mmalab forms | head -1` ends quietly."""
    with subprocess.Popen([sys.executable, "-m", "mmalab", "forms"], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as forms:
        assert forms.stdout.readline()
        forms.stdout.close()
        assert forms.stderr.read() == ""


def test_a_refusal_is_json_too(mmalab) -> None:
    """With --json every verb that refuses prints one object that says why."""
    answer = mmalab("explain", "no.such.instruction", "--json")
    assert answer.code == 2
    assert answer.json["verdict"] == "refused"
    assert "no.such.instruction" in answer.json["reason"]
