"""The sanitizer's part of the page: a Hopper pipeline step by step, what breaks each step, and what
is then said.

The faults come from a committed record (``tools/report_records.py pipeline``), one run each; here
stands only in which order the pipeline's steps happen, and which of the record's step names belong
to each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mmalab.claims.records import load
from mmalab.errors import MmalabError
from mmalab.findings import CODES

__all__ = ["RECORD", "STEPS", "Fault", "Pipeline", "Step", "pipeline"]

RECORD = "records/pipeline_faults.json"

#: The pipeline in order: who, what, and the first parts of the step names that the faults touch.
STEPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("all warps", "initialise the mbarriers: full[s] one arrival, empty[s] four",
     ("init.", "full.count", "empty.count")),
    ("all warps", "cluster barrier: the peer's barriers are there", ("start.",)),
    ("all warps", "setmaxnreg: the producer gives registers, the consumers take them",
     ("consumer.registers",)),
    ("producer", "wait empty[s]: the stage has been read",
     ("empty.wait", "empty.first_parity", "producer.elect")),
    ("producer", "arrive.expect_tx full[s]: announce the bytes", ("expect",)),
    ("producer", "TMA: A into the own CTA, half of B into both", ("multicast.", "stage.", "a.")),
    ("consumers", "wait full[s]: the bytes are there", ("full.wait", "full.parity", "full.stage")),
    ("consumers", "wgmma.fence, four wgmma, commit",
     ("wgmma.", "touch", "commit")),
    ("consumers", "wait_group, then release the stage in both CTAs", ("release", "last.")),
    ("consumers", "stmatrix, proxy fence, barrier",
     ("stmatrix.", "store.fence", "store.barrier", "barrier.")),
    ("consumers", "TMA store; the output tile is used again", ("store.commit", "reuse.")),
    ("consumers", "leave: stores done, peer done", ("exit.",)),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: in words, the codes found, the finding that names it and the line it names."""

    name: str
    what: str
    codes: tuple[str, ...]
    caught: bool
    code: str
    where: str
    message: str
    ptx: str
    causes: tuple[Mapping[str, str], ...]
    waits: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the pipeline with its faults."""

    who: str
    what: str
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The steps, the clean run, how many faults were caught, and the codes that told them."""

    steps: tuple[Step, ...]
    clean: Mapping[str, Any]
    caught: int
    total: int
    codes: Mapping[str, str]
    made: str

    @property
    def deadlocks(self) -> list[Fault]:
        """Faults that end with nobody able to go on."""
        return [fault for step in self.steps for fault in step.faults if fault.code == "deadlock"]


def pipeline() -> Pipeline:
    """The record, by step.

    Raises:
        ToolError: the record is not here.
        MmalabError: it has a fault of a step that the pipeline does not have.
    """
    record = load(RECORD)
    by_step: dict[int, list[Fault]] = {at: [] for at in range(len(STEPS))}
    for row in record["faults"]:
        by_step[_step_of(row["step"])].append(_fault(row))
    told = {fault.code for faults in by_step.values() for fault in faults}
    return Pipeline(
        steps=tuple(Step(who, what, tuple(by_step[at])) for at, (who, what, _) in enumerate(STEPS)),
        clean=record["clean"], caught=sum(row["caught"] for row in record["faults"]),
        total=len(record["faults"]), codes={code: CODES[code] for code in CODES if code in told},
        made=f"{record['command']}, {record['date']}")


def _step_of(name: str) -> int:
    """The step whose longest prefix the name begins with."""
    fitting = [(len(prefix), at) for at, (_, _, prefixes) in enumerate(STEPS)
               for prefix in prefixes if name.startswith(prefix)]
    if not fitting:
        raise MmalabError(f"step {name!r}", "is no step of the pipeline", where=RECORD)
    return max(fitting)[1]


def _fault(row: Mapping[str, Any]) -> Fault:
    told = row["finding"] or {}
    return Fault(row["name"], row["what"], tuple(row["found"]), row["caught"],
                 told.get("code", ""), told.get("where", ""), told.get("message", ""),
                 told.get("ptx", ""), tuple(told.get("causes", ())), tuple(told.get("waits", ())))
