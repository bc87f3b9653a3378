"""What tensor cores compute, bit for bit.

A *unit* is the arithmetic of one kind of instruction on one chip, named ``CHIP.CLASS.A[.B].ACC``::

    >>> import numpy as np, ml_dtypes
    >>> from mmalab import numerics
    >>> one = np.ones((1, 32), ml_dtypes.float8_e4m3fn)
    >>> c = np.float32([2**14])
    >>> [float(numerics.dot(one, one, c, unit=u)[0])
    ...  for u in ("sm_90.wgmma.e4m3.f32", "sm_100.tcgen05.e4m3.f32")]
    [16384.0, 16416.0]

Each of the 32 products of 1 x 1 vanishes beside 2^14 on Hopper, none does on Blackwell.

==================  ============================================================================
units               ``units()``, ``unit(name)``, ``unit_for(target, family, modifiers)``
products            ``dot``, ``matmul`` (promotion, split-K), compiled and threaded
registers           ``fragment_mma`` in NumPy for every form, ``fragment_ir`` as LLVM text
errors              ``error.chain_error``, ``probe``, ``identify``
==================  ============================================================================

``accumulate.tfs`` is the specification of the floating units, in forty lines of integer NumPy.
"""

from mmalab.numerics.error import backward_error, chain_error, relative_rms
from mmalab.numerics.fragment_ir import fragment_ir, has_fragment_ir
from mmalab.numerics.fragments import fragment_mma
from mmalab.numerics.probe import identify, probe
from mmalab.numerics.product import dot, matmul
from mmalab.numerics.unit import Unit
from mmalab.numerics.units import unit, unit_for, units

__all__ = [
    "Unit",
    "backward_error",
    "chain_error",
    "dot",
    "fragment_ir",
    "fragment_mma",
    "has_fragment_ir",
    "identify",
    "matmul",
    "probe",
    "relative_rms",
    "unit",
    "unit_for",
    "units",
]
