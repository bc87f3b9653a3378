"""Whether the operands fit: how many, of what shape, in which registers, with which literals.

Counts, vector lengths and literal ranges are the instruction table's own judgement
(:func:`mmalab.isa.operand_problem`); this file adds what needs declarations: the type of every
register. Each combination of an opcode with kinds of operands is judged once::

    add.f32 %f1, %r1, %f2;
    operand 2 (a) of add.f32, %r1, is a .u32 register: the operand is .f32
      legal: .b32, .f32
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from mmalab.checker.kinds import Kind
from mmalab.checker.ranges import range_problem, registers_only
from mmalab.checker.rule import Fault, message
from mmalab.checker.spelling import spelled
from mmalab.checker.subject import Site, Subject
from mmalab.checker.types import legal_registers, takes_literal, takes_register, wanted_type
from mmalab.isa import (
    Form,
    Given,
    OperandSpec,
    Target,
    find,
    operand_problem,
    type_bits,
    usage,
)

__all__ = ["fit", "guards"]

#: Heads whose source may be the address of a symbol, and those that read special registers.
_OF_SYMBOLS = ("mov.", "cvta.", "mapa.", "getctarank.")
_OF_SPECIALS = ("mov.", "cvt.")

#: Families whose result may not be dropped.
_ASKED = ("mbarrier.test_wait", "mbarrier.try_wait")

#: (finding code, position or None, reason, what would be legal).
Problem = tuple[str, int | None, str, tuple[str, ...]]

_CODES = {"target": "target-unsupported", "ptx-version": "ptx-version"}


def fit(subject: Subject) -> Iterator[Fault]:
    """Operands that the form does not take."""
    for opcode, sites in subject.groups.items():
        form = subject.forms[opcode]
        if form is None or form.family == "call":
            continue
        judged: dict[tuple[Kind, ...], Problem | None] = {}
        for site in sites:
            kinds = site.kinds
            if kinds not in judged:
                judged[kinds] = _problem(opcode, kinds, subject.target, subject.version)
            found = judged[kinds]
            if found is not None:
                yield _fault(site, form, found)


def _fault(site: Site, form: Form, found: Problem) -> Fault:
    code, position, reason, legal = found
    operands = site.instruction.operands
    given = site.instruction.text.strip() or form.key
    if position is None or position >= len(operands):
        return Fault(message(given, reason, legal or [usage(form)]), site.line, code=code)
    shown = spelled(operands[position])
    return Fault(message(given, f"operand {position + 1}, {shown}, {reason}",
                         legal or [usage(form)]), site.line,
                 {"operand": position + 1, "given": shown}, code=code)


@lru_cache(maxsize=16384)
def _problem(opcode: str, kinds: tuple[Kind, ...], on: Target | None,
             version: tuple[int, int]) -> Problem | None:
    form = find(opcode)
    if any(_names_nothing(kind) for kind in kinds):
        return None  # reported by name
    shape = operand_problem(form, _givens(form, kinds), on, version)
    if shape is not None:
        return _CODES.get(shape[0], "operand-mismatch"), None, shape[1], ()
    specs = form.fit([kind.given.kind for kind in kinds])
    if form.family == "mov" and all(kind.tag == "vector" for kind in kinds):
        return "operand-mismatch", None, "packs and unpacks at once", ("one vector, one register",)
    for position, (spec, kind) in enumerate(zip(specs or (), kinds, strict=False)):
        problem = _type_problem(form, spec, kind)
        if problem is None:
            ranged = range_problem(form, spec, kind, kinds)
            problem = (ranged, ()) if ranged else None
        if problem is not None:
            return "operand-mismatch", position, problem[0], tuple(problem[1])
    return None


def _givens(form: Form, kinds: tuple[Kind, ...]) -> list[Given]:
    """The operands for the table's own judgement.

    The old value of an atomic may be dropped, ``atom.add.u32 _, [a], b``, as LLVM writes it.
    """
    given = [kind.given for kind in kinds]
    if form.family == "atom" and kinds and kinds[0].tag == "sink":
        vector = form.operands[0].vector
        given[0] = Given("vector", items=(_ANY,) * form.operands[0].count) if vector else _ANY
    return given


_ANY = Given("register")


def _names_nothing(kind: Kind) -> bool:
    return kind.tag == "undeclared" or any(map(_names_nothing, kind.items))




# --- types ----------------------------------------------------------------------------------------

_Reason = tuple[str, Iterable[str]]


def _type_problem(form: Form, spec: OperandSpec, kind: Kind) -> _Reason | None:
    """Why the kind does not fit the operand's type; None where it does."""
    if spec.role == "address":
        return _address(kind)
    if spec.role == "immediate" and kind.tag == "float":
        return "is a float literal", ["an integer literal"]
    if spec.role == "label":
        wanted = "table" if form.family == "brx.idx" else "label"
        return None if kind.type == wanted else (f"is a {kind}", [f"a {wanted}"])
    if spec.role not in ("read", "write", "update"):
        return None
    if spec.role == "write" and kind.tag in ("name", "special"):
        return f"is a {kind}, which cannot be written", legal_registers(spec.type)
    if spec.role == "write" and kind.tag == "sink" and form.family in _ASKED:
        return "is dropped, and the result is all that a wait gives", [".pred"]
    if spec.vector and kind.tag != "sink" and (lanes := _lanes(kind)) != spec.count:
        return f"has {lanes} elements", [f"{{...}} of {spec.count}"]
    if kind.tag == "pair":
        first, second = kind.items
        problem = _one(form, spec, wanted_type(form, spec), first)
        return problem or _one(form, spec, spec.pair, second)
    if kind.tag == "vector" and spec.packs:
        return _packed(spec, kind)
    if kind.tag == "vector" or (kind.tag == "vector register" and spec.vector):
        return _elements(form, spec, kind)
    return _one(form, spec, wanted_type(form, spec), kind)


