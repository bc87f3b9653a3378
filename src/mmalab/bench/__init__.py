"""Measure matrix products on a GPU so that the numbers hold: one row, one record, one table.

The method: each subject checked before it is timed, random operands in rotating buffers beyond the
L2, contestants in A B B A order, a cool and a power-capped regime, the clock counted by the SMs
themselves, power from NVML's energy counter, and against the best of all algorithms that cublasLt
offers, each of them measured. No setting of the device is ever changed.
"""

from mmalab.bench.duel import Plan, measure
from mmalab.bench.problem import Problem
from mmalab.bench.row import Row

__all__ = ["Plan", "Problem", "Row", "measure"]
