"""Execution of PTX on the CPU: lowering, memory, executors, scheduler, and `emulate`."""

from mmalab.emulator.lower import lower
from mmalab.emulator.run import Run, emulate

__all__ = ["Run", "emulate", "lower"]
