"""The agreement between compiled code and Python: one context block of 64-bit words.

Compiled code is called as ``step(context, row) -> code`` and works on the machine's own arrays (see
:mod:`mmalab.emulator.state`): register files, program counters (site numbers) and lane status.
Either executor can therefore take over from the other between any two sites.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["Code", "Context"]


class Context(IntEnum):
    """Word numbers of the context block, one block per resident CTA."""

    R = 0                 # u32 [rows][r slots][32]
    Q = 1                 # u64 [rows][q slots][32]
    P = 2                 # u32 [rows][p slots], bit l = lane l
    PC = 3                # i32 [rows][32] site numbers
    STATUS = 4            # u8 [rows][32], see state.Status
    AVOID = 5             # i32 [rows]: site that used up its fuel while lanes stood elsewhere, plus 1
    SHARED = 6            # host pointer of the CTA's shared memory (offset 0)
    SHARED_START = 7
    SHARED_BYTES = 8
    TAGS = 9              # u64 [tags] host pointers by address >> 40
    TAG_BYTES = 10        # u64 [tags] sizes; 0 where nothing is mapped
    TAG_WRITABLE = 11     # u8 [tags]
    TAG_COUNT = 12
    LOCAL = 13            # host pointer of row 0, lane 0
    LOCAL_STRIDE = 14     # bytes per thread
    LOCAL_BYTES = 15
    PARAMS = 16
    PARAM_BYTES = 17
    BLOCKS = 18           # i64 [regions]: times a region ran
    SITES = 19            # i64 [sites][4]: active lanes, wavefronts, ideal wavefronts, spare
    TID = 20              # u32 [warps per CTA][3][32]
    CTAID_X = 21
    CTAID_Y = 22
    CTAID_Z = 23
    NTID_X = 24
    NTID_Y = 25
    NTID_Z = 26
    NCTAID_X = 27
    NCTAID_Y = 28
    NCTAID_Z = 29
    CALLBACK = 30         # i32 (i64 user, i32 site, i32 row, i32 lanes): 0 go on, else stop
    USER = 31
    FUEL = 32             # instructions left before the code yields, counted at back edges
    FIRST_ROW = 33        # row of the CTA's warp 0
    WARPS = 34            # warps of the CTA
    STANDING = 35         # i32 [rows]: site at which a warp left compiled code, or -1
    VERSION = 36          # counts what another warp may wait for: releases, stores, exits
    BARRIER_WAITS = 38    # warps that waited at barrier 0 and were released
    FILTER = 37           # the race filter's state of the CTA, see filter.py
    WORDS = 48


class Code(IntEnum):
    """What a step ended with."""

    YIELD = 0             # fuel used up
    STOP = 1              # stands at a site that Python executes: see STANDING
    EXIT = 2              # no lane runs any more
    TRAP = 3              # a callback said stop
    DIVERGED = 4          # lanes stand at different sites: use the masked code
    UNIFORM = 5           # all lanes stand at one site again: use the full code
    BARRIER = 6           # the whole warp waits at barrier 0, see barrier fast path in schedule.py
