"""The algebra by its post-conditions, by worked examples, and against another implementation.

The oracle is tensor-layouts 0.3.2. NVIDIA's own Python implementation (pycute) is part of the
CUTLASS repository and not on PyPI: the package named ``pycute`` there (0.1.0) infers causes in
event sequences and has nothing to do with layouts.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensor_layouts as oracle

from mmalab.errors import UsageError
from mmalab.layouts import (
    ComposedLayout,
    Layout,
    Swizzle,
    blocked_product,
    coalesce,
    complement,
    compose,
    flat_divide,
    flat_product,
    left_inverse,
    logical_divide,
    logical_product,
    make_layout,
    max_common_vector,
    raked_product,
    right_inverse,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)

parse = Layout.parse


def attempt(operation, *layouts):
    """The result, or None where the operation refuses its arguments."""
    try:
        return operation(*layouts)
    except UsageError:
        return None


# --- worked examples (CUTLASS documentation, CuTe, Layout Algebra) ---


@pytest.mark.parametrize(
    ("operation", "arguments", "result"),
    [
        (coalesce, ["(2,(1,6)):(1,(6,2))"], "12:1"),
        (coalesce, ["(2,(1,6)):(1,(7,3))"], "(2,6):(1,3)"),
        (coalesce, ["(1,1):(5,7)"], "1:0"),
        (compose, ["(6,2):(8,2)", "(4,3):(3,1)"], "((2,2),3):((24,2),8)"),
        (compose, ["20:2", "(5,4):(4,1)"], "(5,4):(8,2)"),
        (compose, ["(10,2):(16,4)", "(5,4):(1,5)"], "(5,(2,2)):(16,(80,4))"),
        (compose, ["(4,6,8,10):(2,3,5,7)", "6:12"], "(2,3):(9,5)"),
        (compose, ["(6,4):(1,10)", "2:4"], "2:4"),
        (complement, ["4:1", 24], "6:4"),
        (complement, ["6:4", 24], "4:1"),
        (complement, ["(4,6):(1,4)", 24], "1:0"),
        (complement, ["4:2", 24], "(2,3):(1,8)"),
        (complement, ["(2,4):(1,6)", 24], "3:2"),
        (complement, ["(2,2):(1,6)", 24], "(3,2):(2,12)"),
        (logical_divide, ["(4,2,3):(2,1,8)", "4:2"], "((2,2),(2,3)):((4,1),(2,8))"),
        (logical_product, ["(2,2):(4,1)", "6:1"], "((2,2),(2,3)):((4,1),(2,8))"),
        (logical_product, ["(2,2):(4,1)", "(4,2):(2,1)"], "((2,2),(4,2)):((4,1),(8,2))"),
        (blocked_product, ["(2,5):(5,1)", "(3,4):(1,3)"], "((2,3),(5,4)):((5,10),(1,30))"),
        (raked_product, ["(2,5):(5,1)", "(3,4):(1,3)"], "((3,2),(4,5)):((10,5),(30,1))"),
        (right_inverse, ["(4,8):(8,1)"], "(8,4):(4,1)"),
        (left_inverse, ["4:2"], "(2,4):(0,1)"),
        (left_inverse, ["(4,6):(1,6)"], "(6,6):(1,4)"),
    ],
)
def test_worked_examples(operation, arguments, result):
    """Results to check by hand; most are printed in CuTe's documentation."""
    layouts = [parse(a) if isinstance(a, str) else a for a in arguments]
    found = operation(*layouts)
    if str(found) != result:  # a mode of size 1 has no stride that matters
        assert found.size == parse(result).size
        assert found.indices().tolist() == parse(result).indices().tolist()
    assert found.size == parse(result).size


def test_divide_variants_regroup_one_result():
    """logical, zipped, tiled and flat divides of (9,(4,8)) by ((3:3),(2:1,8:1)) from the docs."""
    layout = parse("(9,(4,8)):(59,(13,1))")
    tiler = (parse("3:3"), parse("(2,4):(1,8)"))
    assert str(logical_divide(layout, tiler)) == (
        "((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))"
    )
    assert str(zipped_divide(layout, tiler)) == (
        "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))"
    )
    assert str(tiled_divide(layout, tiler)) == "((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))"
    assert str(flat_divide(layout, tiler)) == "(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))"


