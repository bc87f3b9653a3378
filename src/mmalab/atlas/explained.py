"""ptxas's messages explained: what each means, what brings it about, what to do.

Messages are told apart by their words. Their numbers are no names: C7519 is an injected
``warpgroup.arrive`` in 12.9 and a dependence in a divergent path in 13.5, whose number was C7520
before::

    >>> explain_message("Feature 'tcgen05.alloc' requires PTX ISA .version 8.6 or later").cause
    'the .version directive is older than the instruction or one of its modifiers'

:mod:`mmalab.atlas.provoked` has a kernel for each advisory, so that the number that a release gives
it can be asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from mmalab.errors import UsageError

__all__ = ["Message", "explain_message", "messages"]

Kind = Literal["target", "version", "text", "operands", "registers", "wgmma", "performance",
               "option", "resources"]


@dataclass(frozen=True)
class Message:
    """One kind of message: its words with ``*`` for what varies, what it means, what brings it
    about, and what to do. `kind` says what it is about."""

    words: str
    kind: Kind
    meaning: str
    cause: str
    remedy: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the message anywhere in a line of ptxas's."""
        return re.compile(".*?".join(re.escape(part) for part in self.words.split("*")))


def messages(kind: Kind | None = None) -> tuple[Message, ...]:
    """Every message that the atlas explains, the most particular first."""
    return tuple(row for row in _TABLE if kind in (None, row.kind))


def explain_message(text: str) -> Message:
    """The explanation of a line of ptxas, or of its words.

    Raises:
        UsageError: the atlas does not know it.
    """
    found = next((row for row in _TABLE if row.pattern.search(text)), None)
    if found is None:
        words = set(text.lower().split())
        near = sorted(_TABLE, key=lambda row: -len(words & set(row.words.lower().split())))
        raise UsageError(f"message {text!r}", "is not one that the atlas explains",
                         legal=[row.words for row in near[:3]],
                         where="mmalab atlas --what messages")
    return found


_SUFFIX = ("the chip has no such instruction, or the target's suffix does not tell that it has: "
           "a means this chip alone, f its family, none what every later chip has too")
_ASK_WHY = "mmalab atlas --what why FILE tells which of the two; mmalab legal names what to write"
_SERIAL = "each wgmma waits for the one before: the tensor cores idle between them"
_PIPELINE = "from the first wgmma to its wait_group"

