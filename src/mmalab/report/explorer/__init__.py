"""What the page's explorer can show, computed here and embedded: the page looks things up.

==============  ================================================================================
``fragments``   where each element of an operand lives, for the instruction forms offered
``access``      banks and wavefronts of an access, for each pitch, padding and swizzle offered
``plans``       the 512-column ledger and shared memory, for each tile, format and stage offered
``boxes``       where a tensor copy puts each 16 bytes, for each box and swizzle offered
==============  ================================================================================
"""

from __future__ import annotations

from typing import Any

from mmalab.report.explorer import access, boxes, fragments, plans

__all__ = ["explorer_data"]


def explorer_data() -> dict[str, Any]:
    """Everything, as JSON-able data."""
    return {"names": fragments.thread_names(), "fragments": fragments.catalogue(),
            "access": access.catalogue(), "plans": plans.catalogue(),
            "boxes": boxes.catalogue()}
