"""Tensor maps in memory: parameters, constants, copies, tensormap.replace; gather and scatter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulation import run_kernel

from mmalab.emulator import emulate
from mmalab.errors import UsageError
from mmalab.tensormap import ELEMENTS, TensorMap
from mmalab.tensormap.encoding import TABLE, read, write

MODULE = (".shared .align 1024 .b8 smem[4096];\n.shared .align 8 .b64 bar;\n"
          ".shared .align 128 .b8 place[128];\n")
PROLOGUE = """
    mov.u32 %r90, smem; mov.u32 %r91, bar; mov.u32 %r92, %tid.x; mov.u32 %r94, place;
    setp.ne.u32 %p31, %r92, 0; mov.u32 %r0, 0; mov.u32 %r1, 0;
    @!%p31 mbarrier.init.shared::cta.b64 [%r91], 1;
    bar.sync 0;
"""
LOAD = """
    @%p31 bra W;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r91], {bytes};
    cp.async.bulk.tensor.2d.shared::cluster.global.{load}.mbarrier::complete_tx::bytes
        [%r90], [{map}, {{{where}}}], [%r91];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p30, [%r91], 0;
    @!%p30 bra W;
    shl.b32 %r80, %r92, 2; add.u32 %r81, %r90, %r80; ld.shared.u32 %r82, [%r81];
    cvt.u64.u32 %rd30, %r80; add.s64 %rd31, {out}, %rd30; st.global.u32 [%rd31], %r82;
"""


def load(where: str = "%r0, %r1", *, map_: str = "%rd40", out: str = "%rd41", count: int = 1024,
         load: str = "tile") -> str:
    return LOAD.format(bytes=count, map=map_, where=where, out=out, load=load)


def array() -> Any:
    return np.arange(64 * 64, dtype=np.uint32).reshape(64, 64)


def run(body: str, args: list[Any], **options: Any) -> Any:
    done = run_kernel(PROLOGUE + body, args, target=options.pop("target", "sm_90a"), module=MODULE,
                      max_steps=20_000, **options)
    assert done.findings == [], [str(f) for f in done.findings]
    return done


def test_a_map_for_a_pointer_lies_in_global_memory() -> None:
    """One, or a list of them: the second lies 128 bytes behind the first."""
    a, b, out = array(), array() + 5000, np.zeros(32, np.uint32)
    maps = [TensorMap.tiled(x, box=(32, 8)) for x in (a, b)]
    run(load(), [maps[1], out])
    np.testing.assert_array_equal(out, b[0, :32])
    run(load(map_="%rd40+128"), [maps, out])
    np.testing.assert_array_equal(out, b[0, :32])


PARAMETER = """.version 8.8
.target sm_90a
.address_size 64
.const .align 64 .b8 held[128] = {{{held}}};
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{{ .reg .pred %p<32>; .reg .b32 %r<96>; .reg .b64 %rd<48>;
{module}
    ld.param.u64 %rd41, [out]; mov.b64 %rd40, map; cvta.param.u64 %rd40, %rd40;
    mov.b64 %rd42, held; cvta.const.u64 %rd42, %rd42;
{body}
    ret;
}}
"""


def test_a_map_by_value_and_one_in_constant_memory() -> None:
    """A struct parameter and a constant, both read through generic addresses."""
    a, out = array(), np.zeros(32, np.uint32)
    made = TensorMap.tiled(a, box=(32, 8), swizzle="none")
    # the module's constant is buffer 16, so the array behind the parameter is 17
    held = ", ".join(map(str, TensorMap.tiled(a[8:], box=(32, 8)).encode((17 << 40) + 8 * 256)))
    for map_, first in (("%rd40", 0), ("%rd42", 8)):
        text = PARAMETER.format(held=held, module=MODULE, body=PROLOGUE + load(map_=map_))
        done = emulate(text, [made, out], block=32)
        assert done.findings == []
        np.testing.assert_array_equal(out, a[first, :32])


def test_maps_that_are_no_arguments_are_refused() -> None:
    """A map without an array, one for a number, a list for one struct."""
    made = TensorMap.tiled(array(), box=(32, 8))
    text = PARAMETER.format(held="0", module=MODULE, body=PROLOGUE)
    for wrong, words in ((TensorMap.decode(made.encode(1 << 44)), "no array"), (3, "fit"),
                         ([made, made], "takes none")):
        with pytest.raises(UsageError, match=words):
            emulate(text, [wrong, np.zeros(1, np.uint32)], block=32)
    with pytest.raises(UsageError, match="takes none"):
        emulate(".version 8.0\n.target sm_90\n.entry k(.param .u32 x) { ret; }", [made], block=32)


REPLACED = [
    ("global_address", "b64 [%r94], %rd42", "global_address", 0x123456789AB0),
    ("rank", "b32 [%r94], %r2", "rank", 4), ("box_dim", "b32 [%r94], 3, %r3", "box_dim.3", 77),
    ("global_dim", "b32 [%r94], 4, %r4", "global_dim.4", 0xFFFFFFFF),
    ("global_stride", "b64 [%r94], 2, %rd43", "global_stride.2", 0xABCDEF0120),
    ("element_stride", "b32 [%r94], 1, %r5", "element_stride.1", 7),
    ("interleave_layout", "b32 [%r94], 2", "interleave_layout", 2),
    ("swizzle_mode", "b32 [%r94], 3", "swizzle_mode", 3),
    ("fill_mode", "b32 [%r94], 1", "fill_mode", 1),
    ("swizzle_atomicity", "b32 [%r94], 2", "swizzle_atomicity", 2),
]
STORE_MAP = """
    shl.b32 %r80, %r92, 2; add.u32 %r81, %r94, %r80; cvt.u64.u32 %rd30, %r80;
    add.s64 %rd31, %rd40, %rd30; ld.global.u32 %r82, [%rd31]; st.shared.u32 [%r81], %r82;
    bar.warp.sync -1;
    mov.u64 %rd42, 0x123456789AB0; mov.u64 %rd43, 0xABCDEF0120; mov.u32 %r2, 3; mov.u32 %r3, 77;
    mov.u32 %r4, -1; mov.u32 %r5, 7;
    @!%p31 tensormap.replace.tile.{field}.shared::cta.b1024.{rest};
    bar.warp.sync -1; ld.shared.u32 %r82, [%r81]; st.global.u32 [%rd31], %r82; ret;
