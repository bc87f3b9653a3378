"""Planners: what a choice costs, before anything is written or run.

``banks`` counts shared-memory wavefronts, ``swizzle_search`` finds the layout without conflicts.
"""

from mmalab.plan import banks
from mmalab.plan.swizzle import SwizzleSearch, swizzle_search, swizzle_table

__all__ = ["SwizzleSearch", "banks", "swizzle_search", "swizzle_table"]
