"""Groups of bulk copies and of wgmma: what is committed, and what a wait reaches.

An operation issued now belongs to the open group; its epoch is the group's number, counted from 1.
``commit_group`` closes the group, empty or not, and ``wait_group N`` reaches all but the newest N
closed ones::

    store, commit, store, commit, wait_group.read 1     reaches epoch 1 of 2, for sources only
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mmalab.sanitizer.agents import AgentKind

__all__ = ["Group", "Groups"]

Line = Callable[[int], int]
#: Groups whose time of issue is remembered.
_REMEMBERED = 64
#: (who counts: "cp.async.bulk" or "wgmma", CTA, warp, lane or -1 for a whole warp)
Key = tuple[str, int, int, int]


class _Wait(NamedTuple):
    site: int
    newest: int
    read: bool
    reach: int


class Group:
    """The groups of one thread, or of one warp for wgmma."""

    def __init__(self, family: str) -> None:
        self._family = family
        #: Closed groups; what is issued now has the next number as its epoch.
        self.committed = 0
        #: The latest epochs that were waited for: sources only, and everything.
        self.read = 0
        self.done = 0
        self._waits: deque[_Wait] = deque(maxlen=16)
        self._issued: dict[int, int] = {}

    @property
    def epoch(self) -> int:
        """The epoch of what is issued now."""
        return self.committed + 1

    def issue(self, now: int) -> None:
        """Something joins the open group, at `now` of its warp's clock."""
        if self._issued.setdefault(self.epoch, now) == now and len(self._issued) > _REMEMBERED:
            del self._issued[next(iter(self._issued))]

    def issued(self, epoch: int) -> int | None:
        """When its warp first issued something for the group, of the latest groups."""
        return self._issued.get(epoch)

    def commit(self) -> None:
        """The open group ends here."""
        self.committed += 1

    def wait(self, newest: int, site: int, *, read: bool = False) -> int:
        """The epoch up to which the groups are done now (with `read`: their sources read)."""
        reach = max(0, self.committed - newest)
        self._waits.append(_Wait(site, newest, read, reach))
        self.read = max(self.read, reach)
        if not read:
            self.done = max(self.done, reach)
        return reach

    def words(self, kind: AgentKind, epoch: int, line: Line) -> str:
        """What would wait for the operation: a commit, a smaller count, or a wait at all."""
        full = kind != AgentKind.BULK_READ
        wait = f"{self._family}.wait_group" + ("" if full else ".read")
        waits = [step for step in self._waits if not (full and step.read)]
        if epoch > self.committed:
            if self._waits:
                return f"{self._family}.commit_group before the wait in line " + str(
                    line(self._waits[-1].site))
            return f"{self._family}.commit_group, then {wait} 0 before the bytes are used"
        newer = self.committed - epoch
        if not waits and self._waits and self._waits[-1].newest <= newer:
            return f"{wait} instead of .read in line {line(self._waits[-1].site)}"
        if waits and waits[-1].newest > newer:
            return f"wait_group {newer} instead of {waits[-1].newest} in line " + str(
                line(waits[-1].site))
        if self._family == "wgmma":
            return f"{wait} {newer} before, in a warp of the warpgroup that tells the others"
        return f"{wait} {newer} in the thread that committed, then a barrier"

    def register_words(self, epoch: int, line: Line) -> str:
        """What would give a warp its registers back."""
        if epoch > self.committed:
            return f"{self._family}.commit_group after the product, then wait_group 0"
        newer = self.committed - epoch
        if self._waits and self._waits[-1].newest > newer:
            last = self._waits[-1]
            return f"wait_group {newer} instead of {last.newest} in line {line(last.site)}"
        return f"{self._family}.wait_group {newer}"


class Groups:
    """The groups of everybody."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}

    def bulk(self, cta: int, warp: int, lane: int) -> Group:
        """The bulk groups of one thread."""
        return self._group(("cp.async.bulk", cta, warp, lane))

    def wgmma(self, cta: int, warp: int) -> Group:
        """The wgmma groups of one warp."""
        return self._group(("wgmma", cta, warp, -1))

    def of(self, kind: AgentKind, cta: int, warp: int, lane: int) -> Group:
        """The groups that an agent of that kind counts."""
        return self.wgmma(cta, warp) if kind == AgentKind.WGMMA else self.bulk(cta, warp, lane)

    def _group(self, key: Key) -> Group:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key[0])
        return group
