"""Article B's probe, with the parts that a question varies.

Reserve columns of Tensor Memory, read back their base, issue one product, commit it through an
mbarrier, drain a fragment to registers, store it, free the columns::

    >>> text = probe("tcgen05.mma.cta_group::1.kind::tf32 [%r2], %rd2, %rd3, %r3, %p1;")
    >>> text.count("tcgen05")
    8

`%r2` is the base of the columns, `%rd2` and `%rd3` the descriptors of A and B, `%r3` the
instruction descriptor and `%p1` whether D is added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from mmalab.errors import UsageError

__all__ = ["PARTS", "loaded", "probe"]

#: What can be left out of the probe.
PARTS = ("alloc", "relinquish", "mma", "commit", "ld", "dealloc")

#: Registers of each repetition of ``tcgen05.ld``, by shape.
_PER_REPETITION = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
_LOAD = re.compile(r"(32x32b|16x64b|16x128b|16x256b|16x32bx2)\.x(\d+)(\.pack::16b)?")


def loaded(load: str) -> int:
    """Registers that ``tcgen05.ld`` of a shape and count gives each thread: ``16x256b.x4``: 16.

    Raises:
        UsageError: no such shape.
    """
    found = _LOAD.fullmatch(load)
    if found is None:
        raise UsageError(f"tcgen05.ld of {load!r}", "is not SHAPE.xN",
                         legal=[f"{shape}.x1" for shape in _PER_REPETITION],
                         where="PTX ISA, tcgen05.ld")
    return _PER_REPETITION[found[1]] * int(found[2])


def probe(
    mma: str | None = None,
    *,
    columns: int = 128,
    through: Literal["register", "immediate"] = "register",
    without: Iterable[str] = (),
    cta_group: int = 1,
    load: str = "32x32b.x1",
    version: str = "8.6",
    target: str = "sm_100a",
) -> str:
    """The probe's PTX.

    Args:
        mma: the line of the product; None is the article's, ``kind::f16``, dense.
        columns: how many to allocate; any number, to see who objects.
        through: whether ``alloc`` and ``dealloc`` take the count from a register.
        without: parts to leave out, of :data:`PARTS`.
        cta_group: 1 or 2, in every instruction.
        load: shape and count of the drain; every value is stored, as an epilogue would.
        version: PTX version.
        target: of the text.

    Raises:
        UsageError: an unknown part or load.
    """
    left_out = set(without)
    if left_out - set(PARTS):
        raise UsageError(f"without={sorted(left_out)}", "names a part that the probe has not",
                         legal=PARTS, where="mmalab atlas --help")
    body = {
        "alloc": _alloc(columns, through),
        "relinquish": "tcgen05.relinquish_alloc_permit.{group}.sync.aligned;",
        "base": "ld.shared.b32 %r2, [tmem_slot];",
        "mma": f"mov.u32 %r3, 0;\nsetp.eq.u32 %p1, %r3, 0;\n{mma or _PRODUCT}",
        "commit": _COMMIT,
        "ld": _drain(load),
        "dealloc": _dealloc(columns, through),
    }
    lines = "\n".join(text for part, text in body.items() if part not in left_out)
    lines = lines.replace("{group}", f"cta_group::{cta_group}")
    inside = "".join(f"    {line}\n" for line in lines.splitlines())
    return _FRAME.format(version=version, target=target, body=inside, values=loaded(load))


_FRAME = """.version {version}
.target {target}
.address_size 64

.visible .entry umma_probe(.param .u64 p_out, .param .u64 p_adesc, .param .u64 p_bdesc)
{{
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    .reg .pred %p<2>;
    .reg .b32 %v<{values}>;
    .shared .align 16 .b32 tmem_slot[4];
    .shared .align 8 .b64 mbar[1];
    ld.param.u64 %rd1, [p_out];
    ld.param.u64 %rd2, [p_adesc];
    ld.param.u64 %rd3, [p_bdesc];
{body}    ret;
}}
"""

_PRODUCT = "tcgen05.mma.{group}.kind::f16 [%r2], %rd2, %rd3, %r3, %p1;"
_COMMIT = """mbarrier.init.shared::cta.b64 [mbar], 1;
tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64 [mbar];"""


def _alloc(columns: int, through: str) -> str:
    head = "tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [tmem_slot], "
    if through == "immediate":
        return f"{head}{columns};"
    return f"mov.u32 %r1, {columns};\n{head}%r1;"


def _dealloc(columns: int, through: str) -> str:
    head = "tcgen05.dealloc.{group}.sync.aligned.b32 %r2, "
    if through == "immediate":
        return f"{head}{columns};"
    return f"mov.u32 %r11, {columns};\n{head}%r11;"


def _drain(load: str) -> str:
    count = loaded(load)
    shape, *rest = load.split(".")
    values = "{" + ", ".join(f"%v{i}" for i in range(count)) + "}"
    split = ", 0" if shape == "16x32bx2" else ""
    places = ["%rd1", *(f"%rd1+{4 * i}" for i in range(1, count))]
    stores = [f"st.global.u32 [{place}], %v{i};" for i, place in enumerate(places)]
    return "\n".join((
        f"tcgen05.ld.sync.aligned.{shape}.{'.'.join(rest)}.b32 {values}, [%r2]{split};",
        "tcgen05.wait::ld.sync.aligned;", *stores))
