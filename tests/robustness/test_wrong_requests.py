"""Wrong use of `emulate` and of the other layers is a UsageError with what would be legal."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hostile import kernel

from mmalab import assemble, check, emulate, formats, isa, kernels, launch, layouts, numerics
from mmalab.errors import LimitExceeded, UsageError

NOTHING = kernel("mov.u32 %r1,1;", 0)
COPY = kernel("ld.global.u32 %r1,[%rd41]; st.global.u32 [%rd40],%r1;", 2)
TOUCH = kernel("ld.global.u32 %r1,[%rd40]; add.u32 %r1,%r1,1; st.global.u32 [%rd40],%r1;")


class _Refusing:
    """Like an array in the memory of a GPU."""

    def __dlpack__(self, **_):
        raise BufferError("cannot export")

    def __dlpack_device__(self):
        return (2, 0)


class _Null:
    """An array at address 0."""

    @property
    def __array_interface__(self):
        return {"shape": (4,), "typestr": "<u4", "data": (0, False), "version": 3}


@pytest.mark.parametrize("options", [
    {"grid": 0}, {"grid": -1}, {"grid": 1.5}, {"grid": "3"}, {"grid": (2, None)}, {"grid": ()},
    {"grid": [2.7]}, {"grid": (1, 1, 70000)}, {"grid": (1, 2, 3, 4)}, {"block": 1025},
    {"block": (1, 1, 65)}, {"block": "x"}, {"block": (2.5,)}, {"block": 2**70},
    {"cluster": 17, "grid": 17}, {"cluster": 1000, "grid": 1000}, {"cluster": 0},
    {"dynamic_shared": -1}, {"dynamic_shared": 1.5}, {"dynamic_shared": "4"},
    {"dynamic_shared": 232449}, {"max_steps": 0}, {"max_steps": -1}, {"max_steps": 1.5},
    {"max_steps": "7"}, {"target": "sm_999"}, {"target": 5}, {"target": ""},
    {"numerics": "bogus"}, {"numerics": None}, {"schedule": "bogus"}, {"schedule": -1},
    {"schedule": 1.5}, {"schedule": None}, {"schedule": True}, {"entry": "zz"}, {"entry": 5},
], ids=str)
def test_launches_that_no_chip_has_are_refused(options):
    """Nothing is rounded, cut short or ignored."""
    with pytest.raises(UsageError) as caught:
        emulate(NOTHING, [], **{"block": 1, **options})
    assert caught.value.rule


@pytest.mark.parametrize("extent", [np.int64(2), np.array([2, 1]), (np.int32(2),), [2, 1, 1]])
def test_sizes_may_be_any_integers(extent):
    """NumPy's too."""
    assert emulate(NOTHING, [], grid=extent, block=1).verdict == "clean"


def test_grids_beyond_the_emulator_are_a_limit():
    """Two thousand million CTAs do not start."""
    with pytest.raises(LimitExceeded, match="CTAs"):
        emulate(NOTHING, [], grid=2**31 - 1, block=1)


@pytest.mark.parametrize("source", [None, 5, b"abc", [1]], ids=str)
def test_what_is_no_kernel_is_refused(source):
    """Only text, modules and Kernel values run."""
    with pytest.raises(UsageError, match="kernel"):
        emulate(source, [], block=1)


@pytest.mark.parametrize("args", [None, 5, iter(()), {"a": 1}, np.zeros(1)],
                         ids=lambda value: type(value).__name__)
def test_arguments_are_a_list(args):
    """Whatever else is given is named."""
    with pytest.raises(UsageError, match="args"):
        emulate(NOTHING, args, block=1)


@pytest.mark.parametrize("value", [
    None, "abc", [1, 2], {1}, 1.5, float("nan"), 1 << 64, -(1 << 63) - 1, 1j, len, np.uint32,
    np.float16(2), np.datetime64("2020"), b"abcd", np.array([1, None], object), _Refusing(),
    _Null(), np.lib.stride_tricks.as_strided(np.zeros(8, np.uint32), (4, 4), (4, 4)),
], ids=lambda v: type(v).__name__)
def test_values_that_are_no_pointer_are_refused(value):
    """Neither converted nor let through as an address."""
    with pytest.raises(UsageError):
        emulate(TOUCH, [value], block=1)


@pytest.mark.parametrize("make", [
    lambda x: (x, x[::2]), lambda x: (x.reshape(4, 4).T, x), lambda x: (x[::2], x[:8])])
def test_a_copied_array_may_not_share_bytes_with_another(make):
    """Its copy would overwrite what the kernel wrote through the other."""
    with pytest.raises(UsageError, match="shares bytes"):
        emulate(COPY, list(make(np.arange(16, dtype=np.uint32))), block=1)


def test_interleaved_arrays_are_apart():
    """Even and odd elements share no byte: both are copied and written back."""
    x = np.arange(8, dtype=np.uint32)
    emulate(COPY, [x[::2], x[1::2]], block=1)
    assert x.tolist() == [1, 1, 2, 3, 4, 5, 6, 7]


