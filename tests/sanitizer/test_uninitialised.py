"""Bytes that are read before anything wrote them."""

from __future__ import annotations

import numpy as np
from scenario import BAR, FULL, LANES, ROWS, TILE, Scenario

from mmalab.emulator import events as ev


def test_unwritten_shared_bytes_are_reported_with_the_first_byte():
    """Lane 3 reads what lanes 0..2 only wrote next to."""
    s = Scenario(threads=32)
    s.store(0, TILE, mask=0b111)
    s.load(0, TILE, mask=0b1111)
    (finding,) = s.findings()
    assert (finding.code, finding.where.lane) == ("uninitialised-read", 3)
    assert finding.witness["address"] == 1024 + 12


def test_each_byte_counts():
    """A two-byte store leaves the word's other half unwritten."""
    s = Scenario(threads=32)
    s.store(0, TILE, size=2)
    s.load(0, TILE, "ld.u16", size=2)
    assert s.codes() == []
    s.load(0, TILE)
    assert s.codes() == ["uninitialised-read"]


def test_copies_and_mbarrier_init_write():
    """Destinations of cp.async (zero fill too) and mbarrier objects are written."""
    s = Scenario(threads=32)
    s.copy(0, read=0)
    s.wait(0, -1)
    s.load(0, ROWS, size=16)
    s.mbarrier("init", 0, mask=1)
    s.mbarrier("inval", 0, mask=1)
    s.load(0, BAR, "ld.word", mask=1)
    assert s.codes() == []


def test_local_memory_is_private_to_a_lane():
    """Lane 0's store does not initialise lane 1's local bytes."""
    s = Scenario(threads=32)
    addresses = np.full(32, 8, np.uint64)
    for mask, kind in ((1, "write"), (1, "read"), (2, "read")):
        text = f"{kind}.local {mask}"
        s.model.on(ev.Access(0, 0, s.site(text), mask, kind, "local", addresses, 4))
    (finding,) = s.findings()
    assert (finding.code, finding.where.lane) == ("uninitialised-read", 1)
    assert finding.witness["space"] == "local"


def test_constant_and_parameter_reads_are_nobodys_business():
    """They are never written by a kernel."""
    s = Scenario(threads=32)
    for space in ("const", "param"):
        s.model.on(ev.Access(0, 0, s.site(space), FULL, "read", space, 4 * LANES, 4))
    assert s.codes() == []
