"""Compiles the requests on standard input and answers on standard output; run by make_corpus.

A request names a file to make, a source beside this script, the kernel, the target and the Numba
types of the arguments. No GPU and no driver are touched. The answer holds the PTX and the kernel's
mangled name.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path

from numba import cuda, types

TYPES = {
    "f32[]": types.float32[::1], "f64[]": types.float64[::1], "s32[]": types.int32[::1],
    "u8[]": types.uint8[::1], "c128[]": types.complex128[::1], "f32[,]": types.float32[:, ::1],
    "s32[,]": types.int32[:, ::1], "f64[,]": types.float64[:, ::1], "f32": types.float32,
    "s32": types.int32,
}


def load(source):
    path = Path(__file__).with_name(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(request, modules):
    function = getattr(modules[request["source"]], request["entry"])
    capability = tuple(int(d) for d in re.sub(r"\D", "", request["target"]))
    signature = tuple(TYPES[t] for t in request["types"])
    text, _ = cuda.compile(function, signature, cc=capability, device=False, output="ptx",
                           abi="numba")
    return {"ptx": text, "entry": re.search(r"\.entry (\w+)\(", text)[1]}


def main():
    requests = json.load(sys.stdin)
    modules = {source: load(source) for source in {r["source"] for r in requests}}
    json.dump({r["file"]: answer(r, modules) for r in requests}, sys.stdout)


if __name__ == "__main__":
    main()
