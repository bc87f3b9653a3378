"""cublasLt as we speak to it, against a stand-in that writes down what it is told."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from mmalab.bench import cublaslt
from mmalab.bench.cublaslt import WORKSPACE, CublasLt, CublasSubject
from mmalab.bench.problem import Problem
from mmalab.bench.scales import BLOCKS, PLAIN, draw
from mmalab.bench.subject import Refused
from mmalab.errors import ToolError, UsageError

HEADER = """
typedef enum {
  CUBLASLT_MATMUL_TILE_UNDEFINED = 0,
  CUBLASLT_MATMUL_TILE_128x256 = 23,
} cublasLtMatmulTile_t;
typedef enum { CUBLASLT_MATMUL_STAGES_64xAUTO = 36, } cublasLtMatmulStages_t;
typedef enum { CUBLASLT_CLUSTER_SHAPE_2x1x1 = 3, } cublasLtClusterShape_t;
"""
CONFIG = {0: 66, 1: 23, 2: 1, 3: 0, 4: 0, 5: 7, 6: 36, 7: 0, 8: 3}


class FakeLibrary:
    """Every function is there; `told` is what they were called with, numbers as numbers."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.status = 0
        self.handles = 0
        self.cublasLtGetVersion = lambda: 130100
        self.cublasLtGetStatusString = lambda status: f"status {status}".encode()

    def __getattr__(self, name: str) -> Any:
        def function(*given: Any) -> int:
            if name.endswith("Create"):
                self.handles += 1
                given[0]._obj.value = self.handles
            elif name == "cublasLtMatmulAlgoGetHeuristic":
                found, count = given[-2], given[-1]
                count._obj.value = 3
                found[1].state = 15
            elif name == "cublasLtMatmulAlgoConfigGetAttribute":
                given[2]._obj.value = CONFIG[given[1]]
            self.told.append((name, *map(plain, given)))
            return self.status if name == "cublasLtMatmul" else 0

        return function

    def of(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of every call of a function."""
        return [given for function, *given in self.told if function == name]


def plain(value: Any) -> Any:
    value = getattr(value, "_obj", value)
    return getattr(value, "value", value)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CublasLt:
    (tmp_path / "include").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "include" / "cublasLt.h").write_text(HEADER)
    fake = FakeLibrary()
    monkeypatch.setattr(ctypes, "CDLL", lambda path: fake)
    made = CublasLt(str(tmp_path / "lib" / "libcublasLt.so.13"))
    made.fake = fake  # type: ignore[attr-defined]
    return made


def told(library: CublasLt) -> FakeLibrary:
    fake: FakeLibrary = library.fake  # type: ignore[attr-defined]
    return fake


def test_operands_are_swapped_and_transposed(library: CublasLt) -> None:
    """Its first matrix is our B (K x N, transposed), its second our A, its result C^T."""
    p = Problem(64, 96, 32, "e4m3", "e5m2", lda=48, ldc=128)
    library.describe(p)
    assert told(library).of("cublasLtMatrixLayoutCreate") == [
        [3, 29, 32, 96, 32], [4, 28, 32, 64, 48], [5, 14, 96, 64, 128]]
    assert told(library).of("cublasLtMatmulDescCreate") == [[2, 68, 0]]
    attributes = told(library).of("cublasLtMatmulDescSetAttribute")
    assert attributes == [[2, 3, 1, 4], [2, 4, 0, 4], [2, 25, 1, 1]]


@pytest.mark.parametrize(("problem", "compute", "scale", "fast"), [
    (Problem(8, 8, 8), 68, 0, []), (Problem(8, 8, 8, "f16", accumulate="f16"), 64, 2, []),
    (Problem(8, 8, 8, "tf32"), 77, 0, []), (Problem(8, 8, 8, "s8"), 72, 10, []),
    (Problem(8, 8, 8, "e4m3", promote=True), 68, 0, [0]), (Problem(8, 8, 8, "e4m3"), 68, 0, [1]),
])
def test_types(library: CublasLt, problem: Problem, compute: int, scale: int,
               fast: list[int]) -> None:
    """How it is told to compute, and whether sums may stay in the tensor core's accumulator."""
    library.describe(problem)
    ((_, said, scaled),) = told(library).of("cublasLtMatmulDescCreate")
    assert (said, scaled) == (compute, scale)
    assert [value for _, attribute, value, _ in told(library).of("cublasLtMatmulDescSetAttribute")
            if attribute == 25] == fast


def test_what_it_cannot_compute(library: CublasLt) -> None:
    with pytest.raises(UsageError, match="is nothing that cublasLt computes"):
        library.describe(Problem(8, 8, 8, "bf16", accumulate="f16"))


def test_algorithms_have_names(library: CublasLt) -> None:
    """All that the heuristics offer and that are ready, in their order, with the header's names."""
    found = library.algorithms(library.describe(Problem(8, 8, 8)))
    assert [algorithm.rank for algorithm in found] == [0, 2]
    assert found[0].name == "cublasLt 66 128x256 stages 64xAUTO cluster 2x1x1"
    assert told(library).of("cublasLtMatmulPreferenceSetAttribute") == [[6, 1, WORKSPACE, 8]]
    assert len(told(library).of("cublasLtMatmulPreferenceDestroy")) == 1


def test_one_product_of_one_set(library: CublasLt) -> None:
    """Addresses of B, A, C, C; alpha 1 and beta 0; the workspace and the stream."""
    description = library.describe(Problem(8, 8, 8))
    (algorithm, _) = library.algorithms(description)
    arena: Any = SimpleNamespace(problem=Problem(8, 8, 8),
                                 sets=[SimpleNamespace(a=0xA0, b=0xB0, c=0xC0)],
                                 gpu=SimpleNamespace(stream=SimpleNamespace(handle=77)))
    subject = CublasSubject(library, arena, description, algorithm, 0xF000)
    assert subject.name.startswith("#0 cublasLt 66")
    subject.enqueue(0)
    ((_, _, alpha, b, _, a, _, beta, c, _, d, *_, workspace, size, stream),) = told(library).of(
        "cublasLtMatmul")
    assert (alpha, beta, b, a, c, d) == (1.0, 0.0, 0xB0, 0xA0, 0xC0, 0xC0)
    assert (workspace, size, stream) == (0xF000, WORKSPACE, 77)
    told(library).status = 15
    with pytest.raises(Refused, match="cublasLtMatmul: status 15"):
        subject.enqueue(0)


def scaled_arena() -> Any:
    """Two sets of operands with scales, whose copies lie at 1, 2, 3, ... ."""
    problem, rng = Problem(256, 256, 384, "e4m3", promote=True, scaled=True), default_rng(3)
    uploaded: list[Any] = []
    return SimpleNamespace(
        problem=problem, scales=[draw(256, 256, 384, rng) for _ in range(2)], uploaded=uploaded,
        sets=[SimpleNamespace(a=0xA0, b=0xB0, c=0xC0)] * 2, allocate=lambda size: 0xF000,
        upload=lambda array: uploaded.append(array) or len(uploaded),
        gpu=SimpleNamespace(stream=SimpleNamespace(handle=77)))


def test_scales_of_blocks(library: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first operand is our B, with 128 x 128; the second our A, a scale for 128 values of a
    row, M running fastest; sums are promoted; each product is told where its set's scales lie."""
    monkeypatch.setattr(cublaslt, "open_cublaslt", lambda: library)
    arena, gpu = scaled_arena(), SimpleNamespace(enter=lambda: None)
    first, *_ = CublasSubject.all(gpu, arena, scaled=True)  # type: ignore[arg-type]
    said = {attribute: value for _, attribute, value, _ in
            told(library).of("cublasLtMatmulDescSetAttribute")}
    assert (said[31], said[32], said[25]) == (5, 4, 0)
    assert [array.shape for array in arena.uploaded] == [(3, 256), (2, 4)] * 2
    np.testing.assert_array_equal(arena.uploaded[0], arena.scales[0][0].T)
    np.testing.assert_array_equal(arena.uploaded[3][:, :3], arena.scales[1][1])
    for at, places in ((0, (2, 1)), (1, (4, 3))):
        first.enqueue(at)
        last = told(library).of("cublasLtMatmulDescSetAttribute")[-2:]
        assert [(attribute, value) for _, attribute, value, _ in last] == [
            (17, places[0]), (18, places[1])]
    assert first.facts["scales"] == BLOCKS


def test_without_the_scales(library: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in says so, by its name and in its facts."""
    monkeypatch.setattr(cublaslt, "open_cublaslt", lambda: library)
    arena, gpu = scaled_arena(), SimpleNamespace(enter=lambda: None)
    first, *_ = CublasSubject.all(gpu, arena)  # type: ignore[arg-type]
    assert first.name.endswith("without scales")
    assert first.facts["scales"] == PLAIN
    attributes = {a for _, a, *_ in told(library).of("cublasLtMatmulDescSetAttribute")}
    assert attributes == {3, 4, 25}
    assert arena.uploaded == []


def test_a_library_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install, and how to measure without."""
    def missing(path: str) -> None:
        raise OSError(f"{path}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(ToolError) as refused:
        CublasLt("/nowhere/libcublasLt.so.13")
    first, legal, see = str(refused.value).splitlines()
    assert first.startswith("libcublasLt: cannot be loaded: ")
    assert "nvidia-cublas" in legal
    assert "--baseline none" in legal
    assert see == "  see:   mmalab bench"


def test_numbers_without_a_header(tmp_path: Path) -> None:
    assert cublaslt._header_names(tmp_path / "lib" / "libcublasLt.so") == {}