"""


@pytest.mark.parametrize(("field", "rest", "name", "value"), REPLACED)
def test_each_field_is_replaced_alone(field: str, rest: str, name: str, value: int) -> None:
    """The named value is there, every other bit as before; also in global memory."""
    before = np.random.default_rng().integers(0, 256, 128, dtype=np.uint8)
    for space in ("shared::cta", "global"):
        data = before.copy()
        body = STORE_MAP.format(field=field, rest=rest)
        if space == "global":
            body = body.replace("shared::cta.b1024", "global.b1024").replace(
                "[%r94]", "[%rd40]").replace("ld.shared.u32 %r82, [%r81]; st.global",
                                             "ld.global.u32 %r82, [%rd31]; st.global")
        run(body, [data], target="sm_100a")
        want = write(before.tobytes(), {name: value} | (
            {"address_flag": 0} if field == "global_address" else {}))
        assert data.tobytes() == want
        assert read(want)[name] == value


@pytest.mark.parametrize("kind", ELEMENTS)
def test_element_types_are_replaced_by_their_literals(kind: str) -> None:
    """The instruction's numbers are not the encoding's."""
    row = ELEMENTS[kind]
    data = np.zeros(128, np.uint8)
    run(STORE_MAP.format(field="elemtype", rest=f"b32 [%r94], {row.literal}"), [data],
        target="sm_100a")
    assert data.tobytes() == write(bytes(128), {"elemtype": row.code, "tf32": int(row.tf32)})


def test_a_map_made_on_the_device() -> None:
    """Copied to shared memory, its address replaced, released to global memory, used."""
    a, b, out = array(), array() + 9000, np.zeros(32, np.uint32)
    made = TensorMap.tiled(a, box=(32, 8))
    body = """
    shl.b32 %r80, %r92, 2; add.u32 %r81, %r94, %r80; cvt.u64.u32 %rd30, %r80;
    add.s64 %rd31, %rd40, %rd30; ld.global.u32 %r82, [%rd31]; st.shared.u32 [%r81], %r82;
    bar.warp.sync -1;
    @!%p31 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r94], %rd42;
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
        [%rd43], [%r94], 128;
    fence.proxy.tensormap::generic.acquire.gpu [%rd43], 128;
