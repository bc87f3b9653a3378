"""The code of all claims, one module a topic; importing this package registers it."""

from mmalab.claims.registry import codes
from mmalab.claims.topics import accumulation, ada, banks, fragments, machine_code

__all__ = ["MODULES", "codes"]

#: The modules that hold claims.
MODULES = (accumulation, ada, banks, fragments, machine_code)