def test_one_array_in_two_shapes_is_one_buffer():
    """A race between the two names is seen, and a read-only view stays read-only."""
    x = np.arange(4, dtype=np.uint32)
    frozen = x.view()
    frozen.flags.writeable = False
    assert emulate(COPY, [x, x.reshape(2, 2)], block=1).verdict == "clean"
    assert emulate(COPY, [x, frozen], block=1).verdict == "clean"
    assert [f.code for f in emulate(COPY, [frozen, x], block=1).findings] == ["read-only-write"]


def test_empty_arrays_have_no_bytes():
    """Of any shape; touching them is a finding."""
    for shape in ((0,), (0, 4), (3, 0)):
        run = emulate(TOUCH, [np.zeros(shape, np.uint32)], block=1)
        assert [f.code for f in run.findings] == ["out-of-bounds"]


def _ones(*shape):
    return np.ones(shape, ml_dtypes.bfloat16)


#: Neither text nor a number that anything here counts with.
WILD = [None, 5, 1.5, b"sm_90", [], {}, ("a",), object(), np.zeros(3)]
_FORM = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


@pytest.mark.parametrize("wild", WILD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("ask", [
    isa.find, isa.explain, isa.legal, isa.target, check, assemble, layouts.coalesce,
    layouts.make_layout, layouts.complement,
    lambda wild: layouts.compose(wild, layouts.Layout(4)),
    lambda wild: isa.layout(wild, "D", at=(0, 0)), lambda wild: isa.layout(_FORM, wild, at=(0, 0)),
    lambda wild: isa.layout(_FORM, "D", at=wild), lambda wild: isa.layout(_FORM, "D", lane=wild),
    lambda wild: isa.layout(_FORM, "D", lane=0, slot=[wild]),
    lambda wild: isa.legal(_FORM, [wild]), lambda wild: isa.legal(_FORM, "sm_90a", ([wild], 0)),
    lambda wild: check(NOTHING, [wild]), lambda wild: isa.forms([wild]),
    lambda wild: assemble(NOTHING, "sm_90a", maxrregcount=[wild]),
    lambda wild: assemble(NOTHING, "sm_90a", opt_level=[wild]),
    lambda wild: assemble(NOTHING, [wild]),
    lambda wild: numerics.dot([[wild, "x"]], [[1, 1]], unit="sm_80.mma.bf16.f32"),
    lambda wild: numerics.matmul(_ones(3, 64), [[wild]], unit="sm_80.mma.bf16.f32"),
    lambda wild: numerics.matmul(_ones(3, 64), _ones(64, 5), unit="sm_80.mma.bf16.f32",
                                 split_k=[wild]),
    lambda wild: emulate(NOTHING, [], block=1, entry=[wild]),
    lambda wild: emulate(NOTHING, [], block=1, numerics=[wild]),
    lambda wild: emulate(NOTHING, [], block=1, schedule=[wild, object()]),
])
def test_what_is_of_another_type_is_wrong_use(ask, wild):
    """Everywhere on the public surface: with what was given, what would do, who says so."""
    with pytest.raises(UsageError) as caught:
        ask(wild)
    assert caught.value.rule
    assert caught.value.legal
    assert caught.value.where


@pytest.mark.parametrize("args", [None, 5, {"a": 1}, np.zeros(1)],
                         ids=lambda value: type(value).__name__)
def test_arguments_of_a_launch_are_a_list_too(args):
    """Told before a GPU is looked for."""
    for source in (NOTHING, kernels.sm80_mma.gemm(8, 8, 8)):
        with pytest.raises(UsageError, match="is not a list of arguments"):
            launch(source, args)
    with pytest.raises(UsageError, match="cannot be run"):
        launch(5, [])


@pytest.mark.parametrize("version", ["", "x", "8", "8.7.1", 8.7, (8,), (8, 7, 1)])
def test_what_is_no_ptx_version(version):
    """Two numbers are."""
    with pytest.raises(UsageError, match="is no pair of numbers"):
        isa.legal(_FORM, "sm_90a", version)


def test_numbers_convert_without_warnings():
    """One number like many; -W error makes a warning a failure."""
    assert formats.encode(0, "e4m3") == 0
    assert formats.decode(np.uint8(0x80), "s8") == -128


@pytest.mark.parametrize("call", [
    lambda: numerics.dot(_ones(2, 4), _ones(2, 4), np.zeros(2, np.float32), unit=None),
    lambda: numerics.dot(_ones(2, 4), _ones(2, 5), unit="sm_80.mma.bf16.f32"),
    lambda: numerics.dot(_ones(2, 0), _ones(2, 0), unit="sm_80.mma.bf16.f32"),
    lambda: numerics.matmul(_ones(3, 64), _ones(64, 5), unit="sm_80.mma.bf16.f32", split_k=1.5),
    lambda: numerics.matmul(_ones(3, 64), _ones(64, 5), unit="sm_80.mma.bf16.f32",
                            promote_every="a"),
    lambda: formats.encode(1.0, None), lambda: formats.encode(1.0, 5),
    lambda: layouts.Swizzle(99, 99, 99), lambda: layouts.Swizzle(1.5, 2, 3),
    lambda: layouts.Swizzle("3", 4, 3),
])
def test_names_and_numbers_of_other_types_are_wrong_use(call):
    """A TypeError from inside would not say what is legal."""
    with pytest.raises(UsageError):
        call()
