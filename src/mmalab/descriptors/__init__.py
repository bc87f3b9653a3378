"""Descriptors: the words by which tensor instructions find their operands in shared memory.

    >>> from mmalab import descriptors
    >>> word = descriptors.WGMMA.encode(start=0x400, lbo=16, sbo=1024, swizzle="128B")
    >>> hex(word), descriptors.WGMMA.decode(word).sbo
    ('0x4000004000010040', 1024)

=====================  ========================================================================
``WGMMA, TCGEN05``     shared-memory descriptors of Hopper and Blackwell: fields, encode, decode,
                       what is wrong with a word
``canonical``          the layout that a descriptor stands for, and the address of every element
``instruction``        the instruction descriptor of tcgen05.mma, by kind
=====================  ========================================================================
"""

from mmalab.descriptors import instruction
from mmalab.descriptors.canonical import (
    MAJORS,
    byte_addresses,
    canonical_layout,
    check_dtype,
    check_major,
    chunk_addresses,
    fitting_swizzles,
    k_steps,
    packed,
)
from mmalab.descriptors.smem import TCGEN05, WGMMA, SmemDescriptor, SmemFormat, smem_format

__all__ = [
    "MAJORS", "TCGEN05", "WGMMA", "SmemDescriptor", "SmemFormat", "byte_addresses",
    "canonical_layout", "check_dtype", "check_major", "chunk_addresses", "fitting_swizzles",
    "instruction", "k_steps", "packed", "smem_format",
]
