"""Compiles kernels.py for an H200, without a GPU, by a Python that has Triton 3.9.0 (and no torch):

    python tests/corpus/triton_hopper/make.py

writes ``NAME.ptx`` and what a launch needs, ``launches.json``: threads, dynamic shared memory, CTAs
of a cluster, and of each descriptor the box and the swizzle that Triton chose.
"""

import json
import os
import re
import sys
from pathlib import Path

os.environ["TRITON_DISABLE_LINE_INFO"] = "1"  # line numbers would name this machine's paths
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import kernels  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

#: name: kernel, (BM, BN, BK), A's and B's type, warps, CTAs of a cluster, further constants.
CASES = {
    "descriptors_f16": ("matmul", (128, 128, 64), "fp16", 4, 1, {}),
    "descriptors_bf16": ("matmul", (128, 256, 64), "bf16", 8, 1, {}),
    "descriptors_e4m3": ("matmul", (64, 128, 128), "fp8e4nv", 4, 1, {}),
    "n_major_f16": ("matmul_n_major", (64, 64, 64), "fp16", 4, 1, {}),
    "cluster_f16": ("matmul", (128, 128, 64), "fp16", 4, 2, {}),
    "persistent_f16": ("persistent", (64, 64, 64), "fp16", 4, 1,
                       {"CTAS": 2, "SPECIALISED": False}),
    "specialised_f16": ("persistent", (64, 64, 64), "fp16", 4, 1,
                        {"CTAS": 2, "SPECIALISED": True}),
}


def compiled(kernel, tile, dtype, warps, ctas, more):
    """Triton's answer to one case."""
    bm, bn, bk = tile
    b = (bk, bn) if kernel == "matmul_n_major" else (bn, bk)
    kinds = {"da": f"tensordesc<{dtype}[{bm},{bk}]>", "db": f"tensordesc<{dtype}[{b[0]},{b[1]}]>",
             "dd": f"tensordesc<fp16[{bm},{bn}]>", "m": "i32", "n": "i32", "k": "i32"}
    function = getattr(kernels, kernel)
    signature = {name: kinds.get(name, "constexpr") for name in function.arg_names}
    values = {"BM": bm, "BN": bn, "BK": bk, **more}
    constants = {(i,): values[name] for i, name in enumerate(signature) if name in values}
    return triton.compile(
        ASTSource(function, signature, constants, {}), target=GPUTarget("cuda", 90, 32),
        options={"num_warps": warps, "num_stages": 3, "num_ctas": ctas})


launches = {}
for name, case in CASES.items():
    made = compiled(*case)
    text, facts = made.asm["ptx"], made.metadata
    (HERE / f"{name}.ptx").write_text(text)
    launches[name] = {
        "threads": int(re.search(r"\.reqntid (\d+)", text)[1]), "shared": facts.shared,
        "cluster": case[4], "tile": case[1],
        "descriptors": [{"box": d["block_size"][::-1], "swizzle": d["swizzle"]}
                        for d in facts.tensordesc_meta]}
(HERE / "launches.json").write_text(json.dumps(launches, indent=1) + "\n")
