"""cublasLt through ctypes: every algorithm that its heuristics offer for one product.

The library speaks of column-major matrices. Our row-major C (M x N) is its column-major N x M, so
it is asked for ``C^T = B A^T``: its first operand is our B, transposed, its second our A::

    C[M,N] = A[M,K] B[N,K]^T        cublasLt: D(N x M) = op_T(B: K x N) op_N(A: K x M)

which is the TN form that its fastest kernels want. Of a product with scales of blocks it is asked
for the same product with the same scales (its release 12.9 and later has them on Hopper), or, where
it has none, for the product without: the subject's facts say which.

The library is found by cuda-pathfinder, in the wheel ``nvidia-cublas`` or in a toolkit; the header
beside it gives names to the numbers of tiles, stages and clusters.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from mmalab.bench.arena import Arena
from mmalab.bench.problem import Problem
from mmalab.bench.scales import BLOCKS, PLAIN, for_cublaslt
from mmalab.bench.subject import Refused
from mmalab.device.driver import gpu_library
from mmalab.device.gpu import Gpu
from mmalab.errors import ToolError, UsageError

__all__ = ["WORKSPACE", "Algorithm", "CublasLt", "CublasSubject", "open_cublaslt"]

#: Bytes of workspace: what NVIDIA recommends on Hopper.
WORKSPACE = 32 << 20
_MOST = 256
_WHERE = "cublasLt"

#: cudaDataType_t, cublasComputeType_t by (operands, accumulator), and the type of alpha and beta.
_TYPES = {"f16": 2, "bf16": 14, "f32": 0, "tf32": 0, "s8": 3, "s32": 10, "e4m3": 28, "e5m2": 29}
_COMPUTE = {("bf16", "f32"): 68, ("f16", "f32"): 68, ("tf32", "f32"): 77, ("e4m3", "f32"): 68,
            ("e5m2", "f32"): 68, ("f16", "f16"): 64, ("s8", "s32"): 72}
_SCALE = {68: 0, 77: 0, 64: 2, 72: 10}
#: Attributes: of a description, a preference, an algorithm.
_TRANSA, _TRANSB, _FAST_ACCUM, _MAX_WORKSPACE = 3, 4, 25, 1
#: Attributes of a description: where the scales of the first and the second operand lie, and how
#: they belong to it; and the modes of one for 128 values of a row, and for 128 x 128.
_SCALE_AT, _SCALE_MODE, _ROW_128, _BLOCK_128 = (17, 18), (31, 32), 4, 5
_CONFIG = {"id": 0, "tile": 1, "split_k": 2, "reduction": 3, "swizzling": 4, "custom": 5,
           "stages": 6, "inner": 7, "cluster": 8}
#: Attributes of two bytes; all others have four.
_SHORT = {"inner", "cluster"}
_NAMED = {"tile": "CUBLASLT_MATMUL_TILE_", "stages": "CUBLASLT_MATMUL_STAGES_",
          "cluster": "CUBLASLT_CLUSTER_SHAPE_"}
_TRANSPOSED = 1


class _Found(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (("algo", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t),
                ("state", ctypes.c_int), ("waves", ctypes.c_float),
                ("reserved", ctypes.c_int * 4))


class Algorithm:
    """One algorithm that the heuristics gave, at place `rank` of their order."""

    def __init__(self, found: _Found, rank: int, config: Mapping[str, Any]) -> None:
        self.found, self.rank, self.config = found, rank, dict(config)

    @property
    def name(self) -> str:
        """``cublasLt 66 128x256 stages 64xAUTO cluster 2x1x1``."""
        split = self.config["split_k"]
        return (f"cublasLt {self.config['id']} {self.config['tile']} stages "
                f"{self.config['stages']} cluster {self.config['cluster']}"
                + (f" split-K {split}" if split not in (0, 1) else ""))


class CublasLt:
    """The library, one handle of it, and the products that are asked of it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._names = _header_names(Path(path))
        try:
            self._lib = ctypes.CDLL(path)
        except OSError as failed:
            raise _absent(str(failed)) from None
        self._lib.cublasLtGetVersion.restype = ctypes.c_size_t
        self._lib.cublasLtGetStatusString.restype = ctypes.c_char_p
        self.version = int(self._lib.cublasLtGetVersion())
        self._handle = ctypes.c_void_p()
        self.call("cublasLtCreate", ctypes.byref(self._handle))

    def call(self, function: str, *arguments: Any) -> None:
        """One call.

        Raises:
            Refused: a status other than success.
        """
        status = getattr(self._lib, function)(*arguments)
        if status:
            words = self._lib.cublasLtGetStatusString(status) or b"?"
            raise Refused(function, f"{words.decode()} (status {status})", where=_WHERE)

    # --- descriptions -------------------------------------------------------------------------

    def describe(self, problem: Problem, *, scaled: bool = False) -> _Description:
        """The descriptions of one product, with scales of blocks if `scaled`.

        Raises:
            UsageError: types that the library has no name for.
            Refused: it does not know the combination.
        """
        compute = _COMPUTE.get((problem.dtype, problem.accumulate))
        if compute is None or problem.out not in _TYPES:
            raise UsageError(f"{problem.title} accumulated in {problem.accumulate}",
                             "is nothing that cublasLt computes",
                             legal=[f"{a} in {b}" for a, b in _COMPUTE], where=_WHERE)
        return _Description(self, problem, compute, scaled=scaled)

    def algorithms(self, description: _Description) -> list[Algorithm]:
        """All that the heuristics offer within the workspace, best guess first."""
        preference = ctypes.c_void_p()
        self.call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        size = ctypes.c_uint64(WORKSPACE)
        self.call("cublasLtMatmulPreferenceSetAttribute", preference, _MAX_WORKSPACE,
                  ctypes.byref(size), ctypes.sizeof(size))
        found, count = (_Found * _MOST)(), ctypes.c_int()
        try:
            self.call("cublasLtMatmulAlgoGetHeuristic", self._handle, description.product,
                      description.first, description.second, description.result,
                      description.result, preference, _MOST, found, ctypes.byref(count))
        finally:
            self._lib.cublasLtMatmulPreferenceDestroy(preference)
        return [Algorithm(found[at], at, self._config(found[at]))
                for at in range(count.value) if not found[at].state]

    def _config(self, found: _Found) -> dict[str, Any]:
        config: dict[str, Any] = {}
        for key, attribute in _CONFIG.items():
            value = (ctypes.c_uint16 if key in _SHORT else ctypes.c_uint32)()
            self.call("cublasLtMatmulAlgoConfigGetAttribute", found.algo, attribute,
                      ctypes.byref(value), ctypes.sizeof(value), None)
            config[key] = self._names.get(key, {}).get(value.value, value.value)
        return config | {"workspace": found.workspace, "waves": round(found.waves, 3)}

    def scale(self, description: _Description, of_a: int, of_b: int) -> None:
        """Say at which device addresses the scales of A and B lie, as cublasLt reads them."""
        for attribute, place in zip(_SCALE_AT, (of_b, of_a), strict=True):
            value = ctypes.c_void_p(place)
            self.call("cublasLtMatmulDescSetAttribute", description.product, attribute,
                      ctypes.byref(value), ctypes.sizeof(value))

    def multiply(self, description: _Description, a: int, b: int, c: int, algorithm: Algorithm,
                 workspace: int, stream: int) -> None:
        """Enqueue one product of the operands at three device addresses.

        Raises:
            Refused: the algorithm does not take them.
        """
        one, zero = description.scalars
        self.call("cublasLtMatmul", self._handle, description.product, ctypes.byref(one),
                  ctypes.c_void_p(b), description.first, ctypes.c_void_p(a), description.second,
                  ctypes.byref(zero), ctypes.c_void_p(c), description.result, ctypes.c_void_p(c),
                  description.result, algorithm.found.algo, ctypes.c_void_p(workspace),
                  ctypes.c_size_t(WORKSPACE), ctypes.c_void_p(stream))


