"""Remake the records of a GPU in one go: every tool and table in turn, each within its time.

    PYTHONPATH=src python tools/gpu_all.py --dry-run                     # what, and how long
    PYTHONPATH=src python tools/gpu_all.py --out /tmp/h200 --gpus 2
    PYTHONPATH=src python tools/gpu_all.py --out /tmp/h200 --steps cluster wgmma faults

Steps run one after the other in an order in which a broken one costs the others nothing: what
breaks contexts on purpose comes last. A step that is over its limit is ended and the next one
begins; none begins that would not be over by `--budget` seconds. What a step prints goes to a log
beside its record, its last line into the table at the end. What belongs to `records/h200` or
`vectors/h200` lies there under `--out`, for one archive. Exit code 0: every step ended with 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_BENCH = ("-m", "mmalab", "bench", "gemm")


@dataclass(frozen=True)
class Step:
    """One step: the arguments of Python (``{out}``: the folder), seconds expected on one H200 with
    16 cores, seconds after which it is ended; whether more GPUs share its rows."""

    name: str
    arguments: tuple[str, ...]
    expected: float
    limit: float
    spreads: bool = False

    def command(self, out: Path, gpus: int) -> list[str]:
        """The command line."""
        more = [word for gpu in range(gpus) for word in ("--gpu", str(gpu))] if self.spreads else []
        return [sys.executable, *(part.replace("{out}", str(out)) for part in self.arguments),
                *more]

    def seconds(self, gpus: int) -> float:
        """What it takes about."""
        return self.expected / (gpus if self.spreads else 1)


def _table(name: str, expected: float, *options: str, file: str = "") -> Step:
    record = f"{{out}}/records/h200/bench/{file or name}.json"
    return Step(f"bench-{name}", (*_BENCH, *options, "--out", record), expected, 2 * expected + 60,
                spreads=True)


#: In order of what they need from the device: nothing broken behind them.
STEPS: tuple[Step, ...] = (
    Step("tests", ("-m", "pytest", "-q", "-n", "4", "-p", "no:cacheprovider", "-p", "no:benchmark",
                   "-m", "gpu", "tests/device"), 90, 240),
    Step("cluster", ("tools/gpu_cluster.py", "--out",
                     "{out}/records/h200/cluster_equality.json"), 25, 120),
    Step("wgmma", ("tools/gpu_wgmma.py", "--every", "--vectors",
                   "{out}/vectors/h200/wgmma_every.npz"), 45, 180),
    Step("wgmma-layouts", ("tools/gpu_wgmma.py", "--vectors", "{out}/vectors/h200/wgmma.npz"),
         20, 120),
    Step("products", ("tools/gpu_equality.py", "launch", "{out}/vectors/h200/products.npz"),
         30, 180),
    Step("tma", ("tools/gpu_tma.py", "--times", "4", "--out",
                 "{out}/records/h200/tma_equality.json"), 30, 120),
    _table("scaled", 70, "--table", "scaled"),
    _table("skinny", 280, "--table", "skinny"),
    _table("unaligned", 110, "--table", "unaligned"),
    _table("int8", 50, "--table", "int8"),
    _table("mma", 60, "--table", "mma"),
    _table("bf16", 110, "--table", "bf16"),
    _table("fp8", 120, "--table", "fp8"),
    _table("tf32", 45, "--table", "tf32"),
    _table("llm", 150, "--table", "llm"),
    Step("causes", ("tools/gpu_causes.py", "--out",
                    "{out}/records/h200/mma_sync_causes.json"), 80, 240),
    Step("faults", ("tools/gpu_faults.py", "--out", "{out}/records/h200/faults.json"), 60, 200),
)


@dataclass(frozen=True)
class Ended:
    """How a step ended: its exit code, None where it was not begun; the last line it printed."""

    name: str
    code: int | None
    seconds: float
    last: str

    def __str__(self) -> str:
        how = "not begun" if self.code is None else f"exit {self.code}"
        return f"{self.name:16} {how:10} {self.seconds:6.1f} s  {self.last}"


def run(step: Step, out: Path, gpus: int) -> Ended:
    """Run a step to its end or its limit; the log is ``NAME.log`` in the folder."""
    log, start = out / f"{step.name}.log", time.monotonic()
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(step.command(out, gpus), cwd=ROOT, env=environment, stdout=file,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(step.limit)
            note = ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with what it has started
            code, note = process.wait(), f"ended after {step.limit:.0f} s; "
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or [""]
    return Ended(step.name, code, time.monotonic() - start, note + lines[-1].strip()[:150])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _options(arguments)
    chosen = [step for step in STEPS if not options.steps or step.name in options.steps]
    if options.dry_run:
        for step in chosen:
            print(f"{step.name:16} {step.seconds(options.gpus):5.0f} s  "
                  + " ".join(step.command(options.out, options.gpus)[1:]))
        print(f"{sum(step.seconds(options.gpus) for step in chosen):22.0f} s in all")
        return 0
    for folder in ("records/h200/bench", "vectors/h200"):
        (options.out / folder).mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    ended: list[Ended] = []
    for step in chosen:
        left = options.budget - (time.monotonic() - start)
        if step.seconds(options.gpus) > left:
            ended.append(Ended(step.name, None, 0.0, f"{left:.0f} s were left"))
        else:
            ended.append(run(step, options.out, options.gpus))
        print(ended[-1], flush=True)
    print(f"{time.monotonic() - start:.0f} s")
    return 0 if all(each.code == 0 for each in ended) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu"), help="folder for all of it")
    parser.add_argument("--steps", nargs="+", choices=[step.name for step in STEPS],
                        metavar="STEP", help=", ".join(step.name for step in STEPS))
    parser.add_argument("--gpus", type=int, default=1, help="devices that tables are spread over")
    parser.add_argument("--budget", type=float, default=1e9,
                        help="seconds; no step begins that would not be over by then")
    parser.add_argument("--dry-run", action="store_true", help="say what would run")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
