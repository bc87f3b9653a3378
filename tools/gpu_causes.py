"""What limits a kernel on a GPU: variants that leave something out, and where its clocks go.

    PYTHONPATH=src python tools/gpu_causes.py --out records/h200/mma_sync_causes.json
    PYTHONPATH=src python tools/gpu_causes.py --dry-run               # no GPU: all of it, assembled
    PYTHONPATH=src python tools/gpu_causes.py \
        --kernel "sm90_wgmma.gemm 8192x8192x8192 tile=256x192,stages=4,cluster=1x2"

Takes any kernel that a ring feeds (`sm80_mma.gemm` with copy=tma, `sm90_wgmma.gemm`): family and
factory, sizes, choices as of ``mmalab bench gemm --set``. Of each it times the kernel as it is and
without C's stores, its reads of fragments, its copies, a part of its products, in turn (about 10 s
a kernel), checks and times it with its clocks read, and says what those read::

    sm80_mma.gemm 3072x5632x4096 copy=tma,tile=256x128,stages=4
      all of it             89.3 %           1717 MHz    552 TFLOP/s
      C not written         92.3 %    +3.0   1746 MHz    581 TFLOP/s     the way out of C costs 3 %
      nothing copied        90.5 %    +1.2   1789 MHz    584 TFLOP/s     copies and waits hardly 1 %
      products only         98.3 %    +9.0   1790 MHz    634 TFLOP/s     more than the sum of both
      slice                 1620 clocks, p95 1638; its products take 1536.5
      end_of_a_tile         3163 clocks, p95 5319

(the shares and clocks of an older form of this kernel, see "earlier" in the record). Shares are of
what the class of instructions reaches at the clock that the SMs counted, all products counted. The
record keeps the entries of scripts that are no more. Exit code 0: every kernel was measured; of
--dry-run: every variant's code has all of its products.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mmalab.bench.causes import Built, Case, build, measure
from mmalab.bench.record import describe, save
from mmalab.cli.choices import choices_of
from mmalab.device.gpu import open_gpu
from mmalab.errors import UsageError

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "records/h200/mma_sync_causes.json"
COMMAND = "PYTHONPATH=src python tools/gpu_causes.py --out records/h200/mma_sync_causes.json"
_FED = "copy=tma,tile=256x128,stages=4"
_WIDE = "tile=128x256,stages=4,l2_promotion=128B"
#: 3072 x 5632 is four whole waves of 132 tiles, of 256 x 128 and of 128 x 256; 4096 x 4096 is not.
KERNELS = (
    f"sm80_mma.gemm 3072x5632x4096 {_FED}",
    f"sm80_mma.gemm 4096x4096x4096 {_FED},waves=even",
    f"sm90_wgmma.gemm 3072x5632x4096 {_WIDE}",
    f"sm90_wgmma.gemm 4096x4096x4096 dtype=s8,{_WIDE}",
)
METHOD = (
    "variants in turn, forwards and backwards, each behind 0.1 s of rest, about 3 ms a block, "
    "medians; shares of what the class of instructions reaches on all SMs at the clock that they "
    "counted around the work, all products counted, also those that a variant leaves out; N(0, 1) "
    "operands in sets beyond L2. Trace: clocks of 16 blocks spread over the grid, in one launch "
    "behind others; a wait holds its two readings; the kernel whose clocks are read gives the same "
    "bits, and over_plain is its time over the plain one's")
VARIANTS = {
    "C not written": "stores of C are there, under a predicate that is false",
    "C not sent": "C is laid out in shared memory, and TMA does not store it",
    "fragments once": "fragments read once a tile",
    "no bytes": "barriers as ever, but TMA copies nothing",
    "nothing copied": "nothing is filled, waited for or given back",
    "products only": "neither copies, nor stores, nor more fragments than the first",
    "1/4 of the products": "every fragment is still somebody's operand",
}


def case_of(text: str) -> Case:
    """``family.factory MxNxK KEY=VALUE,...``.

    Raises:
        UsageError: it is written in another way.
    """
    factory, _, rest = text.strip().partition(" ")
    sizes, _, choices = rest.strip().partition(" ")
    numbers = sizes.split("x")
    if len(numbers) != 3 or not all(number.isdigit() for number in numbers):
        raise UsageError(f"--kernel {text!r}", "names no factory and sizes", legal=KERNELS[0],
                         where="tools/gpu_causes.py --help")
    return Case(factory, *map(int, numbers), choices_of(choices.strip(), "--kernel"))


def earlier(path: Path) -> list[Any]:
    """What the record that is there holds of kernels that are no more, or that are measured again
    now, the oldest first: all of it but what it keeps itself."""
    if not path.exists():
        return []
    old = json.loads(path.read_text())
    kept = old.pop("earlier", [])
    # A record of this tool is made again by the tool; one of scripts is not.
    return kept if kept or "rows" in old else [old]


# --- what is said ---------------------------------------------------------------------------------

def show_built(text: str, built: Built) -> bool:
    """What ptxas made of each variant; whether it left all products where they were."""
    print(text)
    whole = True
    for made in built.made:
        products = sum(each.matrix for each in made.cubin.sass)
        whole &= products == made.products
        print(f"  {made.name:28}{made.cubin.resources.registers:4} registers "
              f"{made.spilled:4} bytes spilled {products:5} products of {made.products}"
              + "".join(f"; {each}" for each in made.cubin.warnings[:1]), flush=True)
    return whole


def show(text: str, row: Mapping[str, Any]) -> None:
    """The shares, what each variant gains, and the clocks."""
    print(text)
    if "problem" in row:
        print("  not measured:", row["problem"])
        return
    whole = row["rows"][0]["share_percent"]
    for each in row["rows"]:
        share = each["share_percent"]
        gain = "" if share is None or share == whole else f"{share - whole:+.1f}"
        spilled = f"  {each['spilled']} bytes spilled" if each["spilled"] else ""
        print(f"  {each['variant']:28}{'-' if share is None else f'{share:.1f}':>6} % {gain:>6}"
              f"{each['mhz'] or 0:7} MHz {each['tflops']:6} TFLOP/s{spilled}")
    trace = row["trace"]
    print(f"  a slice's products take {trace['slice_of_products']} clocks; with its clocks read "
          f"the kernel takes {trace['over_plain']['median']:.3f} of its time")
    for key, value in trace.items():
        if isinstance(value, dict) and "p95" in value:
            print(f"  {key:28}{value['median']:8.0f} median {value['mean']:10.1f} mean "
                  f"{value['p95']:10.1f} p95 {value['count']:8} times")
    if trace["lost"]:
        print(f"  {trace['lost']} warps had more events than there is room for")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _options(arguments)
    texts = options.kernel or list(KERNELS)
    start = time.monotonic()
    every = build([case_of(text) for text in texts],
                  None if options.dry_run else open_gpu(options.gpu).chip)
    print(f"{sum(len(built.made) for built in every)} kernels assembled, "
          f"{time.monotonic() - start:.0f} s", flush=True)
    if options.dry_run:
        # ptxas leaves out what nobody needs, and unrolls loops that nothing keeps it from
        whole = [show_built(text, built) for text, built in zip(texts, every, strict=True)]
        return 0 if all(whole) else 1
    record = describe("what limits kernels: variants that leave something out, and their clocks",
                      COMMAND, [], options.gpu)
    record |= {"method": METHOD, "variants": VARIANTS, "earlier": earlier(RECORD)}
    for text, built in zip(texts, every, strict=True):
        row = measure(built, options.gpu, options.rounds, options.seed)
        record["rows"].append({"title": text, **row})
        show(text, row)
        sys.stdout.flush()
        if options.out is not None:
            save(record, options.out)
    bad = sum("problem" in row for row in record["rows"])
    print(f"{len(every)} kernels, {bad} not measured, {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kernel", action="append", metavar="'FACTORY MxNxK KEY=VALUE,...'",
                        help="a kernel; repeatable; the ones that README tells of if not given")
    parser.add_argument("--out", type=Path, help="where the JSON record goes")
    parser.add_argument("--rounds", type=int, default=4, help="blocks of each variant")
    parser.add_argument("--gpu", type=int, default=0, help="device")
    parser.add_argument("--seed", type=int, help="of the operands; fresh if not given")
    parser.add_argument("--dry-run", action="store_true",
                        help="assemble all variants and say what they need; no GPU")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
