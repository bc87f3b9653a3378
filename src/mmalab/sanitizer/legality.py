"""What is not run at all: text that no assembler takes, chips that do not exist.

A product with one register of B missing would have *some* result; to show it would be a false
clean. So the static rules whose breach ptxas refuses come before every run::

    add.f32 %f1, %rd1, %f2;     UsageError: line 9: operand 2, %rd1, is a .b64 register, ...
"""

from __future__ import annotations

from collections import OrderedDict

from mmalab.checker import check
from mmalab.emulator.requests import check_kernel, check_names
from mmalab.errors import UsageError
from mmalab.findings import Finding
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module

__all__ = ["refuse_ill_formed"]

#: Findings of the checker that mean: not an instruction of this module's chip.
_REFUSED = frozenset({"operand-mismatch", "target-unsupported"})
_KEPT = 32
#: By text, or by identity of a module; the module is kept alive, so the identity stays its own.
_checked: OrderedDict[str | int, tuple[Module | str, Finding | None]] = OrderedDict()


def refuse_ill_formed(kernel: Kernel | Module | str, target: str | None, numerics: str) -> None:
    """Raise UsageError for what cannot be run, before anything runs."""
    check_kernel(kernel)
    check_names(target, numerics)
    found = _first_error(kernel)
    if found is not None:
        raise UsageError(f"line {found.where.line}: {found.message}")


def _first_error(kernel: Kernel | Module | str) -> Finding | None:
    subject = kernel.ptx if isinstance(kernel, Kernel) else kernel
    key = subject if isinstance(subject, str) else id(subject)
    if key not in _checked:
        errors = (f for f in check(subject) if f.severity == "error" and f.code in _REFUSED)
        _checked[key] = (subject, next(errors, None))
    _checked.move_to_end(key)
    while len(_checked) > _KEPT:
        _checked.popitem(last=False)
    return _checked[key][1]
