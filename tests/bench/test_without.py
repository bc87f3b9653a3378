"""Kernels with something left out: they end, and lack just what their names say."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from fed_kernels import KERNELS, operands, unwritten

import mmalab
from mmalab.bench.anatomy import anatomy
from mmalab.bench.without import Variant, possible, variants, without
from mmalab.errors import UsageError
from mmalab.kernels import sm80_mma, sm90_wgmma
from mmalab.kernels.sm90_wgmma import Plan

#: Kernels that leave words in global memory for the next launch.
AGAIN = {"mma even", "wgmma padded"}


@cache
def counted(name: str) -> dict[str, tuple[Variant, dict[str, int], float]]:
    """Every variant of a kernel, what the emulator counted, and which part of C was written."""
    found = {}
    for variant in variants(KERNELS[name]()):
        args = operands(variant.kernel)
        values = variant.kernel.values(args)  # words in which CTAs meet are for all launches
        kernel = replace(variant.kernel, prepare=lambda _, values=values: values)
        run = mmalab.emulate(kernel, args, sanitize=False)
        assert run.verdict == "clean"
        if name in AGAIN:
            assert mmalab.emulate(kernel, args, sanitize=False).verdict == "clean"
        found[variant.name] = (variant, dict(run.counters),
                               1 - unwritten(args[-1]) / args[-1].size)
    return found


def number(counters: dict[str, int], name: str) -> int:
    return counters.get(f"instructions.{name}", 0)


@pytest.mark.parametrize("name", KERNELS)
def test_every_variant_ends_and_lacks_what_it_says(name: str) -> None:
    found = counted(name)
    _, whole, written = found["all of it"]
    assert written == 1
    product = "mma.sync" if name.startswith("mma") else "wgmma.mma_async"
    for variant, counters, written in found.values():
        left_out = set(variant.left_out)
        assert written == ("store" not in left_out and "send" not in left_out)
        products = number(whole, product)
        assert number(counters, product) == (products // 4 if "products" in left_out else products)
        if "copy" in left_out:
            # the copies that padding makes before all that, and the way out of C, stay
            assert number(counters, "mbarrier.try_wait") <= number(whole, "mbarrier.try_wait") * (
                name == "wgmma pingpong")
            assert number(counters, "mbarrier.arrive") < number(whole, "mbarrier.arrive") / 2
        if "bytes" in left_out:
            copies = "cp.async.bulk.tensor"
            assert number(counters, copies) < number(whole, copies)
        if "reads" in left_out:
            read = "ldmatrix" if product == "mma.sync" else "ld"
            assert number(counters, read) < number(whole, read) / 2
        if not left_out & {"copy", "bytes"} and "even" not in name:  # they poll each other's words
            assert counters["global.bytes.read"] == whole["global.bytes.read"]


def test_what_can_be_left_out() -> None:
    """Fragments only where there are any; no bytes of TMA where threads copy; no sending where C
    leaves from registers; of one product to be committed none."""
    assert possible(KERNELS["wgmma pingpong"]()) == {
        "store", "send", "bytes", "copy", "products"}
    assert possible(KERNELS["mma"]()) == {"store", "reads", "bytes", "copy", "products"}
    assert possible(KERNELS["wgmma"]()) == {"store", "bytes", "copy", "products"}
    assert possible(KERNELS["wgmma loaded"]()) == {"store", "bytes", "copy", "reads"}
    assert possible(KERNELS["wgmma threads"]()) == {"store", "copy", "products"}


def test_all_of_it_is_the_kernel_itself() -> None:
    kernel = KERNELS["mma"]()
    assert variants(kernel)[0].kernel.ptx == kernel.ptx


def test_wgmma_has_products_only_without_fragments() -> None:
    names = {variant.name: variant.left_out for variant in variants(KERNELS["wgmma"]())}
    assert names["products only"] == ("copy", "store")
    assert "fragments once" not in names


def test_a_quarter_of_the_products_uses_every_fragment() -> None:
    """Otherwise ptxas would leave out the reads as well."""
    kernel = KERNELS["mma"]()
    whole, quarter = anatomy(kernel), anatomy(without(kernel, "products"))
    for which in (1, 2):
        assert set(quarter.vectors(which)) == set(whole.vectors(which))


def test_refusals() -> None:
    with pytest.raises(UsageError, match="without 'luck': is no part of a kernel"):
        without(KERNELS["mma"](), "luck")
    with pytest.raises(UsageError, match="has nothing of it"):
        without(KERNELS["wgmma"](), "reads")
    with pytest.raises(UsageError, match="no role that fills"):
        variants(sm80_mma.gemm(512, 512, 512, tile=(256, 128)))


@pytest.mark.toolkit
@pytest.mark.parametrize("make", [
    lambda: sm80_mma.gemm(3072, 5632, 4096, copy="tma", stages=4),
    lambda: sm90_wgmma.gemm(3072, 5632, 4096, plan=Plan((128, 256), stages=4)),
], ids=["mma", "wgmma"])
def test_ptxas_leaves_out_no_more(make: Any) -> None:
    """As many products, reads and stores in the code as in the text: nothing became dead, and no
    loop was unrolled because a wait had become nothing."""
    for variant in variants(make()):
        found, code = anatomy(variant.kernel), mmalab.assemble(variant.kernel).sass.histogram()
        assert code["HMMA"] + code["HGMMA"] == len(found.products), variant.name
        assert code["LDSM"] == len(found.numbers(("ldmatrix",), found.multiplying)), variant.name
        assert code["STG"] + code["STS"] == len(found.stores), variant.name
