"""The choices that one kernel is made of, and what each costs in shared memory and registers.

A CTA computes `tile` of C. Slices of K, 128 bytes of every line, travel through a ring of `stages`
in shared memory: one warpgroup fills it, `groups` others multiply.

    >>> plan = Plan(tile=(128, 256), stages=4, cluster=(2, 1))
    >>> plan.stage_bytes, plan.threads                     # bytes; threads
    (49152, 384)
    >>> plan.registers_for(128)                            # of who fills, of who multiplies
    (40, 232)
"""

from __future__ import annotations

from dataclasses import dataclass

from mmalab.errors import UsageError

__all__ = ["EXPERT_ROWS", "GROUP", "INSTRUCTION_REGISTERS", "MOST_REGISTERS", "MOST_SHARED",
           "SLICE", "STORES", "WORKING_REGISTERS", "Plan", "check_counts"]

#: Bytes of a line in one slice of K: the span of the 128-byte swizzle.
SLICE = 128
#: Threads of a warpgroup.
GROUP = 128
#: Rows of A that belong to one expert.
EXPERT_ROWS = 128
#: Shared memory that one block may have on sm_90.
MOST_SHARED = 227 * 1024
#: Registers that a thread can have, and those that it needs beside its sums.
MOST_REGISTERS, WORKING_REGISTERS = 255, 32
#: Registers beside its sums without which ptxas refuses a wgmma, whatever setmaxnreg brings later.
INSTRUCTION_REGISTERS = 26
#: Barriers and what else lies behind the tiles.
_RESERVED = 1024
#: How C is written.
STORES = ("permuted", "staged", "direct")
_LEFTS = ("shared", "registers")
_PROMOTIONS = ("none", "64B", "128B", "256B")
_COPIES = ("", "tma", "shifted", "threads", "padded", "windowed")
#: The same where threads gather the operands, and where they gather them by words.
_GATHERING, _BY_WORDS = (56, 224), (104, 200)
_WHERE = "mmalab.kernels.sm90_wgmma"
_SCHEDULES = ("cooperative", "pingpong")
#: Registers of a thread (producer, consumer) by consumer groups, from accumulators on.
_REGISTERS = {2: ((200, (24, 240)), (0, (40, 232))), 3: ((0, (32, 160)),)}


def check_counts(**counts: object) -> None:
    """Refuse what counts nothing.

    Raises:
        UsageError: naming it.
    """
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(f"{name}={count!r}", "is no positive whole number",
                             legal="1 or more", where=_WHERE)


