"""Random wgmma operations in shared memory, and what they should give, computed the slow way.

A case is an operand image, descriptors and register words for :func:`mmalab.kernels.one_wgmma`. The
expected result fetches every element of A and B by a formula of its own (no layout objects, no
chunks), and multiplies with :func:`mmalab.numerics.reference.multiply`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.isa import find
from mmalab.kernels.one_wgmma import one_wgmma
from mmalab.numerics import unit_for
from mmalab.numerics.reference import multiply, multiply_rows

ROW_BYTES = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
PREFIX = "wgmma.mma_async.sync.aligned."


@dataclass
class Tile:
    """An operand in shared memory: where, and how it lies."""

    start: int
    lbo: int
    sbo: int
    swizzle: str
    major: str
    base_offset: int = 0

    @property
    def word(self) -> int:
        """The descriptor."""
        return (self.start >> 4 | (self.lbo >> 4) << 16 | (self.sbo >> 4) << 32
                | self.base_offset << 49 | CODES[self.swizzle] << 62)

    def bit_address(self, mn: Any, k: Any, bits: int) -> Any:
        """The bit at which element (mn, k) lies, by the closed formula; integers or arrays."""
        row, unit = ROW_BYTES[self.swizzle], 128 // bits
        if self.major == "K":
            chunk, inner = k // unit, row // 16
            offset = mn % 8 * row + mn // 8 * self.sbo + chunk // inner * self.lbo
            offset += chunk % inner * 16
            low = k % unit
        elif self.swizzle == "none":
            offset, low = mn // unit * self.sbo + k % 8 * 16 + k // 8 * self.lbo, mn % unit
        else:
            wide = row * 8 // bits
            offset = mn // wide * self.lbo + k % 8 * row + k // 8 * self.sbo
            offset, low = offset + mn % wide // unit * 16, mn % unit
        address = self.start + offset
        phase = address - (self.base_offset << 7) >> 7
        address ^= (phase & (row // 16 - 1)) << 4
        return address * 8 + low * bits


def read_tile(image: NDArray[np.uint8], tile: Tile, mn: int, k: int, type_: str) -> NDArray[Any]:
    """[mn, k] words of an operand."""
    bits = formats.get(type_).bits
    at = tile.bit_address(np.arange(mn)[:, None], np.arange(k), bits)
    if bits == 1:
        return np.asarray(image[at // 8] >> at % 8 & 1)
    raw = image[(at // 8)[..., None] + np.arange(bits // 8)]
    return np.asarray(np.ascontiguousarray(raw).view(formats.get(type_).dtype)[..., 0])


def dense(major: str, swizzle: str, start: int, mn: int, k: int, bits: int) -> Tile:
    """A tile without gaps."""
    row = ROW_BYTES[swizzle]
    if major == "K":
        if swizzle == "none":
            return Tile(start, 128, 128 * (k * bits // 128), swizzle, major)
        # A K longer than a row goes on behind the last rows.
        return Tile(start, 16 if k * bits <= 8 * row else mn * row, 8 * row, swizzle, major)
    if swizzle == "none":
        return Tile(start, 128 * (mn * bits // 128), 128, swizzle, major)
    atoms = -(-mn * bits // (8 * row))
    return Tile(start, 8 * row, 8 * row * atoms, swizzle, major)


def random_words(type_: str, shape: tuple[int, ...], rng: np.random.Generator,
                 mix: str) -> NDArray[Any]:
    """`bits`: any pattern; `normal`: N(0, 1); `ladder`: exponents far apart, signs mixed."""
    fmt = formats.get(type_)
    raw = rng.integers(0, 256, (*shape, fmt.dtype.itemsize), np.uint8).view(fmt.dtype)[..., 0]
    if mix == "bits" or type_ in ("s8", "u8", "b1", "s32"):
        return np.asarray(raw & 1 if type_ == "b1" else raw)
    scale = 1.0 if mix == "normal" else 2.0 ** rng.integers(-14, 14, shape)
    values = (rng.standard_normal(shape) * scale).astype(np.float32)
    if type_ in ("f32", "tf32"):
        return values.view(np.uint32)
    limit = {"e4m3": 448.0, "e5m2": 57344.0, "f16": 60000.0}.get(type_, 3e38)
    clipped = np.clip(values, -limit, limit)
    return np.asarray(clipped.astype(formats.dtype_of(type_)).view(fmt.dtype))


@dataclass
class Setup:
    """One form with its literals and tiles."""

    key: str
    a: Tile | None
    b: Tile
    image: int
    options: dict[str, Any] = field(default_factory=dict)

    def kernel(self, cases: int) -> Any:
        """The kernel that executes it, a CTA a case."""
        names = {"negate_a", "negate_b", "selector"}
        return one_wgmma(
            self.key, cases=cases, image=self.image, a_in_registers=self.a is None,
            transpose_a=self.a is not None and self.a.major == "MN",
            transpose_b=self.b.major == "MN",
            **{name: value for name, value in self.options.items() if name in names})


def arguments(setup: Setup, cases: int, rng: np.random.Generator, mix: str = "normal",
              ) -> list[NDArray[Any]]:
    """Fresh arguments of the kernel; the output is poison."""
    form, kernel = find(setup.key), setup.kernel(cases)
    atype = form.modifiers["atype"]
    size = kernel.facts["image"]
    per = formats.get(form.modifiers["btype"])
    if atype == "b1":
        image = rng.integers(0, 256, (cases, size), np.uint8)
    else:
        half = size // 2 // per.dtype.itemsize
        parts = [random_words(form.modifiers[f"{side}type"], (cases, half), rng, mix)
                 for side in "ab"]
        image = np.concatenate([np.ascontiguousarray(p).view(np.uint8).reshape(cases, -1)
                                for p in parts], axis=1)
    d = form.fragments["D"]
    words = random_words(form.modifiers["dtype"], (cases, 128, d.slots), rng, mix)
    start = np.ascontiguousarray(words).view(np.uint32).reshape(cases, 128, d.registers)
    found: list[NDArray[Any]] = [
        image, np.array([[setup.a.word if setup.a else 0, setup.b.word]] * cases, np.uint64),
        rng.integers(0, 4, cases).astype(np.uint32), start.swapaxes(1, 2).copy(),
        np.full((cases, d.registers, 128), 0xFFFFFFFF, np.uint32)]
    if setup.a is None:
        found.append(_a_registers(form, cases, rng, mix))
    if form.sparsity is not None:
        found.append(_metadata(form, cases, rng))
    return found


def _a_registers(form: Any, cases: int, rng: np.random.Generator, mix: str) -> NDArray[Any]:
    a = form.fragments["A"]
    type_ = form.modifiers["atype"]
    if type_ == "b1":
        return rng.integers(0, 1 << 32, (cases, a.registers, 128), np.uint32)
    words = random_words(type_, (cases, 128, a.slots), rng, mix)
    packed = np.ascontiguousarray(words).view(np.uint32).reshape(cases, 128, a.registers)
    return np.ascontiguousarray(packed.swapaxes(1, 2))


def _metadata(form: Any, cases: int, rng: np.random.Generator) -> NDArray[Any]:
    patterns = np.array(form.sparsity.patterns, np.uint32)
    nibbles = patterns[rng.integers(0, len(patterns), (cases, 128, 8))]
    return np.bitwise_or.reduce(nibbles << (4 * np.arange(8, dtype=np.uint32)), axis=-1)


def expected(setup: Setup, args: list[NDArray[Any]], target: str = "sm_90a") -> NDArray[Any]:
    """The output words, case by case."""
    return np.stack([_one(setup, [arg[case] for arg in args], target)
                     for case in range(len(args[0]))])


def place(coordinate: NDArray[np.int64], w: NDArray[np.int64], lane: NDArray[np.int64],
          bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(row, column) of A's element i in registers, by the closed formulas."""
    g, t, i = lane >> 2, lane & 3, coordinate
    if bits == 32:
        return 16 * w + g + 8 * (i & 1), t + 4 * (i >> 1)
    if bits == 16:
        return 16 * w + g + 8 * (i >> 1 & 1), 2 * t + (i & 1) + 8 * (i >> 2)
    if bits == 8:
        return 16 * w + g + 8 * (i >> 2 & 1), 4 * t + (i & 3) + 16 * (i >> 3)
    return 16 * w + g + 8 * (i >> 5 & 1), 32 * t + (i & 31) + 128 * (i >> 6)


