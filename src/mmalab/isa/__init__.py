"""The instruction set: every PTX instruction as one record, and the questions one asks of it.

    >>> from mmalab import isa
    >>> isa.find("add.rn.f32").operands[0].type
    'f32'
"""

from mmalab.isa.form import Evidence, Form, Fragment, OperandSpec, Role, Source, Sparsity
from mmalab.isa.lookup import find, forms, nearest
from mmalab.isa.vocabulary import type_bits

__all__ = [
    "Evidence", "Form", "Fragment", "OperandSpec", "Role", "Source", "Sparsity", "find", "forms",
    "nearest", "type_bits",
]
