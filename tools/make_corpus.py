r"""Regenerates the corpus of PTX that other compilers wrote: `tests/corpus/`.

    python tools/make_corpus.py --nvcc nvcc --nvrtc DIR129 --nvrtc DIR135 \
        --triton PYTHON --numba PYTHON

compiles every source under `tests/corpus/sources/` as the `cases_*.py` ask,
and writes `ptx/*.ptx`, `manifest.json` (one row per kernel and PTX file) and `opcodes.json` (which
opcodes occur, how often, in how many files). Needed, in the versions that the committed files name:

* nvcc 13.0 (`--nvcc`, any path to it);
* NVRTC 12.9 and 13.5 (`--nvrtc`, folders in which wheels of nvidia-cuda-nvrtc, -runtime and, for
  13, -crt are unpacked: `pip install --no-deps --target DIR nvidia-cuda-nvrtc==13.5.37 ...`);
* Triton 3.9.0 (`--triton`, a Python that imports it; no GPU and no torch);
* numba-cuda 0.30.4 with NVVM 13.5 (`--numba`, a Python that imports it: `pip install numba-cuda
  cuda-bindings nvidia-nvvm nvidia-cuda-nvcc nvidia-cuda-nvrtc nvidia-nvjitlink`).

Run it with a Python that has NumPy and ml_dtypes. Files of a compiler that is not given are kept as
they are. The output is a function of sources and compiler versions alone: no line information is
asked for, and a path left in the text is an error.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
CORPUS = REPOSITORY / "tests" / "corpus"
sys.path.insert(0, str(REPOSITORY / "tests"))

from corpus import (  # noqa: E402  (the path comes first)
    cases_chips,
    cases_cuda,
    cases_numba,
    cases_programs,
    cases_triton,
)

CUDA_CASES = [*cases_cuda.CASES, *cases_chips.CASES, *cases_programs.CASES]

#: One file may not be larger, nor all of them together (bytes).
FILE_LIMIT, TOTAL_LIMIT = 150_000, 2_500_000

Json = dict[str, Any]
Compiler = Callable[[Path, str], str]


# --- compilers ------------------------------------------------------------------------------------

def nvcc_compiler(nvcc: str) -> tuple[str, Compiler]:
    """Its name with version, and source, target -> PTX."""
    said = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    version = re.search(r"release (\d+\.\d+)", said)
    if version is None:
        raise SystemExit(f"{nvcc}: no version in its answer: {said!r}")

    def run(source: Path, target: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "out.ptx"
            subprocess.run([nvcc, f"-arch={target}", "-std=c++17", *extra_options(source), "-ptx",
                            "-o", str(result), source.name], check=True, cwd=source.parent)
            return result.read_text()

    return f"nvcc{version[1]}", run


def extra_options(source: Path) -> list[str]:
    """What the source's first line asks for: ``// nvcc: --jump-table-density 10``."""
    first = source.read_text().partition("\n")[0]
    return first.removeprefix("// nvcc:").split() if first.startswith("// nvcc:") else []


def nvrtc_compiler(folder: Path) -> tuple[str, Compiler]:
    """The same for the NVRTC library found under `folder`."""
    found = sorted(p for p in folder.rglob("libnvrtc.so.*") if ".alt" not in p.name)
    headers = next(folder.rglob("cuda_fp16.h"), None)
    if not found or headers is None:
        raise SystemExit(f"{folder}: no libnvrtc.so.* or no cuda_fp16.h below it")
    library = ctypes.CDLL(str(found[0]))
    major, minor = ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))

    def run(source: Path, target: str) -> str:
        options = [f"--gpu-architecture={target.replace('sm', 'compute')}", "--std=c++17",
                   f"-I{headers.parent}"]
        return _nvrtc(library, source, options)

    return f"nvrtc{major.value}.{minor.value}", run


def _nvrtc(library: ctypes.CDLL, source: Path, options: list[str]) -> str:
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(),
                               source.name.encode(), 0, None, None)
    given = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    if library.nvrtcCompileProgram(program, len(options), given) != 0:
        raise SystemExit(f"{source.name}: {_nvrtc_text(library, program, 'ProgramLog')}")
    return _nvrtc_text(library, program, "PTX")


