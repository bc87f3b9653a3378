"""What tensor cores compute, bit for bit: units, the fused sum, whole matrices, fragments."""

from mmalab.numerics.unit import Unit
from mmalab.numerics.units import unit, unit_for, units

__all__ = ["Unit", "unit", "unit_for", "units"]
