"""The agreement between compiled code and Python: where every pointer and number lies.

A launch is executed by *threaded code*: the program is an array of instruction records, each with
the address of a primitive (one compiled function per instruction form) and the places of its
operands; ``run_cta(context)`` walks it warp by warp. Everything works on the machine's own arrays
(see :mod:`mmalab.emulator.state`), so the NumPy executors can take over before any instruction.

An operand's place is a 32-bit word: the number of a base pointer in the top four bits, a byte
offset below. Literals and special registers lie in memory as whole vectors of 32 lanes, so that
primitives know one kind of operand only.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CONSTANT", "LOG_RECORDS", "OP_BITS", "RECORD_WORDS", "Base", "Code", "Context", "Flag",
           "Kind", "LogKind", "Reason", "Record", "Said", "place"]


class Context(IntEnum):
    """Word numbers (64-bit) of the context block, one block per resident CTA."""

    CODE = 0              # the instruction records
    R = 1                 # u32 [rows][r slots][32]
    Q = 2                 # u64 [rows][q slots][32]
    P = 3                 # u32 [rows][p slots], bit l = lane l
    R_STRIDE = 4          # bytes per row of R, Q, P
    Q_STRIDE = 5
    P_STRIDE = 6
    PC = 7                # i32 [rows][32] site numbers
    STATUS = 8            # u8 [rows][32], see state.Status
    AVOID = 9             # i32 [rows]: site that used up its fuel with lanes elsewhere, plus 1
    STANDING = 10         # i32 [rows]: site at which a warp waits for Python, or -1
    CONSTANTS = 11        # literals, as vectors
    SPECIALS = 12         # u32 [kinds][32] of the CTA
    TID = 13              # u32 [warps of a CTA][4][32]: tid.x, tid.y, tid.z, warpid
    SHARED = 14           # host pointer of the CTA's shared address 0, see RANK
    SHARED_START = 15
    SHARED_BYTES = 16
    TAGS = 17             # u64 [tags] host pointers by address >> 40
    TAG_BYTES = 18        # u64 [tags] sizes; 0 where nothing is mapped
    TAG_WRITABLE = 19     # u8 [tags]: 0 read-only, 1 writable, CONSTANT for .const
    TAG_COUNT = 20
    LOCAL = 21            # host pointer of row 0, lane 0
    LOCAL_STRIDE = 22     # bytes per thread
    LOCAL_BYTES = 23
    PARAMS = 24
    PARAM_BYTES = 25
    RUNS = 26             # i64 [sites]: executions
    SITES = 27            # i64 [sites][4]: active lanes, wavefronts, ideal wavefronts, bytes read
    CALLBACK = 28         # i32 (i64 user, i32 site, i32 row, i32 lanes): 0 go on, else stop
    USER = 29
    FUEL = 30             # instructions left before run_cta returns, counted at back edges
    FIRST_ROW = 31        # row of the CTA's warp 0
    WARPS = 32            # warps of the CTA
    VERSION = 33          # counts what another warp may wait for: releases, stores, exits
    BARRIER_WAITS = 34    # warps that waited at barrier 0 and were released
    FILTER = 35           # the race filter's block of the CTA, see filter.py
    SLICE = 36            # fuel of a warp's turn
    RANK = 37             # what the CTA's rank in its cluster adds to its shared addresses
    LOG = 38              # what was done to the CTA's mbarriers, see arrivals.py; 0 for none
    PATIENT = 39          # 0: Python looks at waits that fail
    WORDS = 40


class Base(IntEnum):
    """Base pointers of operand places; words of a warp's frame."""

    R = 0
    Q = 1
    P = 2
    CONSTANTS = 3
    SPECIALS = 4
    TID = 5
    #: Not bases: what else a frame holds.
    CONTEXT = 8
    ROW = 9
    SITE = 10
    WORDS = 12


class Record(IntEnum):
    """Byte offsets in an instruction record."""

    FUNCTION = 0          # address of i32 primitive(frame, operands, lanes)
    OPERANDS = 8          # address of the operand places
    KIND = 16
    GUARD = 20            # byte offset of the guard predicate in P, or -1
    GUARD_XOR = 24        # 0, or -1 for @!p
    TARGET = 28           # site to branch to
    FLAGS = 32
    COST = 36             # fuel that jumping back from here costs


#: Of a buffer in the .const state space, in TAG_WRITABLE.
CONSTANT = 2
RECORD_WORDS = 10
OP_BITS = 28
#: Of a CTA's log of mbarrier operations.
LOG_RECORDS = 127


def place(base: Base, offset: int) -> int:
    """The word that says where an operand lies."""
    return int(base) << OP_BITS | offset


class Kind(IntEnum):
    """What the interpreter does with a record."""

    PRIMITIVE = 0
    BRANCH = 1
    STOP = 2              # Python executes the site
    EXIT = 3
    BARRIER = 4           # bar.sync 0 by the whole CTA
    TABLE = 5             # brx.idx


class Flag(IntEnum):
    """Bits of a record's flags."""

    LEADER = 1            # control can come here from elsewhere: divergent warps look again
    WHOLE = 2             # compiled for 32 lanes only; fewer are a stop


class Said(IntEnum):
    """What a primitive returns."""

    DONE = 0
    TRAP = 1              # a callback said stop
    DECLINED = 2          # nothing done: Python executes the site this time
    WAITS = 3             # a wait came back false: others go first


class Code(IntEnum):
    """What running a warp ended with."""

    YIELD = 0             # fuel used up
    STOP = 1              # stands at a site that Python executes: see STANDING
    EXIT = 2              # no lane runs any more
    TRAP = 3              # a callback said stop
    BARRIER = 4           # the whole warp waits at barrier 0
    WAIT = 5              # a wait came back false


class LogKind(IntEnum):
    """What a record of the log says, in its low four bits."""

    ARRIVE = 1
    EXPECT = 2
    PASSED = 3            # a wait came back true


class Reason(IntEnum):
    """Why run_cta came back."""

    ENDED = 0
    STOPS = 1
    TRAP = 2
    WAITING = 3
    FUEL = 4