def test_tilers_may_be_integers_and_may_leave_modes_whole():
    """A tuple tiles mode by mode; None and missing items leave a mode as it is."""
    layout = parse("(8,16,4):(16,1,128)")
    tiled = logical_divide(layout, (4, None))
    assert str(tiled) == "((4,2),16,4):((16,64),1,128)"
    assert compose(layout, (Layout(4, 2), Layout(8))) == parse("(4,8,4):(32,1,128)")
    with pytest.raises(UsageError, match="legal: at most 3"):
        logical_divide(layout, (1, 2, 3, 4))
    with pytest.raises(UsageError, match="legal: at most 3"):
        zipped_divide(layout, (1, 2, 3, 4))


# --- post-conditions on random layouts ---


def test_coalesce_is_the_same_function_with_no_two_modes_left_to_merge(draw):
    """coalesce keeps all values, is flat, and is its own fixed point; by_mode keeps the rank."""
    for _ in range(1000):
        layout = draw()
        small = coalesce(layout)
        assert small.depth <= 1
        assert small.indices().tolist() == layout.indices().tolist(), layout
        assert coalesce(small) == small
        by_mode = coalesce(layout, by_mode=True)
        assert by_mode.rank == layout.rank
        assert np.array_equal(by_mode.array(), layout.array())


def test_composition_is_composition(draw):
    """compose(A, B)(c) = A(B(c)) for every c, and its shape refines the shape of B."""
    made = 0
    for _ in range(2000):
        outer, inner = draw(), draw()
        result = attempt(compose, outer, inner)
        if result is not None:
            made += 1
            # Past the end of `outer`, its last mode continues; an extent of 1 there is none.
            through = outer if inner.cosize <= outer.size else coalesce(outer)
            assert result.indices().tolist() == through(inner.indices()).tolist(), (outer, inner)
            assert [mode.size for mode in result] == [mode.size for mode in inner] or (
                isinstance(inner.shape, int)
            )
    assert made > 1000


def nests_evenly(layout):
    """Whether each stride is a whole number of what the smaller strides reach."""
    reached = 1
    for stride, extent in sorted((d, s) for s, d in layout.leaves if s > 1):
        if stride % reached:
            return False
        reached = stride * extent
    return True


def test_complement_is_disjoint_ordered_and_large_enough(draw):
    """Values of A + C are all different (A injective), C rises, and together they fill 0..n-1."""
    made = 0
    for _ in range(1500):
        layout = draw()
        rest = attempt(complement, layout, layout.cosize + 7)
        if rest is None or not layout.is_injective:
            continue
        made += 1
        assert (np.diff(rest.indices()) > 0).all(), layout
        both = make_layout(layout, rest)
        assert both.is_injective, (layout, rest)
        if nests_evenly(layout):
            assert both.is_bijective
            assert both.size >= layout.cosize + 7
    assert made > 500


def test_inverses_undo(draw):
    """A(R(i)) = i with R as large as possible; L(A(i)) = i for every i."""
    lefts = 0
    for _ in range(1500):
        layout = draw()
        right = right_inverse(layout)
        assert layout(right.indices()).tolist() == list(range(right.size)), layout
        # Larger is impossible: the next value is not reached inside the layout at all, or only by
        # a mode that starts elsewhere.
        if layout.is_bijective:
            assert right.size == layout.size
        left = attempt(left_inverse, layout)
        if left is not None:
            lefts += 1
            assert left(layout.indices()).tolist() == list(range(layout.size)), (layout, left)
    assert lefts > 500


def test_left_inverse_refuses_layouts_that_repeat_a_value(draw):
    """No function can undo a layout with two coordinates of one value."""
    for _ in range(1000):
        layout = draw()
        if not layout.is_injective:
            with pytest.raises(UsageError, match="left inverse"):
                left_inverse(layout)


