"""Compiles the requests on standard input and answers on standard output; run by make_corpus.

A request names a file to make, a source beside this script, the kernel, the target, its signature
(Triton's type words, "constexpr" for compile-time values), the values of those, the arguments
that are multiples of 16, warps and stages. No GPU and no driver are touched. The answer holds the
PTX and what a launch needs: threads per block, dynamic shared memory, and the parameters that
Triton puts behind the kernel's own: pointers to scratch memory of so many bytes per block.
"""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path

# Line numbers would put this machine's paths into the PTX; fusion is pinned to today's default.
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TYPES = {"fp16": triton.language.float16, "fp32": triton.language.float32,
         "int32": triton.language.int32, "fp64": triton.language.float64}


def load(source):
    path = Path(__file__).with_name(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(request, modules):
    kernel = getattr(modules[request["source"]], request["entry"])
    signature = request["signature"]
    names = list(signature)
    values = {(names.index(n),): TYPES.get(v, v) if isinstance(v, str) else v
              for n, v in request["constants"].items()}
    pointers = [n for n in names if signature[n].startswith("*")]
    aligned = {(names.index(n),): [["tt.divisibility", 16]]
               for n in pointers + request.get("multiples", [])}
    capability = int(re.sub(r"\D", "", request["target"]))
    options = {"num_warps": request["warps"], "num_stages": request["stages"]}
    return triton.compile(ASTSource(kernel, signature, values, aligned),
                          target=GPUTarget("cuda", capability, 32), options=options)


def answer(request, modules):
    result = compiled(request, modules)
    text, facts = result.asm["ptx"], result.metadata
    own = sum(1 for t in request["signature"].values() if t != "constexpr")
    header = text.partition(".entry")[2].partition("{")[0]
    declared = len(re.findall(r"^\s*\.param ", header, re.MULTILINE))
    scratch = {"global_scratch": facts.global_scratch_size,
               "profile_scratch": facts.profile_scratch_size}
    return {"ptx": text, "threads": 32 * request["warps"], "shared": facts.shared,
            "scratch": dict(list(scratch.items())[:declared - own])}


def main():
    requests = json.load(sys.stdin)
    modules = {source: load(source) for source in {r["source"] for r in requests}}
    json.dump({r["file"]: answer(r, modules) for r in requests}, sys.stdout)


if __name__ == "__main__":
    main()
