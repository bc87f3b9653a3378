"""Kernels that nobody should write, and arrays that lie between pages nobody may touch."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.native import run_threaded
from mmalab.emulator.run import emulate as run_machine

_PAGE = mmap.PAGESIZE
_CANARY = 0xA5
_REGISTERS = (".reg .pred %p<16>; .reg .b16 %h<8>; .reg .b32 %r<48>; .reg .f32 %f<8>;"
              " .reg .b64 %rd<48>; .reg .f64 %fd<8>;")


def kernel(body, pointers=1, *, target="sm_90", module=""):
    """PTX of a kernel `k`: pointer i in %rd(40 + i)."""
    declared = ", ".join(f".param .u64 p{i}" for i in range(pointers))
    loads = "\n".join(f"ld.param.u64 %rd{40 + i}, [p{i}];" for i in range(pointers))
    return (f".version 8.7\n.target {target}\n.address_size 64\n{module}\n"
            f".visible .entry k({declared})\n{{\n{_REGISTERS}\n{loads}\n{body}\nret;\n}}\n")


class Guarded:
    """An array whose end, or beginning, touches a page without access; canaries on the other
    side. What runs over it ends the process, what writes a little too far is seen."""

    def __init__(self, size, *, at_end=True):
        whole = -(-size // _PAGE) * _PAGE
        self._map = mmap.mmap(-1, whole + 2 * _PAGE)
        raw = np.frombuffer(self._map, np.uint8)
        raw[:] = _CANARY
        protect = ctypes.CDLL(None).mprotect
        for page in (0, _PAGE + whole):
            if protect(ctypes.c_void_p(raw.ctypes.data + page), ctypes.c_size_t(_PAGE), 0):
                raise OSError("mprotect")
        start = _PAGE + (whole - size if at_end else 0)
        self._inner = raw[_PAGE : _PAGE + whole]
        self._start, self._size = start - _PAGE, size
        self.array = raw[start : start + size]

    @property
    def intact(self):
        """Whether the canaries live."""
        before = self._inner[: self._start]
        behind = self._inner[self._start + self._size :]
        return bool((before == _CANARY).all() and (behind == _CANARY).all())


def interpreted(text, args, **options):
    """A run by the NumPy executors."""
    return run_machine(text, args, sanitize=False, executor=lambda machine, steps: Interpreter(
        machine, max_steps=steps).run(), **options)


def compiled(text, args, **options):
    """A run by compiled code."""
    return run_machine(text, args, sanitize=False, executor=run_threaded, **options)
