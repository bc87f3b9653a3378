"""What other people's documents say, where a claim can only be compared with them: one row a fact.

Each row is read from the document itself (or, where `through` is set, from an account of it), and
holds a number or a word, never a sentence of the document.

    >>> source("cutlass.k-bits").value["dense"]
    256
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mmalab.claims.model import Evidence
from mmalab.errors import UsageError

__all__ = ["SOURCES", "Source", "source"]


@dataclass(frozen=True, slots=True)
class Source:
    """One fact of a document: `value` as it is there, `through` whose account was read."""

    document: str
    where: str
    value: Any
    through: str = ""

    @property
    def evidence(self) -> Evidence:
        """The row as evidence of a claim."""
        words = f"{self.document}, {self.where}" if self.where else self.document
        return Evidence("recorded elsewhere",
                        f"{words} (read through {self.through})" if self.through else words)


_CUTLASS = "NVIDIA CUTLASS 4.7.0, commit 7107b055"
_TRAITS = "include/cute/atom/mma_traits_sm100.hpp"
_GUIDE = "NVIDIA CUDA C++ Programming Guide"
_PTX = "NVIDIA PTX ISA"
_ADA = "NVIDIA Ada GPU Architecture whitepaper"
_DELAWARE = "Jarmusch and Chandrasekaran, arXiv 2512.02189"
_DEEPSEEK = "DeepSeek-V3 Technical Report, arXiv 2412.19437"

SOURCES: dict[str, Source] = {
    "ada.tensor-cores": Source(_ADA, "SM description", 4),
    # RTX 4090, TFLOPS without tensor cores.
    "ada.fp32": Source(_ADA, "appendix A, RTX 4090", 82.6),
    "guide.l1.90": Source("NVIDIA Hopper Tuning Guide", "combined L1, texture, shared", 256),
    "guide.l1.100": Source("NVIDIA Blackwell Tuning Guide", "combined L1, texture, shared", 256),
    "guide.wmma": Source(_GUIDE, "warp matrix functions", "mapping unspecified"),
    "ptx.mma-precision": Source(_PTX, "mma, precision of .e4m3 and .e5m2 products",
                                "at least single precision"),
    "ptx.wgmma-precision": Source(_PTX, "changes in version 9.2, wgmma with .e4m3 or .e5m2",
                                  "lower than single precision"),
    "ptx.one-thread": Source(_PTX, "tcgen05, issue granularity", 1),
    "ptx.coherence": Source(_PTX, "tcgen05 memory consistency", "explicit waits and fences"),
    "ptx.same-warp": Source(_PTX, "tcgen05.dealloc", "by a warp of the allocating CTA"),
    "ptx.m32": Source(_PTX, "tcgen05 data path layouts, layout G",
                      {"m": 32, "modifier": "ws", "cta_group": 1}),
    "ptx.wgmma-registers": Source(_PTX, "wgmma.mma_async", "until wait_group"),
    "ptx.scale-types": Source(_PTX, "block scaling", {"block32": ["E8M0"],
                                                      "block16": ["E8M0", "E4M3"]}),
    # Toolkit: the PTX version that came with it.
    "ptx.releases": Source(_PTX, "release notes", {"12.7": "8.6", "12.8": "8.7", "12.9": "8.8",
                                                   "13.0": "9.0"}),
    "cublas.fast-accumulation": Source(
        "NVIDIA cuBLAS documentation", "CUBLASLT_MATMUL_DESC_FAST_ACCUM",
        {"default": 0, "chips": ["Ada", "Hopper"], "disabled": "promotes"}),
    "deepseek.bits": Source(_DEEPSEEK, "section 3.3.2", 14),
    "deepseek.error": Source(_DEEPSEEK, "section 3.3.2, K = 4096", 2),
    "flashattention3": Source("Shah et al., FlashAttention-3, arXiv 2407.08608", "abstract",
                              {"fp16": 740, "share": 75, "fp8": 1200}),
    "volta": Source("NVIDIA V100 whitepaper", "tensor cores", {"cores": 8, "fma": 64}),
    "h100.fp32": Source("NVIDIA H100 whitepaper", "SXM5, without tensor cores", 66.9),
    "b200.dies": Source("Chips and Cheese, B200, December 2025", "die level counts",
                        {"dies": 2, "of": 80, "enabled": 74}),
    "scaling-book": Source("Austin et al., How To Scale Your Model, GPU chapter", "B200",
                           {"per_core": 2048, "cores": 4}),
    "cutlass.k-bits": Source(_CUTLASS, _TRAITS, {"dense": 256, "sparse": 512, "f8f6f4 K": 32}),
    "cutlass.m": Source(_CUTLASS, _TRAITS, {"one": [64, 128], "pair": [128, 256], "n": 256}),
    "cutlass.thrid": Source(_CUTLASS, "mma_traits_sm80, sm90_gmma, sm100",
                            {"sm80": 32, "sm90": 128, "sm100": [1, 2]}),
    "cutlass.tmem-copy": Source(_CUTLASS, "include/cute/atom/copy_traits_sm100.hpp", 4),
    "cutlass.tmem": Source(_CUTLASS, "include/cute/arch/tmem_allocator_sm100.hpp",
                           {"columns": 512, "lanes": 128, "bits": 32, "slice": 32}),
    "cutlass.leader": Source(_CUTLASS, "examples/cute/tutorial/blackwell/04_mma_tma_2sm_sm100.cu",
                             "leader"),
    "cutlass.tutorial": Source(_CUTLASS, "examples/cute/tutorial/blackwell/01_mma_sm100.cu", 512),
    "cutlass.seven": Source(_CUTLASS, "media/docs/cpp/blackwell_functionality.md", 7),
    "delaware.tmem-read": Source(_DELAWARE, "Tensor Memory bandwidth",
                                 {"tbytes": 16, "per": "SM"}, "notes that quote version 1"),
    "delaware.latency": Source(_DELAWARE, "single-instruction latency of tcgen05.mma",
                               [11.0, 11.4], "notes on the paper"),
    "delaware.opcodes": Source(_DELAWARE, "SASS of FP4 and FP6 products",
                               {"FP4": "OMMA", "FP6": "QMMA"}, "notes on the paper"),
    "delaware.perplexity": Source(_DELAWARE, "FP4 inference, average", 8.2, "notes on the paper"),
}


def source(name: str) -> Source:
    """The row of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return SOURCES[name]
    except KeyError:
        raise UsageError(f"source {name!r}", "is not recorded", legal=list(SOURCES),
                         where="mmalab claims --help") from None