def test_divide_is_a_permutation_of_the_layout(draw):
    """A tiler that divides the layout evenly only reorders its values, tile by tile."""
    made = 0
    for _ in range(1500):
        layout, tiler = draw(), draw()
        tiles = layout.size % tiler.cosize == 0 and tiler.is_injective
        divided = attempt(logical_divide, layout, tiler) if tiles else None
        if divided is None or divided.size != layout.size:
            continue
        made += 1
        assert sorted(divided.indices()) == sorted(layout.indices()), (layout, tiler)
        assert divided[0].indices().tolist() == layout(tiler.indices()).tolist()
    assert made > 50


def test_product_repeats_the_block_without_overlap(draw):
    """Mode 0 is the block; an injective block and tiler give an injective product."""
    made = 0
    for _ in range(1000):
        block, tiler = draw(), draw()
        product = attempt(logical_product, block, tiler)
        if product is None:
            continue
        assert product[0] == block
        assert product[1].size == tiler.size
        if block.is_injective and tiler.is_injective and product.size < 5000:
            made += 1
            assert product.is_injective, (block, tiler)
    assert made > 100


def test_blocked_and_raked_products_differ_in_order_alone(draw):
    """Both hold the values of the logical product, with blocks side by side or interleaved."""
    made = 0
    for _ in range(400):
        block, tiler = draw(), draw()
        blocked = attempt(blocked_product, block, tiler)
        if blocked is None or blocked.size > 5000:
            continue
        made += 1
        raked = raked_product(block, tiler)
        assert blocked.rank == raked.rank == max(block.rank, tiler.rank)
        assert [(m[1], m[0]) for m in raked] == [(m[0], m[1]) for m in blocked]
        logical = logical_product(block, tiler)
        assert sorted(blocked.indices()) == sorted(logical.indices())
    assert made > 100


def test_tiled_and_flat_products_keep_the_order_of_values(draw):
    """zipped, tiled and flat products by a layout list the same values in the same order."""
    for _ in range(300):
        block, tiler = draw(), draw()
        zipped = attempt(zipped_product, block, tiler)
        if zipped is not None and zipped.size <= 5000:
            expected = zipped.indices().tolist()
            assert tiled_product(block, tiler).indices().tolist() == expected
            assert flat_product(block, tiler).indices().tolist() == expected


def test_max_common_vector_is_a_common_run(draw):
    """Both layouts hold 0 to n - 1 at the same coordinates, and n is at least 1."""
    for _ in range(1000):
        a, b = draw(), draw()
        n = max_common_vector(a, b)
        order = right_inverse(b).indices()[:n]
        assert len(order) == n
        if n > 1:
            assert (order < a.size).all()
            assert a.indices()[order].tolist() == b.indices()[order].tolist() == list(range(n))
    assert max_common_vector(parse("(4,8):(1,4)"), parse("(4,8):(1,32)")) == 4
    assert max_common_vector(parse("(4,8):(8,1)"), parse("(4,8):(1,4)")) == 1
    assert max_common_vector(Layout((4, 8)), Layout(32)) == 32


# --- against tensor-layouts ---


def of_oracle(layout):
    return oracle.Layout(layout.shape, layout.stride)


def without_idle_strides(layout):
    """(extent, stride) in its nesting, with 0 for the stride of extent 1, which does not count."""

    def pair(shape, stride):
        if isinstance(shape, tuple):
            return tuple(map(pair, shape, stride))
        return shape, 0 if shape == 1 else stride

    return pair(layout.shape, layout.stride)


PAIRS = {
    "compose": (compose, oracle.compose),
    "logical_divide": (logical_divide, oracle.logical_divide),
    "zipped_divide": (zipped_divide, oracle.zipped_divide),
    "tiled_divide": (tiled_divide, oracle.tiled_divide),
    "flat_divide": (flat_divide, oracle.flat_divide),
    "logical_product": (logical_product, oracle.logical_product),
    "zipped_product": (zipped_product, oracle.zipped_product),
    "tiled_product": (tiled_product, oracle.tiled_product),
    "raked_product": (raked_product, oracle.raked_product),
}
SINGLES = {
    "coalesce": (coalesce, oracle.coalesce),
    "complement": (complement, oracle.complement),
    "right_inverse": (right_inverse, oracle.right_inverse),
    "left_inverse": (left_inverse, oracle.left_inverse),
}


