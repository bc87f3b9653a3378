"""mbarrier objects: 8 bytes of shared memory that count arrivals and bytes, phase by phase.

The word (ours; the chip's is opaque)::

    63 phase parity | 62:43 pending arrivals | 42:22 tx-count, two's complement | 21 one
    20:1 expected arrivals | 0 one

A phase completes when no arrival is pending and the tx-count is zero: the parity flips and pending
becomes expected. The token that an arrive returns is the word before it.

    >>> word = Word(parity=0, pending=2, tx=0, expected=2)
    >>> word.arrive(1), word.arrive(1), (word.parity, word.pending)
    (False, True, (1, 2))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mmalab.bits import Field
from mmalab.emulator.events import Mbarrier, Semantics
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.phase_log import PhaseLog
from mmalab.emulator.program import Site
from mmalab.emulator.state import pack

if TYPE_CHECKING:
    from mmalab.emulator.machine import Machine

__all__ = ["EXPECTED", "LIVE", "MAX_COUNT", "PARITY", "PENDING", "TX", "Mbarriers", "Word"]

MAX_COUNT = (1 << 20) - 1
PARITY, PENDING, TX = Field(63, 63, "parity"), Field(62, 43, "pending"), Field(42, 22, "tx")
EXPECTED = Field(20, 1, "expected")
_TX = TX.mask >> TX.lo
#: Bits that say that an object is there.
LIVE = 1 << 21 | 1


@dataclass(slots=True)
class Word:
    """The decoded object."""

    parity: int
    pending: int
    tx: int
    expected: int

    @classmethod
    def decode(cls, word: int) -> Word | None:
        """None when the bytes are no live mbarrier."""
        if word & LIVE != LIVE:
            return None
        tx = word >> TX.lo & _TX
        return cls(word >> PARITY.lo, word >> PENDING.lo & MAX_COUNT, tx - (tx >> 20 << 21),
                   word >> EXPECTED.lo & MAX_COUNT)

    def encode(self) -> int:
        """The 64-bit word."""
        if self.pending > MAX_COUNT:
            PENDING.encode(self.pending)  # says what fits
        return (self.parity << PARITY.lo | self.pending << PENDING.lo
                | (self.tx & _TX) << TX.lo | self.expected << EXPECTED.lo | LIVE)

    def arrive(self, count: int) -> bool:
        """`count` arrivals (clipped to what is pending); whether the phase completed."""
        self.pending = max(0, self.pending - count)
        return self.settle()

    def settle(self) -> bool:
        """Complete the phase if nothing is outstanding."""
        if self.pending or self.tx:
            return False
        self.parity ^= 1
        self.pending = self.expected
        return True


class Mbarriers:
    """Operations on the mbarriers of all resident CTAs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        #: Completed phases of each mbarrier, by its byte index in the shared memory of all CTAs.
        self.phases: dict[int, int] = {}
        #: What happened to each of them, to explain a deadlock.
        self.logs: defaultdict[int, PhaseLog] = defaultdict(PhaseLog)

    # --- operations ---------------------------------------------------------------------------

    def init(self, lanes: Lanes, addresses: NDArray[np.uint64], counts: Any) -> None:
        """mbarrier.init: `counts` arrivals per phase."""
        def start(index: int, lane: tuple[int, int], count: int) -> None:
            if not 1 <= count <= MAX_COUNT:
                self._report(lanes, lane, "mbarrier-count",
                             f"mbarrier.init with count {count}: legal are 1 to {MAX_COUNT}")
                count = min(max(count, 1), MAX_COUNT)
            self._put(index, Word(0, count, 0, count))
            self.phases[index] = 0
            self.logs[index] = PhaseLog()
        self._each(lanes, "init", addresses, counts, start)

    def invalidate(self, lanes: Lanes, addresses: NDArray[np.uint64]) -> None:
        """mbarrier.inval: the bytes are free for other use."""
        def end(index: int, lane: tuple[int, int], _count: int) -> None:
            if self._get(lanes, lane, index) is not None:
                self._cells()[index >> 3] = 0
            self.phases.pop(index, None)
            self.logs.pop(index, None)
        self._each(lanes, "inval", addresses, 0, end)

    def arrive(self, lanes: Lanes, addresses: NDArray[np.uint64], counts: Any, *,
               expect: Any = 0, drop: bool = False, no_complete: bool = False,
               op: str = "arrive") -> NDArray[np.uint64]:
        """Arrivals, after `expect` bytes were announced; the words before, [warps, 32]."""
        tokens = np.zeros(lanes.mask.shape, np.uint64)
        announced = np.broadcast_to(np.asarray(expect, np.int64), lanes.mask.shape)
        left = lanes.mask
        if not (drop or no_complete or self._machine.observed):
            left = self._arrive_together(lanes, addresses, counts, announced, tokens)

        def one(index: int, lane: tuple[int, int], count: int) -> bool:
            word = self._get(lanes, lane, index)
            if word is None:
                return False
            tokens[lane] = word.encode()
            word.tx += int(announced[lane])
            self._check_bytes(lanes, lane, word)
            log = self.logs[index]
            log.announce(int(announced[lane]), lanes.site.line)
            log.arrive(int(lanes.rows[lane[0]]), count, lanes.site.line)
            if count > word.pending or count == 0:
                self._report(lanes, lane, "mbarrier-count",
                             f"{count} arrivals, but {word.pending} are pending in this phase")
            if drop:
                word.expected = max(0, word.expected - count)
            done = word.arrive(count)
            if done and no_complete:
                self._report(lanes, lane, "mbarrier-count",
                             "mbarrier.arrive.noComplete completes the phase")
            self._put(index, word)
            return self._completed(index, done)
        self._each(lanes, op, addresses, counts, one, announced, left)
        return tokens

    def _arrive_together(self, lanes: Lanes, addresses: NDArray[np.uint64], counts: Any,
                         announced: NDArray[np.int64],
                         tokens: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Arrivals of all lanes at once; from the first on that is against a rule they are left to
        be done one by one: the lanes that are left."""
        left, index = lanes.mask.copy(), self.locate(lanes, addresses, quiet=True)
        position, lane = np.nonzero(left & (index >= 0))
        objects, cells = index[position, lane], self._cells()
        every = np.broadcast_to(np.asarray(counts), left.shape)[position, lane].astype(np.int64)
        bytes_ = announced[position, lane]
        for turn in _turns(objects):
            at = objects[turn] >> 3
            words = cells[at]
            new, fine, done = _advanced(words, every[turn], bytes_[turn])
            if not (fine & (every[turn] > 0)).all():
                break
            cells[at] = new
            tokens[position[turn], lane[turn]] = words
            left[position[turn], lane[turn]] = False
            for which, row, count, more, completed in zip(
                    objects[turn].tolist(), lanes.rows[position[turn]].tolist(),
                    every[turn].tolist(), bytes_[turn].tolist(), done.tolist(), strict=True):
                self.happened(which, row, lanes.site.line, announced=more, arrivals=count,
                              completed=completed)
        return left

    def add(self, lanes: Lanes, addresses: NDArray[np.uint64], amount: Any) -> None:
        """The asynchronous arrive without .noinc: pending arrivals go up now."""
        def one(index: int, lane: tuple[int, int], count: int) -> None:
            word = self._get(lanes, lane, index)
            if word is not None:
                word.pending += count
                self._put(index, word)
        self._each(lanes, "", addresses, amount, one)

    def transact(self, lanes: Lanes, addresses: NDArray[np.uint64], amount: Any, *,
                 op: str) -> None:
        """expect_tx (announce bytes) and complete_tx (bytes came)."""
        sign = 1 if op == "expect_tx" else -1

        def one(index: int, lane: tuple[int, int], count: int) -> bool:
            word = self._get(lanes, lane, index)
            if word is None:
                return False
            word.tx += sign * count
            self._check_bytes(lanes, lane, word)
            log = self.logs[index]
            if sign > 0:
                log.announce(count, lanes.site.line)
            else:
                log.deliver(int(lanes.rows[lane[0]]), count, lanes.site.line)
            done = word.settle()
            self._put(index, word)
            return self._completed(index, done)
        self._each(lanes, op, addresses, amount, one)

    def deliver(self, site: Site, row: int, lane: int, index: int, count: int) -> None:
        """A copy that `lane` issued completes: `count` bytes came to the object at byte `index`."""
        self._machine.version += 1
        word = Word.decode(int(self._cells()[index >> 3]))
        if word is None or abs(word.tx - count) > MAX_COUNT:  # for the report alone
            mask = np.zeros((1, 32), bool)
            mask[0, lane] = True
            lanes = Lanes(self._machine, site, np.array([row]), mask)
            word = self._get(lanes, (0, lane), index)
            if word is None:
                return
            word.tx -= count
            self._check_bytes(lanes, (0, lane), word)
            return
        word.tx -= count
        self.logs[index].deliver(row, count, site.line)
        self._completed(index, word.settle())
        self._put(index, word)

    def deliver_all(self, site: Site, rows: NDArray[np.int64], lanes: NDArray[np.int64],
                    objects: NDArray[np.int64], count: int) -> None:
        """Copies of `lanes` [n] of the warps `rows` complete: `count` bytes each."""
        cells = self._cells()
        for turn in _turns(objects):
            at = objects[turn] >> 3
            new, fine, done = _advanced(cells[at], np.zeros(len(turn), np.int64), -count)
            cells[at[fine]] = new[fine]
            for which, row, lane, good, completed in zip(
                    objects[turn].tolist(), rows[turn].tolist(), lanes[turn].tolist(),
                    fine.tolist(), done.tolist(), strict=True):
                if good:
                    self.logs[which].deliver(row, count, site.line)
                    self._completed(which, completed)
                else:
                    self.deliver(site, row, lane, which, count)
        self._machine.version += 1

    def test(self, lanes: Lanes, addresses: NDArray[np.uint64], parity: NDArray[np.uint32], *,
             op: str) -> NDArray[np.bool_]:
        """Whether the phase with this parity has completed; lanes for which not are parked."""
        index = self.locate(lanes, addresses)
        there = lanes.mask & (index >= 0)
        words = self._cells()[np.where(there, index, 0) >> 3]
        dead = there & ((words & np.uint64(LIVE)) != LIVE)
        if dead.any():
            where = _first(dead)
            self._get(lanes, where, int(index[where]))
        passed = np.asarray(there & ~dead & ((words >> np.uint64(PARITY.lo)) != parity))
        phases = np.full(lanes.mask.shape, -1, np.int64)
        for object_ in np.unique(index[there]).tolist():
            phases[there & (index == object_)] = self.phases.get(object_, -1)
            for position in np.nonzero((passed & (index == object_)).any(axis=1))[0].tolist():
                self.passed(object_, int(lanes.rows[position]))
        if self._machine.observed:
            every = np.broadcast_to(np.asarray(parity), lanes.mask.shape)
            self._tell(lanes, op, index, every, phases, passed, None)
        failed = lanes.mask & ~passed
        for position in np.nonzero(failed.any(axis=1))[0].tolist():
            lane = int(np.nonzero(failed[position])[0][0])
            self._machine.park(int(lanes.rows[position]), failed[position], {
                "site": lanes.site, "address": int(addresses[position, lane]),
                "index": int(index[position, lane]),
                "parity": int(parity[position, lane])})
        return passed

    # --- what compiled code did ---------------------------------------------------------------

    def happened(self, index: int, row: int, line: int, *, announced: int, arrivals: int,
                 completed: bool) -> None:
        """A warp announced bytes, arrived or both; the object's word has been changed already."""
        log = self.logs[index]
        log.announce(announced, line)
        if arrivals:
            log.arrive(row, arrivals, line)
        self._completed(index, completed)

    def passed(self, index: int, row: int) -> None:
        """A wait of a warp came back true."""
        self.logs[index].seen[row] = self.phases.get(index, 0) - 1

    # --- mechanics ----------------------------------------------------------------------------

    def locate(self, lanes: Lanes, addresses: NDArray[np.uint64], *,
               quiet: bool = False) -> NDArray[np.int64]:
        """[warps, 32] byte index of each lane's object, -1 where there is none."""
        space = self._machine.space
        kind = lanes.modifier("space")
        index = np.full(lanes.mask.shape, -1, np.int64)
        faults: list[Any] = []
        for region, where, inside in space.places(kind, addresses, 8, lanes.mask, lanes.rows,
                                                  faults):
            if region is space.shared:
                index[inside] = where[inside]
            elif not quiet:
                self._report(lanes, _first(inside), "illegal-value",
                             "an mbarrier must lie in shared memory")
        if not quiet:
            self._machine.report_faults(lanes, faults, lanes.site.form.family)
        return index

    def _each(self, lanes: Lanes, op: str, addresses: NDArray[np.uint64], counts: Any,
              action: Callable[[int, tuple[int, int], int], bool | None],
              expected: NDArray[np.int64] | None = None,
              left: NDArray[np.bool_] | None = None) -> None:
        """Act for each lane (of those in `left`) in order and tell the listeners what happened."""
        index = self.locate(lanes, addresses)
        every = np.broadcast_to(np.asarray(counts), lanes.mask.shape)
        phases = np.full(lanes.mask.shape, -1, np.int64)
        completed = np.zeros(lanes.mask.shape, bool)
        active = (lanes.mask if left is None else left) & (index >= 0)
        for position, lane in np.argwhere(active).tolist():
            where = (position, lane)
            phases[where] = self.phases.get(int(index[where]), -1)
            completed[where] = bool(action(int(index[where]), where, int(every[where])))
        self._machine.version += 1
        if op and self._machine.observed:
            self._tell(lanes, op, index, every, phases, completed, expected)

    def _tell(self, lanes: Lanes, op: str, index: NDArray[np.int64], counts: NDArray[Any],
              phases: NDArray[np.int64], completed: NDArray[np.bool_],
              expected: NDArray[np.int64] | None) -> None:
        waits = op in ("test_wait", "try_wait")
        default: Semantics = "acquire" if waits else "release" if "arrive" in op else "relaxed"
        semantics: Any = lanes.modifier("sem", default)
        if waits:
            # The phase asked about: the current one if its parity fits, else the one before.
            phases = phases - ((phases & 1) != counts)
        for position, row in enumerate(lanes.rows.tolist()):
            mask = int(pack(lanes.mask[position] & (index[position] >= 0)))
            if mask:
                cta, warp = self._machine.state.where(row)
                offsets, owners = self.named(index[position], row)
                self._machine.emit(Mbarrier(
                    cta, warp, lanes.site.index, mask, op, offsets,
                    counts[position].astype(np.uint32), phases[position],
                    int(pack(completed[position])), semantics, lanes.modifier("scope"),
                    None if expected is None else expected[position].copy(), owners))

    def named(self, index: NDArray[np.int64], row: int,
              ) -> tuple[NDArray[np.uint64], NDArray[np.int32] | None]:
        """A warp's objects as events name them: offsets in the shared memory of their CTAs, and
        the CTAs (None: all are the warp's own). `index` [32] is as :meth:`locate` gives it."""
        state, there = self._machine.state, index >= 0
        stride = max(self._machine.space.shared_stride, 1)
        resident, own = index // stride, row // state.shape.warps
        offsets = np.where(there, index % stride, 0).astype(np.uint64)
        if (resident[there] == own).all():
            return offsets, None
        return offsets, state.ctas[np.where(there, resident, own)].astype(np.int32)

    def _cells(self) -> NDArray[np.uint64]:
        return self._machine.space.shared.view(8)

    def _get(self, lanes: Lanes, lane: tuple[int, int], index: int) -> Word | None:
        word = Word.decode(int(self._cells()[index >> 3]))
        if word is None:
            self._report(lanes, lane, "mbarrier-uninitialised",
                         f"{lanes.site.form.family} on bytes that hold no initialised mbarrier",
                         fatal=True)
        return word

    def _put(self, index: int, word: Word) -> None:
        self._cells()[index >> 3] = word.encode()
        written = self._machine.space.shared.written
        if written is not None:
            written[index : index + 8] = True

    def _check_bytes(self, lanes: Lanes, lane: tuple[int, int], word: Word) -> None:
        """The object has room for so many bytes only: more would come out as another number."""
        if abs(word.tx) > MAX_COUNT:
            self._report(lanes, lane, "tx-mismatch", f"{word.tx} pending bytes are more than an"
                         f" mbarrier can count: -{MAX_COUNT} to {MAX_COUNT}", fatal=True)

    def _completed(self, index: int, done: bool) -> bool:
        if done:
            self.phases[index] = self.phases.get(index, 0) + 1
            self.logs[index].close()
        return done

    def _report(self, lanes: Lanes, lane: tuple[int, int], code: str, message: str, *,
                fatal: bool = False) -> None:
        self._machine.report(code, message, site=lanes.site, row=int(lanes.rows[lane[0]]),
                             lane=lane[1], fatal=fatal)

    def explain(self, lanes: Lanes, wait: dict[str, Any]) -> dict[str, Any]:
        """What a parked wait lacks: the object's phase, pending arrivals and bytes, who arrived."""
        address = np.full((1, 32), wait["address"], np.uint64)
        index = int(self.locate(lanes, address, quiet=True).max())
        word = Word.decode(int(self._cells()[index >> 3])) if index >= 0 else None
        if word is None:
            return {}
        log, row = self.logs[index], int(lanes.rows[0])
        stride = max(self._machine.space.shared_stride, 1)
        return {"address": index % stride, "waits_for_parity": wait["parity"],
                "phase": self.phases.get(index, 0), "pending_arrivals": word.pending,
                "expected_arrivals": word.expected, "pending_bytes": word.tx,
                "announced_bytes": log.announced, "delivered_bytes": log.delivered,
                "announce_line": log.announce_line, "deliver_line": log.deliver_line,
                "arrive_line": log.arrive_line,
                "blind_arrivals": max((count for other, count in log.ever.items()
                                       if other not in log.seen), default=0),
                "passed_before": row in log.seen,
                "last_phase_seen": log.seen.get(row, -1),
                "arrived": self._named(log.arrived), "ever_arrived": self._named(log.ever),
                "carried": self._named(log.carriers),
                "ever_carried": self._named(log.ever_carried)}

    def _named(self, rows: Iterable[int]) -> list[dict[str, int]]:
        return [dict(zip(("cta", "warp"), self._machine.state.where(row), strict=True))
                for row in sorted(rows)]


def _turns(objects: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Places in `objects` [n], so that none comes twice in a turn, and its places in order."""
    rest = np.arange(len(objects))
    while len(rest):
        _, first = np.unique(objects[rest], return_index=True)
        yield rest[first]
        rest = np.delete(rest, first)


def _advanced(words: NDArray[np.uint64], arrivals: NDArray[np.int64],
              bytes_: NDArray[np.int64] | int,
              ) -> tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.bool_]]:
    """Words [n] after `bytes_` were announced (or came, if negative) and `arrivals` came; which of
    them this is legal for; and which phases it completes."""
    tx = ((words << np.uint64(63 - TX.hi)).view(np.int64) >> 64 - TX.width) + bytes_
    pending = (words >> np.uint64(PENDING.lo) & np.uint64(MAX_COUNT)).astype(np.int64)
    fine = ((words & np.uint64(LIVE)) == LIVE) & (np.abs(tx) <= MAX_COUNT) & (arrivals <= pending)
    after = pending - arrivals
    done = (after == 0) & (tx == 0)
    expected = (words >> np.uint64(EXPECTED.lo) & np.uint64(MAX_COUNT)).astype(np.int64)
    new = words & ~np.uint64(TX.mask | PENDING.mask)
    new |= (tx & _TX).astype(np.uint64) << np.uint64(TX.lo)
    new |= np.where(done, expected, after).astype(np.uint64) << np.uint64(PENDING.lo)
    return new ^ done.astype(np.uint64) << np.uint64(PARITY.lo), fine, done


def _first(mask: NDArray[np.bool_]) -> tuple[int, int]:
    position, lane = np.argwhere(mask)[0].tolist()
    return position, lane
