"""Record what the CUDA driver makes of tensor-map requests: 128 bytes, or its refusal.

    python tools/gpu_tensormaps.py --out records/h200/tensormaps.json

`cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` are host code of libcuda, so one machine with
a driver answers for all. Each request changes one or two things of a plain one: every type under
every swizzle and interleave, ranks, sizes, strides, boxes, corners, at the limits and one beyond;
then seeded random requests mix them. tests/tensormap replays the record: our encoder must give the
driver's bytes, and must refuse what the driver refuses. Needs libcuda alone (no mmalab, no GPU
memory): addresses are numbers that are never followed.

A case is ``{"kind", "dtype", "address", "dims", "strides", "box", ..., "bytes" | "error"}``: sizes
innermost first, in elements, strides in bytes; ``bytes`` is hexadecimal without the zero bytes at
its end. Only what differs from the ``plain`` request of its kind is written. Values that no name
stands for are numbers of the driver's enumerations.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import itertools
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Names in the order of the driver's enumerations.
DTYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32",
          "tf32.ftz", "b4x16", "b4x16_p64", "b6x16_p32")
INTERLEAVE = ("none", "16B", "32B")
SWIZZLE = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
PROMOTION = ("none", "64B", "128B", "256B")
FILL = ("zero", "nan")
#: Bits of one element in global memory.
BITS = (8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6)

Case = dict[str, Any]

#: What one request changes.
TILED: Case = {
    "kind": "tiled", "dtype": "f16", "address": 0x7F0123456780, "dims": [256, 128],
    "strides": [512], "box": [32, 64], "element_strides": [1, 1], "interleave": "none",
    "swizzle": "none", "promotion": "none", "fill": "zero",
}
IM2COL: Case = {
    "kind": "im2col", "dtype": "f16", "address": 0x7F0123456780, "dims": [64, 20, 10, 4],
    "strides": [128, 2560, 25600], "lower": [-1, -2], "upper": [1, 2], "channels": 32,
    "pixels": 64, "element_strides": [1, 1, 1, 1], "interleave": "none", "swizzle": "none",
    "promotion": "none", "fill": "zero",
}
PLAIN = {"tiled": TILED, "im2col": IM2COL}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--random", type=int, default=300, help="random requests")
    options = parser.parse_args()
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as failed:
        print(f"the CUDA driver: cannot be used: {failed}", file=sys.stderr)
        return 2
    version = ctypes.c_int()
    if cuda.cuInit(0):
        print("the CUDA driver: cuInit fails", file=sys.stderr)
        return 2
    cuda.cuDriverGetVersion(ctypes.byref(version))
    context = ctypes.c_void_p()
    if cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cuda.cuCtxSetCurrent(context):
        print("device 0: no context, without which the driver encodes nothing", file=sys.stderr)
        return 2
    seen: set[str] = set()
    cases = []
    for case in itertools.chain(tiled(), im2col(), mixed(options.seed, options.random)):
        key = json.dumps(case, sort_keys=True)
        if key not in seen:
            seen.add(key)
            cases.append(case | encode(cuda, case))
    record = {
        "what": "tensor maps as the driver encodes or refuses them",
        "command": " ".join(["tools/gpu_tensormaps.py", *sys.argv[1:]]),
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"), "seed": options.seed,
        "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}", **_device(cuda),
        "encoded": sum("bytes" in case for case in cases), "plain": PLAIN, "cases": cases,
    }
    head = json.dumps({k: v for k, v in record.items() if k != "cases"}, indent=1)[:-2]
    rows = ",\n".join("  " + json.dumps(_difference(case), separators=(",", ":"))
                      for case in cases)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(f'{head},\n "cases": [\n{rows}\n ]\n}}\n')
    print(f"{record['encoded']} of {len(cases)} requests encoded, seed {options.seed}")
    return 0


def _difference(case: Case) -> Case:
    plain = PLAIN[case["kind"]]
    return {key: value for key, value in case.items()
            if key == "kind" or plain.get(key, ...) != value}


def _device(cuda: Any) -> Case:
    name, major, minor, device = (ctypes.create_string_buffer(256), *(ctypes.c_int()
                                                                      for _ in range(3)))
    if cuda.cuDeviceGet(ctypes.byref(device), 0):
        return {"device": None}
    cuda.cuDeviceGetName(name, 256, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(major), 75, device)
    cuda.cuDeviceGetAttribute(ctypes.byref(minor), 76, device)
    try:
        driver = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split("  ")[1]
    except (OSError, IndexError):
        driver = "unknown"
    return {"device": name.value.decode(), "capability": f"{major.value}.{minor.value}",
            "driver": driver}


def encode(cuda: Any, case: Case) -> Case:
    """Ask the driver: ``{"bytes": ...}`` or ``{"error": ...}``."""
    memory = ctypes.create_string_buffer(192)
    place = ctypes.addressof(memory) + 63 & ~63
    rank = len(case["dims"])
    head = (ctypes.c_void_p(place), _code(case["dtype"], DTYPES), ctypes.c_uint(rank),
            ctypes.c_void_p(case["address"]), _array(ctypes.c_uint64, case["dims"]),
            _array(ctypes.c_uint64, case["strides"]))
    steps = _array(ctypes.c_uint32, case["element_strides"])
    tail = tuple(_code(case[key], names) for key, names in (
        ("interleave", INTERLEAVE), ("swizzle", SWIZZLE), ("promotion", PROMOTION),
        ("fill", FILL)))
    if case["kind"] == "tiled":
        status = cuda.cuTensorMapEncodeTiled(*head, _array(ctypes.c_uint32, case["box"]), steps,
                                             *tail)
    else:
        status = cuda.cuTensorMapEncodeIm2col(
            *head, _array(ctypes.c_int, case["lower"]), _array(ctypes.c_int, case["upper"]),
            ctypes.c_uint32(case["channels"]), ctypes.c_uint32(case["pixels"]), steps, *tail)
    if status:
        words = ctypes.c_char_p()
        cuda.cuGetErrorName(status, ctypes.byref(words))
        return {"error": (words.value or b"?").decode()}
    return {"bytes": ctypes.string_at(place, 128).rstrip(b"\0").hex()}


def _code(value: str | int, names: tuple[str, ...]) -> ctypes.c_int:
    return ctypes.c_int(value if isinstance(value, int) else names.index(value))


def _array(kind: Any, values: list[int]) -> Any:
    # Longer than needed: what the driver reads beyond a wrong rank is zero, not stray memory.
    return (kind * 8)(*values)


def with_rank(rank: int, **change: Any) -> Case:
    """The plain tiled request, of another rank: sizes 64, 9, 8, 7, 6."""
    sizes = [64, 9, 8, 7, 6, 5][:rank]
    dtype = change.get("dtype", "f16")
    row = 64 * BITS[DTYPES.index(dtype)] // 8 if isinstance(dtype, str) else 128
    strides = list(itertools.accumulate(sizes[1:-1], lambda a, b: a * b, initial=row))
    case = TILED | {"dims": sizes, "strides": strides[:max(rank - 1, 0)],
                    "box": [16, 3, 2, 2, 2, 2][:rank], "element_strides": [1] * rank}
    return case | change


def tiled() -> Iterator[Case]:
    """Tiled requests, each near the plain one."""
    yield TILED
    yield from _types_and_modes()
    yield from (with_rank(rank, interleave=mode) for rank in range(7) for mode in INTERLEAVE)
    yield from (TILED | {"promotion": p, "fill": f}
                for p in (*PROMOTION, 4, 7) for f in (*FILL, 2))
    yield from (with_rank(3, dtype=dtype, fill="nan") for dtype in DTYPES)
    yield from (TILED | {"dtype": code} for code in (16, 17, 31, -1))
    yield from (TILED | {"interleave": 3}, TILED | {"swizzle": 7}, TILED | {"swizzle": 8})
    yield from _addresses_and_strides()
    yield from _sizes()
    yield from _padded_types()


def _types_and_modes() -> Iterator[Case]:
    """Every type under every swizzle and interleave, inner boxes of 16 to 256 bytes."""
    for dtype, swizzle, mode in itertools.product(DTYPES, SWIZZLE, INTERLEAVE):
        bits = BITS[DTYPES.index(dtype)]
        for wide in (16, 32) if mode != "none" else (32,):
            if dtype[0] != "b" or dtype == "bf16":
                yield with_rank(3, dtype=dtype, swizzle=swizzle, interleave=mode,
                                box=[wide * 8 // bits, 3, 2], address=0x7F0123456800)
    for dtype, swizzle, wide in itertools.product(("u8", "f16", "f32", "u64"), SWIZZLE,
                                                  (8, 16, 24, 32, 48, 64, 128, 144, 256)):
        inner = wide * 8 // BITS[DTYPES.index(dtype)]
        yield TILED | {"dtype": dtype, "swizzle": swizzle, "box": [inner, 8],
                       "dims": [4096, 128], "strides": [32768]}


def _addresses_and_strides() -> Iterator[Case]:
    for low in (0, 1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 2**47, 2**48, 2**49,
                2**52, 2**56, 2**57, 2**63):
        for mode in INTERLEAVE:
            base = low if low > 128 else 0x7F0123456000 + low
            yield with_rank(3, interleave=mode, swizzle="32B" if mode == "32B" else "none",
                            address=base)
    yield TILED | {"address": 0}
    for stride in (0, 1, 8, 16, 24, 32, 496, 512, 520, 528, 544, 1 << 20, 1 << 36, (1 << 36) - 16,
                   1 << 39, (1 << 40) - 16, (1 << 40) - 32, 1 << 40, (1 << 40) + 16, 1 << 41):
        yield TILED | {"strides": [stride]}
        for mode in INTERLEAVE[1:]:
            yield with_rank(3, interleave=mode, swizzle="32B" if mode == "32B" else "none",
                            strides=[stride, max(stride, 128) * 16])
    for high in itertools.product((1, 2), repeat=4):
        strides = [(0x123456 + at) * 16 + (at + bit << 36) for at, bit in enumerate(high)]
        yield with_rank(5, strides=strides)
    yield with_rank(3, strides=[4096, 128])
    yield with_rank(3, strides=[4096, 4096])


def _sizes() -> Iterator[Case]:
    for at in range(5):
        for size in (0, 1, 2, 255, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**33):
            yield _placed("dims", at, size)
        for size in (0, 1, 2, 3, 8, 9, 16, 17, 24, 128, 255, 256, 257, 512):
            yield _placed("box", at, size)
        for size in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16):
            yield _placed("element_strides", at, size)
    for e0, e1, wide in itertools.product((1, 2, 3, 8), (1, 3, 8), (8, 16, 64, 128, 256)):
        yield TILED | {"box": [wide, 8], "element_strides": [e0, e1], "dims": [4096, 128],
                       "strides": [8192]}
    for e0, mode in itertools.product((1, 2, 3, 8), INTERLEAVE[1:]):
        yield with_rank(4, interleave=mode, swizzle="32B" if mode == "32B" else "none",
                        element_strides=[e0, 2, 1, 1])
    # 113 and 114 KiB, 227 and 228 KiB: what a block may have.
    yield from (with_rank(3, dtype="u8", box=[256, 4, tall], swizzle="none", dims=[512] * 3,
                          strides=[512, 2**18]) for tall in (113, 114, 127, 128, 129, 226, 227,
                                                             228, 229, 255, 256))
    yield from (with_rank(3, dtype="u8", box=[16 * wide, 4, 227], dims=[512] * 3,
                          strides=[512, 2**18]) for wide in (14, 15, 16))
    for box in ([64, 256], [128, 256], [256, 256], [256, 256, 2], [256, 256, 256, 256, 256]):
        rank = len(box)
        yield with_rank(rank, dtype="u8", box=box, dims=[512] * rank,
                        strides=[512 ** (i + 1) for i in range(rank - 1)])


def _placed(key: str, at: int, value: int) -> Case:
    case = with_rank(5)
    case[key] = [*case[key][:at], value, *case[key][at + 1:]]
    return case


def _padded_types() -> Iterator[Case]:
    """Four-bit and six-bit types have rules of their own."""
    plain = {"address": 0x7F0123456800, "dims": [512, 64], "strides": [256], "box": [128, 8]}
    for dtype, swizzle, mode in itertools.product(DTYPES[13:], SWIZZLE, INTERLEAVE):
        row = 512 * BITS[DTYPES.index(dtype)] // 8
        here = TILED | plain | {"dtype": dtype, "swizzle": swizzle, "strides": [row]}
        if mode == "none":
            yield here
        else:
            yield here | {"interleave": mode, "dims": [512, 64, 2], "strides": [row, 64 * row],
                          "box": [128, 8, 1], "element_strides": [1, 1, 1]}
    for dtype in DTYPES[13:]:
        row = 512 * BITS[DTYPES.index(dtype)] // 8
        here = TILED | plain | {"dtype": dtype, "strides": [row]}
        yield from (here | {"box": [wide, 8]} for wide in (16, 32, 48, 64, 96, 112, 256))
        yield from (here | {"dims": [wide, 64]} for wide in (1, 2, 3, 64, 127, 128, 129, 192, 256))
        yield from (here | {"address": 0x7F0123456000 + low} for low in (8, 16, 32, 48))
        yield from (here | {"strides": [row + more]} for more in (8, 16, 32, 48))
        yield here | {"fill": "nan"}
        yield here | {"element_strides": [2, 1]}
        yield here | {"element_strides": [1, 2]}


def im2col_with(rank: int, **change: Any) -> Case:
    """The plain im2col request, of another rank."""
    sizes = [*[64, 20, 10, 9, 4, 3][:rank - 1], 4]
    case = IM2COL | {
        "dims": sizes[:rank], "element_strides": [1] * rank,
        "strides": list(itertools.accumulate(sizes[1:rank - 1], lambda a, b: a * b, initial=128)),
        "lower": [-1] * max(rank - 2, 0), "upper": [1] * max(rank - 2, 0)}
    return case | change


def im2col() -> Iterator[Case]:
    """Requests for im2col maps, each near the plain one."""
    yield IM2COL
    yield from (im2col_with(rank, interleave=mode, swizzle="32B" if mode == "32B" else "none")
                for rank in range(2, 7) for mode in INTERLEAVE)
    for swizzle, dtype in itertools.product(SWIZZLE, ("u8", "f16", "f32", "f64", "b4x16",
                                                      "b4x16_p64", "b6x16_p32")):
        bits = BITS[DTYPES.index(dtype)]
        padded = dtype[0] == "b"
        size = 256 if padded else 64
        yield im2col_with(4, dtype=dtype, swizzle=swizzle, address=0x7F0123456800,
                          channels=128 if padded else 256 // bits, dims=[size, 20, 10, 4],
                          strides=[size * bits // 8 * n for n in (1, 20, 200)])
    yield from (IM2COL | {"promotion": p, "fill": f} for p in PROMOTION for f in FILL)
    yield from (IM2COL | {"channels": n} for n in (0, 1, 2, 8, 12, 16, 64, 128, 255, 256, 257))
    yield from (IM2COL | {"pixels": n} for n in (0, 1, 2, 255, 256, 257, 512, 1023, 1024, 1025))
    corners = {3: (-32769, -32768, -32767, -1, 0, 1, 32767, 32768),
               4: (-129, -128, -127, -1, 0, 1, 127, 128),
               5: (-17, -16, -15, -1, 0, 1, 15, 16)}
    for rank, values in corners.items():
        for at, value, key in itertools.product(range(rank - 2), values, ("lower", "upper")):
            case = im2col_with(rank)
            other = [0] * (rank - 2)
            other[at] = value
            yield case | {"lower": [0] * (rank - 2), "upper": [0] * (rank - 2)} | {key: other}
    yield from (IM2COL | {"lower": [a, b], "upper": [c, d]} for a, b, c, d in
                ((0, 0, -20, 0), (0, 0, -19, 0), (5, 5, -5, -5), (-128, -128, 127, 127),
                 (1, 2, 3, 4), (-3, -5, -7, -9), (0, 0, 0, -10), (30, 0, 0, 0)))
    for at, step in itertools.product(range(4), (0, 1, 2, 3, 8, 9)):
        steps = [1] * 4
        steps[at] = step
        yield IM2COL | {"element_strides": steps}
    yield from (IM2COL | {"address": 0x7F0123456000 + low} for low in (8, 16, 32))
    for at, step in itertools.product(range(5), (2, 3, 8)):
        steps = [1] * 5
        steps[at] = step
        yield im2col_with(5, element_strides=steps)
    yield from (im2col_with(rank, channels=c, pixels=p) for rank in (3, 4, 5) for c, p in (
        (64, 512), (64, 768), (128, 512), (256, 227), (256, 228), (128, 1024), (256, 1024)))
    yield from (im2col_with(5, lower=low, upper=high) for low, high in (
        ([1, 2, 3], [4, 5, 6]), ([-4, -5, -6], [-1, -2, -3]), ([-16] * 3, [15] * 3),
        ([-3, 6, 6], [11, -1, 14]), ([15, -12, 2], [8, 10, 5])))
    yield from (im2col_with(5, interleave=mode, swizzle="32B", channels=c, element_strides=steps)
                for mode in INTERLEAVE for c in (16, 24, 48)
                for steps in ([1] * 5, [7, 2, 3, 1, 6], [3, 5, 4, 8, 8]))


def mixed(seed: int, count: int) -> Iterator[Case]:
    """Random requests; most are legal, since every value is taken from a mostly legal list."""
    rng = random.Random(seed)  # noqa: S311  (inputs, not secrets)
    for _ in range(count):
        dtype = rng.choice(DTYPES[:13])
        size = BITS[DTYPES.index(dtype)] // 8
        rank = rng.randint(1, 5)
        mode = rng.choice(("none", "none", "none", *INTERLEAVE))
        swizzle = "32B" if mode == "32B" else rng.choice(SWIZZLE)
        span = {"none": 128, "32B": 32, "64B": 64}.get(swizzle, 128)
        dims = [rng.choice((1, 7, 64, rng.randint(1, 2**32))) for _ in range(rank)]
        strides, least = [], dims[0] * size
        for extent in dims[1:]:
            strides.append(min(-(-least // 32) * 32 + 32 * rng.randint(0, 3), (1 << 40) - 32))
            least = strides[-1] * extent
        case = TILED | {
            "dtype": dtype, "dims": dims, "strides": strides, "swizzle": swizzle,
            "interleave": mode, "address": rng.randrange(1 << 40) << 7,
            "promotion": rng.choice(PROMOTION), "fill": rng.choice(FILL),
            "element_strides": [rng.randint(1, 8) for _ in range(rank)]}
        if rank >= 3 and rng.random() < 0.4:
            bits = {3: 15, 4: 7, 5: 4}[rank]
            low, high = -(1 << bits), (1 << bits) - 1
            del case["box"]
            yield case | {"kind": "im2col",
                          "lower": [rng.randint(low, high) for _ in range(rank - 2)],
                          "upper": [rng.randint(low, high) for _ in range(rank - 2)],
                          "channels": rng.randint(1, span // size) * 16 // size or 1,
                          "pixels": rng.randint(1, 1024)}
        else:
            inner = 16 * rng.randint(1, span // 16) // size
            yield case | {"box": [inner, *(rng.randint(1, 256) for _ in dims[1:])]}


if __name__ == "__main__":
    sys.exit(main())
