"""Memory that a kernel asks for by declaring it: shared, constant, parameters.

Static shared memory is 48 KiB at most, also where the chip has more: the rest must be dynamic. Only
a target with suffix ``a`` may declare up to what the chip offers (ptxas 13.5). Counted are the
variables that the entry, or what it calls, uses.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmalab.checker.calls import size_of
from mmalab.checker.names import registers_of
from mmalab.checker.rule import Fault, message
from mmalab.checker.scopes import Symbol
from mmalab.checker.subject import Body, Subject
from mmalab.isa import limits

__all__ = ["constant_limit", "parameter_limit", "shared_limit"]

_CONSTANT = 65536


def shared_limit(subject: Subject) -> Iterator[Fault]:
    """Entries whose static shared memory is over the limit."""
    on = subject.target
    if on is None:
        return
    chip = limits(on)
    limit = chip.shared_per_cta if on.suffix == "a" else chip.shared_default
    bodies = {body.function.name: body for body in subject.bodies}
    if not any(_mentions_shared(body) for body in subject.bodies):
        return
    for body in subject.bodies:
        if body.function.kind != "entry":
            continue
        used = _shared(body, bodies)
        total = _laid_out(used)
        if total > limit:
            largest = sorted(used, key=lambda s: -(size_of(s) or 0))[:4]
            named = {s.variable.name: size_of(s) for s in largest if s.variable is not None}
            more = "" if on.suffix == "a" else (
                f"; {on} has {chip.shared_per_cta} bytes as dynamic shared memory")
            yield Fault(message(
                f"entry {body.function.name}", f"has {total} bytes of static shared memory, "
                f"{on} allows {limit}{more}", [f"up to {limit} bytes", ".extern .shared x[]"]),
                body.function.line, {"bytes": total, "limit": limit, "largest": named})


def _mentions_shared(body: Body) -> bool:
    return any(symbol.what == "shared" for symbol in _own_symbols(body))


def _own_symbols(body: Body) -> Iterator[Symbol]:
    """Symbols that the function's instructions name."""
    for site in body.sites:
        if not any(kind.tag not in ("register", "integer") for kind in site.kinds):
            continue
        for operand in site.instruction.operands:
            for name in registers_of(operand):
                if not name.startswith("%"):
                    symbol = site.scope.find(name)
                    if symbol is not None and symbol.what != "register":
                        yield symbol


def _shared(entry: Body, bodies: dict[str, Body]) -> list[Symbol]:
    """The shared variables that an entry and its callees use, each once."""
    found: dict[int, Symbol] = {}
    seen, waiting = {entry.function.name}, [entry]
    while waiting:
        for symbol in _own_symbols(waiting.pop()):
            if symbol.what == "shared":
                found[id(symbol)] = symbol
            elif symbol.function is not None and symbol.function.name not in seen:
                seen.add(symbol.function.name)
                if symbol.function.name in bodies:
                    waiting.append(bodies[symbol.function.name])
    return list(found.values())


def _laid_out(symbols: list[Symbol]) -> int:
    """Bytes with the padding that alignment needs at least."""
    return sum(size_of(symbol) or 0 for symbol in symbols)


def constant_limit(subject: Subject) -> Iterator[Fault]:
    """Modules with more than 64 KiB of constants."""
    sizes = [size_of(Symbol(v.space, v.type, variable=v)) or 0
             for v in subject.module.variables if v.space == "const"]
    if sum(sizes) > _CONSTANT:
        first = next(v for v in subject.module.variables if v.space == "const")
        yield Fault(message("the module", f"declares {sum(sizes)} bytes in .const",
                            [f"up to {_CONSTANT} bytes"]), first.line)


def parameter_limit(subject: Subject) -> Iterator[Fault]:
    """Entries with more bytes of parameters than a launch carries."""
    # 4 KiB until PTX 8.1 brought the larger block; ptxas applies the newer limit to all.
    for body in subject.bodies:
        if body.function.kind == "entry":
            total = sum(size_of(Symbol("param", p.type, variable=p)) or 0
                        for p in body.function.parameters)
            if total > 32764:
                yield Fault(message(f"entry {body.function.name}", f"has {total} bytes of "
                                    "parameters", ["up to 32764 bytes"]), body.function.line)
