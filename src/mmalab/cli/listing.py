"""SASS as the verbs ``asm`` and ``sass`` show it: as plain data, and as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmalab.cli.output import table
from mmalab.toolchain import Cubin, Function, Instruction, Loop

__all__ = ["function_data", "instruction_data", "listing_lines", "resource_data", "summary_lines"]


def resource_data(cubin: Cubin) -> dict[str, dict[str, Any]]:
    """Resources of each function."""
    return {name: {"registers": row.registers, "shared": row.shared,
                   "constant": dict(row.constant), "spill_stores": row.spill_stores,
                   "spill_loads": row.spill_loads, "stack": row.stack, "barriers": row.barriers,
                   "entry": row.entry}
            for name, row in cubin.resources.items()}


def function_data(function: Function) -> dict[str, Any]:
    """One function: counts, matrix instructions, loops."""
    main = function.main_loop
    return {
        "name": function.name, "entry": function.entry, "instructions": len(function),
        "opcodes": dict(function.histogram().most_common()),
        "matrix": {word: n for word, n in function.histogram(full=True).most_common()
                   if any(i.matrix for i in function.instructions if i.mnemonic == word)},
        "loops": [_loop(loop) for loop in function.loops],
        "main_loop": main.header if main else None,
    }


def _loop(loop: Loop) -> dict[str, Any]:
    return {"header": loop.header, "depth": loop.depth, "instructions": len(loop.issued),
            "flops": loop.flops, "flops_per_instruction": loop.flops_per_instruction,
            "innermost": not loop.children, "opcodes": dict(loop.histogram().most_common())}


def instruction_data(instruction: Instruction) -> dict[str, Any]:
    """One instruction."""
    return {
        "address": instruction.address, "opcode": instruction.opcode,
        "modifiers": list(instruction.modifiers),
        "predicate": str(instruction.predicate) if instruction.predicate else None,
        "operands": [{"text": str(operand), "file": operand.file}
                     for operand in instruction.operands],
        "flops": instruction.flops, "ptx_line": instruction.ptx_line,
    }


def summary_lines(function: Function) -> Iterator[str]:
    """A function in a few lines: size, opcodes, matrix instructions, loops."""
    kind = "kernel" if function.entry else "helper"
    yield f"{kind} {function.name}: {len(function)} instructions"
    yield "  " + ", ".join(f"{n} {word}" for word, n in function.histogram().most_common(10))
    data = function_data(function)
    if data["matrix"]:
        yield "  matrix: " + ", ".join(f"{n} {word}" for word, n in data["matrix"].items())
    if data["loops"]:
        rows = [("  " * (loop["depth"] - 1) + f"0x{loop['header']:04x}", loop["instructions"],
                 _count(loop["flops"]), _count(loop["flops_per_instruction"]),
                 ", ".join(f"{n} {word}" for word, n in list(loop["opcodes"].items())[:5]))
                for loop in data["loops"]]
        yield table(rows, ("loop", "instructions", "FLOPs", "per instruction", "opcodes"),
                    indent="  ")


def _count(value: float | None) -> str:
    # None: a matrix instruction whose shape is in a descriptor, not in the code.
    return "by descriptor" if value is None else f"{value:,.0f}"


def listing_lines(function: Function) -> Iterator[str]:
    """Every instruction, with a bar per loop it is in and its PTX line."""
    bodies = [(loop.depth, {i.address for i in loop.instructions}) for loop in function.loops]
    for instruction in function.instructions:
        depth = max((d for d, body in bodies if instruction.address in body), default=0)
        line = f"{instruction.ptx_line:>5}" if instruction.ptx_line is not None else " " * 5
        yield f"{instruction.address:06x} {line} {'|' * depth:<3} {instruction.text}"
