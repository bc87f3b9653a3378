"""ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store: matrices between memory and fragments.

Matrix j of ldmatrix has its rows where lanes ``rows * j`` and up point: each row is 16 bytes. Which
element goes to which lane is the form's fragment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmalab import formats
from mmalab.emulator.execute.memory import plain_space
from mmalab.emulator.execute.registry import executes
from mmalab.emulator.execute.traffic import observe_access
from mmalab.emulator.execute.warp import observe_collective
from mmalab.emulator.lanes import Lanes
from mmalab.emulator.program import Unused
from mmalab.isa.form import Fragment
from mmalab.numerics.fragments import from_registers, to_registers

__all__: list[str] = []

Words = NDArray[Any]
_ROW_BYTES = 16


def _providers(lanes: Lanes, fragment: Fragment) -> NDArray[np.bool_]:
    """The lanes whose addresses count."""
    return lanes.mask & (np.arange(32) < fragment.rows * fragment.batch)


@executes("ldmatrix")
def _load_matrix(lanes: Lanes) -> None:
    fragment = lanes.site.form.fragments["D"]
    providers, addresses = _providers(lanes, fragment), lanes.address(1)
    words, faults = lanes.machine.space.load(lanes.modifier("space"), addresses, 4, providers,
                                             lanes.rows, count=4)
    lanes.machine.report_faults(lanes, faults, "ldmatrix")
    rows = np.ascontiguousarray(np.moveaxis(words, 0, -1)).view(np.uint8)
    count = fragment.rows * fragment.batch
    elements = _unpacked(rows[:, :count], lanes.modifier("atype"), fragment)
    shape = (len(lanes.rows), fragment.batch, fragment.rows, fragment.cols)
    registers = to_registers(fragment, elements.reshape(shape))
    lanes.write_all(0, [registers[:, k] for k in range(registers.shape[1])])
    observe_access(lanes.subset(providers), "read", plain_space(lanes), addresses, _ROW_BYTES,
                   collective=True)
    observe_collective(lanes)


def _unpacked(rows: NDArray[np.uint8], packed: str, fragment: Fragment) -> Words:
    """[warps, rows, cols] elements of rows of 16 bytes."""
    rows = np.ascontiguousarray(rows)
    if not packed:
        return rows.view(np.uint16) if fragment.bits == 16 else rows
    bits = 6 if packed.startswith("b6") else 4
    stream = np.unpackbits(rows, axis=-1, bitorder="little")[..., : 16 * bits]
    digits = stream.reshape(*rows.shape[:-1], 16, bits).astype(np.uint8)
    values = (digits << np.arange(bits, dtype=np.uint8)).sum(axis=-1).astype(np.uint8)
    if packed == "s4":
        return np.asarray(np.where(values & 8, values | 0xF0, values).astype(np.uint8))
    # FP4 stands in the middle of its byte (bits 2 to 5), FP6 at the low end.
    return np.asarray(values << 2 if bits == 4 else values)


@executes("stmatrix")
def _store_matrix(lanes: Lanes) -> None:
    fragment = lanes.site.form.fragments["B"]
    providers, addresses = _providers(lanes, fragment), lanes.address(0)
    registers = np.stack(lanes.read_all(1), axis=1)
    matrices = np.ascontiguousarray(from_registers(fragment, registers))
    count = fragment.rows * fragment.batch
    rows = np.zeros((len(lanes.rows), 32, _ROW_BYTES), np.uint8)
    rows[:, :count] = matrices.reshape(len(lanes.rows), count, -1).view(np.uint8)
    words = np.moveaxis(rows.view(np.uint32), -1, 0)
    faults = lanes.machine.space.store(lanes.modifier("space"), addresses, 4, words, providers,
                                       lanes.rows)
    lanes.machine.report_faults(lanes, faults, "stmatrix")
    lanes.machine.version += 1
    observe_access(lanes.subset(providers), "write", plain_space(lanes), addresses, _ROW_BYTES,
                   collective=True, values=words)
    observe_collective(lanes)


@executes("movmatrix")
def _move_matrix(lanes: Lanes) -> None:
    fragments = lanes.site.form.fragments
    registers = np.stack(lanes.read_all(1), axis=1)
    moved = to_registers(fragments["D"], from_registers(fragments["A"], registers))
    lanes.write(0, moved[:, 0])
    observe_collective(lanes)


# --- wmma.load and wmma.store ---------------------------------------------------------------------

def _fragment(lanes: Lanes) -> Fragment:
    return next(iter(lanes.site.form.fragments.values()))


def _element_bits(fragment: Fragment) -> int:
    return 32 if fragment.type == "tf32" else formats.get(fragment.type).bits


def _bit_addresses(lanes: Lanes, fragment: Fragment, base: NDArray[np.uint64], stride: int,
                   ) -> NDArray[np.uint64]:
    """[slots, warps, 32] address of each element in *bits*, relative to byte 0 of memory."""
    place = fragment.coordinates()
    row, column = place[..., 0].T, place[..., 1].T
    by_row = lanes.modifier("layout") == "row"
    across = fragment.cols if by_row else fragment.rows
    if len(lanes.operands) > stride and not isinstance(lanes.operands[stride], Unused):
        pitch = lanes.read(stride).astype(np.uint64)
    else:
        pitch = np.full(lanes.mask.shape, across, np.uint64)
    major, minor = (row, column) if by_row else (column, row)
    offset = (major[:, None].astype(np.uint64) * pitch + minor[:, None].astype(np.uint64))
    return base * np.uint64(8) + offset * np.uint64(_element_bits(fragment))


@executes("wmma.load")
def _wmma_load(lanes: Lanes) -> None:
    fragment = _fragment(lanes)
    bits = _bit_addresses(lanes, fragment, lanes.address(1), 2)
    size = max(_element_bits(fragment) // 8, 1)
    slots = []
    for where in bits:
        address = where >> np.uint64(3)
        words, faults = lanes.machine.space.load(lanes.modifier("space"), address, size,
                                                 lanes.mask, lanes.rows)
        lanes.machine.report_faults(lanes, faults, "wmma.load")
        word = words[0].astype(np.uint64) >> (where & np.uint64(7))
        slots.append(word & np.uint64((1 << fragment.bits) - 1))
        observe_access(lanes, "read", plain_space(lanes), address, size, collective=True)
    lanes.write_all(0, _packed(slots, fragment))
    observe_collective(lanes)


def _packed(slots: list[NDArray[np.uint64]], fragment: Fragment) -> list[Words]:
    """Registers of the slots, slot 0 in the low bits of the first."""
    per = fragment.register_bits // fragment.bits
    registers: list[Words] = []
    for first in range(0, len(slots), per):
        whole = np.zeros_like(slots[0])
        for k, word in enumerate(slots[first : first + per]):
            whole |= word << np.uint64(k * fragment.bits)
        registers.append(whole.astype(f"u{fragment.register_bits // 8}"))
    return registers


@executes("wmma.store")
def _wmma_store(lanes: Lanes) -> None:
    fragment = _fragment(lanes)
    registers = lanes.read_all(1)
    bits = _bit_addresses(lanes, fragment, lanes.address(0), 2)
    per, size = fragment.register_bits // fragment.bits, fragment.bits // 8
    for slot, where in enumerate(bits):
        register = registers[slot // per]
        shift = register.dtype.type(slot % per * fragment.bits)
        word = (register >> shift).astype(f"u{size}")[None]
        address = where >> np.uint64(3)
        faults = lanes.machine.space.store(lanes.modifier("space"), address, size, word,
                                           lanes.mask, lanes.rows)
        lanes.machine.report_faults(lanes, faults, "wmma.store")
        observe_access(lanes, "write", plain_space(lanes), address, size, collective=True,
                       values=word)
    lanes.machine.version += 1
    observe_collective(lanes)
