"""Shadow memory: cells, stamps, readers, and what may be forgotten."""

from __future__ import annotations

import numpy as np

from mmalab.sanitizer.clocks import Knowledge
from mmalab.sanitizer.lanes import WarpClock
from mmalab.sanitizer.shadow import Column, GlobalShadow, Ledger, Page, SlotKey

KEY = SlotKey(0, 0, 0, False)
LANES = np.arange(4)


def note(ledger: Ledger, clock: int = 1, site: int = 0) -> int:
    return ledger.note(cta=0, row=0, clock=clock, warp=0, site=site, mask=15, strength=0,
                       write=False)


def test_equal_accesses_of_an_epoch_share_a_record():
    """A loop without synchronisation does not grow the ledger; a new epoch does."""
    ledger = Ledger()
    first = note(ledger)
    assert note(ledger) == first
    assert note(ledger, clock=2) != first
    assert ledger.table[Column.CLOCK, first] == 1


def test_the_ledger_keeps_its_rows_when_it_grows():
    """Records stay where they are."""
    ledger = Ledger()
    numbers = [note(ledger, clock=k, site=k) for k in range(1000)]
    assert ledger.table[Column.SITE, numbers].tolist() == list(range(1000))


def test_a_page_is_refined_by_narrow_accesses():
    """What was known of a word is known of each of its halves and bytes."""
    page = Page(0, 64)
    page.set_write(page.cells(4 * LANES, 4).reshape(-1), np.array([32, 33, 34, 35], np.int32))
    assert page.cells(4 * LANES + 2, 2).reshape(-1).tolist() == [1, 3, 5, 7]
    assert page.writes[:8].tolist() == [32, 32, 33, 33, 34, 34, 35, 35]
    assert page.cells(np.array([5]), 1).tolist() == [[5]]
    assert page.writes[:5].tolist() == [32, 32, 32, 32, 33]


def test_a_page_grows_to_what_is_touched():
    """Shared memory beyond the first size."""
    page = Page(0, 16)
    cells = page.cells(np.array([1000]), 8)
    page.set_write(cells.reshape(-1), np.array([64, 64], np.int32))
    assert page.writes[250:252].tolist() == [64, 64]


def test_readers_of_one_cell_are_kept_as_a_mask():
    """A broadcast read by four lanes is one entry with four bits."""
    page, ledger = Page(0, 64), Ledger()
    page.add(KEY, np.zeros(4, np.intp), LANES, note(ledger), ledger, None)
    assert page.slots[KEY].masks[0] == 15


def test_an_older_reader_is_dropped_only_when_the_new_one_knows_it():
    """Epoch 1 of lane 0, then epoch 2 of lane 1: spilled, unless lane 1 has heard of lane 0."""
    for synchronised in (False, True):
        page, ledger = Page(0, 64), Ledger()
        clock = WarpClock(0, 0, 1, 0xFFFFFFFF, Knowledge())
        cell = np.zeros(1, np.intp)
        page.add(KEY, cell, np.array([0]), note(ledger, 1), ledger, clock)
        if synchronised:
            clock.sync(0xFFFFFFFF)
        page.add(KEY, cell, np.array([1]), note(ledger, 2), ledger, clock)
        assert page.slots[KEY].masks[0] == 2
        assert bool(page.spilled) is not synchronised


def test_a_write_forgets_all_readers():
    """Whoever is ordered after the write is ordered after them."""
    page, ledger = Page(0, 64), Ledger()
    page.add(KEY, LANES, LANES, note(ledger), ledger, None)
    page.spilled[2] = [(KEY, 1, 1)]
    page.set_write(np.array([2]), np.array([99], np.int32))
    assert page.slots[KEY].records.tolist()[:4] == [1, 1, 0, 1]
    assert page.spilled == {}


def test_reads_of_an_unwritten_buffer_cost_no_cells_until_it_is_written():
    """They are put off, and sorted in when the first write comes."""
    ledger = Ledger()
    memory = GlobalShadow(ledger)
    addresses = (16 << 40) + 4 * LANES
    assert memory.read(KEY, addresses, LANES, 4, note(ledger))
    memory.written(addresses)
    assert not memory.read(KEY, addresses, LANES, 4, note(ledger))
    (portion,) = memory.portions(addresses, 4)
    assert portion.page.slots[KEY].masks[:4].tolist() == [1, 2, 4, 8]


def test_an_access_is_split_over_pages():
    """Lanes that stride over 4 KiB pages come in one portion per page."""
    memory = GlobalShadow(Ledger())
    portions = list(memory.portions((16 << 40) + 2048 * LANES, 4))
    assert [portion.chosen.tolist() for portion in portions] == [[0, 1], [2, 3]]
