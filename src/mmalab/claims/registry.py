"""The code of each claim: a function from what the article says to an answer, by id.

    @claim("A-002")
    def operations(said: Statement) -> Answer: ...

One function may serve several claims that differ in their value only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from mmalab.claims.model import Answer, Statement
from mmalab.claims.statements import statements

__all__ = ["claim", "codes"]

Code = Callable[[Statement], Answer]

_codes: dict[str, Code] = {}


def claim(*names: str) -> Callable[[Code], Code]:
    """Register the decorated function as the code of these claims.

    Raises:
        ValueError: no such claim, or it has code already.
    """
    for name in names:
        if name not in statements():
            raise ValueError(f"{name} is not a claim")
        if name in _codes:
            raise ValueError(f"{name} has code already: {_codes[name].__qualname__}")

    def register(code: Code) -> Code:
        _codes.update(dict.fromkeys(names, code))
        return code

    return register


def codes() -> Mapping[str, Code]:
    """Every claim's code by id."""
    return MappingProxyType(_codes)
