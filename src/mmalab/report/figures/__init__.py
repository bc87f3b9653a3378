"""The figures of the report, section by section; each is a function that computes it."""

from __future__ import annotations

from collections.abc import Callable

from mmalab.errors import ToolError
from mmalab.report.figure import Figure, Section
from mmalab.report.figures import (
    allocator_code,
    arithmetic,
    latency,
    measured,
    portability,
    register_file,
    tensor_memory,
    traffic,
)

__all__ = ["LAYOUT", "sections"]

#: Sections: id, title, the question, the figures' functions.
LAYOUT: tuple[tuple[str, str, str, tuple[Callable[[], Figure], ...]], ...] = (
    ("registers", "Why the accumulator left the registers",
     "One capacity stood still while everything around it doubled.",
     (register_file.rates, register_file.tiles, register_file.drain, measured.inner_loops,
      portability.families)),
    ("tensor-memory", "Tensor Memory is a pool with rules",
     "512 columns, powers of two, taken at run time: plan them before writing the kernel.",
     (tensor_memory.ledgers, tensor_memory.pool, tensor_memory.allocator,
      allocator_code.guardrails, allocator_code.binding, tensor_memory.decode,
      tensor_memory.scale_columns, latency.latency)),
    ("bytes", "Bytes per operation",
     "What a tile must move decides its shape; formats change the rate and not the traffic.",
     (traffic.invariant, traffic.operand_share, traffic.bank_groups)),
    ("arithmetic", "What the chips really add",
     "The name of an instruction does not say how many bits its sums keep.",
     (arithmetic.bits, tensor_memory.scale_accuracy, arithmetic.errors)),
    ("measured-kernels", "Measured on a chip",
     "From committed records of one H200; nothing here is typed by hand.",
     (measured.products, measured.agreement)),
)


def sections() -> tuple[list[Section], list[str]]:
    """All sections with the figures that can be made here, and what is missing for the others."""
    found, missing = [], []
    for name, title, says, makers in LAYOUT:
        figures = []
        for make in makers:
            try:
                figures.append(make())
            except ToolError as absent:
                missing.append(f"{make.__doc__ or make.__name__} {absent.given} {absent.rule}")
        found.append(Section(name, title, says, figures))
    return found, missing
