"""Caches that cannot be used and command lines that cannot work: no traceback, no crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hostile import kernel

from mmalab import emulate

PROGRAM = f"""
import numpy as np
from mmalab import emulate
x = np.zeros(2, np.uint32)
emulate({kernel("st.global.u32 [%rd40],16;")!r}, [x], block=1)
print(x.tolist())
"""


def _python(program, **changes):
    env = {**os.environ, **{k: v for k, v in changes.items() if v is not None}}
    for name in [k for k, v in changes.items() if v is None]:
        env.pop(name, None)
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True,
                          text=True, timeout=120, check=False)


def test_damaged_cache_entries_are_rebuilt(tmp_path):
    """Empty, cut, random, and folders where files should be."""
    assert _python(PROGRAM, MMALAB_CACHE=str(tmp_path)).stdout == "[16, 0]\n"
    for file in [f for f in tmp_path.rglob("*") if f.is_file()]:
        for damage in (b"", file.read_bytes()[:40], os.urandom(500)):
            file.write_bytes(damage)
            assert _python(PROGRAM, MMALAB_CACHE=str(tmp_path)).stdout == "[16, 0]\n"
        file.unlink()
        file.mkdir()
    assert _python(PROGRAM, MMALAB_CACHE=str(tmp_path)).stdout == "[16, 0]\n"


def test_two_processes_fill_one_cache(tmp_path):
    """At the same time, from nothing."""
    env = {**os.environ, "MMALAB_CACHE": str(tmp_path)}
    both = [subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdout=subprocess.PIPE,
                             text=True) for _ in range(2)]
    assert [process.communicate(timeout=120)[0] for process in both] == ["[16, 0]\n"] * 2


def test_no_home_directory_is_no_failure():
    """Results are not kept then."""
    program = ("from pathlib import Path\ndef none(): raise RuntimeError('no home')\n"
               "Path.home = staticmethod(none)\n" + PROGRAM)
    run = _python(program, HOME=None, MMALAB_CACHE=None, XDG_CACHE_HOME=None)
    assert run.stdout == "[16, 0]\n"


def test_an_unknown_processor_is_wrong_use():
    """LLVM would end the process."""
    run = _python(PROGRAM, MMALAB_CPU="zzz")
    assert run.returncode == 1
    assert "UsageError: processor 'zzz'" in run.stderr


@pytest.mark.parametrize("line", [
    "run k.ptx --block 1 --arg out:1000000000000000:u32:o.npy",
    "run k.ptx --block 1 --arg out:99999999999999999999:u32:o.npy",
    "run k.ptx --block 1 --arg out:²:u32:o.npy", "run k.ptx --block 1 --arg in:huge.npy",
    "run k.ptx --block 1 --arg out:4:u32:none/o.npy", "run none.ptx --block 1", "run . --block 1",
    "run k.ptx --block 1 --target sm_999 --arg u64:0",
    "run k.ptx --block 1 --numerics zz --arg u64:0",
    "layout mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 -A --svg none/x.svg",
    "banks --rows 1000000000000000 --pitch 128",
    "banks --rows 8 --pitch 128 --swizzle 99,99,99 --dtype bf16",
    "banks --rows 1000000000 --pitch 64", "banks --pitch 99999999999999999999",
    "banks --pitch -64", "swizzle --tile 100000000,32 --dtype bf16 --find",
    "swizzle --tile 100000000,64 --dtype f16 --written none --read 128B",
    "swizzle --tile 100000000,64 --dtype f16 --formula chunk",
    "swizzle --tile 64,64 --dtype f16 --part 100000000000,64",
    "plan tmem --mma 128x256 --stages 1000000000",
    "plan smem --tile 128x128x64 --stages 1000000000 --target sm_90a",
    "descriptor smem --encode swizzle=128B --tile 64,1000000000",
    "descriptor smem --encode swizzle=128B --tile 0,64", "report -o k.ptx",
    "asm k.ptx --target sm_90a --toolkit 99.x", "frobnicate", "plan frobnicate", "run",
])
def test_command_lines_that_cannot_work_exit_2(line, tmp_path):
    """With JSON on standard output, a reason on standard error, and no traceback."""
    (tmp_path / "k.ptx").write_text(kernel("st.global.u32 [%rd40],1;"))
    head = str({"descr": "<u4", "fortran_order": False, "shape": (10**15,)}).encode()
    head += b" " * (117 - len(head)) + b"\n"
    (tmp_path / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little")
                                        + head)
    run = subprocess.run([sys.executable, "-m", "mmalab", *line.split(), "--json"], cwd=tmp_path,
                         capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 2, run.stderr
    assert "Traceback" not in run.stderr
    assert run.stderr.strip()
    assert json.loads(run.stdout)["verdict"] == "refused"


@pytest.mark.toolkit
@pytest.mark.parametrize("line", [
    "check latin.ptx", "run latin.ptx --block 1", "asm latin.ptx --target sm_90a",
    "atlas latin.ptx --what why",
])
def test_comments_may_be_in_any_encoding(line, tmp_path):
    """PTX has comments that are no UTF-8; its code is ASCII."""
    (tmp_path / "latin.ptx").write_bytes(kernel("mov.u32 %r1,1; // caf\xe9", 0).encode("latin-1"))
    for more in ([], ["--json"]):
        run = subprocess.run([sys.executable, "-m", "mmalab", *line.split(), *more], cwd=tmp_path,
                             capture_output=True, timeout=120, check=False)
        assert run.returncode == 0, run.stderr
    json.loads(run.stdout)


def test_findings_about_other_encodings_are_printed(tmp_path):
    """The bytes that are no text are spelled; JSON stays JSON."""
    (tmp_path / "latin.ptx").write_bytes(
        kernel("add.u32 %r1, /* caf\xe9 */ %r2;", 0).encode("latin-1"))
    for more in ([], ["--json"]):
        run = subprocess.run([sys.executable, "-m", "mmalab", "check", "latin.ptx", *more],
                             cwd=tmp_path, capture_output=True, timeout=120, check=False)
        assert run.returncode == 1, run.stderr
        assert rb"caf\udce9" in run.stdout
    assert json.loads(run.stdout)["findings"][0]["code"] == "operand-mismatch"


def test_threads_may_emulate_at_once():
    """Results are as if they had not."""
    text = kernel("mov.u32 %r1,%tid.x; mul.lo.u32 %r2,%r1,77; mul.wide.u32 %rd1,%r1,4;"
                  " add.s64 %rd1,%rd1,%rd40; st.global.u32 [%rd1],%r2;")
    right = []

    def work(number):
        for turn in range(3):
            factor, out = number * 10 + turn + 2, np.zeros(256, np.uint32)
            emulate(text.replace("77", str(factor)), [out], block=256)
            right.append(bool((out == np.arange(256) * factor).all()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 12