def _one(setup: Setup, args: list[NDArray[Any]], target: str) -> NDArray[Any]:
    form = find(setup.key)
    _, n, k = form.shape or (0, 0, 0)
    stored = k // 2 if form.sparsity else k
    atype, btype, dtype = (form.modifiers[name] for name in ("atype", "btype", "dtype"))
    image, scale, start = args[0], int(args[2]), args[3]
    if setup.a is None:
        a = _unpack(args[5], atype, stored)
    else:
        a = read_tile(image, setup.a, 64, stored, atype)
    b = read_tile(image, setup.b, n, k, btype)
    a, b = (x ^ x.dtype.type(1 << formats.get(t).bits - 1) if setup.options.get(f"negate_{s}")
            else x for s, x, t in (("a", a, atype), ("b", b, btype)))
    rows, columns, words = _accumulators(start, n, dtype)
    c = np.zeros((64, n), words.dtype)
    if scale:
        c[rows, columns] = words
    unit = unit_for(target, form.family, form.modifiers)
    with np.errstate(all="ignore"):
        if form.sparsity is None:
            d = multiply(unit, a, b.T, c, k=k)
        else:
            where = logical_k(form, args[-1], setup.options.get("selector", 0), stored)
            met = b.T[where].swapaxes(1, 2)  # [64, stored, n] -> [64, n, stored]
            d = multiply_rows(unit, a, met, c, k=stored)
    return _repack(d[rows, columns], start.shape)