_TABLE: tuple[Message, ...] = (
    # --- target and version ---
    Message("requires PTX ISA .version * or later", "version", "the text is declared too old",
            "the .version directive is older than the instruction or one of its modifiers",
            "raise .version to the one named; nothing else changes"),
    Message("Unsupported .version *; current version is '*'", "version",
            "this ptxas is older than the text", "the text declares a PTX version that this "
            "release does not read", "lower .version to what the body needs (mmalab atlas --what "
            "why FILE), or take a newer toolkit"),
    Message("is not supported on .target sm_* and higher from PTX ISA version", "version",
            "the form was taken away", "warps diverge since sm_70, so votes and shuffles must name "
            "their lanes", "the form with .sync and a mask"),
    Message("PTX with .target '*' cannot be compiled for architecture '*'", "target",
            "the text and -arch name chips that do not follow each other", "a text with suffix a "
            "compiles for its chip alone, with f for its family, without for every later chip",
            "give the target that the text names, or write another .target"),
    Message("Instruction '*' cannot be compiled for architecture '*'", "target",
            "an instruction of one architecture is asked of another", _SUFFIX, _ASK_WHY),
    Message("requires .target sm_* or higher", "target", "the chip is older than the instruction",
            "this chip does not have it", "the target named or a later one; mmalab legal names "
            "what older chips have"),
    Message("requires .target * or higher", "target", "the chip is older than the instruction",
            "this chip does not have it", "the compute capability named or a later one"),
    Message("not supported on .target '*'", "target", "the target does not have it", _SUFFIX,
            _ASK_WHY),
    Message("for instruction '*', for arch '*'", "target", "the target does not have the modifier",
            _SUFFIX, _ASK_WHY),
    Message("-Bit ABI (--machine 32", "target", "32-bit pointers are gone",
            "a 32-bit address form in a 64-bit module", "the u64 form"),
    Message("-Bit compilation is no longer supported", "target", "32-bit pointers are gone",
            "a 32-bit address form in a 64-bit module", "the u64 form"),
    # --- spelling and operands ---
    Message("Not a name of any known instruction: '*'", "text", "no such instruction",
            "misspelt, or younger than this ptxas", "mmalab legal names the nearest; another "
            "toolkit may know it"),
    Message("Unknown modifier '*'", "text", "no such modifier",
            "misspelt, or younger than this ptxas", "mmalab explain lists the modifiers of the "
            "instruction"),
    Message("Parsing error near '*': syntax error", "text", "the text cannot be read on",
            "a character or a modifier that this ptxas cannot even split into words",
            "look before the place named"),
    Message("modifier required for instruction", "text", "a modifier is missing",
            "the form exists only with it, or ptxas took another form than was meant",
            "mmalab explain shows the whole spelling"),
    Message("Illegal blayout '*' for instruction '*'", "text", "B must be column-major",
            "integer and 8-bit products, and all m16n8 shapes, are .row.col", "transpose while "
            "loading (ldmatrix.trans for 16-bit types) or store B the other way"),
    Message("Illegal modifier '*' for instruction '*' with type '*'", "text",
            "the modifier does not go with the type", "the combination is not in this release",
            "mmalab legal names the nearest; another toolkit may know it"),
    Message("Illegal modifier '*' for instruction '*'", "text",
            "the modifier does not belong there",
            "the combination of modifiers is not one of the instruction's",
            "mmalab explain shows which are"),
    Message("Modifier '*' cannot be applied to '*' space", "text",
            "the modifier does not go with the state space", "volatile, cached and ordered "
            "accesses are for memory that others see", "leave the modifier out"),
    Message("Unexpected instruction types specified for '*'", "text",
            "no form of the instruction has these types", "a type, or the number of types",
            "mmalab explain lists the types"),
    Message("Arguments mismatch for instruction '*'", "operands",
            "the operands are not the form's", "their number, a vector's length, a register where "
            "an address is asked, or immediates that this type does not take (FP8 wgmma has no "
            "transpose)", "mmalab explain shows the operands"),
    Message("State space incorrect for instruction '*'", "operands",
            "the address is in another space than the instruction takes",
            "tcgen05.commit takes .shared::cluster or a generic address, never .shared::cta",
            "the space that mmalab explain shows"),
    Message("Illegal state space for address operand", "operands",
            "the address is in another space than the instruction takes",
            "a variable of one space behind an instruction of another", "cvta, or the right space"),
    Message("value must be power of 2", "operands", "a count of columns that cannot be allocated",
            "an immediate; the same number in a register passes and traps at run time",
            "32, 64, 128, 256 or 512"),
    Message("unexpected value '*', expected to be", "operands", "an immediate out of its steps",
            "ptxas checks immediates, never registers", "the multiple named"),
    Message("out of range, expected to be in range", "operands", "an immediate out of its range",
            "ptxas checks immediates, never registers", "the range named"),
    Message("uses single CTA(.cta_group::1) and CTA pair granularity", "operands",
            "one function has both cta_groups", "the manual forbids it; 12.9 and 13.0 let it pass",
            "one .cta_group in a kernel"),
    # --- wgmma ---
    Message("serialized due to insufficient register resources", "wgmma", _SERIAL,
            f"the accumulators and what else lives {_PIPELINE} exceed 255 registers: a spilled "
            "accumulator cannot be in flight", "a smaller N, two warpgroups, or setmaxnreg"),
    Message("serialized due to non wgmma instructions reading accumulator registers", "wgmma",
            _SERIAL, f"an accumulator is read {_PIPELINE}", "read it after wait_group"),
    Message("serialized due to non wgmma instructions defining accumulator registers", "wgmma",
            _SERIAL, f"an accumulator is written {_PIPELINE}; a move that the compiler inserts "
            "counts", "write before the fence; start with scale-d false instead of zeroing"),
    Message("serialized due to non wgmma instructions defining input registers", "wgmma", _SERIAL,
            f"A in registers is written {_PIPELINE}", "wait before writing, or use a second set"),
    Message("serialized due to ill formed pipeline stage", "wgmma", _SERIAL,
            "fence, products, commit and wait do not follow each other on every path",
            "keep them in one basic block, or unroll"),
    Message("serialized due to wgmma pipeline crossing function boundary", "wgmma", _SERIAL,
            f"a function is called {_PIPELINE}", "inline it, or call it after the wait"),
    Message("serialized due to the presence of Extern calls", "wgmma", _SERIAL,
            "an external function may use any register", "link it in, or call it elsewhere"),
    Message("compiler-inserted WG.DP in divergent path", "wgmma", _SERIAL,
            "the wait stands where only some warps of the warpgroup come",
            "wait before the branch"),
    Message("compiler-inserted WG.AR in divergent path", "wgmma", _SERIAL,
            "the fence is missing, or stands where only some warps of the warpgroup come",
            "fence before the first product, on every path"),
    Message("warpgroup.arrive is injected", "wgmma", "the missing fence is put in",
            "registers of the product are touched before it, without wgmma.fence",
            "write the fence; do not rely on the compiler, later releases say nothing"),
    Message("warpgroup.wait is injected", "wgmma", "a wait is put in",
            "an accumulator is used before wait_group", "wait where you mean to"),
    Message("wgmma.wait_group is injected", "wgmma", "a wait is put in",
            "an accumulator is used before wait_group", "wait where you mean to"),
    # --- registers ---
    Message("'setmaxnreg' ignored; unable to determine register count at entry", "registers",
            "setmaxnreg is left out", "the registers at launch are not known at compile time",
            ".maxnreg, -maxrregcount, or .maxntid or .reqntid together with .minnctapersm"),
    Message("'setmaxnreg' ignored to allow debugging", "registers", "setmaxnreg is left out",
            "-g", "-lineinfo instead; register findings under -g do not carry over"),
    Message("'setmaxnreg' ignored to maintain compatibility", "registers",
            "setmaxnreg is left out", "separate compilation (-c), or a call to an external "
            "function whose registers are not known", "compile the whole program in one go"),
    Message("'setmaxnreg' ignored to maintain minimum register requirements", "registers",
            "setmaxnreg is left out", "what remains would be fewer than the code needs",
            "a larger count"),
    Message("setmaxnreg.dec has register count (*) which is larger", "registers",
            "the decrease would be an increase", "the count at that point is smaller already",
            "a smaller count, or .inc"),
    Message("Too big maxrregcount value specified", "option", "-maxrregcount is not followed",
            "a thread has at most 255 registers: eight bits, one value of which is RZ",
            "255 or less"),
    Message("requires more registers than the hardware", "registers",
            "the function cannot be compiled", "what must live at once exceeds the file",
            "fewer accumulators at once"),
    Message("Registers are spilled to local memory in function '*'", "registers",
            "values wait in local memory, behind L1",
            "more values live at once than the registers that the kernel may have: 255, or what "
            "launch bounds and -maxrregcount leave", "a smaller tile, fewer stages in registers, "
            "looser bounds"),
    # --- performance ---
    Message("should be used on instruction '*' instead of modifier '*'", "performance",
            "a slower form on later chips", "plain .sp takes metadata in any order",
            ".sp::ordered_metadata, with ascending indices"),
    Message("should be used on .target '*' instead of .target '*'", "performance",
            "this target has the instruction without the hardware behind it", "multicast on a "
            "target that does not tell the family", "the target named"),
    # --- resources and options ---
    Message("uses too much shared data", "resources", "the kernel cannot be launched",
            "static shared memory beyond 48 KiB", "dynamic shared memory, with the opt-in "
            "attribute"),
    Message("stack size for entry function * cannot be statically determined", "resources",
            "recursion, or a call through a pointer", "the call graph is not known",
            "set the stack limit at run time"),
    Message("is ignored when neither .maxntid nor .reqntid is specified", "option",
            "a directive without effect", ".minnctapersm needs the size of a CTA", "add .maxntid"),
    Message("Unknown option '*'", "option", "this release has no such option", "an option of "
            "another release", "mmalab doctor lists the installed ones"),
    Message("Optimized debugging not supported", "option", "-g wants -O0",
            "-g with an optimisation level", "-O0, or -lineinfo"),
)
