"""Questions as people ask them, and the command that answers each.

``mmalab VERB --help`` ends with those of the verb; ``mmalab --ask 'hang barrier'`` looks for words
in all of them::

    >>> [row.command for row in matching("setmaxnreg")]
    ['plan registers --setmaxnreg 24,240,240 --launch 168']

kernel.ptx, old.ptx, new.ptx stand for one's own files.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["QUESTIONS", "Question", "epilog", "matching"]


class Question(NamedTuple):
    """A question in a person's words, and what to type behind ``mmalab``."""

    words: str
    command: str

    @property
    def verb(self) -> str:
        """The first word of the command."""
        return self.command.partition(" ")[0]


_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
_BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
_ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"

QUESTIONS: tuple[Question, ...] = tuple(Question(*row) for row in (
    # chips, suffixes, versions
    ("Why does it not build for my chip (RTX 50, B200), and what replaces it?",
     f"legal {_WGMMA} --target sm_120a"),
    ("Do I need the a or f suffix (sm_90a, sm_120f)?",
     "legal setmaxnreg.inc.sync.aligned.u32 --target sm_90"),
    ("Is there a transposed or row-major form for FP8 or int8, or bf16 sums?",
     "legal mma.sync.aligned.m16n8k32.row.row.s32.s8.s8.s32"),
    ("On which targets does an instruction assemble?", f"atlas {_ALLOC}"),
    ("Why does ptxas refuse my PTX: target, version or text?", "atlas kernel.ptx --what why"),
    ("Does a build for sm_100a run on a B300 (no kernel image)?",
     "atlas sm_100a sm_100f --what images --target 10.3"),
    ("Which CUDA release reads this PTX version, or knows this target?",
     "atlas sm_120f --what toolkits --toolkit 12.8"),
    ("Which preprocessor macro tells sm_120 from sm_120a?", "atlas --what macros"),
    ("What does a message of ptxas mean (C7511, C7517, serialized wgmma)?",
     "atlas --what messages 'wgmma.wait_group is injected in around line 9 by compiler'"),
    # what the compiler made
    ("Is the tensor instruction in there, or a fallback, a trap, an emulation?",
     "asm kernel.ptx --expect HGMMA"),
    ("Is int4 or FP8 native or emulated on that chip?",
     "atlas mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 --what opcodes --target sm_90a"),
    ("What changed between two builds: registers, spills, opcodes?",
     "atlas old.ptx new.ptx --what builds"),
    ("Do findings of a debug build (-g) hold for the release build?",
     "atlas kernel.ptx --what debug"),
    # layouts
    ("Which lane and register hold element (row, column) of a fragment?",
     f"layout {_BF16} -A --at 9,5"),
    ("How is an instruction written: operands, registers, fragments, targets?",
     f"explain {_BF16}"),
    ("What are LBO and SBO of a matrix descriptor, and the step along K?",
     "descriptor smem --encode start=0x400 swizzle=128B --tile 64,64"),
    ("Which N or tile fits which swizzle (N = 8, 24, 40)?",
     "descriptor smem --encode swizzle=64B --tile 24,16 --major MN"),
    ("Why is a TMA descriptor refused (invalid value), or wrong at the edge?",
     "descriptor tensormap --encode dtype=bf16 dims=512,64 box=64,64 swizzle=128B"),
    ("The writer and the reader use different swizzles or a misaligned base: what moves?",
     "swizzle --tile 64,64 --dtype f16 --written none --read 128B"),
    ("Is this XOR formula a bijection, and free of bank conflicts?",
     "swizzle --tile 128,32 --dtype bf16 --formula 'chunk ^ (row >> 1 & 3)'"),
    ("Which swizzle or padding removes my bank conflicts?",
     "swizzle --tile 128,32 --dtype bf16 --find"),
    ("How many passes does this access take, with this padding?",
     "banks --rows 8 --columns 4 --access 4 --pitch 144"),
    # order
    ("Why does my kernel hang (deadlock, mbarrier, parity, expect_tx)?", "run kernel.ptx"),
    ("Is there a race: a missing fence, wait, commit or barrier (TMA, wgmma, cp.async)?",
     "run kernel.ptx --schedule lazy"),
    ("Is anything wrong in the text: types, alignment, column counts, unchecked waits?",
     "check kernel.ptx"),
    # numbers
    ("How many bits does an accumulator keep (FP8 on Hopper)?",
     "numerics probe --unit sm_90.wgmma.e4m3.f32"),
    ("What do fast accumulation and promotion cost in accuracy?",
     "numerics error --unit sm_90.wgmma.e4m3.f32 --k 1024 --promote 128"),
    ("Are TF32 operands rounded or truncated?", "numerics convert 1024.5 --to tf32"),
    ("Why does my FP16 sum stop growing?", "numerics plateau 2.24023 --dtype f16"),
    # plans
    ("Do my accumulators and scales fit into 512 columns of Tensor Memory?",
     "plan tmem --mma 128x256 --scales nvfp4"),
    ("Where is an accumulator's element in Tensor Memory, and which warp loads it?",
     "plan tmem --mma 64x64 --at 20,3"),
    ("How many registers does my accumulator take, will it spill?",
     "plan registers --mma 64x256 --count 1"),
    ("Can this setmaxnreg split be served, or does it hang?",
     "plan registers --setmaxnreg 24,240,240 --launch 168"),
    ("How many stages fit into shared memory (99 KiB, 227 KiB)?",
     "plan smem --tile 128x128x64 --target sm_120a"),
    ("How many CTAs fit on an SM, would the launch be refused?",
     "plan occupancy --registers 128 --shared 65536 --threads 256 --target sm_90a"),
    ("Is this benchmark figure possible, what share of the peak is it?",
     "plan rates --measured 518.6 --dtype f16 --on H100"),
    ("What does a tensor pipe counter have to show?",
     "plan rates --on H200 --dtype bf16 --issued 1000,524288"),
    ("Is a small batch bound by memory, does L2 flatter it, when is FP8 faster?",
     "plan decode --rows 8 --n 4096 --k 4096 --weights nvfp4 --target sm_90a --against fp8"),
    ("Which chips multiply NVFP4, MXFP8, FP6 natively, at how many bits?", "plan formats nvfp4"),
    ("Where does the scale factor of (row, block) live?",
     "plan formats mxfp8 --rows 128 --cols 256 --at 33,5"),
))


def epilog(verb: str) -> str:
    """The questions of one verb, for the end of its help."""
    rows = [row for row in QUESTIONS if row.verb == verb]
    return "\n\n".join(f"{row.words}  mmalab {row.command}" for row in rows)


def matching(text: str) -> list[Question]:
    """The questions that hold the most of the words; words of the question count twice."""
    wanted = text.lower().split()
    found = [(sum(2 * (word in row.words.lower()) + (word in row.command) for word in wanted), row)
             for row in QUESTIONS]
    best = max((score for score, _ in found), default=0)
    return [row for score, row in found if score == best > 0]
