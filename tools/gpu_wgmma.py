r"""Compare every wgmma form on a GPU with the emulator, bit for bit.

    PYTHONPATH=src python tools/gpu_wgmma.py --vectors vectors/h200/wgmma.npz      # has the GPU
    PYTHONPATH=src python tools/gpu_wgmma.py --every --vectors vectors/h200/wgmma_every.npz
    PYTHONPATH=src python tools/gpu_wgmma.py --out records/h200/wgmma_equality.json \
        --compare vectors/h200/wgmma.npz vectors/h200/wgmma_every.npz             # needs none

Each kernel is one instruction (:mod:`mmalab.kernels.one_wgmma`) on four cases: random bit patterns
(NaN and Inf included), normal numbers, exponents far apart, and numbers of one magnitude that
cancel. The families: all types at several N, all N of four types, every major and swizzle of both
operands, tiles with gaps, phases of the swizzle with and without the base offset, sparse products
with every selector. `--every` is another set: each N of each type, dense and sparse, A in shared
memory and in registers, 16-bit operands in all majors, with signs, swizzles and selectors in turn.
`probes` are words that the ISA does not define: their differences are recorded and are no failure.
Inputs are fresh (the seed is printed and recorded), outputs begin as 0xFF bytes.

With `--vectors` the device's part is all that runs (2916 kernels with `--every`), in `--workers`
processes, of which one that faults is replaced: the SHA-256 of each case's words is kept, and all
words of the narrowest products. `--compare` makes the same inputs again, emulates them and writes
the record; a test replays some. Without either, both halves run where the GPU is. `--emulate-only`
needs no GPU and compares nothing. Exit code 0: all ran, none differs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mmalab
from mmalab import formats, isa
from mmalab.descriptors import WGMMA, SmemDescriptor, packed
from mmalab.device.apart import each
from mmalab.isa.form import Form
from mmalab.kernels.one_wgmma import one_wgmma
from mmalab.ptx.kernel import Kernel

#: (D, A, B, K of the dense shape, tail of the spelling).
TYPES = tuple(
    (d, a, b, k, tail)
    for ds, pairs, k, tails in (
        (("f32", "f16"), (("f16", "f16"),), 16, ("",)),
        (("f32",), (("bf16", "bf16"),), 16, ("",)),
        (("f32",), (("tf32", "tf32"),), 8, ("",)),
        (("f32", "f16"), tuple(product(("e4m3", "e5m2"), repeat=2)), 32, ("",)),
        (("s32",), tuple(product(("s8", "u8"), repeat=2)), 32, ("", ".satfinite")),
        (("s32",), (("b1", "b1"),), 256, (".and.popc",)),
    )
    for d in ds for a, b in pairs for tail in tails
)
#: Types of which every N runs.
EVERY_N = (("f32", "bf16", "bf16", 16, ""), ("f16", "f16", "f16", 16, ""),
           ("f32", "e4m3", "e5m2", 32, ""), ("s32", "s8", "u8", 32, ""))
SWIZZLES = ("none", "32B", "64B", "128B")
MIXES = ("bits", "normal", "ladder", "cancel")
#: Words of a kernel's cases up to which vectors hold them all, as they do of probes.
WHOLE = 2048
#: Room for A; B begins behind it.
_B_AT = 16 * 1024


@dataclass(slots=True)
class Setup:
    """One kernel: a form, where its operands lie, its literals."""

    family: str
    key: str
    a: SmemDescriptor | None
    b: SmemDescriptor
    a_major: str = "K"
    b_major: str = "K"
    options: dict[str, Any] = field(default_factory=dict)
    probe: str = ""
    any_metadata: bool = False

    def kernel(self) -> Kernel:
        """The kernel, a CTA for each mix."""
        return one_wgmma(
            self.key, cases=len(MIXES), image=56 * 1024, a_in_registers=self.a is None,
            transpose_a=self.a is not None and self.a_major == "MN",
            transpose_b=self.b_major == "MN", **self.options)

    def __str__(self) -> str:
        where = "registers" if self.a is None else f"{self.a_major} {self.a.swizzle}"
        return (f"{self.family} {self.key.removeprefix('wgmma.mma_async.')} A {where}"
                f" B {self.b_major} {self.b.swizzle} {self.options or ''} {self.probe}").strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    options = _options(arguments)
    seed = options.seed if options.seed is not None else secrets.randbits(32)
    print(f"seed {seed}", flush=True)
    start = time.monotonic()
    if options.compare:
        return _replay(options)
    count = len(_wanted(every=options.every, only=options.only))
    if not count:
        message = f"--only {options.only!r}: no kernel is printed so"
        raise SystemExit(message)
    task = partial(_ran, every=options.every, only=options.only, seed=seed,
                   device=not options.emulate_only, emulator=options.vectors is None)
    done = each(task, count, workers=options.workers, lost=_lost)
    seconds = time.monotonic() - start
    print(f"{len(done)} kernels, {seconds:.1f} s", flush=True)
    if options.vectors is not None:
        return _keep(done, seed, options, seconds)
    device = {} if options.emulate_only else mmalab.device.info(0)
    command = f"tools/gpu_wgmma.py {'--every ' if options.every else ''}--seed {seed}"
    record = _record([case for case, _ in done], device, seconds, command)
    return _written(record | {"seed": seed}, options)


def _written(record: dict[str, Any], options: argparse.Namespace) -> int:
    """Write the record, say what is in it; 1 where something differs or was not compared."""
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{record['mismatches']} of {record['outputs']} outputs differ, probes"
          f" {record['probe_mismatches']} of {record['probe_outputs']},"
          f" {len(record['not_compared'])} kernels not compared, {record['seconds']} s")
    return 1 if record["mismatches"] or record["not_compared"] else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("wgmma_equality.json"),
                        help="where the JSON record goes")
    parser.add_argument("--vectors", type=Path, help="keep what the device wrote here, as .npz")
    parser.add_argument("--compare", type=Path, nargs="+",
                        help="emulate the cases of these vectors and compare; needs no GPU")
    parser.add_argument("--every", action="store_true",
                        help="every N of every type, in place of all layouts at some N")
    parser.add_argument("--seed", type=int, help="of the inputs; a fresh one if not given")
    parser.add_argument("--only", default="", help="part of what a kernel is printed as")
    parser.add_argument("--workers", type=int, default=12, help="processes at a time")
    parser.add_argument("--emulate-only", action="store_true")
    return parser.parse_args(arguments)


# --- what runs ------------------------------------------------------------------------------------

def _key(types: tuple[str, str, str, int, str], n: int, *, sparse: bool = False) -> str:
    d, a, b, k, tail = types
    word, k = (".sp", 2 * k) if sparse else ("", k)
    return f"wgmma.mma_async{word}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{tail}"


@lru_cache(maxsize=2)
def _wanted(*, every: bool, only: str) -> list[Setup]:
    """One of the two sets, or the part of it that is printed with `only`."""
    return [setup for setup in (_every_form() if every else _setups()) if only in str(setup)]


def _setups() -> Iterator[Setup]:
    yield from _every_type()
    for types in EVERY_N:
        for n in isa_sizes(types):
            yield _setup("every n", types, n, "128B", "128B")
    yield from _layouts()
    yield from _phases()
    yield from _sparse_layouts()
    yield from _undefined()


def isa_sizes(types: tuple[str, str, str, int, str]) -> list[int]:
    """The N that a form of these types has."""
    legal = []
    for n in range(8, 257, 8):
        try:
            isa.find(_key(types, n))
        except mmalab.errors.MmalabError:
            continue
        legal.append(n)
    return legal


def _setup(family: str, types: tuple[str, str, str, int, str], n: int, a_swizzle: str,
           b_swizzle: str, *, sparse: bool = False, a_major: str = "K", b_major: str = "K",
           registers: bool = False, **options: Any) -> Setup:
    bits, k = formats.get(types[1]).bits, types[3]
    a = packed(a_major, a_swizzle, 64, k, bits)
    b = packed(b_major, b_swizzle, n, 2 * k if sparse else k, bits, start=_B_AT)
    return Setup(family, _key(types, n, sparse=sparse), None if registers else a, b, a_major,
                 b_major, options)


def _every_type() -> Iterator[Setup]:
    """Each type at three N, dense and sparse, A in both places, signs and selectors in turn."""
    turn = 0
    for types in TYPES:
        sized = types[1] not in ("s8", "u8", "b1")
        for n, registers, sparse in product((8, 96, 256), (False, True), (False, True)):
            if sparse and types[1] == "b1":
                continue
            turn += 1
            options: dict[str, Any] = {}
            if sized:
                options = {"negate_a": turn % 3 == 1, "negate_b": turn % 5 == 2}
            if sparse and types[1] in ("f16", "bf16", "tf32"):
                options["selector"] = turn // 2 % 2
            # rows of 64 bytes or more: what a sparse B of 64 bytes fills
            swizzles = SWIZZLES if not sparse else ("none", "64B", "128B")
            yield _setup("types", types, n, SWIZZLES[turn % 4],
                         swizzles[turn // 3 % len(swizzles)], sparse=sparse, registers=registers,
                         **options)


def _every_form() -> Iterator[Setup]:
    """Each N of each type, dense and sparse, A in both places; majors where operands have 16 bits.

    Signs and swizzles take turns of four, shifted against each other with every fourth N, so that
    each type meets all of their pairs.
    """
    for types in TYPES:
        step, sixteen = 0, formats.get(types[1]).bits == 16
        for sparse, n in product((False, True), isa_sizes(types)):
            if sparse and types[1] == "b1":
                continue
            options: dict[str, Any] = {}
            if types[1] not in ("s8", "u8", "b1"):
                signs = (step + step // 4) % 4
                options = {"negate_a": signs in (1, 2), "negate_b": signs in (2, 3)}
            if sparse and types[1] in ("f16", "bf16", "tf32"):
                options["selector"] = step // 8 % 2
            for place, (registers, a_major, b_major) in enumerate(_places(majors=sixteen)):
                narrow = sparse and b_major == "K"  # rows of 64 bytes do not fit in 32
                of_b = [each for each in SWIZZLES if not (narrow and each == "32B")]
                yield _setup("every form", types, n, SWIZZLES[step % 4],
                             of_b[(step // 4 + place) % len(of_b)], sparse=sparse,
                             registers=registers, a_major=a_major, b_major=b_major, **options)
            step += 1


def _places(*, majors: bool) -> Iterator[tuple[bool, str, str]]:
    """Whether A is in registers, and the majors: K where there is no choice."""
    for registers, a_major, b_major in product((False, True), ("K", "MN"), ("K", "MN")):
        if (majors or (a_major, b_major) == ("K", "K")) and not (registers and a_major == "MN"):
            yield registers, a_major, b_major


def _layouts() -> Iterator[Setup]:
    """Majors and swizzles of both operands, and tiles with gaps."""
    types = ("f32", "f16", "f16", 16, "")
    for a_major, a_swizzle, b_major, b_swizzle in product(("K", "MN"), SWIZZLES, repeat=2):
        yield _setup("layouts", types, 72, a_swizzle, b_swizzle, a_major=a_major,
                     b_major=b_major)
    for major, swizzle, gap in product(("K", "MN"), SWIZZLES, (16, 1024)):
        found = _setup("gaps", types, 40, "128B", swizzle, b_major=major)
        b = found.b
        wide = gap if swizzle == "none" else 1024
        found.b = SmemDescriptor(b.start, b.lbo + wide, b.sbo + 2 * wide, swizzle)
        yield found


def _phases() -> Iterator[Setup]:
    """Tiles that begin inside the pattern, with and without their base offset."""
    types = ("f32", "bf16", "bf16", 16, "")
    for major, (swizzle, phases) in product(("K", "MN"), (("32B", 2), ("64B", 4), ("128B", 8))):
        for phase, corrected in product(range(1, phases), (0, 1)):
            found = _setup("phases", types, 64, "128B", swizzle, b_major=major)
            b = found.b
            found.b = SmemDescriptor(b.start + 128 * phase, b.lbo, b.sbo, swizzle,
                                     phase * corrected)
            yield found
    for step in (32, 64, 96):
        found = _setup("k steps", types, 64, "128B", "128B")
        found.b = SmemDescriptor(found.b.start + step, 16, 1024, "128B")
        yield found


def _sparse_layouts() -> Iterator[Setup]:
    types = ("f32", "bf16", "bf16", 16, "")
    for (b_major, b_swizzle), selector in product(product(("K", "MN"), SWIZZLES), (0, 1)):
        if (b_major, b_swizzle) != ("K", "32B"):
            yield _setup("sparse layouts", types, 40, "64B", b_swizzle, sparse=True,
                         b_major=b_major, selector=selector)


def _undefined() -> Iterator[Setup]:
    """Probes: a sparse B wider than its swizzle's row, metadata that no pattern allows."""
    types = ("f32", "bf16", "bf16", 16, "")
    for lbo in (16, 32, 256, 2048):
        found = _setup("sparse", types, 16, "64B", "32B", sparse=True)
        found.b = SmemDescriptor(found.b.start, lbo, found.b.sbo, "32B")
        found.probe = f"B of 64 bytes in rows of 32, lbo {lbo}"
        yield found
    for kind in (types, ("f32", "tf32", "tf32", 8, ""), ("f32", "e4m3", "e4m3", 32, "")):
        found = _setup("sparse", kind, 16, "64B", "128B", sparse=True)
        found.probe, found.any_metadata = "metadata of any bits", True
        yield found