class _Description:
    """Handles of one product: how to multiply, and the three matrices."""

    def __init__(self, library: CublasLt, problem: Problem, compute: int, *,
                 scaled: bool = False) -> None:
        p, scale = problem, _SCALE[compute]
        self.product = ctypes.c_void_p()
        library.call("cublasLtMatmulDescCreate", ctypes.byref(self.product), compute, scale)
        for attribute, value in ((_TRANSA, ctypes.c_int32(_TRANSPOSED)),
                                 (_TRANSB, ctypes.c_int32(0)),
                                 (_FAST_ACCUM, ctypes.c_int8(not p.promote))):
            if attribute != _FAST_ACCUM or p.dtype in ("e4m3", "e5m2"):
                library.call("cublasLtMatmulDescSetAttribute", self.product, attribute,
                             ctypes.byref(value), ctypes.sizeof(value))
        for attribute, mode in zip(_SCALE_MODE, (_BLOCK_128, _ROW_128), strict=True):
            if scaled:  # its first operand is our B
                value = ctypes.c_int32(mode)
                library.call("cublasLtMatmulDescSetAttribute", self.product, attribute,
                             ctypes.byref(value), ctypes.sizeof(value))
        self.first = self._matrix(library, p.dtype_b, p.k, p.n, p.ldb)
        self.second = self._matrix(library, p.dtype, p.k, p.m, p.lda)
        self.result = self._matrix(library, p.out, p.n, p.m, p.ldc)
        self.scalars: tuple[Any, Any] = {
            0: (ctypes.c_float(1), ctypes.c_float(0)),
            2: (ctypes.c_uint16(0x3C00), ctypes.c_uint16(0)),
            10: (ctypes.c_int32(1), ctypes.c_int32(0))}[scale]

    @staticmethod
    def _matrix(library: CublasLt, dtype: str, rows: int, columns: int, pitch: int) -> Any:
        made = ctypes.c_void_p()
        library.call("cublasLtMatrixLayoutCreate", ctypes.byref(made), _TYPES[dtype],
                     ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(pitch))
        return made


