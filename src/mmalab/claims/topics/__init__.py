"""The code of all claims, one module a topic; importing this package registers it."""

from mmalab.claims.registry import codes
from mmalab.claims.topics import (
    accumulation,
    ada,
    allocator,
    banks,
    decode,
    drain,
    fragments,
    hopper,
    loading,
    machine_code,
    opcodes,
    outlook,
    register_file,
    targets,
    tensor_memory,
    traffic,
)

__all__ = ["MODULES", "codes"]

#: The modules that hold claims.
MODULES = (accumulation, ada, allocator, banks, decode, drain, fragments, hopper, loading,
           machine_code, opcodes, outlook, register_file, targets, tensor_memory, traffic)