def _check_pair(name: str, pair: object) -> None:
    """Refuse what are not two whole numbers."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise UsageError(f"{name}={pair!r}", "is no pair", legal="(128, 256)" if name == "tile"
                         else "(2, 1)", where=_WHERE)
    check_counts(**{f"{name}[{at}]": number for at, number in enumerate(pair)})


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel's choices; `problem.Problem` checks them against sizes and types.

    Attributes:
        tile: rows and columns of C that a CTA computes at a time.
        stages: slices of K in the ring.
        cluster: CTAs along M and N that share what they have in common by multicast.
        groups: warpgroups that multiply.
        schedule: `cooperative`: the groups split a tile along M; `pingpong`: each has its own.
        store: `permuted`: B's tensor map deals the columns out so that a thread holds 16
            consecutive bytes of C; `staged`: through shared memory of its own and TMA stores;
            `direct`: what a thread has.
        copy: `tma`, or for rows that are no multiples of 16 bytes `shifted`: TMA and warps that
            move every line to its place (see `shift`; `tma` where there is nothing to move);
            `threads` that gather (see `gather`); nothing: `tma` or `threads`, as the rows allow;
            `padded`: TMA over copies that the kernel makes first (see `padding`; as many SMs as
            `sms` must be there, with nothing else on them); `windowed`: over copies of those blocks
            alone that are being multiplied or come next, but for rows that it can read where they
            lie (see `windowed`; of as many SMs).
        left: where wgmma takes A from, `shared` memory or, of lines that would have to be shifted,
            `registers` (see `loaded`).
        flight: groups of products under way while the next slice is awaited, 0 or 1.
        part: columns of a partial sum that is promoted on its own, 0 for all of the tile's.
        parts: sets of partial sums: with two, one is added while the other is computed.
        band: rows of C (about) that are finished before the next rows begin.
        l2_promotion: how much L2 fetches from memory where TMA asks for 128 bytes of a line.
        panels: of `staged`: how many panels of up to 128 bytes of C's rows a group lays out before
            they are stored, 0 for all. Fewer leave room for another stage.
        persistent: one CTA an SM that goes from tile to tile, or one CTA a tile.
        sms: SMs to fill when persistent.
    """

    tile: tuple[int, int] = (128, 256)
    stages: int = 4
    cluster: tuple[int, int] = (1, 1)
    groups: int = 2
    schedule: str = "cooperative"
    store: str = "permuted"
    copy: str = ""
    left: str = "shared"
    flight: int = 1
    part: int = 0
    parts: int = 1
    band: int = 2048
    panels: int = 0
    l2_promotion: str = "256B"
    persistent: bool = True
    sms: int = 132

    def __post_init__(self) -> None:
        _check_pair("tile", self.tile)
        _check_pair("cluster", self.cluster)
        check_counts(stages=self.stages, band=self.band, sms=self.sms,
                     **{name: getattr(self, name) for name in ("part", "panels")
                        if getattr(self, name) != 0})
        if self.schedule not in _SCHEDULES:
            raise UsageError(f"schedule {self.schedule!r}", "is not known",
                             legal=list(_SCHEDULES), where=_WHERE)
        for name, given, known in (("store", self.store, STORES), ("copy", self.copy, _COPIES),
                                   ("left", self.left, _LEFTS),
                                   ("l2_promotion", self.l2_promotion, _PROMOTIONS)):
            if given not in known:
                raise UsageError(f"{name} {given!r}", "is not known",
                                 legal=[word or "'' (as rows allow)" for word in known],
                                 where=_WHERE)
        if self.flight not in (0, 1):
            raise UsageError(f"flight={self.flight}", "groups of products", legal=("0", "1"),
                             where=_WHERE)
        if self.groups not in (1, 2, 3):
            raise UsageError(f"groups={self.groups}", "warpgroups do not fit an SM's registers",
                             legal=("1", "2", "3"), where=_WHERE)
        self._check_tile()
        self._check_cluster()

    def _check_tile(self) -> None:
        rows, columns = self.tile
        step = 64 * (self.groups if self.schedule == "cooperative" else 1)
        if rows % step or not step <= rows <= 256:
            raise UsageError(f"tile {self.tile}", f"{rows} rows do not split into m64 blocks of "
                             f"{self.groups} groups ({self.schedule})",
                             legal=[str(r) for r in range(step, 257, step)], where=_WHERE)
        if columns % 8 or not 8 <= columns <= 256:
            raise UsageError(f"tile {self.tile}", "wgmma has N = 8 to 256 in steps of 8",
                             legal="a multiple of 8 up to 256", where="PTX ISA, wgmma.mma_async")

        if self.part and (columns % self.part or self.part % 8):
            raise UsageError(f"part={self.part}", f"does not divide {columns} columns by eights",
                             legal=[str(p) for p in range(8, columns + 1, 8) if columns % p == 0],
                             where=_WHERE)
        if self.parts not in (1, 2):
            raise UsageError(f"parts={self.parts}", "sets of partial sums", legal=("1", "2"),
                             where=_WHERE)

    def _check_cluster(self) -> None:
        rows, columns = self.cluster
        if min(self.cluster) != 1 or max(self.cluster) not in (1, 2, 4):
            raise UsageError(f"cluster {self.cluster}", "shares one operand among 2 or 4 CTAs",
                             legal=("(1, 1)", "(2, 1)", "(1, 2)", "(4, 1)", "(1, 4)"),
                             where=_WHERE)
        for lines, parts in ((self.tile[0], columns), (self.tile[1], rows)):
            if lines % (8 * parts):
                raise UsageError(f"{lines} lines in {parts} parts", "a part of a swizzled tile "
                                 "begins at 8 lines", legal=f"a multiple of {8 * parts}",
                                 where=_WHERE)

    # --- shapes -----------------------------------------------------------------------------------

    @property
    def group_rows(self) -> int:
        """Rows of C that one group multiplies."""
        return self.tile[0] // (self.groups if self.schedule == "cooperative" else 1)

    @property
    def blocks(self) -> int:
        """m64 blocks of one group."""
        return self.group_rows // 64

    @property
    def threads(self) -> int:
        """Threads of a CTA: the multiplying groups, then the one that fills."""
        return GROUP * (self.groups + 1)

    @property
    def ctas(self) -> int:
        """CTAs of a cluster."""
        return self.cluster[0] * self.cluster[1]

    @property
    def part_columns(self) -> int:
        """Columns of a partial sum."""
        return self.part or self.tile[1]

    def registers_for(self, accumulators: int, *,
                      gathered: int = 0) -> tuple[int, int] | None:
        """Registers of a thread that fills and of one that multiplies; None: as launched.

        `gathered`: bytes that rows are aligned to which threads gather (16: that they shift), 0 for
        TMA alone.
        """
        if self.groups not in _REGISTERS:
            return None
        if gathered and self.groups == 2:
            return _GATHERING if gathered > 2 else _BY_WORDS
        return next(pair for least, pair in _REGISTERS[self.groups] if accumulators >= least)

    # --- shared memory ----------------------------------------------------------------------------

    @property
    def a_bytes(self) -> int:
        """A's part of a stage."""
        return self.tile[0] * SLICE

    @property
    def stage_bytes(self) -> int:
        """A stage: A, then B."""
        return sum(self.tile) * SLICE

    def panel_columns(self, out_bytes: int) -> int:
        """Columns of C that leave in one box: what a swizzle's span holds and the tile divides."""
        most = SLICE // out_bytes
        return next(size for size in (most, most // 2, most // 4) if self.tile[1] % size == 0)

    def panel_bytes(self, out_bytes: int) -> int:
        """64 rows of a box of C."""
        return 64 * self.panel_columns(out_bytes) * out_bytes

    def staging_bytes(self, out_bytes: int) -> int:
        """Memory beside the ring where each group lays out C before it leaves."""
        if self.store != "staged":
            return 0
        wide = self.panels * self.panel_columns(out_bytes) if self.panels else self.tile[1]
        return 64 * min(wide, self.tile[1]) * out_bytes

    def shared_bytes(self, out_bytes: int) -> int:
        """Everything, barriers included."""
        tiles = self.stages * self.stage_bytes + self.groups * self.staging_bytes(out_bytes)
        return tiles + _RESERVED

    def check_shared(self, out_bytes: int) -> None:
        """Refuse more stages than an SM holds.

        Raises:
            UsageError: with the most that fit.
        """
        most = (MOST_SHARED - self.shared_bytes(out_bytes)) // self.stage_bytes + self.stages
        if self.stages <= self.flight:
            raise UsageError(f"stages={self.stages}", "a group of products under way holds one, "
                             "and the next slice needs another", legal="2, or flight=0",
                             where=_WHERE)
        if not 1 <= self.stages <= most:
            raise UsageError(f"stages={self.stages}", f"of {self.stage_bytes} bytes; a CTA has "
                             f"{MOST_SHARED} for all",
                             legal=f"1 to {most}" if most > 0 else "a smaller tile", where=_WHERE)