class CublasSubject:
    """One algorithm over the sets of operands of an arena."""

    def __init__(self, library: CublasLt, arena: Arena, description: _Description,
                 algorithm: Algorithm, workspace: int, scales: Sequence[tuple[int, int]] = (),
                 ) -> None:
        self._scales = scales
        self._library, self._arena, self._description = library, arena, description
        self.algorithm, self._workspace = algorithm, workspace
        self._stream = int(arena.gpu.stream.handle)
        bare = arena.problem.scaled and not scales
        self.name = f"#{algorithm.rank} {algorithm.name}" + (" without scales" if bare else "")
        self.facts: Mapping[str, Any] = {
            "kind": "cublasLt", "version": library.version, "rank": algorithm.rank,
            **algorithm.config,
            **({"scales": PLAIN if bare else BLOCKS} if arena.problem.scaled else {})}

    def enqueue(self, at: int) -> None:
        """One product of operand set `at`."""
        each = self._arena.sets[at]
        if self._scales:
            self._library.scale(self._description, *self._scales[at])
        self._library.multiply(self._description, each.a, each.b, each.c, self.algorithm,
                               self._workspace, self._stream)

    @classmethod
    def all(cls, gpu: Gpu, arena: Arena, *, scaled: bool = False) -> list[CublasSubject]:
        """A subject for every algorithm that the heuristics offer for the arena's problem.

        Args:
            gpu: the device.
            arena: whose operands.
            scaled: with the scales of blocks that the arena holds; else without any.

        Raises:
            ToolError: no library, or it has none for this problem (or no scales of blocks).
        """
        gpu.enter()
        library = open_cublaslt()
        description = library.describe(arena.problem, scaled=scaled)
        scales: list[tuple[int, int]] = []
        for each in arena.scales if scaled else ():
            of_a, of_b = (arena.upload(part) for part in for_cublaslt(*each))
            scales.append((of_a, of_b))
        if scales:  # the heuristics may look at them
            library.scale(description, *scales[0])
        workspace = arena.allocate(WORKSPACE)
        found = [cls(library, arena, description, algorithm, workspace, scales)
                 for algorithm in library.algorithms(description)]
        if not found:
            raise ToolError(f"{arena.problem.title}", "cublasLt has no algorithm for it",
                            where=_WHERE)
        return found


@lru_cache(maxsize=1)
def open_cublaslt() -> CublasLt:
    """The library, opened once.

    Raises:
        ToolError: it is not installed.
    """
    pathfinder = gpu_library("cuda.pathfinder")
    try:
        found = pathfinder.load_nvidia_dynamic_lib("cublasLt")
    except Exception as failed:
        raise _absent(str(failed)) from failed
    return CublasLt(str(found.abs_path))


def _absent(said: str) -> ToolError:
    return ToolError("libcublasLt", "cannot be loaded: " + " ".join(said.split())[:200],
                     legal=["pip install nvidia-cublas (CUDA 13) or nvidia-cublas-cu12",
                            "a CUDA toolkit", "--baseline none"], where="mmalab bench")


def _header_names(library: Path) -> dict[str, dict[int, str]]:
    """Names of tiles, stages and clusters by number, from the header beside the library."""
    places = [parent / "include" / "cublasLt.h" for parent in library.resolve().parents[:4]]
    header = next((place for place in places if place.is_file()), None)
    if header is None:
        return {}
    text = header.read_text(encoding="utf-8", errors="replace")
    return {key: {int(number): name for name, number in
                  re.findall(rf"\b{prefix}(\w+)\s*=\s*(\d+)", text)}
            for key, prefix in _NAMED.items()}