# --- arguments ------------------------------------------------------------------------------------

def _arguments(setup: Setup, rng: np.random.Generator) -> list[NDArray[Any]]:
    form, kernel = isa.find(setup.key), setup.kernel()
    size, d = kernel.facts["image"], form.fragments["D"]
    image = np.empty((len(MIXES), size), np.uint8)
    start = np.empty((len(MIXES), d.registers, 128), np.uint32)
    for case, mix in enumerate(MIXES):
        halves = [_words(form.modifiers[f"{side}type"], bytes_, rng, mix)
                  for side, bytes_ in (("a", _B_AT), ("b", size - _B_AT))]
        image[case] = np.concatenate(halves)
        start[case] = _registers(form.modifiers["dtype"], d.registers, rng, mix)
    words = [0 if one is None else WGMMA.encode(
        start=one.start, lbo=one.lbo, sbo=one.sbo, swizzle=one.swizzle,
        base_offset=one.base_offset) for one in (setup.a, setup.b)]
    found: list[NDArray[Any]] = [
        image, np.array([words] * len(MIXES), np.uint64),
        np.array([1, 1, 1, 0], np.uint32), start, np.full(start.shape, 0xFFFFFFFF, np.uint32)]
    if setup.a is None:
        count = form.fragments["A"].registers
        found.append(np.stack([_registers(form.modifiers["atype"], count, rng, mix)
                               for mix in MIXES]))
    if form.sparsity is not None:
        found.append(_metadata(form, rng, any_bits=setup.any_metadata))
    return found