def _unpack(registers: NDArray[Any], type_: str, stored: int) -> NDArray[Any]:
    bits, dtype = formats.get(type_).bits, formats.get(type_).dtype
    found = np.zeros((64, stored), dtype)
    for thread in range(128):
        column = np.ascontiguousarray(registers[:, thread])
        own = (np.unpackbits(column.view(np.uint8), bitorder="little") if bits == 1
               else column.view(dtype))
        i = np.arange(len(own))
        found[place(i, i * 0 + thread // 32, i * 0 + thread % 32, bits)] = own
    return found


def _accumulators(registers: NDArray[Any], n: int, dtype: str,
                  ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, columns and words of D's elements, [128, slots]."""
    kind = formats.get(dtype).dtype
    words = np.ascontiguousarray(registers.T).view(kind)
    thread, i = np.arange(128)[:, None], np.arange(n // 2)
    rows = 16 * (thread >> 5) + (thread & 31) // 4 + 8 * (i >> 1 & 1)
    columns = 8 * (i >> 2) + 2 * (thread & 3) + (i & 1)
    return rows, columns, words


def _repack(words: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    packed = np.ascontiguousarray(words).view(np.uint32).reshape(128, shape[0])
    return np.ascontiguousarray(packed.T)


def logical_k(form: Any, metadata: NDArray[Any], selector: int, stored: int) -> NDArray[np.int64]:
    """[64, stored]: the k of each stored element, by the formulas of the ISA chapter."""
    found = np.zeros((64, stored), np.int64)
    bits = formats.get(form.modifiers["atype"]).bits
    for row in range(64):
        g = row % 8
        for c in range(stored):
            if bits == 16:  # lane pair element q has 16 k: 8 stored
                lane = 4 * g + 2 * selector + c // 8
                field = int(metadata[row // 16 * 32 + lane]) >> (16 * (row % 16 // 8) + c % 8 * 2)
                found[row, c] = c // 2 * 4 + (field & 3)
            elif bits == 8:  # 32 k: 16 stored, row g + 8 in the odd lane
                lane = 4 * g + row % 16 // 8 + 2 * (c // 16)
                found[row, c] = c // 2 * 4 + (
                    int(metadata[row // 16 * 32 + lane]) >> c % 16 * 2 & 3)
            else:  # tf32: 4 bits a pair; 8 k: 4 stored in a lane
                lane = 4 * g + 2 * selector + c // 4
                field = int(metadata[row // 16 * 32 + lane]) >> (16 * (row % 16 // 8) + c % 4 * 4)
                found[row, c] = c * 2 + (field >> 2 & 3 == 3)
    return found
