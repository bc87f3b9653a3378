"""Questions as people ask them, and the command that answers each.

``mmalab VERB --help`` ends with those of the verb; ``mmalab --ask 'hang barrier'`` looks for words
in all of them::

    >>> [row.command for row in matching("setmaxnreg")]
    ['plan registers --setmaxnreg 24,240,240 --launch 168']

Whole words count, without their endings (hangs, hanging), and the fewer questions have one, the
more: of "which swizzle for 64-byte rows", `byte` decides and `which` says nothing. A word of the
question tells more than one that stands for it, and that more than one of the command. Only what
no question has is looked for at the beginnings of words.

kernel.ptx, old.ptx, new.ptx stand for one's own files.
"""

from __future__ import annotations

import re
from math import log
from typing import NamedTuple

__all__ = ["QUESTIONS", "Question", "epilog", "matching"]


class Question(NamedTuple):
    """A question in a person's words, and what to type behind ``mmalab``; `also`: other words that
    people ask it with."""

    words: str
    command: str
    also: str = ""

    @property
    def verb(self) -> str:
        """The first word of the command."""
        return self.command.partition(" ")[0]


_WIDE = "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16"
_BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
_ALLOC = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32"

QUESTIONS: tuple[Question, ...] = tuple(Question(*row) for row in (
    # the machine, the project
    ("What does this package do, in one go, on this machine?", "tour",
     "start begin demo try overview first"),
    ("What is installed and usable here: assemblers, GPU, cache?", "doctor",
     "missing install toolkit ptxas cuda driver version problem"),
    ("Which tensor instructions exist (mma, wgmma, tcgen05)?",
     "forms wgmma.mma_async e4m3", "chip list supported available shapes types sparse"),
    # chips, suffixes, versions
    ("Why does it not build for my chip (RTX 50, B200), and what replaces it?",
     f"legal {_WGMMA} --target sm_120a", "supported instruction exist wgmma tcgen05 blackwell"),
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
     "atlas --what messages 'wgmma.wait_group is injected in around line 9 by compiler'",
     "warning info c7508 c7509 c7510 c7514 performance"),
    # what the compiler made
    ("Is the tensor instruction in there, or a fallback, a trap, an emulation?",
     "asm kernel.ptx --expect HGMMA", "hgmma hmma imma qmma"),
    ("Does it compile for my chip, with how many registers and spills, and what did wgmma become?",
     "asm kernel.ptx --target sm_90a",
     "compile assemble build ptxas sass opcodes hgmma qmma hmma imma cubin instructions loop cuda"),
    ("Is int4 or FP8 native or emulated on that chip?",
     "atlas mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 --what opcodes --target sm_90a"),
    ("What changed between two builds: registers, spills, opcodes?",
     "atlas old.ptx new.ptx --what builds"),
    ("Do findings of a debug build (-g) hold for the release build?",
     "atlas kernel.ptx --what debug"),
    # layouts
    ("Which lane and register hold element (row, column) of a fragment?",
     f"layout {_BF16} -A --at 9,5"),
    ("Where does element (row, column) of D live in wgmma's registers: which thread, which lane?",
     f"layout {_WIDE} -D --at 9,5", "accumulator fragment warpgroup position hold output tile"),
    ("What does a thread hold of D after wgmma?", f"layout {_WIDE} -D --lane 5",
     "accumulator fragment register lane elements"),
    ("How is an instruction written: operands, registers, fragments, targets?",
     f"explain {_BF16}", "wgmma mma tcgen05 syntax immediates mean"),
    ("What are LBO and SBO of a matrix descriptor, and the step along K?",
     "descriptor smem --encode start=0x400 swizzle=128B --tile 64,64"),
    ("Which N or tile fits which swizzle (N = 8, 24, 40)?",
     "descriptor smem --encode swizzle=64B --tile 24,16 --major MN"),
    ("What does this matrix descriptor say (0x4000004000010040)?",
     "descriptor smem 0x4000004000010040 --target sm_90a",
     "decode read word fields wgmma smem desc explain 0x lbo sbo swizzle"),
    ("Which swizzle do rows of 64 bytes take (32B, 64B, 128B)?",
     "swizzle --tile 64,32 --dtype bf16 --find", "byte tma box wide choose right span tile"),
    ("Can TMA read a matrix whose rows are K values: which strides (multiples of 16 bytes)?",
     "descriptor tensormap --encode dtype=bf16 dims=1000,64 box=64,64 swizzle=128B",
     "stride pitch unaligned alignment aligned tensor map copy legal 1000 4092"),
    ("Why is a TMA descriptor refused (invalid value), or wrong at the edge?",
     "descriptor tensormap --encode dtype=bf16 dims=512,64 box=64,64 swizzle=128B",
     "tensor map box cuTensorMapEncodeTiled invalid encode"),
    ("The writer and the reader use different swizzles or a misaligned base: what moves?",
     "swizzle --tile 64,64 --dtype f16 --written none --read 128B"),
    ("Is this XOR formula a bijection, and free of bank conflicts?",
     "swizzle --tile 128,32 --dtype bf16 --formula 'chunk ^ (row >> 1 & 3)'"),
    ("Which swizzle or padding removes my bank conflicts?",
     "swizzle --tile 128,32 --dtype bf16 --find"),
    ("How many passes does this access take, and which padding frees it?",
     "banks --rows 8 --columns 4 --access 4 --pitch 128"),
    # order
    ("Why does my kernel hang (deadlock, mbarrier, parity, expect_tx)?", "run kernel.ptx",
     "stuck wait never ends timeout barrier phase own execute emulate"),
    ("Is there a race: a missing fence, wait, commit or barrier (TMA, wgmma, cp.async)?",
     "run kernel.ptx --schedule lazy", "correct wrong result order sanitizer forgotten sync"),
    ("Is anything wrong in the text: types, alignment, column counts, unchecked waits?",
     "check kernel.ptx"),
    ("What does a finding's code mean (tx-mismatch, missing-proxy-fence)?", "explain tx-mismatch",
     "error warning finding sanitizer"),
    ("Which finding codes are there?", "check --codes", "error warning sanitizer list all"),
    # our products
    ("Is a Hopper GEMM right: TMA, wgmma, clusters, on a CPU?",
     "gemm 256 256 128 --kernel sm90_wgmma", "matmul matrix product run emulate sanitize"),
    ("What does our GEMM do for a size: which tile, which copy (K = 1000, K = 4092)?",
     "gemm 4096 4096 4092 --kernel sm90_wgmma --dry-run",
     "plan kernel choose unaligned odd pitch rows shifted cluster stages registers work"),
    ("What would the benchmark measure, and how long does it take?",
     "bench gemm 4096 4096 4096 --dry-run",
     "bench time duration cublas cublaslt dry run seconds gpu"),
    ("How fast is a GEMM of ours against cublasLt, on a GPU?", "bench gemm --table bf16 --dry-run",
     "bench cublas speed performance benchmark tflops compare matmul"),
    # numbers
    ("How many bits does an accumulator keep (FP8 on Hopper)?",
     "numerics probe --unit sm_90.wgmma.e4m3.f32",
     "accumulation precision 14 22 bit sum e4m3"),
    ("What do fast accumulation and promotion cost in accuracy?",
     "numerics error --unit sm_90.wgmma.e4m3.f32 --k 1024 --promote 128",
     "fp8 accumulate error rms two level deepgemm"),
    ("Are TF32 operands rounded or truncated?", "numerics convert 1024.5 --to tf32"),
    ("Why does my FP16 sum stop growing?", "numerics plateau 2.24023 --dtype f16"),
    # plans
    ("Which tile is best for a GEMM of M x N x K: edges, waves, what can be fed?",
     "plan tiles --gemm 4096x576x7168 --on H200",
     "choose cta block shape matmul size wave quantisation"),
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
     "plan rates --measured 518.6 --dtype f16 --on H100", "tflops roofline data sheet"),
    ("What does a tensor pipe counter have to show?",
     "plan rates --on H200 --dtype bf16 --issued 1000,524288"),
    ("Is a small batch bound by memory, does L2 flatter it, when is FP8 faster?",
     "plan decode --rows 8 --n 4096 --k 4096 --weights nvfp4 --target sm_90a --against fp8"),
    ("Which chips multiply NVFP4, MXFP8, FP6 natively, at how many bits?", "plan formats nvfp4"),
    ("Where does the scale factor of (row, block) live?",
     "plan formats mxfp8 --rows 128 --cols 256 --at 33,5"),
    # articles, pages
    ("Are the claims of the two articles true?", "claims --only false",
     "blog statement wrong myth verdict"),
    ("Is there a page of all of it, with figures?", "report --help", "html picture explorer"),
))


