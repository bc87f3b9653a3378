"""The instruction set: every PTX instruction as one record, and the questions one asks of it.

    >>> from mmalab import isa
    >>> isa.find("add.rn.f32").operands[0].type
    'f32'
"""

from mmalab.isa.entry_registers import entry_registers
from mmalab.isa.explanation import explain, explain_data
from mmalab.isa.form import Evidence, Form, Fragment, OperandSpec, Role, Source, Sparsity
from mmalab.isa.hardware import Execution, execution
from mmalab.isa.lookup import find, forms, nearest
from mmalab.isa.operand_text import Given
from mmalab.isa.places import Place, layout, places, show
from mmalab.isa.targets import Limits, Target, limits, parse_targets, runs_on, target
from mmalab.isa.verdict import Verdict, legal, operand_problem, usage
from mmalab.isa.vocabulary import type_bits

__all__ = [
    "Evidence", "Execution", "Form", "Fragment", "Given", "Limits", "OperandSpec", "Place", "Role",
    "Source", "Sparsity", "Target", "Verdict", "entry_registers", "execution", "explain",
    "explain_data", "find", "forms", "layout", "legal", "limits", "nearest", "operand_problem",
    "parse_targets", "places", "runs_on", "show", "target", "type_bits", "usage",
]
