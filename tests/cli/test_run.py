"""run: files in, files out, one JSON object, exit codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mutants.hopper_snippets import START, bulk, expect, init, text, wait

TWICE = """.version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u64 y, .param .u32 n)
{
    .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p;
    ld.param.u64 %d0, [x];
    ld.param.u64 %d1, [y];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    setp.ge.u32 %p, %r1, %r0;
    @%p ret;
    mul.wide.u32 %d2, %r1, 4;
    add.s64 %d0, %d0, %d2;
    add.s64 %d1, %d1, %d2;
    ld.global.u32 %r2, [%d0];
    shl.b32 %r2, %r2, 1;
    st.global.u32 [%d1], %r2;
    ret;
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the kernel and its input, as the current one."""
    (tmp_path / "twice.ptx").write_text(TWICE)
    np.save(tmp_path / "x.npy", np.arange(64, dtype=np.uint32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(mmalab, *more: object, n: int = 64, size: int = 64):
    return mmalab("run", "twice.ptx", "--entry", "twice", "--grid", "1,1,1", "--block", "64,1,1",
                  "--arg", "in:x.npy", "--arg", f"out:{size}:u32:y.npy", "--arg", f"u32:{n}", *more)


def test_clean(mmalab, folder: Path) -> None:
    """A clean run exits 0, writes its output, and prints the object of the contract."""
    answer = call(mmalab, "--json")
    assert answer.code == 0
    assert np.load("y.npy").tolist() == list(range(0, 128, 2))
    found = answer.json
    assert (found["verdict"], found["findings"], found["deadlock"]) == ("clean", [], None)
    assert found["counters"]["global.bytes.written"] == 256
    assert set(found["fidelity"].values()) == {"exact"}


def test_words(mmalab, folder: Path) -> None:
    """Without --json the verdict is the last line."""
    assert call(mmalab).out.splitlines()[-1] == "verdict: clean"


def test_finding(mmalab, folder: Path) -> None:
    """A write past the buffer is a finding with its place, and exit 1; the file is written."""
    answer = call(mmalab, "--json", size=63)
    assert answer.code == 1
    found = answer.json
    assert found["verdict"] == "findings"
    assert found["findings"][0]["code"] == "out-of-bounds"
    assert found["findings"][0]["where"]["line"] == 18
    assert set(found["findings"][0]["where"]) == {"cta", "warp", "lane", "line"}
    assert np.load("y.npy").tolist() == list(range(0, 126, 2))


def test_addresses_and_masks_are_in_hexadecimal(mmalab, folder: Path) -> None:
    """In words; numbers of things stay as they are, and so does the JSON."""
    lines = [line.strip() for line in call(mmalab, size=63).out.splitlines()]
    assert "lanes: 0x80000000" in lines
    assert any(line.startswith("address: 0x") for line in lines)
    assert "size: 4" in lines
    witness = call(mmalab, "--json", size=63).json["findings"][0]["witness"]
    assert witness["lanes"] == 0x80000000


def test_what_is_not_written_is_seen(mmalab, folder: Path) -> None:
    """Elements that the kernel leaves out stay all ones."""
    assert call(mmalab, n=2).code == 0
    assert np.load("y.npy").tolist() == [0, 2] + [0xFFFFFFFF] * 62


def test_refused(mmalab, folder: Path) -> None:
    """An instruction that the emulator does not run: verdict refused, its name, exit 2."""
    text = TWICE.replace("mov.u32 %r1, %tid.x;", "mov.u32 %r1, %tid.x; nanosleep.bogus.u32 %r1;")
    (folder / "twice.ptx").write_text(text)
    answer = call(mmalab, "--json")
    assert answer.code == 2
    assert "nanosleep.bogus" in answer.err


def test_step_limit(mmalab, folder: Path) -> None:
    """A run over its budget is refused, in JSON too, and writes nothing."""
    answer = call(mmalab, "--json", "--max-steps", "3")
    assert answer.code == 2
    assert answer.json["verdict"] == "refused"
    assert not Path("y.npy").exists()


@pytest.mark.parametrize("words", [["--grid", "0"], ["--block", "1,2,3,4"], ["--arg", "u32:1"],
                                   ["--schedule", "sometimes"], ["--entry", "thrice"]])
def test_wrong_use(mmalab, folder: Path, words: list[str]) -> None:
    """A bad launch, a parameter too many, an unknown entry: exit 2."""
    assert call(mmalab, *words).code == 2


def test_several_schedules_in_one_command(mmalab, folder: Path) -> None:
    """A missing wait changes the output under `lazy`: exit 1 and who, where, which values."""
    data, zero = np.arange(1, 129, dtype=np.uint32), "st.shared.b32 [%r1], 0;"
    np.save("data.npy", data)
    body = (f"shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %s; {zero} fence.proxy.async.shared::cta;"
            " bar.sync 0;\n" + init(1) + START + expect(0, 512) + bulk(512) + "{}"
            "ld.shared.b32 %r2, [%r1]; mul.wide.u32 %rd0, %t, 4; add.u64 %rd0, %rd0, %g1;\n"
            "st.global.b32 [%rd0], %r2;\n")
    for step, code, last in (("", 1, "findings (2 errors, 1 warning)"), (wait(0, 0), 0, "clean")):
        Path("k.ptx").write_text(text(body.replace("{}", step), [data, data]))
        answer = mmalab("run", "k.ptx", "--block", "128", "--arg", "in:data.npy", "--arg",
                        "out:128:u32:y.npy", "--schedule", "eager,lazy")
        assert answer.code == code
        assert ("128 of 128 elements of argument 1 depend on the schedule, first [0]: 1 under"
                " eager; 0 under lazy" in answer.out) == bool(code)
        assert answer.out.splitlines()[-1] == f"verdict: {last}"
