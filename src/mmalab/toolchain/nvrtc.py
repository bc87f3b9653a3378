"""NVRTC through ctypes, as a program: ``python nvrtc.py LIBRARY ptx|cubin OPTIONS...``.

It reads ``kernel.cu`` in the current folder and writes ``kernel.ptx`` or ``kernel.cubin`` there;
the compiler's log goes to standard output. It imports nothing but the standard library, because it
runs in a fresh interpreter by its path.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Compile; the exit code is NVRTC's own result code (0: done)."""
    library, output, *options = arguments
    nvrtc = ctypes.CDLL(library)
    program = ctypes.c_void_p()
    source = Path("kernel.cu").read_bytes()
    made = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"kernel.cu", 0, None, None)
    if made:
        return int(made)
    words = [option.encode() for option in options]
    array = (ctypes.c_char_p * len(words))(*words)
    result = int(nvrtc.nvrtcCompileProgram(program, len(words), array))
    print(_buffer(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace"))
    if result == 0:
        name = {"ptx": "PTX", "cubin": "CUBIN"}[output]
        Path(f"kernel.{output}").write_bytes(_buffer(nvrtc, program, name))
    return result


def _buffer(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> bytes:
    """``nvrtcGet<name>Size`` and then ``nvrtcGet<name>``."""
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{name}")(program, buffer)
    return buffer.raw


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