def epilog(verb: str) -> str:
    """The questions of one verb, for the end of its help."""
    rows = [row for row in QUESTIONS if row.verb == verb]
    return "\n\n".join(f"{row.words}  mmalab {row.command}" for row in rows)


#: Words that say nothing about what is asked.
_EMPTY = frozenset(re.findall(r"\w+", """
    a an and any are as at be but by can did do does for from go has have help how i if in into is
    it its me my mmalab no not of on one or our so take that the their them there these they this to
    use want we what when where which who why will with would you your"""))
_ENDINGS = ("ations", "ation", "ators", "ator", "ates", "ate", "ing", "ed", "es", "s", "e")
#: What a word tells: of the question, of those that stand for it, of the command.
_OF_QUESTION, _OF_ALSO, _OF_COMMAND = 1.0, 0.8, 0.5
#: Answers that are told: so many, of at least this share of the best one's score.
_MOST, _SHARE = 4, 0.6


def _root(word: str) -> str:
    """A word without its ending: `compiled`, `compile` and `compiling` are one."""
    for ending in _ENDINGS:
        if word.endswith(ending) and not word.endswith("ss") and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


def _roots(text: str) -> set[str]:
    """The words of a text that tell something; of a number in hexadecimal that it is one, and a
    chip without its suffix too."""
    text = re.sub(r"0x[0-9a-f.]+", "0x ", text.lower())
    words = re.findall(r"0x|[a-z0-9_]+", re.sub(r"\b(sm_\d+)[af]\b", r"\g<0> \1", text))
    return {_root(word) for word in words if len(word) > 1 and word not in _EMPTY}


