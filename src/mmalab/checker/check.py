"""``check``: parse, walk once, ask every rule, sort by line."""

from __future__ import annotations

from mmalab.checker.subject import inspect
from mmalab.checker.table import RULES
from mmalab.errors import UsageError
from mmalab.findings import Finding
from mmalab.ptx import parse
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module

__all__ = ["check"]


def check(module: Module | Kernel | str, target: str | None = None) -> list[Finding]:
    """What is wrong with a module, in line order; an empty list when nothing is.

    Args:
        module: a parsed module, PTX text, or a kernel.
        target: the chip to judge for, as if ``.target`` named it (and ``.version`` were raised to
            what that target asks for at least); None is the module's own.

    A finding's ``where.line`` is the PTX line; ``witness["rule"]`` names the row of
    :data:`mmalab.checker.RULES`, ``witness["lines"]`` all lines where one finding stands for many.

    Raises:
        SourceError: text that is not well-formed PTX.
        UsageError: `target` is no target, `module` none of these.
    """
    dependent = isinstance(module, Kernel) and module.programmatic
    if isinstance(module, Kernel):
        module = parse(module.ptx)
    elif isinstance(module, str):
        module = parse(module)
    elif not isinstance(module, Module):
        raise UsageError(f"a module of type {type(module).__name__}", "cannot be checked",
                         legal="PTX text, a parsed module, a Kernel", where="mmalab.check")
    subject = inspect(module, target, dependent=dependent)
    found = [finding for rule in RULES for finding in rule.findings(subject)]
    return sorted(found, key=lambda finding: finding.where.line or 0)
