"""The code of all claims, one module a topic; importing this package registers it."""

from mmalab.claims.registry import codes
from mmalab.claims.topics import (
    accumulation,
    ada,
    allocator,
    banks,
    drain,
    fragments,
    machine_code,
    opcodes,
    targets,
)

__all__ = ["MODULES", "codes"]

#: The modules that hold claims.
MODULES = (accumulation, ada, allocator, banks, drain, fragments, machine_code, opcodes,
           targets)