def _told(row: Question) -> dict[str, float]:
    """What each word of a row tells, more if the command begins with it (`plan tiles`). Numbers in
    a command are examples: they tell nothing."""
    command = {word for word in _roots(row.command) if not word[0].isdigit()}
    found = {**dict.fromkeys(command, _OF_COMMAND), **dict.fromkeys(_roots(row.also), _OF_ALSO),
             **dict.fromkeys(_roots(row.words), _OF_QUESTION)}
    begins = re.match(r"(?:[a-z]+ )*", f"{row.command} ")
    for word in _roots(begins[0] if begins else ""):
        found[word] += _OF_COMMAND
    return found


def matching(text: str) -> list[Question]:
    """The questions that answer a text best, the best one first; all where it has no words."""
    wanted, told = _roots(text), [_told(row) for row in QUESTIONS]
    if not wanted:
        return list(QUESTIONS)
    known = set().union(*told)
    if not wanted & known:
        wanted = {word for word in known for part in wanted if word.startswith(part)}
    rarity = {word: log(1 + len(told) / max(1, sum(word in each for each in told)))
              for word in wanted}
    scores = [sum(rarity[word] * each[word] for word in wanted & each.keys()) for each in told]
    best = max(scores)
    order = sorted(range(len(told)), key=lambda at: -scores[at])
    return [QUESTIONS[at] for at in order[:_MOST] if scores[at] >= _SHARE * best > 0]
