"""Measure, on the GPU of this machine, where the table's fragments really live.

    python tests/isa/record_fragments.py OUT.json

Every ``mma`` form that the chip has multiplies random small integers, packed into registers by the
table's own fragments: D must be exact in every element, which no wrong fragment (and no wrong
sparse metadata: unused lanes get random words) survives. ldmatrix, stmatrix and movmatrix move
distinct values. wmma fragments are not compared but recorded: each is loaded from a matrix of
distinct values and its registers dumped. The record that the tests read is ``measured_h200.json``.

It needs a driver, numpy and nothing else: PTX is compiled by the driver.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import isa
from mmalab.isa.index import all_rows
from mmalab.isa.lookup import spellings

TRIALS = 3
Words = NDArray[np.uint32]


# --- the driver -----------------------------------------------------------------------------------


class Driver:
    """The few driver calls that a one-warp kernel needs."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self("cuInit", 0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self("cuDeviceGet", ctypes.byref(device), 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(96)
        self("cuDeviceGetName", name, 96, device)
        major, minor, version = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        self("cuDeviceGetAttribute", ctypes.byref(major), 75, device)
        self("cuDeviceGetAttribute", ctypes.byref(minor), 76, device)
        self("cuDriverGetVersion", ctypes.byref(version))
        self.name = name.value.decode()
        self.target = f"sm_{major.value}{minor.value}" + ("a" if major.value >= 9 else "")
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"

    def __call__(self, call: str, *arguments: Any) -> None:
        code = getattr(self.cuda, call)(*arguments)
        if code:
            raise RuntimeError(f"{call}: error {code}")

    def run(self, ptx: str, given: bytes, size: int, blocks: int) -> bytes:
        """Run entry ``k(in, out)`` with one warp a block; `size` bytes come back."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self("cuModuleLoadData", ctypes.byref(module), ptx.encode())
        self("cuModuleGetFunction", ctypes.byref(function), module, b"k")
        source, result = ctypes.c_uint64(), ctypes.c_uint64()
        self("cuMemAlloc_v2", ctypes.byref(source), ctypes.c_size_t(len(given)))
        self("cuMemAlloc_v2", ctypes.byref(result), ctypes.c_size_t(size))
        self("cuMemsetD8_v2", result, 0xCD, ctypes.c_size_t(size))
        self("cuMemcpyHtoD_v2", source, given, ctypes.c_size_t(len(given)))
        pointers = (ctypes.c_void_p * 2)(*(
            ctypes.cast(ctypes.byref(x), ctypes.c_void_p) for x in (source, result)))
        self("cuLaunchKernel", function, blocks, 1, 1, 32, 1, 1, 0, None, pointers, None)
        back = ctypes.create_string_buffer(size)
        self("cuMemcpyDtoH_v2", back, result, ctypes.c_size_t(size))
        self("cuMemFree_v2", source)
        self("cuMemFree_v2", result)
        self("cuModuleUnload", module)
        return back.raw


def kernel(target: str, version: tuple[int, int], body: str) -> str:
    """One-warp kernel: `in` and `out` are global addresses, `lane` and `block` the coordinates."""
    major, minor = max(version, isa.target(target).ptx, (8, 0))
    return f""".version {major}.{minor}
