"""The assembler's words as data, from words recorded of 12.9.86 and 13.5.37."""

from __future__ import annotations

import pytest

from mmalab.errors import UsageError
from mmalab.toolchain.diagnostics import (
    Diagnostic,
    read_diagnostics,
    read_resources,
    read_usage,
)

REFUSAL = """ptxas kernel.ptx, line 7; error   : Arguments mismatch for instruction 'add'
ptxas kernel.ptx, line 10; fatal   : Parsing error near 'ret': syntax error
ptxas fatal   : Ptx assembly aborted due to errors
"""

ACCOUNT = """ptxas info    : 0 bytes gmem, 24 bytes cmem[3]
ptxas info    : Compiling entry function 'k2' for 'sm_90a'
ptxas info    : Function properties for k2
    96 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 3 barriers, 400+16 bytes smem, 360 bytes cmem[0]
ptxas info    : Compile time = 60.376 ms
ptxas info    : Function properties for helper
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas warning : Value of threads per SM for entry k2 is out of range
"""


def test_errors_keep_their_lines() -> None:
    """Each message becomes one record with its line; the closing summary is none."""
    assert read_diagnostics(REFUSAL) == (
        Diagnostic("error", "Arguments mismatch for instruction 'add'", 7),
        Diagnostic("fatal", "Parsing error near 'ret': syntax error", 10))


def test_advice_is_told_from_accounts() -> None:
    """Warnings and performance advice are messages; the accounts of -v are not."""
    assert [(d.severity, d.message[:7]) for d in read_diagnostics(ACCOUNT)] == [
        ("advisory", "(C7510)"), ("warning", "Value o")]


def test_accounts_become_resources() -> None:
    """Every number of -v lands in its field, for kernels and for functions."""
    table = read_resources(ACCOUNT)
    assert list(table) == ["k2", "helper"]
    row = table["k2"]
    assert (row.registers, row.barriers, row.shared, row.constant) == (255, 3, 400, {0: 360})
    assert (row.stack, row.spill_stores, row.spill_loads) == (96, 12, 8)
    assert table.spills == 20
    assert not table["helper"].entry


def test_several_kernels_must_be_named() -> None:
    """The short form is refused when it would have to choose."""
    two = read_resources("ptxas info    : Compiling entry function 'a' for 'sm_80'\n"
                         "ptxas info    : Compiling entry function 'b' for 'sm_80'\n")
    with pytest.raises(UsageError, match="name the kernel") as caught:
        _ = two.registers
    assert caught.value.legal == ["a", "b"]
    with pytest.raises(UsageError, match="is not in this cubin"):
        _ = two["c"]


def test_cuobjdump_accounts() -> None:
    """The account read from a cubin file gives the same fields."""
    said = " Function k:\n  REG:22 STACK:8 SHARED:9344 LOCAL:0 CONSTANT[0]:904\n"
    table = read_usage(said, {"k"})
    row = table["k"]
    assert (row.registers, row.stack, row.shared, row.constant, row.entry) == (
        22, 8, 9344, {0: 904}, True)
