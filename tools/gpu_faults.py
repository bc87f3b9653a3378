"""Prove on a GPU what the errors of ``mmalab.launch`` promise: one broken kernel for each kind.

    PYTHONPATH=src python tools/gpu_faults.py --out records/h200/faults.json
    PYTHONPATH=src python tools/gpu_faults.py --emulate-only           # needs no GPU
    PYTHONPATH=src python tools/gpu_faults.py --only trap

A fault takes the process's context with it, so each kernel has a process of its own. There the
emulator runs it first and must find the fault; then the device runs it, and what ``launch`` raised
is held against what it promises: the kernel's name, the launch, the driver's word, the emulator's
finding, what to do next; and that the next launch of the same process says why it cannot be (or,
where the launch was only refused, works). A kernel that hangs is given up after `--patience`
seconds; its process then ends by itself or is ended, nothing is reset, and a fresh process must
launch again. One line of the table that is printed::

    misaligned, global   misaligned-access  CUDA_ERROR_MISALIGNED_ADDRESS  kept   2.9 s, by itself

Exit code 0: the emulator predicted every fault, and every promise was kept.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mmalab
from mmalab.errors import MmalabError, ToolError, UsageError
from mmalab.kernels.one_tensor_copy import WORDS, one_tensor_copy
from mmalab.tensormap import TensorMap

HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
#: Seconds beyond the watchdog's that a process gets: Python, context, assembler, the explanation;
#: and one whose kernel hangs, when all of that has been done before by others.
_SPARE_S, _SPARE_HUNG_S = 60.0, 20.0


def entry(name: str, body: str, shared: str = "") -> str:
    """PTX of a kernel of one pointer, which is in %rd0; the thread is in %r0."""
    return (f"{HEAD}.visible .entry {name}(.param .u64 x) {{\n"
            "  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
            f"{shared}  ld.param.u64 %rd0, [x]; mov.u32 %r0, %tid.x;\n{body}  ret;\n}}\n")


#: Thread t writes t + 1 to word t.
GOOD = entry("good", "  mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %rd0, %rd1; add.u32 %r1, %r0, 1;\n"
             "  st.global.u32 [%rd1], %r1;\n")
_BARRIER = "  .shared .align 8 .b64 bar;\n"
_WORDS = "  .shared .align 16 .b8 words[1024];\n"


@dataclass(frozen=True)
class Fault:
    """A broken kernel or launch. `finds` is the code of the emulator's finding, "refused" where
    neither runs it; `drivers` are the errors that a device may answer ("" for a watchdog)."""

    name: str
    what: str
    finds: str
    drivers: tuple[str, ...]
    text: str = GOOD
    given: dict[str, Any] = field(default_factory=lambda: {"block": 32})
    #: The kernel and its arguments, where they are more than `text` and 32 words.
    make: Callable[[], tuple[Any, list[Any]]] | None = None

    def prepared(self) -> tuple[Any, list[Any]]:
        """The kernel with fresh arguments."""
        if self.make is not None:
            return self.make()
        return self.text, [np.zeros(32, np.uint32)]

    @property
    def hangs(self) -> bool:
        """Whether only a watchdog ends it."""
        return not self.drivers and not self.refused

    @property
    def refused(self) -> bool:
        """Whether it never reaches the device."""
        return self.finds == "refused"


# --- what is broken -------------------------------------------------------------------------------

def _tensor_copy(column: int) -> tuple[Any, list[Any]]:
    """A copy of a box of f16 from a column that is no multiple of 16 bytes: illegal from 1 to 7."""
    kernel = one_tensor_copy("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                             ".mbarrier::complete_tx::bytes", cases=1, image=4096)
    made = TensorMap.tiled(np.zeros((32, 64), np.float16), box=(16, 32))
    words = np.zeros((1, WORDS), np.int32)
    words[0, 0], words[0, 9] = column, made.box_bytes
    return kernel, [made, np.zeros((1, 4096), np.uint8), words, np.zeros((1, 4096), np.uint8),
                    np.zeros(1, np.uint32)]


def _map_without_array() -> tuple[Any, list[Any]]:
    kernel, (made, *others) = _tensor_copy(0)
    return kernel, [TensorMap.decode(made.encode(1 << 20)), *others]


def _map_over_rows_of_8_bytes() -> tuple[Any, list[Any]]:
    kernel, (_, *others) = _tensor_copy(0)
    return kernel, [TensorMap.tiled(np.zeros((32, 4), np.float16), box=(16, 4)), *others]


_MISALIGNED, _ADDRESS = ("MISALIGNED_ADDRESS",), ("ILLEGAL_ADDRESS",)
_STOPPED = ("LAUNCH_FAILED", "ILLEGAL_INSTRUCTION")

FAULTS: tuple[Fault, ...] = (
    Fault("address, near null", "st.global to address 16", "out-of-bounds", _ADDRESS,
          entry("near_null", "  mov.u64 %rd1, 16; st.global.u32 [%rd1], %r0;\n")),
    Fault("address, global", "ld.global a tebibyte behind its array", "out-of-bounds", _ADDRESS,
          entry("far_behind", "  add.s64 %rd1, %rd0, 0x10000000000; ld.global.u32 %r1, [%rd1];\n"
                "  st.global.u32 [%rd0], %r1;\n")),
    Fault("address, generic", "a generic store to the middle of nowhere", "out-of-bounds", _ADDRESS,
          entry("nowhere", "  mov.u64 %rd1, 0x4000000000000; st.u32 [%rd1], %r0;\n")),
    Fault("address, shared", "st.shared a mebibyte into shared memory", "out-of-bounds",
          (*_ADDRESS, "INVALID_ADDRESS_SPACE", "LAUNCH_FAILED"),
          entry("far_shared", "  mov.u32 %r1, words; add.u32 %r1, %r1, 0x100000;\n"
                "  st.shared.u32 [%r1], %r0;\n", _WORDS)),
    Fault("misaligned, global", "ld.global.u32 at an address that ends in 2", "misaligned-access",
          _MISALIGNED, entry("odd_word", "  add.s64 %rd1, %rd0, 2; ld.global.u32 %r1, [%rd1];\n"
                             "  st.global.u32 [%rd0], %r1;\n")),
    Fault("misaligned, vector", "ld.global.v4.u32 at an address that ends in 8",
          "misaligned-access", _MISALIGNED,
          entry("odd_vector", "  add.s64 %rd1, %rd0, 8;\n"
                "  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n"
                "  st.global.v4.u32 [%rd0], {%r1, %r2, %r3, %r4};\n")),  # or ptxas loads one
    Fault("misaligned, shared", "st.shared.u64 at an address that ends in 4", "misaligned-access",
          _MISALIGNED, entry("odd_shared", "  mov.u32 %r1, words; add.u32 %r1, %r1, 4;\n"
                             "  st.shared.u64 [%r1], %rd0;\n", _WORDS)),
    Fault("trap", "trap in lane 3", "trap", _STOPPED,
          entry("trapped", "  setp.eq.u32 %p0, %r0, 3; @%p0 trap;\n")),
    Fault("instruction", "a tensor copy from column 3", "illegal-value", _STOPPED,
          given={}, make=partial(_tensor_copy, 3)),
    Fault("refused, shared memory", "a byte more than a CTA can have", "refused", (),
          given={"block": 32, "dynamic_shared": 232449}),
    Fault("refused, cluster", "17 CTAs in a cluster", "refused", (),
          given={"block": 32, "grid": 17, "cluster": 17}),
    Fault("refused, part of a cluster", "5 CTAs in clusters of 4", "refused", (),
          given={"block": 32, "grid": 5, "cluster": 4}),
    Fault("refused, threads", "2048 threads", "refused", (), given={"block": 2048}),
    Fault("refused, map without an array", "a tensor map that was decoded", "refused", (),
          given={}, make=_map_without_array),
    Fault("refused, map of short rows", "a tensor map over rows of 8 bytes", "refused", (),
          given={}, make=_map_over_rows_of_8_bytes),
    Fault("hang, mbarrier", "a wait for an arrival that nobody makes", "deadlock", (),
          entry("stuck", "  mbarrier.init.shared.b64 [bar], 1;\n"
                "W: mbarrier.try_wait.parity.shared.b64 %p0, [bar], 0; @!%p0 bra W;\n", _BARRIER),
          given={"block": 1}),
    # An H200 answers a size that is no multiple of 16 with no error: the barrier never completes.
    Fault("hang, bulk copy", "cp.async.bulk of 24 bytes, which somebody waits for", "illegal-value",
          (),
          entry("odd_bulk", "  mov.u32 %r3, 24; mov.u32 %r1, words; mov.u32 %r2, bar;\n"
                "  setp.ne.u32 %p0, %r0, 0; @%p0 ret;\n"
                "  mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;\n"
                "  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 24;\n"
                "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                " [%r1], [%rd0], %r3, [%r2];\n"
                "W: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra W;\n",
                _WORDS + _BARRIER)),
    Fault("hang, barrier", "a warp waits at a barrier for another that the CTA does not have",
          "deadlock", (), entry("alone", "  barrier.sync 1, 64;\n")),
)


_HANGS = frozenset(fault.name for fault in FAULTS if fault.hangs)


# --- one fault, in a process of its own -----------------------------------------------------------

def predicted(fault: Fault) -> dict[str, Any]:
    """What the emulator says of it; ``first`` is what an error of launch should quote."""
    try:
        kernel, args = fault.prepared()
        run = mmalab.emulate(kernel, args, max_steps=200_000, **fault.given)
    except UsageError as refused:
        return {"refused": str(refused), "right": fault.refused}
    except MmalabError as stopped:
        return {"stopped": str(stopped), "right": False}
    found = [str(each) for each in run.findings if each.severity == "error"]
    codes = [each.code for each in run.findings if each.severity == "error"]
    at = codes.index(fault.finds) if fault.finds in codes else None
    return {"verdict": run.verdict, "codes": sorted(set(codes)),
            "first": found[at if fault.hangs and at is not None else 0] if found else "",
            "right": at is not None and (at == 0 or fault.hangs)}


def one(fault: Fault, patience: float) -> dict[str, Any]:
    """The fault on the device of this process: what launch said, and which promises it kept."""
    emulated = predicted(fault)
    row: dict[str, Any] = {"name": fault.name, "what": fault.what, "finds": fault.finds,
                           "emulator": emulated}
    start = time.monotonic()
    try:
        kernel, args = fault.prepared()
        done = mmalab.launch(kernel, args, patience=patience, **fault.given)
    except MmalabError as error:
        said, kind = str(error), type(error).__name__
    else:
        return row | {"said": f"nothing: it ran, {done.milliseconds} ms", "kept": False}
    row |= {"raised": kind, "said": said, "seconds": round(time.monotonic() - start, 2),
            "driver": next(iter(re.findall(r"CUDA_ERROR_(\w+)", said)), "")}
    row["promises"] = _promises(fault, row)
    row["next_launch"], row["promises"]["of the next launch"] = _next_launch(fault)
    row["kept"] = all(row["promises"].values())
    return row


def _promises(fault: Fault, row: dict[str, Any]) -> dict[str, bool]:
    """Which words are there."""
    said, kernel = row["said"], fault.prepared()[0] if not fault.refused else None
    if fault.refused:
        return {"a rule, before the driver": row["raised"] == "UsageError" and not row["driver"],
                "what would be legal": "legal:" in said, "where it is written": "see:" in said}
    name = kernel.entry if hasattr(kernel, "entry") else str(kernel).split(".entry ")[1].split(
        "(")[0]
    return {
        "the kernel": f"kernel {name} on " in said,
        "the launch": "in a launch with grid (" in said and "block (" in said,
        "the driver's word": "did not return within" in said if fault.hangs
        else row["driver"] in fault.drivers,
        "the emulator's finding": bool(row["emulator"].get("first"))
        and _flat(f"the emulator finds in the same launch: {row['emulator']['first']}")
        in _flat(said),
        "what to do": "a fresh process" in said,
    }


def _flat(text: str) -> str:
    """Without line breaks, indents and the bars before quoted lines."""
    return " ".join(re.sub(r"^\s*\| ?", "", line).strip() for line in text.splitlines())


def _next_launch(fault: Fault) -> tuple[str, bool]:
    """What a good kernel meets in the same process: after a fault the reason, else its result."""
    x = np.zeros(32, np.uint32)
    try:
        mmalab.launch(GOOD, [x], block=32)
    except ToolError as error:
        said = str(error)
        return said, not fault.refused and "this process can launch nothing more" in said
    right = bool((x == np.arange(1, 33)).all())
    return "it is right" if right else f"it is wrong: {x}", fault.refused and right


# --- all of them ----------------------------------------------------------------------------------

def apart(name: str, patience: float) -> dict[str, Any]:
    """One fault (or "alive", a good kernel) in a fresh process, which is ended if it stays."""
    command = [sys.executable, __file__, "--one", name, "--patience", str(patience)]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    ended = "by itself"
    try:
        out, err = process.communicate(timeout=patience + (
            _SPARE_HUNG_S if name in _HANGS else _SPARE_S))
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        ended = "killed"
    row: dict[str, Any] = {"name": name, "kept": False}
    lines = [line for line in out.splitlines() if line.startswith("{")]
    row |= json.loads(lines[-1]) if lines else {"said": err[-600:] or "nothing"}
    return row | {"process_seconds": round(time.monotonic() - start, 1), "process_ended": ended,
                  "exit": process.returncode}


def everything(faults: Sequence[Fault], patience: float, workers: int) -> list[dict[str, Any]]:
    """Faults next to each other; then hangs, one by one, as long as the device comes back."""
    with ThreadPoolExecutor(workers) as pool:
        rows = list(pool.map(lambda fault: apart(fault.name, patience),
                             [fault for fault in faults if not fault.hangs]))
    for fault in faults:
        if not fault.hangs:
            continue
        rows.append(apart(fault.name, patience))
        alive = apart("alive", patience)
        rows[-1]["device_afterwards"] = alive
        if not alive["kept"]:
            print(f"after '{fault.name}' a fresh process cannot launch: no further hang is tried")
            break
    return rows


def alive() -> dict[str, Any]:
    """Whether a good kernel runs here, and is right."""
    x = np.zeros(32, np.uint32)
    start = time.monotonic()
    try:
        mmalab.launch(GOOD, [x], block=32)
    except MmalabError as error:
        return {"name": "alive", "kept": False, "said": str(error)}
    return {"name": "alive", "kept": bool((x == np.arange(1, 33)).all()),
            "seconds": round(time.monotonic() - start, 2)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _options(arguments)
    if options.one:
        row = alive() if options.one == "alive" else one(
            next(fault for fault in FAULTS if fault.name == options.one), options.patience)
        print(json.dumps(row), flush=True)
        return 0
    faults = [fault for fault in FAULTS if options.only in fault.name]
    start = time.monotonic()
    if options.emulate_only:
        rows = [{"name": fault.name, "emulator": predicted(fault)} for fault in faults]
        for row in rows:
            print(f"{row['name']:30} {_foretold(row)}")
        return 0 if all(row["emulator"]["right"] for row in rows) else 1
    rows = everything(faults, options.patience, options.workers)
    seconds = round(time.monotonic() - start, 1)
    record = {
        "what": "broken kernels on the device: what launch() said, and whether the emulator had "
                "predicted it", "evidence": "measured",
        "command": f"tools/gpu_faults.py --patience {options.patience:g}",
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"), "device": mmalab.device.info(0),
        "mmalab": mmalab.__version__, "patience_seconds": options.patience,
        "faults": len(rows), "kept": sum(row["kept"] for row in rows),
        "predicted": sum(row.get("emulator", {}).get("right", False) for row in rows),
        "seconds": seconds, "rows": rows}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    for row in rows:
        print(_line(row))
    print(f"{record['predicted']} of {len(faults)} predicted, {record['kept']} keep all promises, "
          f"{seconds} s")
    whole = len(rows) == len(faults) == record["kept"] == record["predicted"]
    return 0 if whole and all(row.get("device_afterwards", {"kept": True})["kept"]
                              for row in rows) else 1


def _foretold(row: dict[str, Any]) -> str:
    emulated = row.get("emulator", {})
    return str(emulated.get("first") or emulated.get("refused") or emulated.get("stopped")
               or "nothing").splitlines()[0]


def _line(row: dict[str, Any]) -> str:
    """A line of the table: fault, prediction, the driver's word, promises, the process's end."""
    broken = [name for name, kept in row.get("promises", {"all": False}).items() if not kept]
    driver = f"CUDA_ERROR_{row['driver']}" if row.get("driver") else row.get("raised", "?")
    right = row.get("emulator", {}).get("right")
    return (f"{row['name']:30} {row.get('finds', '?') if right else 'NOT PREDICTED':18} "
            f"{driver:32} {'kept' if row['kept'] else 'BROKEN: ' + ', '.join(broken)}  "
            f"{row['process_seconds']} s, {row['process_ended']}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the JSON record goes")
    parser.add_argument("--only", default="", help="part of the names of the faults")
    parser.add_argument("--patience", type=float, default=3.0,
                        help="seconds after which a kernel is given up")
    parser.add_argument("--workers", type=int, default=4, help="processes at a time")
    parser.add_argument("--emulate-only", action="store_true", help="what the emulator predicts")
    parser.add_argument("--one", default="", help="run this fault in this process, print its row")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
