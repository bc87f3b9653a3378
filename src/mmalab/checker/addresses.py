"""Addresses that are known before the kernel runs: their space, alignment and bounds.

``ld.shared.v4.b32 {...}, [tile+4]`` with ``.shared .align 4 .b8 tile[64]`` traps or not by where
tile happens to lie: a warning; with ``.align 16`` it traps always: an error. ptxas lets both pass,
and offsets past the variable's end as well.
"""

from __future__ import annotations

from collections.abc import Iterator

from mmalab.checker.calls import size_of
from mmalab.checker.kinds import Kind
from mmalab.checker.rule import Fault, message
from mmalab.checker.scopes import Symbol
from mmalab.checker.spelling import spelled
from mmalab.checker.subject import Site, Subject
from mmalab.isa import Form, type_bits
from mmalab.ptx.nodes import Address, Name, Register

__all__ = ["aligned", "in_bounds", "spaces", "widths", "writable"]

#: Instructions that always work on one space, by family: the spaces of their addresses in order.
_FIXED: dict[str, tuple[str, ...]] = {
    "cp.async": ("shared", "global"),
    "ldmatrix": ("shared",), "stmatrix": ("shared",),
    "mbarrier.init": ("shared",), "mbarrier.inval": ("shared",),
    "mbarrier.arrive": ("shared",), "mbarrier.arrive_drop": ("shared",),
    "mbarrier.test_wait": ("shared",), "mbarrier.try_wait": ("shared",),
    "mbarrier.expect_tx": ("shared",), "mbarrier.complete_tx": ("shared",),
    "cp.async.mbarrier.arrive": ("shared",), "st.bulk": ("shared",),
    "clusterlaunchcontrol.try_cancel": ("shared", "shared"),
    "st.async": ("shared", "shared"), "red.async": ("shared", "shared"),
}
_ACCESSES = ("ld", "st", "ldu", "atom", "red", *_FIXED)

#: Bytes that an address must be a multiple of, where the type does not tell.
_ALIGNMENT = {"ldmatrix": 16, "stmatrix": 16}


def _space_of(form: Form, position: int) -> str:
    """``shared``, ``global``, ... or "" for generic."""
    space = form.modifiers.get("space", "").partition("::")[0]
    fixed = _FIXED.get(form.family)
    if fixed is not None and position < len(fixed):
        # st.async and red.async have global forms, without an mbarrier.
        return space if form.family in ("st.async", "red.async") else fixed[position]
    return space if position == 0 else ""


def _addresses(subject: Subject, *families: str) -> Iterator[
        tuple[Site, Form, int, Address, Kind]]:
    """(site, form, how manieth address, node, kind) of every address operand."""
    for opcode, sites in subject.groups.items():
        form = subject.forms[opcode]
        if form is None or (families and form.family not in families):
            continue
        if not any(spec.role == "address" for spec in form.operands):
            continue
        for site in sites:
            count = 0
            for operand, kind in zip(site.instruction.operands, site.kinds, strict=True):
                if isinstance(operand, Address):
                    yield site, form, count, operand, kind
                    count += 1


def _symbols(subject: Subject) -> Iterator[tuple[Site, Form, int, Address, Symbol]]:
    """The same for addresses that are a variable and an offset."""
    for site, form, count, operand, kind in _addresses(subject):
        if kind.base.tag == "name" and isinstance(operand.base, Name | Register):
            symbol = site.scope.find(operand.base.name)
            if symbol is not None and symbol.variable is not None:
                yield site, form, count, operand, symbol


# --- space ----------------------------------------------------------------------------------------


def spaces(subject: Subject) -> Iterator[Fault]:
    """Variables in another space than the instruction works on; absolute addresses."""
    for site, form, count, operand, symbol in _symbols(subject):
        if form.family not in (*_ACCESSES, "prefetch", "prefetchu"):
            continue
        space = _space_of(form, count)
        if (space and symbol.what != space) or (not space and symbol.what == "param"):
            instruction = f".{space}" if space else "generic"
            yield Fault(message(
                site.instruction.text.strip(),
                f"{spelled(operand)} is in .{symbol.what}, the instruction's space is "
                f"{instruction}", [f".{symbol.what}", f"a variable in .{space or 'global'}"]),
                site.line)
    for site, form, count, operand, _ in _addresses(subject):
        if operand.base is None and _space_of(form, count) != "local":
            yield Fault(message(site.instruction.text.strip(), f"{spelled(operand)} is an "
                                "absolute address, which only .local allows",
                                ["a variable or a register as base"]), site.line)