def _lanes(kind: Kind) -> int:
    if kind.tag == "special":
        return int(kind.value or 1)
    return len(kind.items) if kind.tag in ("vector", "vector register") else 1


def _address(kind: Kind) -> _Reason | None:
    base = kind.base
    if base.tag == "register":
        integral = base.type[0] in "bus" and base.type != "b128"
        return None if integral else (f"has {base} as its base: addresses are integers",
                                      [".b64", ".u64", ".s64", ".b32 in .shared"])
    if base.tag == "name":
        what = base.type in ("function", "label", "table", "prototype")
        return (f"has a {base.type} as its base", ["a variable", "a register"]) if what else None
    if base.tag in ("special", "vector register"):
        return f"has a {base} as its base", ["a register of one integer"]
    return None


def _packed(spec: OperandSpec, kind: Kind) -> _Reason | None:
    """``mov.b64 %rd1, {%r1, %r2}``: parts of one width that fill the whole."""
    whole = type_bits(spec.type)
    share = whole // len(kind.items)
    for item in kind.items:
        if item.tag in ("name", "special"):
            return f"packs a {item}", ["registers"]
        if item.tag == "register" and (item.type == "pred" or type_bits(item.type) != share):
            return (f"packs a {item}, and {len(kind.items)} parts of .{spec.type} have {share} "
                    "bits each"), [f".b{share}"]
    return None


def _elements(form: Form, spec: OperandSpec, kind: Kind) -> _Reason | None:
    """``{...}``: each element by itself, and all in registers of one width."""
    widths = set()
    sinks = sum(item.tag == "sink" for item in kind.items)
    if sinks and (spec.role != "write" or sinks == len(kind.items)):
        return "drops what it should give", ["registers"]
    for item in kind.items:
        problem = _one(form, spec, wanted_type(form, spec), item, inside=True)
        if problem is not None:
            return problem
        if item.tag == "register" and item.type != "pred":
            widths.add(type_bits(item.type))
    if len(widths) > 1:
        listed = " and ".join(str(width) for width in sorted(widths))
        return f"mixes registers of {listed} bits in one vector", ["registers of one width"]
    return None


def _one(form: Form, spec: OperandSpec, wanted: str, kind: Kind, *,
         inside: bool = False) -> _Reason | None:
    """A scalar against a type."""
    match kind.tag:
        case "register":
            return _register(form, spec, wanted, kind.type)
        case "negated":
            return _negated(form, spec, wanted, kind)
        case "integer" | "float":
            if registers_only(form, spec):
                return f"is {_article(kind)}: only a register will do", legal_registers(wanted)
            spelling = "integer" if kind.tag == "integer" else kind.type
            packed = inside and "shape" in form.modifiers and spelling == "integer"
            return None if (packed and wanted != "f32") or takes_literal(wanted, spelling) else (
                f"is {_article(kind)}, and the operand is {_shown(wanted)}",
                _literals(wanted))
        case "special":
            return _special(form, wanted, kind)
        case "name":
            return _symbol(form, wanted, kind, inside=inside)
        case "vector register":
            return f"is a {kind}: one register is wanted", legal_registers(wanted)
    return None