def _nvrtc_text(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> str:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, buffer)
    return buffer.value.decode()


def compile_python(kind: str, python: str, cases: Iterable[Json]) -> dict[str, Json]:
    """File name -> what the compile script of `kind` (triton, numba) answered: `ptx` and facts."""
    requests = [{"file": ptx_name(c, target, compiler), "source": c["source"], "entry": c["entry"],
                 "target": target, **c["recipe"]}
                for c in cases for target in c["targets"] for compiler in c["compilers"]]
    script = CORPUS / "sources" / kind / "compile_all.py"
    done = subprocess.run([python, str(script)], input=json.dumps(requests), check=True, text=True,
                          stdout=subprocess.PIPE)
    answers: dict[str, Json] = json.loads(done.stdout)
    return answers


# --- files and rows -------------------------------------------------------------------------------

def ptx_name(case: Json, target: str, compiler: str) -> str:
    """``atomics.sm_80.nvcc13.0.ptx``; Triton's have one kernel and its variant in a file."""
    stem = Path(case["source"]).stem
    if case["recipe"] is not None:
        stem = "_".join(filter(None, [case["entry"], case["variant"]]))
    return f"{stem}.{target}.{compiler}.ptx"


def cleaned(text: str, name: str) -> str:
    """The PTX without trailing blanks and build identifiers; refuses text that names a path."""
    lines = [line.rstrip() for line in text.splitlines()]
    built = re.compile(r"//\s*(Compiler Build ID|Cuda compilation|Based on)")
    result = "\n".join(x for x in lines if not built.match(x)).strip("\n") + "\n"
    path = re.search(r'(?:^|["\s])(/\w+/[^\s"]*|[A-Z]:\\[^\s"]*)', result, re.MULTILINE)
    directive = re.search(r"^\s*\.(file|loc|section)\b.*", result, re.MULTILINE)
    for found in (path, directive):
        if found is not None:
            raise SystemExit(f"{name}: a trace of the machine is left in the PTX: {found[0]!r}")
    return result


def write_cuda(compilers: dict[str, Compiler]) -> None:
    """Compiles each (source, target, compiler) that a case asks for, once."""
    wanted = {ptx_name(c, target, compiler): (c["source"], target, compiler)
              for c in CUDA_CASES for target in c["targets"] for compiler in c["compilers"]}
    for name, (source, target, compiler) in sorted(wanted.items()):
        if compiler in compilers:
            text = compilers[compiler](CORPUS / "sources" / "cuda" / source, target)
            (CORPUS / "ptx" / name).write_text(cleaned(text, name))


