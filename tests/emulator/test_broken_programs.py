"""Broken PTX ends in a finding or in one of the package's own errors, in bounded time."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
from corpus import inputs
from emulation import interpret

from mmalab.emulator.run import emulate
from mmalab.errors import MmalabError, UsageError
from mmalab.ptx import parse

NUMBERS = ["0", "1", "7", "31", "33", "64", "2147483648", "4294967295", "-1"]
TEXTS = ["warp_votes", "async_copies", "block_barriers", "control_flow", "atomics", "wmma_tails"]


def _break(text, rng):
    """The text with one to four lines dropped, swapped or changed."""
    lines = text.split("\n")
    body = [i for i, line in enumerate(lines)
            if line.strip().endswith(";") and not line.strip().startswith(".")]
    for _ in range(rng.randint(1, 4)):
        i, j = rng.choice(body), rng.choice(body)
        what = rng.random()
        if what < 0.3:
            lines[i] = ""
        elif what < 0.5:
            lines[i], lines[j] = lines[j], lines[i]
        elif what < 0.8:
            lines[i] = re.sub(r"%(r|rd|f|p)(\d+)", lambda m: f"%{m[1]}{rng.randint(0, 9)}",
                              lines[i], count=1)
        else:
            lines[i] = re.sub(r"\b\d+\b", lambda _: rng.choice(NUMBERS), lines[i], count=1)
    return "\n".join(lines)


def _arguments(entry):
    for parameter in entry.parameters:
        if parameter.dims:
            yield bytes(int(np.prod(parameter.dims)))
        elif parameter.type in ("u64", "b64", "s64"):
            yield np.ones(512, np.uint32)
        else:
            yield 1.0 if parameter.type in ("f32", "f64") else 4


@pytest.mark.parametrize("name", TEXTS)
def test_mutated_kernels_end_in_order(name):
    """Whatever is broken: a Run, or an MmalabError."""
    seed = int(np.random.default_rng().integers(2**32))
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311
    text = (inputs.CORPUS / "ptx" / f"{name}.sm_80.nvcc13.0.ptx").read_text()
    for _ in range(6):
        broken = _break(text, rng)
        try:
            module = parse(broken)
            entry = rng.choice(module.entries)
            run = emulate(module, list(_arguments(entry)), entry=entry.name, grid=2, block=64,
                          max_steps=2000, executor=interpret,
                          schedule=rng.choice(["eager", "lazy", 1]))
        except MmalabError:
            continue
        assert run.verdict in ("clean", "findings")


def test_literals_beyond_their_values_are_refused():
    """cp.async copies 4, 8 or 16 bytes, whatever the text asks for."""
    text = """.version 8.0
.target sm_80
.address_size 64
.entry k(.param .u64 p) { .reg .b64 %rd<2>; .shared .b8 s[64]; ld.param.u64 %rd0, [p];
 cp.async.ca.shared.global [s], [%rd0], 4294967295; ret; }"""
    with pytest.raises(UsageError, match="4, 8, 16"):
        emulate(text, [np.zeros(4, np.uint32)], block=1, executor=interpret)