""" + load(map_="%rd43")
    copied = np.zeros(128, np.uint8)
    run(body, [made, out, b, copied])
    np.testing.assert_array_equal(out, b[0, :32])
    changed = {name for name, value in read(copied.tobytes()).items()
               if value != read(made.encode(0))[name]}
    assert changed == {"global_address"}


@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_gather_and_scatter(swizzle: str) -> None:
    """Four rows by number, and back to four others."""
    a, out = array(), np.zeros((64, 64), np.uint32)
    source = TensorMap.tiled(a, box=(32, 1), swizzle=swizzle)
    target = TensorMap.tiled(out, box=(32, 1), swizzle=swizzle)
    body = """
    mov.u32 %r0, 16; mov.u32 %r1, 5; mov.u32 %r2, 63; mov.u32 %r3, 64; mov.u32 %r4, 0;
""" + load("%r0, %r1, %r2, %r3, %r4", count=512, load="tile::gather4", out="%rd42") + """
    fence.proxy.async; bar.sync 0;
    @%p31 bra E;
    cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group
        [%rd41, {%r0, %r2, %r1, %r4, %r3}], [%r90];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
E:  ret;
"""
    run(body, [source, target, np.zeros(32, np.uint32)], target="sm_100a")
    want = np.zeros((64, 64), np.uint32)
    want[63, 16:48], want[5, 16:48] = a[5, 16:48], a[63, 16:48]
    np.testing.assert_array_equal(out, want)  # row 64 read zeros into row 0, and was not written


def test_padded_types_leave_their_padding() -> None:
    """16 elements of 4 or 6 bits in 16 bytes of shared memory; the rest keeps its bytes."""
    for kind, used in (("b4x16_p64", 8), ("b6x16_p32", 12)):
        a = np.random.default_rng().integers(0, 256, (4, 16 * used), dtype=np.uint8)
        made = TensorMap.tiled(a, box=(128, 1), dims=(256, 4), strides=(16 * used,), dtype=kind)
        out = np.zeros(32, np.uint32)
        fill = ("shl.b32 %r80, %r92, 2; add.u32 %r81, %r90, %r80; mov.u32 %r82, -1;"
                " st.shared.u32 [%r81], %r82; fence.proxy.async; bar.sync 0;")
        run(fill + "mov.u32 %r0, 128; mov.u32 %r1, 2;" + load(count=128), [made, out],
            target="sm_100a")
        got = out.view(np.uint8).reshape(8, 16)
        np.testing.assert_array_equal(got[:, :used], a[2, 8 * used:].reshape(8, used))
        assert (got[:, used:] == 0xFF).all()


def test_interleaved_tensors() -> None:
    """(N, C / 8, H, W, 8) halves: a box of pixels of one slice of channels."""
    a = np.arange(2 * 3 * 4 * 8 * 8, dtype=np.uint16).reshape(2, 3, 4, 8, 8)
    made = TensorMap.tiled(a.view(np.float16), box=(8, 2, 1, 1), interleave="16B")
    assert (made.dims, made.box_bytes) == ((8, 4, 3, 2), 256)
    out = np.zeros(32, np.uint32)
    body = "mov.u32 %r0, 1; mov.u32 %r1, 2; mov.u32 %r2, 1;" + load(
        "%r0, %r1, %r2, %r2", count=256).replace("tensor.2d", "tensor.4d")
    run(body, [made, out])
    want = np.zeros((2, 8, 8), np.uint16)
    want[:, :7] = a[1, 1, 2:4, 1:]
    np.testing.assert_array_equal(out, want.view(np.uint32).reshape(-1)[:32])


def test_places_of_fields_do_not_overlap() -> None:
    """Each bit of the 64 bytes that the chip reads belongs to one field of a tiled map."""
    seen = 0
    for name, place in TABLE.items():
        if name.startswith(("lower", "upper", "channels", "pixels")):
            continue
        for piece in place.pieces:
            assert not seen & piece.mask, name
            seen |= piece.mask
