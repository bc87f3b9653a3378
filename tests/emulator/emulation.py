"""Helpers of the emulator's tests: kernels of one instruction, and small kernels around a body.

    run_instruction("add.u32", [words_a, words_b])      # raw words in, raw words out
    run_kernel(body, [x], block=64)                     # a body with the usual registers declared

Everything runs with the NumPy executors, whatever else the package has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmalab.emulator.interpret import Interpreter
from mmalab.emulator.lower import lower
from mmalab.emulator.run import Run, emulate
from mmalab.emulator.types import width
from mmalab.isa.lookup import find
from mmalab.ptx import parse

HEAD = ".version 8.7\n.target {target}\n.address_size 64\n"
REGISTERS = """
    .reg .pred %p<32>; .reg .b16 %h<32>; .reg .b32 %r<96>; .reg .f32 %f<32>; .reg .b64 %rd<48>;
    .reg .f64 %fd<16>;
"""


def interpret(machine: Any, max_steps: int | None) -> None:
    """The executor hook: always the NumPy interpreter."""
    Interpreter(machine, max_steps=max_steps).run()


def quantum(size: int) -> Any:
    """An executor hook with its own quantum."""
    def run(machine: Any, max_steps: int | None) -> None:
        Interpreter(machine, quantum=size, max_steps=max_steps).run()
    return run


def kernel_text(body: str, parameters: int, *, target: str = "sm_80", module: str = "") -> str:
    """A kernel `k` with 64-bit parameters p0 ... and the usual registers."""
    declared = ", ".join(f".param .u64 p{i}" for i in range(parameters))
    loads = "\n".join(f"    ld.param.u64 %rd{40 + i}, [p{i}];" for i in range(parameters))
    return (HEAD.format(target=target) + module + f".visible .entry k({declared})\n{{"
            + REGISTERS + loads + "\n" + body + "\n}\n")


def run_kernel(body: str, args: Sequence[Any], *, block: Any = 32, target: str = "sm_80",
               module: str = "", executor: Any = interpret, **options: Any) -> Run:
    """Run a body; parameter i is in %rd(40 + i)."""
    text = kernel_text(body, len(args), target=target, module=module)
    return emulate(text, args, block=block, executor=executor, **options)


def _register(kind: str) -> str:
    return "pred" if kind == "pred" else f"b{max(width(kind), 16)}"


def instruction_kernel(opcode: str, inputs: int, *, target: str, text: str = "") -> str:
    """A kernel that applies `opcode` to the words of p1 ... and stores the results to p0 ...

    Outputs come first; thread t handles element t. `text` replaces the operands.
    """
    form = find(opcode)
    outs = [s for s in form.operands if s.role == "write"]
    ins = [s for s in form.operands if s.role in ("read", "immediate")][:inputs]
    lines, names = [".reg .b64 %base, %at; .reg .b32 %t; .reg .b16 %small;",
                    "mov.u32 %t, %tid.x;"], []
    for index, spec in enumerate(outs):
        lines.append(f".reg .{_register(spec.type)} %out{index};")
        names.append(f"%out{index}")
    for index, spec in enumerate(ins):
        lines.append(f".reg .{_register(spec.type)} %in{index};")
        lines += _load(index + len(outs), spec.type, f"%in{index}")
        names.append(f"%in{index}")
    lines.append(f"{opcode} {text or ', '.join(names)};")
    for index, spec in enumerate(outs):
        lines += _store(index, spec.type, f"%out{index}")
    count = len(outs) + len(ins)
    declared = ", ".join(f".param .u64 p{i}" for i in range(count))
    body = "\n".join(lines)
    return HEAD.format(target=target) + f".entry k({declared})\n{{\n{body}\nret;\n}}"


def _address(parameter: int, size: int) -> list[str]:
    return [f"ld.param.u64 %base, [p{parameter}];", f"mul.wide.u32 %at, %t, {size};",
            "add.s64 %at, %at, %base;"]


def _load(parameter: int, kind: str, register: str) -> list[str]:
    if kind == "pred":
        return [*_address(parameter, 1), "ld.global.u8 %small, [%at];",
                f"setp.ne.u16 {register}, %small, 0;"]
    size = width(kind) // 8
    return [*_address(parameter, size), f"ld.global.b{8 * size} {register}, [%at];"]


def _store(parameter: int, kind: str, register: str) -> list[str]:
    if kind == "pred":
        return [*_address(parameter, 1), f"selp.u16 %small, 1, 0, {register};",
                "st.global.u8 [%at], %small;"]
    size = width(kind) // 8
    return [*_address(parameter, size), f"st.global.b{8 * size} [%at], {register};"]


def run_instruction(opcode: str, inputs: Sequence[Any], *, target: str = "sm_120a",
                    text: str = "") -> Any:
    """Raw result words of an instruction on raw input words (bool for predicates)."""
    form = find(opcode)
    outs = [s for s in form.operands if s.role == "write"]
    count = len(inputs[0])
    arrays = []
    for spec in outs:
        dtype = bool if spec.type == "pred" else f"u{max(width(spec.type), 8) // 8}"
        arrays.append(np.full(count, 1 if dtype is bool else 0xCB, dtype))
    ptx = instruction_kernel(opcode, len(inputs), target=target, text=text)
    run = emulate(ptx, [*arrays, *inputs], block=count, executor=interpret)
    if run.findings:
        raise AssertionError(run.findings)
    return arrays[0] if len(arrays) == 1 else arrays


def words_of(kind: str, count: int, rng: np.random.Generator) -> Any:
    """Random words of a PTX type, with the interesting ones among them."""
    if kind == "pred":
        return rng.integers(0, 2, count).astype(bool)
    bits = width(kind)
    dtype = np.dtype(f"u{bits // 8}")
    words = rng.integers(0, 1 << bits, count, dtype=dtype, endpoint=False) if bits < 64 else (
        rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False))
    top, ones = 1 << bits - 1, (1 << bits) - 1
    special = [0, 1, ones, top, top - 1, top + 1, 2, ones - 1, 31, 32, 33, 63, 64, bits]
    chosen = rng.random(count)
    small = rng.integers(0, 256, count).astype(dtype)
    picked = np.array([special[i] & ones for i in rng.integers(0, len(special), count)], dtype)
    return np.where(chosen < 0.4, words, np.where(chosen < 0.7, picked, small)).astype(dtype)


def floats_of(kind: str, count: int, rng: np.random.Generator) -> Any:
    """Random words of a floating type: any bits, specials, subnormals, moderate numbers."""
    bits = width(kind)
    dtype = np.dtype(f"u{bits // 8}")
    mantissa = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[kind]
    inf = ((1 << bits - 1) - 1) >> mantissa << mantissa
    sign = 1 << bits - 1
    one = (inf >> mantissa + 1) << mantissa
    special = [0, sign, inf, sign | inf, inf | 1, 1, sign | 1, (1 << mantissa) - 1, 1 << mantissa,
               inf - 1, sign | (inf - 1), one, sign | one, one + 1, one - 1,
               inf | 1 << mantissa - 1]
    words = rng.integers(0, 256, (count, bits // 8), dtype=np.uint8).view(dtype)[:, 0]
    near = (one + rng.integers(-3 << mantissa, 3 << mantissa, count)).astype(dtype)
    near |= (rng.integers(0, 2, count).astype(dtype) << dtype.type(bits - 1))
    picked = np.array([special[i] for i in rng.integers(0, len(special), count)], dtype)
    chosen = rng.random(count)
    return np.where(chosen < 0.35, words, np.where(chosen < 0.6, picked, near)).astype(dtype)


def program_of(text: str) -> Any:
    """The lowered program of PTX text."""
    return lower(parse(text))