.target {target}
.address_size 64
.visible .entry k(.param .u64 given, .param .u64 back) {{
.shared .align 128 .b8 tile[8192];
.reg .b32 %r<256>; .reg .f64 %d<64>; .reg .b64 %in, %out, %o; .reg .b32 %lane, %block, %t, %a;
ld.param.u64 %in, [given]; ld.param.u64 %out, [back];
cvta.to.global.u64 %in, %in; cvta.to.global.u64 %out, %out;
mov.u32 %lane, %tid.x; mov.u32 %block, %ctaid.x;
{body}
ret;
}}
"""


def advance(base: str, words: int) -> str:
    """Move an address to this lane's `words` words of this block's part."""
    return (f"mad.lo.u32 %t, %block, 32, %lane; mul.wide.u32 %o, %t, {4 * words}; "
            f"add.u64 {base}, {base}, %o;\n")


# --- values ---------------------------------------------------------------------------------------

_E4M3 = {0: 0x00, 1: 0x38, 2: 0x40, 3: 0x44}


def encode(type_name: str, x: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Words of small integers (all formats hold -3 to 3 exactly)."""
    if type_name == "f64":
        return x.astype(np.float64).view(np.uint64)
    if type_name in ("f32", "tf32"):
        return x.astype(np.float32).view(np.uint32).astype(np.uint64)
    if type_name == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint64)
    if type_name in ("f16", "e5m2"):
        half = x.astype(np.float16).view(np.uint16).astype(np.uint64)
        return half if type_name == "f16" else half >> np.uint64(8)
    if type_name == "e4m3":
        table = {v: w | (0x80 if s < 0 else 0) for s in (1, -1) for m, w in _E4M3.items()
                 for v in (s * m,) if not (s < 0 and m == 0)}
        return np.vectorize(table.__getitem__, otypes=[np.uint64])(x)
    return x.view(np.uint64) & np.uint64((1 << isa.type_bits(type_name)) - 1)