def _registers(type_: str, count: int, rng: np.random.Generator, mix: str) -> NDArray[Any]:
    words = _words(type_, 4 * count * 128, rng, mix).view(np.uint32)
    return np.ascontiguousarray(words.reshape(128, count).T)


def _words(type_: str, size: int, rng: np.random.Generator, mix: str) -> NDArray[Any]:
    """`size` bytes of a type's words."""
    raw = rng.integers(0, 256, size, np.uint8)
    if mix == "bits" or type_ in ("s8", "u8", "s32", "b1"):
        return raw
    fmt = formats.get(type_)
    count = size // fmt.dtype.itemsize
    values = rng.standard_normal(count)
    if mix == "ladder":
        values *= 2.0 ** rng.integers(-20, 20, count)
    elif mix == "cancel":
        values = rng.choice((-1.0, 1.0), count) * (1 + rng.integers(0, 4, count) / 1024)
    if type_ in ("f32", "tf32"):
        return values.astype(np.float32).view(np.uint8)
    limit = {"e4m3": 448.0, "e5m2": 57344.0, "f16": 65504.0}.get(type_, 3e38)
    return np.clip(values, -limit, limit).astype(np.float32).astype(
        formats.dtype_of(type_)).view(np.uint8)


def _metadata(form: Form, rng: np.random.Generator, *, any_bits: bool) -> NDArray[Any]:
    if any_bits or form.sparsity is None:
        return rng.integers(0, 1 << 32, (len(MIXES), 128), np.uint32)
    patterns = np.array(form.sparsity.patterns, np.uint32)
    nibbles = patterns[rng.integers(0, len(patterns), (len(MIXES), 128, 8))]
    return np.bitwise_or.reduce(nibbles << (4 * np.arange(8, dtype=np.uint32)), axis=-1)


