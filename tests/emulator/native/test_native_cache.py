"""Compiled primitives are kept: a second process compiles nothing, damage is repaired."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from mmalab.emulator.native import run_threaded
from mmalab.emulator.run import emulate
from mmalab.numerics import native

text = '''.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b32 %r<6>; .reg .b64 %rd<3>; .reg .pred %p<2>;
    ld.param.u64 %rd0, [p]; mov.u32 %r2, %tid.x; add.u32 %r0, %r2, 1; mul.wide.u32 %rd1, %r2, 4;
    add.s64 %rd2, %rd0, %rd1; mov.u32 %r1, 0;
L:  add.u32 %r1, %r1, %r0; setp.lt.u32 %p0, %r1, 100; @%p0 bra L;
    st.global.u32 [%rd2], %r1; ret; }'''
out = np.zeros(32, np.uint32)
emulate(text, [out], block=32, executor=run_threaded, sanitize=False)
print(native.compile_count(), out.sum())
"""


def _count(cache):
    environment = {**os.environ, "MMALAB_CACHE": str(cache)}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True,
                          capture_output=True, text=True)
    compiled, *rest = done.stdout.split(maxsplit=1)
    return int(compiled), rest


def test_a_second_process_compiles_nothing(tmp_path):
    """Objects come from the cache; a damaged one is rebuilt, alone, and then kept again."""
    first, result = _count(tmp_path)
    assert first > 0
    assert _count(tmp_path) == (0, result)
    objects = sorted((tmp_path / "objects").glob("*.o"))
    assert len(objects) == first
    objects[0].write_bytes(objects[0].read_bytes()[:-7] + b"garbage")
    objects[-1].write_bytes(b"")
    assert _count(tmp_path) == (len({objects[0], objects[-1]}), result)
    assert _count(tmp_path) == (0, result)


def test_without_a_place_for_the_cache(tmp_path):
    """A cache that cannot be written is done without."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert _count(blocked)[0] > 0
