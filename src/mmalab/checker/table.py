"""The table of rules, one row each, in the order in which a reader wants them."""

from __future__ import annotations

from mmalab.checker import (
    addresses,
    calls,
    constants,
    declarations,
    directives,
    divergence,
    headers,
    names,
    opcodes,
    operands,
    static_memory,
    waits,
)
from mmalab.checker.rule import Rule

__all__ = ["RULES"]

_HEADER = "PTX ISA, PTX Module Directives"
_SETS = "PTX ISA, Instruction Set"
_OPERANDS = "PTX ISA, Instruction Operands"
_NAMES = "PTX ISA, State Spaces, Types, and Variables"
_PERFORMANCE = "PTX ISA, Performance-Tuning Directives"
_CLUSTERS = "PTX ISA, Cluster Dimension Directives"
_ADDRESSES = "PTX ISA, Instruction Operands: Addresses as Operands"

RULES: tuple[Rule, ...] = (
    Rule("known-target", "target-unsupported", "error", _HEADER,
         ".target names a chip", headers.known_target),
    Rule("known-version", "ptx-version", "error", _HEADER,
         ".version is one that an assembler takes", headers.known_version),
    Rule("target-in-version", "ptx-version", "error", _HEADER,
         "the .version knows the .target", headers.target_in_version),
    Rule("target-options", "directive-conflict", "error", _HEADER,
         "the .target has the option", headers.options),
    Rule("opcode", "unknown-instruction", "error", _SETS,
         "each opcode is an instruction of the ISA, in its full spelling", opcodes.exists),
    Rule("opcode-target", "target-unsupported", "error", _SETS,
         "the target has the instruction", opcodes.needs_target),
    Rule("opcode-version", "ptx-version", "error", _SETS,
         "the .version has the instruction", opcodes.needs_version),
    Rule("cta-group", "tcgen05-group", "error", _SETS + ": tcgen05",
         "a function uses one .cta_group", opcodes.one_cta_group),
    Rule("operands", "operand-mismatch", "error", _OPERANDS,
         "operands fit in number, shape, type and value", operands.fit),
    Rule("register-value", "illegal-value", "error", _OPERANDS,
         "a register that holds a constant holds one that the instruction takes",
         constants.register_values),
    Rule("guard", "operand-mismatch", "error", "PTX ISA, Predicated Execution",
         "guards are predicates", operands.guards),
    Rule("declared", "undeclared-name", "error", _NAMES,
         "names are declared before their use", names.declared),
    Rule("declared-once", "duplicate-name", "error", _NAMES,
         "a scope gives a name one meaning", names.declared_once),
    Rule("register-type", "operand-mismatch", "error", _NAMES,
         "registers have a type that registers may have", declarations.registers),
    Rule("variable", "operand-mismatch", "error", _NAMES,
         "alignment, type and initial value are what the space allows", declarations.variables),
    Rule("label-list", "undeclared-name", "error", "PTX ISA, Control Flow Directives",
         "the labels of .branchtargets exist", declarations.label_lists),
    Rule("initial-value", "undeclared-name", "error", _NAMES,
         "the symbols of initial values exist", declarations.initial_symbols),
    Rule("special-register", "target-unsupported", "error", "PTX ISA, Special Registers",
         "the target and the version have the special register", names.special_targets),
    Rule("call", "operand-mismatch", "error", "PTX ISA, Control Flow Instructions: call",
         "a call fits its callee", calls.calls),
    Rule("address-space", "operand-mismatch", "error", _ADDRESSES,
         "a variable is in the space that the instruction works on", addresses.spaces),
    Rule("address-width", "operand-mismatch", "warning", _ADDRESSES,
         "global and generic addresses have 64 bits", addresses.widths),
    Rule("address-aligned", "misaligned-access", "error", _ADDRESSES,
         "a constant address is a multiple of the access size", addresses.aligned),
    Rule("address-bounds", "out-of-bounds", "error", _ADDRESSES,
         "a constant address is inside its variable", addresses.in_bounds),
    Rule("parameter-read-only", "read-only-write", "error", "PTX ISA, Parameter State Space",
         "a function does not write its input parameters", addresses.writable),
    Rule("shared-limit", "memory-limit", "error", "CUDA C++ Programming Guide, Compute "
         "Capabilities", "static shared memory is within the limit", static_memory.shared_limit),
    Rule("constant-limit", "memory-limit", "error", "PTX ISA, Constant State Space",
         "constants are within 64 KiB", static_memory.constant_limit),
    Rule("parameter-limit", "memory-limit", "error", "PTX ISA, Kernel Function Parameters",
         "parameters are within what a launch carries", static_memory.parameter_limit),
    Rule("directive-target", "target-unsupported", "error", _CLUSTERS,
         "the target and the version have the directive", directives.performance_targets),
    Rule("directive-consistent", "directive-conflict", "error", _PERFORMANCE,
         "directives do not contradict each other", directives.consistent),
    Rule("directive-launchable", "directive-conflict", "warning", _PERFORMANCE,
         "directives describe a launch that the chip can do", directives.launchable),
    Rule("wait-checked", "mbarrier-wait-unchecked", "error",
         "PTX ISA, Parallel Synchronization and Communication Instructions: mbarrier.test_wait",
         "the result of a wait is looked at", waits.checked),
    Rule("wait-present", "missing-cp-async-wait", "warning",
         "PTX ISA, Data Movement and Conversion Instructions: Asynchronous copy",
         "what is started asynchronously is waited for", waits.covered),
    Rule("whole-warps", "divergent-collective", "warning",
         "PTX ISA, Parallel Synchronization and Communication Instructions: bar",
         "aligned instructions are executed by whole warps", divergence.whole_warps),
    Rule("native", "emulated-instruction", "warning", "SASS of ptxas 13.5",
         "the chip has a unit for the matrix instruction", opcodes.emulated),
    Rule("ordered-metadata", "slower-form", "warning",
         "PTX ISA, Warp Level Matrix Multiply-Accumulate Instructions: mma.sp",
         "sparse products use ordered metadata", opcodes.slower),
)
