"""Kernels that nvcc, NVRTC and Triton compiled, executed by the NumPy interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import inputs, references
from emulation import interpret

from mmalab.emulator.run import emulate
from mmalab.errors import UnsupportedInstruction
from mmalab.ptx import parse

#: What may be refused, by name; everything else must be executed, and right.
MAY_REFUSE = ("wgmma", "tcgen05", "cp.async.bulk")
ROWS = {name: row for name, row in inputs.rows().items()
        if row["target"] == "sm_80" and row["compiler"] in ("nvcc13.0", "triton3.9.0")}
ROWS |= {name: row for name, row in inputs.rows().items() if row["entry"] in (
    "cluster_rotate", "bulk_copies", "store_matrices", "fp8_decode", "mxf4", "nvf4", "f6f4")}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_compiled_kernels_give_their_reference(name):
    """Every kernel of the corpus gives the expected words, or is refused by the instruction."""
    row = ROWS[name]
    arguments = inputs.build(row, 7)
    with np.errstate(all="ignore"):
        want = references.expected(row, arguments)
    module = parse((inputs.CORPUS / "ptx" / row["ptx"]).read_text())
    try:
        run = emulate(module, [a.value for a in arguments], entry=row["entry"], grid=row["grid"],
                      block=row["block"], cluster=row["cluster"],
                      dynamic_shared=row["dynamic_shared"], executor=interpret)
    except UnsupportedInstruction as error:
        if not error.given.startswith(MAY_REFUSE):
            raise
        return
    assert inputs.compare(row, arguments, want) == []
    assert [str(f) for f in run.findings if f.severity == "error"] == []
