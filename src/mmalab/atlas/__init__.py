"""The compiler atlas: a laboratory without a GPU as functions. Assemble, disassemble, read, derive.

Every answer is made here and now by an installed ptxas, kept by content, and carries the PTX that
was assembled, so that a person can repeat it. The questions::

    matrix           which forms assemble for which targets, and ptxas's words where not
    first_versions   the first PTX version of each form
    assembles_for, least_version      the same of a whole text
    why              why a text is rejected: its neighbours assembled
    coverage         which built images run on which device
    opcodes          what matrix forms become: native, emulated, absent
    allocator        what tcgen05.alloc, relinquish and dealloc become, and their guards
    drain            registers that tcgen05.ld costs
    ceiling, accumulators, budget, setmaxnreg      registers, compiled and derived
    changes, matrix_changes, opcode_changes        what two toolkits make of the same
    explain_message, provoked                      ptxas's messages, and kernels that cause them
    macros           what tells one target from another in CUDA C++

    >>> row, = matrix(["wgmma.fence.sync.aligned"], ["sm_90a", "sm_120a"])    # doctest: +SKIP
    >>> row.targets, row.reason("sm_120a")
    (('sm_90a',), 'wgmma needs sm_90a, sm_120a is not among them; instead: mma.sync, ...')
"""

from mmalab.atlas.allocation import Allocator, ColumnCount, allocator, column_counts
from mmalab.atlas.capability import Answer, matrix
from mmalab.atlas.differences import (
    Build,
    Change,
    MatrixChange,
    OpcodeChange,
    build,
    changes,
    matrix_changes,
    opcode_changes,
)
from mmalab.atlas.drain_curve import DrainPoint, drain
from mmalab.atlas.explained import Message, explain_message, messages
from mmalab.atlas.images import Coverage, coverage
from mmalab.atlas.kernel_text import probe
from mmalab.atlas.lowered import Opcode, opcodes
from mmalab.atlas.macros import Macros, macros
from mmalab.atlas.modules import Assembles, LeastVersion, assembles_for, least_version
from mmalab.atlas.provoked import Provoked, provoked
from mmalab.atlas.registers import (
    Accumulator,
    Budget,
    Ceiling,
    SetMaxNReg,
    accumulators,
    budget,
    ceiling,
    setmaxnreg,
)
from mmalab.atlas.rejection import Rejection, Trial, why
from mmalab.atlas.versions import FirstVersion, first_version, first_versions

__all__ = [
    "Accumulator", "Allocator", "Answer", "Assembles", "Budget", "Build", "Ceiling", "Change",
    "ColumnCount", "Coverage", "DrainPoint", "FirstVersion", "LeastVersion", "Macros",
    "MatrixChange", "Message", "Opcode", "OpcodeChange", "Provoked", "Rejection", "SetMaxNReg",
    "Trial", "accumulators", "allocator", "assembles_for", "budget", "build", "ceiling",
    "changes", "column_counts", "coverage", "drain", "explain_message", "first_version",
    "first_versions", "least_version", "macros", "matrix", "matrix_changes", "messages",
    "opcode_changes", "opcodes", "probe", "provoked", "setmaxnreg", "why",
]
