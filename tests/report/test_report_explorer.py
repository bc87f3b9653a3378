"""What the explorer looks up is what the rows and planners answer, on random samples."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from mmalab import isa
from mmalab.errors import UsageError
from mmalab.isa.tensor_memory import data_path, warp_lanes
from mmalab.plan import banks
from mmalab.plan.smem import stage_plan
from mmalab.plan.tmem import ledger
from mmalab.report import Report
from mmalab.report.explorer import access, boxes, fragments, plans
from mmalab.tensormap import TensorMap, arrange

SAMPLES = 60


@pytest.fixture(scope="module")
def rng() -> np.random.Generator:
    return np.random.default_rng()


def operands(made: Report) -> list[tuple[str, str, dict[str, Any]]]:
    return [(row["family"], row["form"], operand) for row in made.explorer["fragments"]
            for operand in row["operands"]]


def test_fragments_equal_the_rows(made: Report, rng: np.random.Generator) -> None:
    """A random thread and slot of every operand: element, register, bits, as isa answers."""
    for family, form, operand in operands(made):
        if family == "tcgen05":
            continue
        index = fragments.unpack(operand["index"])
        width = len(operand["slots"])
        assert len(index) == operand["threads"] * width
        for _ in range(8):
            thread, slot = int(rng.integers(operand["threads"])), int(rng.integers(width))
            [place] = isa.places(form, operand["operand"], lane=thread, slot=slot)
            element = index[thread * width + slot]
            size = operand["rows"] * operand["cols"]
            at = (element % operand["rows"], element // operand["rows"] % operand["cols"])
            assert (at, element // size) == (place.at, place.matrix), (form, operand["operand"])
            register, high, low, byte = operand["slots"][slot]
            assert (register, (high, low)) == (place.register, place.bits)
            row = isa.find(form).fragments[operand["operand"]]
            assert byte == slot * row.bits // 8 < row.registers * row.register_bits // 8
            if operand["threads"] > 32:
                assert made.explorer["names"][thread] == f"warp {place.warp}, lane {place.lane}"


def test_every_element_is_somewhere(made: Report) -> None:
    for _, form, operand in operands(made):
        index = [each for each in fragments.unpack(operand["index"]) if each != 0xFFFF]
        count = operand["rows"] * operand["cols"] * operand["matrices"]
        assert sorted(set(index)) == list(range(count)), form
        assert len(index) == count * operand["copies"], form


def test_tensor_memory_equals_the_data_path(made: Report, rng: np.random.Generator) -> None:
    tiles = [operand for family, _, operand in operands(made) if family == "tcgen05"]
    for operand, (m, n, group, ws) in zip(tiles, fragments.TILES, strict=True):
        path = data_path(m, n, cta_group=group, ws=ws)
        index = np.array(fragments.unpack(operand["index"])).reshape(operand["threads"], -1)
        for _ in range(SAMPLES):
            row, col = int(rng.integers(m)), int(rng.integers(n))
            cta, lane, column = path.place(row, col, m=m, n=n)
            assert index[128 * cta + lane, column] == row + m * col
            assert lane in warp_lanes(operand["reach"][lane])


def test_forms_that_are_offered_exist(made: Report) -> None:
    families = {row["family"] for row in made.explorer["fragments"]}
    assert families == {*fragments.FORMS, "tcgen05"}
    for family, names in fragments.FORMS.items():
        assert all(isa.find(name).fragments for name in names), family


def test_accesses_equal_the_bank_model(made: Report) -> None:
    for row, (pitch, name, pad, swizzle) in zip(made.explorer["access"], access.arrangements(),
                                                strict=True):
        assert (row["pitch"], row["swizzle"], row["pad"]) == (pitch, name, pad)
        for chunk, read in enumerate(row["ldmatrix"]):
            again = banks.ldmatrix(8, pitch, chunk=chunk, pad=pad,
                                   swizzle=swizzle if swizzle.bits else None)
            assert (read["passes"], read["ideal"]) == (again.passes, again.ideal)
            assert read["groups"] == list(again.groups)
            assert max(read["turns"]) == again.passes
        for write in row["cp.async"]:
            at = [row["places"][r][c] for r, c in write["chunks"]]
            assert write["passes"] == banks.access(at, 16).passes


def test_known_conflicts(made: Report) -> None:
    def passes(pitch: int, swizzle: str, pad: int = 0) -> int:
        [row] = [each for each in made.explorer["access"]
                 if (each["pitch"], each["swizzle"], each["pad"]) == (pitch, swizzle, pad)]
        return int(row["ldmatrix"][0]["passes"])

    assert (passes(64, "none"), passes(64, "none", 16), passes(64, "64B")) == (4, 1, 1)
    assert (passes(128, "none"), passes(128, "128B")) == (8, 1)


def test_ledgers_equal_the_planner(made: Report, rng: np.random.Generator) -> None:
    keys = list(made.explorer["plans"]["ledgers"])
    for key in rng.choice(keys, SAMPLES, replace=False):
        m, n, group, name, stages = re.fullmatch(r"(\d+)x(\d+)x(\d+) (\w+) (\d+)", key).groups()
        dtype, scales = plans.FORMATS[name]
        told = made.explorer["plans"]["ledgers"][key]
        asked = (int(m), int(n), None if scales else dtype)
        if "refused" in told:
            with pytest.raises(UsageError) as refused:
                ledger(*asked, stages=int(stages), cta_group=int(group), scales=scales)
            assert told == {"refused": str(refused.value)}
            continue
        again = ledger(*asked, stages=int(stages), cta_group=int(group), scales=scales)
        assert told["columns"] == again.columns
        assert told["held"] == list(again.allocations)
        assert [part[:1] + part[2:3] for part in sorted(told["parts"])] == [
            [part.name, part.columns] for part in sorted(again.parts, key=lambda p: p.name)]
        assert bool(told["misfit"]) == (not again.fits)


def test_shared_memory_equals_the_planner(made: Report, rng: np.random.Generator) -> None:
    table = made.explorer["plans"]["shared"]
    fitting = [key for key, told in table.items() if "refused" not in told]
    for key in rng.choice(fitting, SAMPLES, replace=False):
        size, name, _, target = key.split()
        m, n, group = map(int, size.split("x"))
        dtype, scales = plans.FORMATS[name]
        told = table[key]
        again = stage_plan(m, n, told["k"], dtype, target=target, scales=scales, cta_group=group)
        assert (told["stages"], told["stage"], told["bytes"], told["swizzle"]) == (
            again.max_stages, again.stage_bytes, again.layout.bytes, again.swizzle)
        shown = {name: (at, size, count) for name, at, size, count in told["members"]}
        [first] = [m for m in again.layout.members if m.name == "A[0]"]
        assert shown["A"] == (first.offset, first.bytes, again.layout.stages)


def test_boxes_equal_the_copies(made: Report, rng: np.random.Generator) -> None:
    """Each chunk is put where a copy of random bytes puts it; refusals are the driver's rules."""
    refused = 0
    for key, told in made.explorer["boxes"]["boxes"].items():
        dtype, inner, swizzle = key.split()
        if "refused" in told:
            refused += 1
            assert int(inner) > 128 or swizzle != "none", key
            continue
        array = np.zeros((64, 1024), np.uint8).view(boxes.DTYPES[dtype])
        made_map = TensorMap.tiled(array, box=tuple(map(int, told["box"].split(","))),
                                   swizzle=swizzle)
        assert told["bytes"] == made_map.box_bytes == 8 * int(inner)
        image = rng.integers(0, 256, made_map.box_bytes).astype(np.uint8)
        memory = np.zeros(told["span"], np.uint8)
        arrange(8, int(inner), swizzle, made_map.element, 0).put(memory, 0, image)
        chunks = image.reshape(8, -1, 16)
        for row, line in enumerate(told["offsets"]):
            for chunk, offset in enumerate(line):
                assert (memory[offset:offset + 16] == chunks[row, chunk]).all()
    assert refused
