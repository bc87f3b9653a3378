"""What tensor cores compute, bit for bit: units, the fused sum, whole matrices, fragments."""

from mmalab.numerics.fragments import fragment_mma
from mmalab.numerics.product import dot, matmul
from mmalab.numerics.unit import Unit
from mmalab.numerics.units import unit, unit_for, units

__all__ = ["Unit", "dot", "fragment_mma", "matmul", "unit", "unit_for", "units"]