def draw(rng: np.random.Generator, type_name: str, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Random small integers of a type."""
    low, high = {"b1": (0, 2)}.get(type_name, (0, 4) if type_name[0] == "u" else (-3, 4))
    return rng.integers(low, high, shape)


def pack(fragment: isa.Fragment, matrices: NDArray[np.int64]) -> Words:
    """[lanes, words] registers that hold the [batch, rows, cols] matrices."""
    flat = np.concatenate([encode(fragment.type, m).T.reshape(-1) for m in matrices])
    elements = flat[fragment.indices()]
    each = fragment.register_bits // fragment.bits
    registers = np.zeros((fragment.lanes, fragment.registers), dtype=np.uint64)
    for slot in range(fragment.slots):
        registers[:, slot // each] |= elements[:, slot] << np.uint64(slot % each * fragment.bits)
    if fragment.register_bits == 64:
        return registers.view(np.uint32)
    return registers.astype(np.uint32)


def unpack(fragment: isa.Fragment, words: Words) -> NDArray[np.float64]:
    """The [batch, rows, cols] matrices that [lanes, words] registers hold (D's types only)."""
    kinds = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "s32": np.int32}
    values = np.ascontiguousarray(words).view(kinds[fragment.type])
    flat = np.zeros(fragment.batch * fragment.rows * fragment.cols)
    flat[fragment.indices()] = values
    return flat.reshape(fragment.batch, fragment.cols, fragment.rows).transpose(0, 2, 1)


# --- mma ------------------------------------------------------------------------------------------


@dataclass
class Trial:
    """Registers of one product, and what D must be."""

    words: Words
    expected: NDArray[np.int64]


def trial(rng: np.random.Generator, form: isa.Form, selector: int | None) -> Trial:
    """One random product of a form."""
    assert form.shape is not None
    (m, n, k), f = form.shape, form.fragments
    batch = f["D"].batch
    a = draw(rng, f["A"].type, (batch, m, k))
    b = draw(rng, f["B"].type, (batch, k, n))
    c = draw(rng, f["C"].type, (batch, m, n))
    stored, extra = a, []
    if selector is not None:
        a, stored, metadata = sparsify(rng, form, a, selector)
        extra = [metadata[:, None]]
    if form.modifiers.get("op") == "xor":
        product = (a[0][:, :, None] ^ b[0][None]).sum(axis=1)[None]
    else:
        product = a @ b
    words = [pack(f["A"], stored), pack(f["B"], b), pack(f["C"], c), *extra]
    return Trial(np.concatenate(words, axis=1), product + c)


def sparsify(
    rng: np.random.Generator, form: isa.Form, a: NDArray[np.int64], selector: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Words]:
    """(A with the dropped elements zero, stored elements, metadata register of each lane)."""
    s = form.sparsity
    assert s is not None
    _, m, k = a.shape
    positions, kept = s.group // s.unit, s.kept // s.unit
    dense, stored = np.zeros_like(a), np.zeros((1, m, k // 2), dtype=np.int64)
    entries = np.zeros((m, k // 2 // s.unit), dtype=np.int64)
    for row in range(m):
        for group in range(k // s.group):
            chosen = sorted(rng.choice(positions, kept, replace=False).tolist())
            for j, position in enumerate(chosen):
                unit = group * kept + j
                entries[row, unit] = s.patterns[position and -1] if positions == 2 else position
                source = slice(*(group * s.group + (position + e) * s.unit for e in (0, 1)))
                target = slice(unit * s.unit, (unit + 1) * s.unit)
                dense[0, row, source] = stored[0, row, target] = a[0, row, source]
    lanes = rng.integers(0, 1 << 32, 32, dtype=np.uint32)
    places = s.metadata.indices().reshape((8 * s.contributors, -1), order="F")
    for contributor, held in enumerate(places):
        g, q = divmod(contributor, s.contributors)
        word = sum(int(entries[p % 16, p // 16]) << (e * s.index_bits) for e, p in enumerate(held))
        lanes[4 * g + s.contributors * selector + q] = word
    return dense, stored, lanes


def mma_body(form: isa.Form, selector: int | None, words: int) -> str:
    """PTX that loads the operands, multiplies, and stores D."""
    lines, names, offset = [advance("%in", words)], [], 0
    for role in "ABC":
        names.append([])
        for _ in range(form.fragments[role].registers):
            wide = form.fragments[role].register_bits == 64
            name = f"%{'d' if wide else 'r'}{offset}"
            lines.append(f"ld.global.{'f64' if wide else 'b32'} {name}, [%in+{4 * offset}];\n")
            names[-1].append(name)
            offset += 2 if wide else 1
    tail = ""
    if selector is not None:
        lines.append(f"ld.global.b32 %r250, [%in+{4 * offset}];\n")
        tail = f", %r250, {selector}"
    d = form.fragments["D"]
    wide = d.register_bits == 64
    result = [f"%{'d' if wide else 'r'}{offset + 1 + i}" for i in range(d.registers)]
    operands = ", ".join("{" + ", ".join(x) + "}" for x in (result, *names))
    lines.append(f"{form.key} {operands}{tail};\n")
    lines.append(advance("%out", d.registers * d.register_bits // 32))
    lines += [f"st.global.{'f64' if wide else 'b32'} [%out+{d.register_bits // 8 * i}], {name};\n"
              for i, name in enumerate(result)]
    return "".join(lines)


def exact(driver: Driver, rng: np.random.Generator, form: isa.Form) -> bool:
    """Whether the chip's D is what the table's fragments make of the registers."""
    selectors: list[int | None] = list(form.sparsity.selectors) if form.sparsity else [None]
    for selector in selectors:
        trials = [trial(rng, form, selector) for _ in range(TRIALS)]
        words = trials[0].words.shape[1]
        d = form.fragments["D"]
        size = 4 * d.registers * d.register_bits // 32 * 32
        ptx = kernel(driver.target, form.ptx, mma_body(form, selector, words))
        raw = driver.run(ptx, np.stack([t.words for t in trials]).tobytes(), TRIALS * size, TRIALS)
        back = np.frombuffer(raw, dtype=np.uint32).reshape(TRIALS, 32, -1)
        if any((unpack(d, w) != t.expected).any() for w, t in zip(back, trials, strict=True)):
            return False
    return True


# --- ldmatrix, stmatrix, movmatrix ----------------------------------------------------------------

_ROW = "mul.lo.u32 %t, %lane, 16; mov.u32 %a, tile; add.u32 %a, %a, %t;\n"


def moved(driver: Driver, form: isa.Form) -> bool:
    """Whether distinct values land where the fragment says (lane i holds the address of row i)."""
    (fragment,) = (f for name, f in form.fragments.items() if name in "DB")
    registers = [f"%r{10 + i}" for i in range(fragment.registers)]
    vector, words = "{" + ", ".join(registers) + "}", fragment.registers
    distinct = np.arange(2048, dtype=np.uint16).tobytes()
    index = fragment.indices()
    matrix, rest = np.divmod(index, 64)
    row, column = rest % 8, rest // 8
    loads = advance("%in", words) + "".join(
        f"ld.global.b32 {r}, [%in+{4 * i}];\n" for i, r in enumerate(registers))
    stores = advance("%out", words) + "".join(
        f"st.global.b32 [%out+{4 * i}], {r};\n" for i, r in enumerate(registers))
    quad, fill = "{%r0, %r1, %r2, %r3}", "{%r4, %r4, %r4, %r4}"
    if form.family == "movmatrix":
        body = loads + f"{form.key} %r10, %r10;\n" + stores
        back = np.frombuffer(driver.run(kernel(driver.target, form.ptx, body), distinct, 128, 1),
                             dtype=np.uint16).reshape(32, 2)
        source = np.zeros(64, dtype=np.int64)
        source[form.fragments["A"].indices()] = np.arange(64).reshape(32, 2)
        return bool((back == source[index]).all())
    if form.family == "ldmatrix":
        body = (_ROW + advance("%in", 4) + f"ld.global.v4.b32 {quad}, [%in];\n"
                f"st.shared.v4.b32 [%a], {quad};\nbar.sync 0;\n{form.key} {vector}, [%a];\n"
                + stores)
        raw = driver.run(kernel(driver.target, form.ptx, body), distinct, 128 * words, 1)
        held = np.frombuffer(raw, dtype=np.uint16).reshape(32, -1)
        return bool((held == (8 * matrix + row) * 8 + column).all())
    body = (_ROW + "mov.u32 %r4, -1;\n" + f"st.shared.v4.b32 [%a], {fill};\nbar.sync 0;\n" + loads
            + f"{form.key} [%a], {vector};\nbar.sync 0;\nld.shared.v4.b32 {quad}, [%a];\n"
            + advance("%out", 4) + f"st.global.v4.b32 [%out], {quad};\n")
    raw = driver.run(kernel(driver.target, form.ptx, body), distinct, 512, 1)
    memory = np.frombuffer(raw, dtype=np.uint16).reshape(32, 8)
    return bool((memory[8 * matrix + row, column] == np.arange(index.size).reshape(32, -1)).all())


# --- wmma -----------------------------------------------------------------------------------------


def image(rows: int, cols: int, bits: int, order: str, digit: int) -> bytes:
    """Memory of a matrix whose element (r, c) is `digit` (in base 2^bits) of r + rows * c."""
    index = np.arange(rows * cols).reshape(cols, rows).T
    value = (index >> (digit * bits) if bits < 16 else index).astype(np.uint64)
    value &= np.uint64((1 << min(bits, 63)) - 1)
    flat = (value if order == "row" else value.T).reshape(-1)
    if bits >= 8:
        return flat.astype(f"u{bits // 8}").tobytes()
    groups = flat.reshape(-1, 8 // bits)
    shifts = np.arange(8 // bits, dtype=np.uint64) * np.uint64(bits)
    return (groups << shifts).sum(axis=1).astype(np.uint8).tobytes()


def wmma_load(driver: Driver, form: isa.Form) -> NDArray[np.int64]:
    """[lanes, slots] of row + rows * column, as the chip fills the fragment."""
    (f,) = form.fragments.values()
    digits = 1 if f.bits >= 16 else {8: 2, 4: 3, 1: 10}[f.bits]
    images = [image(f.rows, f.cols, f.bits, form.modifiers["layout"], d) for d in range(digits)]
    wide = f.register_bits == 64
    names = [f"%{'d' if wide else 'r'}{10 + i}" for i in range(f.registers)]
    words = f.registers * f.register_bits // 32
    body = (f"mul.wide.u32 %o, %block, {len(images[0])}; add.u64 %in, %in, %o;\n"
            f"{form.key} {{{', '.join(names)}}}, [%in];\n" + advance("%out", words) + "".join(
                f"st.global.{'f64' if wide else 'b32'} [%out+{f.register_bits // 8 * i}], {n};\n"
                for i, n in enumerate(names)))
    raw = driver.run(kernel(driver.target, form.ptx, body), b"".join(images),
                     128 * words * digits, digits)
    back = np.frombuffer(raw, np.uint64 if wide else np.uint32).reshape(digits, 32, -1)
    each = f.register_bits // f.bits
    mask = np.uint64((1 << min(f.bits, 63)) - 1)
    found = np.zeros((32, f.registers * each), dtype=np.int64)
    for digit, registers in enumerate(back.astype(np.uint64)):
        parts = [(registers >> np.uint64(i * f.bits)) & mask for i in range(each)]
        found |= np.stack(parts, axis=-1).reshape(32, -1).astype(np.int64) << (digit * f.bits)
    return found


def wmma_store(driver: Driver, form: isa.Form) -> NDArray[np.int64]:
    """[lanes, slots] of row + rows * column, as the chip stores the fragment."""
    (f,) = form.fragments.values()
    each, wide = f.register_bits // f.bits, f.register_bits == 64
    distinct = np.arange(32 * f.slots, dtype=np.uint64).reshape(32, f.registers, each)
    shifts = np.arange(each, dtype=np.uint64) * np.uint64(f.bits)
    registers = (distinct << shifts).sum(axis=-1).astype(np.uint64 if wide else np.uint32)
    names = [f"%{'d' if wide else 'r'}{10 + i}" for i in range(f.registers)]
    body = advance("%in", f.registers * f.register_bits // 32) + "".join(
        f"ld.global.{'f64' if wide else 'b32'} {n}, [%in+{f.register_bits // 8 * i}];\n"
        for i, n in enumerate(names)) + f"{form.key} [%out], {{{', '.join(names)}}};\n"
    raw = driver.run(kernel(driver.target, form.ptx, body), registers.tobytes(),
                     f.rows * f.cols * f.bits // 8, 1)
    memory = np.frombuffer(raw, dtype=f"u{f.bits // 8}").astype(np.int64)
    by_row = form.modifiers["layout"] == "row"
    matrix = memory.reshape(f.rows, f.cols) if by_row else memory.reshape(f.cols, f.rows).T
    found = np.full(32 * f.slots, -1)
    found[matrix] = np.arange(f.rows)[:, None] + f.rows * np.arange(f.cols)
    return found.reshape(32, -1)


# --- everything -----------------------------------------------------------------------------------


def forms(heads: tuple[str, ...], target: str) -> Iterator[isa.Form]:
    """The forms of some heads that the target has, without rounding and saturation variants."""
    seen = set()
    for row in all_rows():
        if row.head not in heads:
            continue
        for key in spellings(row, 400):
            form = isa.find(key)
            plain = not {"satfinite", "rounding"} & set(form.modifiers)
            here = target in isa.parse_targets(form.targets) and form.ptx <= (9, 0)
            where = form.modifiers.get("space", "global" if row.head == "wmma" else "shared")
            if plain and here and key not in seen and where in ("global", "shared"):
                seen.add(key)
                if row.head == "wmma" and "operand" in form.modifiers:
                    *front, element = key.split(".")
                    if "space" not in form.modifiers:
                        form = isa.find(".".join((*front, "global", element)))
                yield form


def record(driver: Driver, seed: int) -> dict[str, Any]:
    """The measured record, and what failed."""
    rng = np.random.default_rng(seed)
    good, bad = [], []
    for form in forms(("mma",), driver.target):
        (good if exact(driver, rng, form) else bad).append(form.key)
    for form in forms(("ldmatrix", "stmatrix", "movmatrix"), driver.target):
        (good if moved(driver, form) else bad).append(form.key)
    groups: dict[tuple[str, ...], set[str]] = {}
    for form in forms(("wmma",), driver.target):
        if form.family == "wmma.mma" or form.modifiers.get("space") != "global":
            continue
        index = (wmma_load if form.family == "wmma.load" else wmma_store)(driver, form)
        lines = tuple(" ".join(map(str, lane)) for lane in index.tolist())
        groups.setdefault(lines, set()).add(form.key)
    return {
        "device": driver.name, "cuda": driver.version, "target": driver.target,
        "date": datetime.now(UTC).date().isoformat(), "seed": seed,
        "command": "python tests/isa/record_fragments.py OUT.json",
        "exact": sorted(good), "wrong": sorted(bad),
        "wmma": [{"forms": sorted(keys), "index": list(lines)} for lines, keys in groups.items()],
    }


def main() -> None:
    found = record(Driver(), seed=20261130)
    Path(sys.argv[1]).write_text(json.dumps(found, indent=0) + "\n", encoding="utf-8")
    print(found["device"], len(found["exact"]), "exact,", len(found["wrong"]), "wrong")
    print("\n".join(found["wrong"]))


if __name__ == "__main__":
    main()