# --- running and comparing ------------------------------------------------------------------------

#: What a case of the record is made of, and what the device wrote (nothing where it did not run).
_Done = tuple[dict[str, Any], NDArray[Any] | None]


def _ran(number: int, *, every: bool, only: str, seed: int, device: bool, emulator: bool) -> _Done:
    """A kernel on the device, on the emulator, or on both, which are compared."""
    setup = _wanted(every=every, only=only)[number]
    kernel, args = setup.kernel(), _arguments(setup, np.random.default_rng([seed, number]))
    case: dict[str, Any] = {"kernel": str(setup), "form": setup.key, "outputs": args[4].size,
                            "inputs": inputs_digest(args)}
    if setup.probe:
        case["probe"] = setup.probe
    words = None
    if device:
        own = [*args[:4], args[4].copy(), *args[5:]]
        try:
            case["compiler"] = mmalab.launch(kernel, own).compiler
            words = own[4]
        except mmalab.errors.MmalabError as failed:
            case["problem"] = f"{type(failed).__name__}: {failed}"
    if emulator:
        run = mmalab.emulate(kernel, args, sanitize=False)
        wrong = [str(finding) for finding in run.findings if finding.severity == "error"]
        case |= {"findings": wrong} if wrong else {}
        case |= {"problem": "not run on a device"} if not device else {}
        if words is not None:
            case |= _differences(words, args[4])
    return case, None if emulator else words