def write_python(kind: str, python: str, cases: Iterable[Json]) -> None:
    """Compiles the cases; what the manifest needs beside the PTX goes to `<kind>.json`."""
    answers = compile_python(kind, python, cases)
    for name, answer in answers.items():
        (CORPUS / "ptx" / name).write_text(cleaned(answer.pop("ptx"), name))
    lines = [f"{json.dumps(name)}: {json.dumps(answers[name])}" for name in sorted(answers)]
    (CORPUS / f"{kind}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def manifest_rows() -> list[Json]:
    """One row per case and PTX file, in the order of the cases."""
    facts: dict[str, Json] = {}
    for kind in ("triton", "numba"):
        facts |= json.loads((CORPUS / f"{kind}.json").read_text())
    return [_row(case, target, compiler, facts)
            for case in [*CUDA_CASES, *cases_triton.CASES, *cases_numba.CASES]
            for target in case["targets"] for compiler in case["compilers"]]


def _row(case: Json, target: str, compiler: str, facts: dict[str, Json]) -> Json:
    name = ptx_name(case, target, compiler)
    text = (CORPUS / "ptx" / name).read_text()
    version = re.search(r"^\.version (\S+)", text, re.MULTILINE)
    made_for = re.search(r"^\.target (\w+)", text, re.MULTILINE)
    if made_for is None or made_for[1] != target:
        raise SystemExit(f"{name}: asked for {target}, got {made_for and made_for[1]}")
    stem = "_".join(filter(None, [case["entry"], case["variant"]]))
    row = {"id": f"{stem}-{target}-{compiler}", "ptx": name, "target": target,
           "compiler": compiler, "ptx_version": version[1] if version else ""}
    row |= {k: v for k, v in case.items()
            if k not in {"targets", "compilers", "variant"} and not (k == "recipe" and v is None)}
    kind = case["recipe"]["kind"] if case["recipe"] else "cuda"
    row["source"] = f"sources/{kind}/{case['source']}"
    if kind == "numba":
        row["entry"] = facts[name]["entry"]
    if kind == "triton":
        known = facts[name]
        row |= {"block": [known["threads"], 1, 1], "dynamic_shared": known["shared"]}
        blocks = math.prod(case["grid"])
        row["args"] = [*case["args"], *(_scratch(n, size * blocks)
                                        for n, size in known["scratch"].items())]
    return row


def _scratch(name: str, size: int) -> Json:
    """Triton's parameter for scratch memory: a buffer, or null where the kernel uses none."""
    if size == 0:
        return {"name": name, "role": "scalar", "dtype": "u64", "value": 0}
    return {"name": name, "role": "scratch", "dtype": "u8", "shape": [size], "fill": ["zeros"]}


def opcode_table() -> Json:
    """Every opcode of every file: how often, in how many files; grouped by its head."""
    total: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for path in sorted((CORPUS / "ptx").glob("*.ptx")):
        met = Counter(opcodes(path.read_text()))
        total.update(met)
        files.update(met.keys())
    return {opcode: {"count": total[opcode], "files": files[opcode]} for opcode in sorted(total)}


def opcodes(text: str) -> list[str]:
    """The opcodes in text order. Deliberately apart from the package's own parser."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
    found = []
    for statement in re.split(r"[;{}]|^\s*[\w$]+:\s", text, flags=re.MULTILINE):
        match = re.match(r"\s*(?:@!?%?[\w$]+\s+)?([a-z]\w*(?:[.:]+\w+)*)(?=\s|$)", statement)
        if ": ." in statement or ":." in statement:
            continue
        if match and not statement.lstrip().startswith("."):
            found.append(match[1])
    return found


def write_tables() -> None:
    """`manifest.json` and `opcodes.json` from the files that are there; checks the size limits."""
    rows = manifest_rows()
    kept = {row["ptx"] for row in rows}
    for stale in {p.name for p in (CORPUS / "ptx").glob("*.ptx")} - kept:
        (CORPUS / "ptx" / stale).unlink()
    sizes = {name: (CORPUS / "ptx" / name).stat().st_size for name in kept}
    too_large = [name for name, size in sizes.items() if size > FILE_LIMIT]
    if too_large or sum(sizes.values()) > TOTAL_LIMIT:
        raise SystemExit(f"too large: {too_large or sum(sizes.values())}")
    (CORPUS / "manifest.json").write_text("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
    table = opcode_table()
    (CORPUS / "opcodes.json").write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in table.items()) + "\n}\n")
    print(f"{len(rows)} rows, {len(kept)} files of {sum(sizes.values())} bytes, "
          f"{len(table)} opcodes")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nvcc")
    parser.add_argument("--nvrtc", action="append", type=Path, default=[])
    parser.add_argument("--triton", help="a Python that imports triton")
    parser.add_argument("--numba", help="a Python that imports numba.cuda")
    given = parser.parse_args()
    compilers = dict(nvrtc_compiler(folder) for folder in given.nvrtc)
    if given.nvcc:
        compilers |= dict([nvcc_compiler(given.nvcc)])
    (CORPUS / "ptx").mkdir(exist_ok=True)
    write_cuda(compilers)
    if given.triton:
        write_python("triton", given.triton, cases_triton.CASES)
    if given.numba:
        write_python("numba", given.numba, cases_numba.CASES)
    write_tables()


if __name__ == "__main__":
    main()
