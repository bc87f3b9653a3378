"""Static findings: what is wrong with a PTX module, without running it.

    >>> from mmalab import check
    >>> for finding in check(text):                                 # doctest: +SKIP
    ...     print(finding)
    error[operand-mismatch] line 9: add.f32 %f1, %r1, %f2;: operand 2, %r1, is a .u32 register, ...
      legal: .b32, .f32
      see:   PTX ISA, Instruction Operands

An error is what ptxas 13.5 refuses, or what cannot work on the chip whatever the arguments; a
warning is legal and suspicious or slow; a note says what was not checked. The rules are rows of
:data:`RULES`. What can only be seen by running (races, deadlocks) is the sanitizer's:
:func:`mmalab.emulate`.
"""

from mmalab.checker.check import check
from mmalab.checker.rule import Rule
from mmalab.checker.table import RULES

__all__ = ["RULES", "Rule", "check"]