def _differences(theirs: NDArray[Any], ours: NDArray[Any]) -> dict[str, Any]:
    """How many words differ, and the first of them."""
    differ = np.argwhere(theirs != ours)
    if not len(differ):
        return {"mismatches": 0}
    at = tuple(int(x) for x in differ[0])
    return {"mismatches": len(differ),
            "first": {"at": at, "gpu": hex(int(theirs[at])), "emulator": hex(int(ours[at]))},
            "by_mix": dict(zip(MIXES, np.bincount(differ[:, 0], minlength=4).tolist(),
                               strict=True))}


def _lost(done: _Done) -> bool:
    """Whether the process of this kernel can launch nothing more."""
    return "fresh process" in done[0].get("problem", "")


def digests(words: NDArray[Any]) -> NDArray[np.uint8]:
    """SHA-256 of each case's bytes."""
    found = [hashlib.sha256(np.ascontiguousarray(case).tobytes()).digest() for case in words]
    return np.frombuffer(b"".join(found), np.uint8).reshape(-1, 32)


def inputs_digest(args: list[NDArray[Any]]) -> str:
    """The beginning of the SHA-256 of a kernel's arguments."""
    return hashlib.sha256(b"".join(a.tobytes() for a in args)).hexdigest()[:16]


def _keep(done: list[_Done], seed: int, options: argparse.Namespace, seconds: float) -> int:
    """Write down what the device made of all kernels; 1 where one did not run."""
    index = [{"probe": "", **case} for case, _ in done]
    whole = {str(at): words for at, (_, words) in enumerate(done)
             if words is not None and (words.size <= WHOLE or index[at]["probe"])}
    path = options.vectors
    for row in index:
        if "problem" in row:
            print(row["kernel"], row["problem"], flush=True)
    facts = {"what": "wgmma on the device: digests of what each case wrote, narrow ones whole",
             "seed": seed, "every": options.every, "only": options.only,
             "seconds": round(seconds, 1),
             "command": f"tools/gpu_wgmma.py {'--every ' if options.every else ''}--seed {seed} "
                        f"--vectors {path.name}",
             "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"), "mixes": MIXES,
             "device": mmalab.device.info(0), "mmalab": mmalab.__version__}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path, facts=np.array(json.dumps(facts)), index=np.array(json.dumps(index)),
        digests=np.stack([np.zeros((len(MIXES), 32), np.uint8) if words is None
                          else digests(words) for _, words in done]), **whole)
    missing = sum("problem" in row for row in index)
    print(f"{len(index)} kernels kept, {len(whole)} of them whole, {missing} did not run")
    return 1 if missing else 0


@dataclass(frozen=True)
class _Vectors:
    """What a device wrote: the file's arrays, its facts, and the kernels with their numbers."""

    held: dict[str, NDArray[Any]]
    facts: dict[str, Any]
    kernels: list[tuple[int, dict[str, Any], Setup]]