def _register(form: Form, spec: OperandSpec, wanted: str, given: str) -> _Reason | None:
    wider = spec.wider or form.family == "cvt.pack"
    if takes_register(wanted, given, wider=wider):
        return None
    if form.family == "isspacep" and takes_register("i32", given):
        return None
    if spec.alternative and takes_register(spec.alternative, given):
        return None
    legal = legal_registers(wanted, wider=wider)
    if spec.alternative:
        legal.append(f".{spec.alternative}")
    return f"is a .{given} register, and the operand is {_shown(wanted)}", legal


def _shown(wanted: str) -> str:
    return f"an integer of {wanted[1:]} bits" if wanted[0] == "i" else f".{wanted}"


def _negated(form: Form, spec: OperandSpec, wanted: str, kind: Kind) -> _Reason | None:
    if kind.sign == "-" and form.family == "vmad":
        return None
    if kind.sign == "-":
        return "is negated: PTX has no operand negation", ["neg into a register of its own"]
    if "pred" not in (wanted, spec.alternative):
        return "is negated, and only predicates are", legal_registers(wanted)
    return None if kind.base.type == "pred" else (
        f"negates a {kind.base}, and only predicates are", [".pred"])


def _article(kind: Kind) -> str:
    return f"an {kind}" if kind.tag == "integer" else f"a {kind} ({kind.type}...)"


def _literals(wanted: str) -> list[str]:
    found = legal_registers(wanted)
    if wanted in ("f32", "f64"):
        found.append("a float literal (1.0, 0f3F800000)")
    elif takes_literal(wanted, "integer"):
        found.append("an integer literal")
    return found


def _special(form: Form, wanted: str, kind: Kind) -> _Reason | None:
    if not form.key.startswith(_OF_SPECIALS):
        return "is a special register, which only mov and cvt read", ["mov it to a register first"]
    if kind.type == "pred" or wanted == "pred":
        return None if kind.type == wanted else (
            f"is a {kind}, and the operand is .{wanted}", [f".{kind.type}"])
    allowed = [kind.type, *(item.type for item in kind.items)]
    if "vec" not in form.modifiers and kind.value != 1:
        return "is a special register of four components", ["one of them: .x, .y, .z, .w"]
    fits = wanted[0] in "bus" and any(type_bits(wanted) == type_bits(t) for t in allowed)
    return None if fits else (f"is a {kind}, and the operand is .{wanted}",
                              [f".{t}" for t in allowed])


def _symbol(form: Form, wanted: str, kind: Kind, *, inside: bool) -> _Reason | None:
    of_symbols = form.key.startswith(_OF_SYMBOLS) and not form.key.startswith("cvta.to.")
    if not of_symbols or inside:
        return f"is a {kind}, not a register", ["mov its address to a register first"]
    if kind.type in ("label", "table", "prototype"):
        return f"is a {kind}: its address cannot be taken", ["a variable or a function"]
    space = {"mapa": "shared", "getctarank": "shared"}.get(
        form.family, form.modifiers.get("space", kind.type).partition("::")[0])
    if kind.type not in (space, "function"):
        return f"is a {kind}", [f"a variable in .{space}"]
    if wanted[0] not in "bus":
        return f"is the address of a {kind}, and the operand is .{wanted}", [".b64", ".u64"]
    return None


# --- guards ---------------------------------------------------------------------------------------


def guards(subject: Subject) -> Iterator[Fault]:
    """Guards that are not predicates."""
    for sites in subject.groups.values():
        for site in sites:
            kind = site.guard
            if kind is None or kind.tag == "undeclared":
                continue
            if kind.tag != "register" or kind.type != "pred":
                guard = site.instruction.guard
                shown = guard.register if guard is not None else ""
                yield Fault(message(site.instruction.text.strip(),
                                    f"the guard {shown} is a {kind}", [".pred register"]),
                            site.line)