def widths(subject: Subject) -> Iterator[Fault]:
    """32-bit registers as global or generic addresses in a 64-bit module."""
    if subject.module.address_size != 64:
        return
    for site, form, count, operand, kind in _addresses(subject, "ld", "st", "ldu", "atom", "red"):
        space = _space_of(form, count)
        if space in ("", "global") and kind.base.tag == "register":
            bits = type_bits(kind.base.type)
            if bits < 64:
                yield Fault(message(
                    site.instruction.text.strip(), f"{spelled(operand)} is an address of {bits} "
                    f"bits, and {space or 'generic'} addresses have 64",
                    ["cvt.u64.u32 first", "the instruction with .shared"]), site.line)


def writable(subject: Subject) -> Iterator[Fault]:
    """Stores to a kernel's own parameters."""
    for site, form, count, operand, symbol in _symbols(subject):
        own = site.body.function.parameters
        writes = form.family in ("st", "atom", "red") and count == 0
        if writes and symbol.what == "param" and any(symbol.variable is p for p in own):
            yield Fault(message(site.instruction.text.strip(), f"{spelled(operand)} is an input "
                                "parameter of the function, which is read-only",
                                ["a .local variable", "a .param of the body"]), site.line)


# --- alignment and bounds -------------------------------------------------------------------------


def _bytes(form: Form) -> int:
    """Bytes that one thread accesses at the address, 0 where that is not one number."""
    if form.family in _ALIGNMENT:
        return 16
    if form.family.startswith("mbarrier."):
        return 8
    if form.family not in ("ld", "st", "ldu", "atom", "red"):
        return 0
    return type_bits(form.modifiers["type"]) // 8 * int(form.modifiers.get("vec", "v1")[1:])


def _access(form: Form, site: Site, count: int) -> int:
    if form.family == "cp.async":
        size = site.kinds[2]
        return int(size.value or 0) if size.tag == "integer" else 0
    return _bytes(form) if count == 0 else 0


def _natural(symbol: Symbol) -> int:
    """What the address of a variable is surely a multiple of."""
    variable = symbol.variable
    if variable is None:
        return 1
    width = max(1, type_bits(variable.type) // 8)
    vector = getattr(variable, "vector", "")
    return max(variable.align or 1, width * int(vector.lstrip(".v") or 1))


def aligned(subject: Subject) -> Iterator[Fault]:
    """Constant addresses that are no multiple of the access size."""
    for site, form, count, operand, symbol in _symbols(subject):
        need = _access(form, site, count)
        if need <= 1 or need & (need - 1):
            continue
        sure = _natural(symbol)
        # What the offset spoils at the alignment that is sure can never be mended by placement.
        if operand.offset % min(need, sure):
            yield Fault(message(
                site.instruction.text.strip(), f"{spelled(operand)} is never a multiple of the "
                f"access's {need} bytes", [f"offsets that are multiples of {need}"]), site.line)
        elif sure < need and symbol.what == "shared" and operand.offset % need == 0:
            yield Fault(message(
                site.instruction.text.strip(), f"{spelled(operand)} is sure to be a multiple of "
                f"{sure} only, and the access has {need} bytes",
                [f".align {need} at the declaration"]), site.line, severity="warning")


def in_bounds(subject: Subject) -> Iterator[Fault]:
    """Constant addresses outside their variable."""
    for site, form, count, operand, symbol in _symbols(subject):
        size, access = size_of(symbol), _access(form, site, count)
        if not access:
            continue
        end = operand.offset + access
        if operand.offset < 0 or (size is not None and end > size):
            name = operand.base.name if operand.base is not None else ""
            bytes_ = "of open size" if size is None else f"of {size} bytes"
            yield Fault(message(
                site.instruction.text.strip(), f"bytes {operand.offset} to {end - 1} of {name}, "
                f"which is {bytes_}", [] if size is None else [f"offsets 0 to {size - access}"]),
                site.line, {"variable": name, "size": size, "offset": operand.offset,
                            "bytes": access})