@lru_cache(maxsize=2)
def _vectors(path: Path, only: str) -> _Vectors:
    """The vectors of a file, of the kernels that are printed with `only`."""
    with np.load(path) as file:
        held = {name: file[name] for name in file.files}
    facts, index = (json.loads(str(held[name])) for name in ("facts", "index"))
    setups = _wanted(every=facts.get("every", False), only=facts.get("only", ""))
    if [str(setup) for setup in setups] != [row["kernel"] for row in index]:
        message = f"{path} is of other kernels than these"
        raise SystemExit(message)
    return _Vectors(held, facts, [(at, row, setup) for at, (row, setup) in enumerate(
        zip(index, setups, strict=True)) if only in row["kernel"]])


def _replay(options: argparse.Namespace) -> int:
    """Emulate what the vectors hold, and write the record of all of them."""
    start = time.monotonic()
    cases: list[dict[str, Any]] = []
    facts: list[dict[str, Any]] = []
    for path in options.compare:
        found = _vectors(path, options.only)
        facts.append(found.facts)
        cases += each(partial(_replayed, path=path, only=options.only), len(found.kernels),
                      workers=min(options.workers, os.cpu_count() or 1), lost=_never)
        print(f"{path.name}: {len(found.kernels)} kernels, {time.monotonic() - start:.0f} s",
              flush=True)
    for case in cases:
        if case.get("mismatches"):
            print(json.dumps(case), flush=True)
    command = " ".join(["tools/gpu_wgmma.py --compare", *(path.name for path in options.compare)])
    record = _record(cases, facts[-1]["device"], time.monotonic() - start, command) | {
        "date": facts[-1]["date"], "seeds": [each["seed"] for each in facts],
        "vectors": [{"file": path.name, **{key: each[key] for key in ("command", "date")},
                     "device": each["device"].get("name"), "driver": each["device"].get("driver")}
                    for path, each in zip(options.compare, facts, strict=True)]}
    return _written(record, options)


def _never(case: dict[str, Any]) -> bool:
    """The emulator loses nothing."""
    del case
    return False


def _replayed(number: int, *, path: Path, only: str) -> dict[str, Any]:
    """One kernel of some vectors on the emulator. Words that differ are counted where the vectors
    hold them; of the others it is known that a case differs, and counted as one word."""
    found = _vectors(path, only)
    (at, row, setup), held, seed = found.kernels[number], found.held, found.facts["seed"]
    args = _arguments(setup, np.random.default_rng([seed, at]))
    case: dict[str, Any] = {"kernel": row["kernel"], "form": setup.key, "outputs": args[4].size}
    if row["probe"]:
        case["probe"] = row["probe"]
    if "problem" in row:
        return case | {"problem": row["problem"]}
    if inputs_digest(args) != row["inputs"]:
        return case | {"problem": "these are not the inputs that the device had"}
    mmalab.emulate(setup.kernel(), args, sanitize=False)
    case["compiler"] = row.get("compiler", "ptxas 13.0")
    if str(at) in held:
        case |= _differences(held[str(at)], args[4])
    wrong = (digests(args[4]) != held["digests"][at]).any(axis=1)
    if str(at) not in held or (wrong.any() and not case["mismatches"]):
        case["mismatches"] = int(wrong.sum())
        case |= {"by_mix": dict(zip(MIXES, wrong.astype(int).tolist(), strict=True))} if (
            wrong.any()) else {}
    return case


def _record(cases: list[dict[str, Any]], device: dict[str, Any], seconds: float,
            command: str) -> dict[str, Any]:
    ruled, probes = ([c for c in cases if ("probe" in c) == probe] for probe in (False, True))
    return {
        "what": "every wgmma form on the device and in the emulator, bit for bit",
        "command": command,
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"), "device": device,
        "mmalab": mmalab.__version__,
        "compilers": sorted({c["compiler"] for c in cases if "compiler" in c}),
        "kernels": len(cases), "forms": len({c["form"] for c in cases}),
        "outputs": sum(c["outputs"] for c in ruled if "mismatches" in c),
        "mismatches": sum(c.get("mismatches", 0) for c in ruled),
        "probe_outputs": sum(c["outputs"] for c in probes if "mismatches" in c),
        "probe_mismatches": sum(c.get("mismatches", 0) for c in probes),
        "not_compared": [c["kernel"] for c in cases if "mismatches" not in c],
        "seconds": round(seconds, 1), "cases": cases,
    }


if __name__ == "__main__":
    sys.exit(main())