def repeats(layout):
    """Whether a layout of either implementation has a value twice."""
    return not Layout(layout.shape, layout.stride).is_injective


def agree(ours, theirs, layouts):
    """Whether both gave the same layout, or None where either refuses."""
    found = attempt(ours, *layouts)
    if found is None:
        return None
    try:
        expected = theirs(*map(of_oracle, layouts))
    except (ValueError, oracle.LayoutError):
        return None
    if "product" in ours.__name__ and repeats(expected) and not repeats(found):
        return None  # its bound is too small for ragged gaps, and copies overlap
    return without_idle_strides(found) == without_idle_strides(expected)


@pytest.mark.parametrize("name", PAIRS)
def test_two_layout_operations_agree_with_tensor_layouts(name, draw):
    """The same shapes and strides from both implementations on 600 random pairs."""
    verdicts = []
    for _ in range(600):
        layouts = draw(), draw()
        verdict = agree(*PAIRS[name], layouts)
        assert verdict is not False, layouts
        verdicts.append(verdict)
    assert verdicts.count(True) > 400


@pytest.mark.parametrize("name", SINGLES)
def test_one_layout_operations_agree_with_tensor_layouts(name, draw):
    """The same shapes and strides from both implementations on 2,000 random layouts."""
    verdicts = []
    for _ in range(2000):
        layout = draw()
        verdict = agree(*SINGLES[name], (layout,))
        assert verdict is not False, layout
        verdicts.append(verdict)
    assert verdicts.count(True) > 1500


# --- refusals ---


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: compose(parse("(4,4):(1,100)"), parse("3:6")),
            ("(4,4):(1,100) o 3:6: not divisible: stride 6 by extent 4\n"
            "  legal: strides and extents that divide one another, or modes that end inside one "
            "extent\n  see:   CuTe, Layout Algebra, composition"),
        ),
        (
            lambda: compose(parse("(4,2):(1,10)"), parse("3:2")),
            ("(4,2):(1,10) o 3:2: not divisible: extent 3 by extent 4\n"
            "  legal: strides and extents that divide one another, or modes that end inside one "
            "extent\n  see:   CuTe, Layout Algebra, composition"),
        ),
        (
            lambda: compose(parse("(4,4):(1,8)"), parse("(2,2):(3,3)")),
            (
                "(4,4):(1,8) o (2,2):(3,3): modes that fit one by one add up to 6 in an extent "
                "of 4\n  legal: modes whose sum carries nowhere\n"
                "  see:   CuTe, Layout Algebra, composition"
            ),
        ),
        (
            lambda: compose(parse("(4,2):(1,10)"), parse("2:-1")),
            ("(4,2):(1,10) o 2:-1: a negative stride gives negative coordinates\n"
            "  legal: strides from 0\n  see:   CuTe, Layout Algebra"),
        ),
        (
            lambda: complement(parse("(4,2):(1,2)")),
            ("the complement of (4,2):(1,2): stride 2 falls inside the 4 values below it\n"
            "  legal: strides from 4\n  see:   CuTe, Layout Algebra, complement"),
        ),
        (
            lambda: left_inverse(parse("(2,3):(2,5)")),
            ("the left inverse of (2,3):(2,5): stride 5 after the mode 2:2\n"
            "  legal: multiples of 2 from 4\n  see:   CuTe, Layout Algebra, left inverse"),
        ),
        (
            lambda: compose(parse("8:1"), "4:2"),
            "'4:2': not a layout\n  legal: a Layout or an integer\n  see:   CuTe, Layout Algebra",
        ),
    ],
)
def test_refusals_name_the_pair_that_does_not_divide(make, message):
    """Each refusal names what was given, the rule, what is legal, and where it is written."""
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        make()


def test_composing_with_a_swizzle_gives_a_swizzled_layout():
    """Swizzle o layout, and (swizzle o layout) o tiler, keep the swizzle outermost."""
    tile = compose(Swizzle(2, 3, 3), parse("(128,32):(32,1)"))
    assert tile == ComposedLayout(Swizzle(2, 3, 3), 0, parse("(128,32):(32,1)"))
    rows = compose(tile, (Layout(8), Layout(1)))
    assert rows.indices().tolist() == [tile(r, 0) for r in range(8)]
