"""Every row of the table: it compiles, finds itself, and its operands make sense."""

from __future__ import annotations

import random

import pytest

from mmalab import isa
from mmalab.errors import MmalabError, UnknownForm
from mmalab.isa.index import LATER_ISSUES, all_rows, heads, rows
from mmalab.isa.lookup import row_of, spellings
from mmalab.isa.syntax import NAMES, Row, row
from mmalab.isa.targets import TARGETS, parse_targets
from mmalab.isa.vocabulary import type_bits

ROWS = list(all_rows())
KEYS = [(one, key) for one in ROWS for key in spellings(one)]


def test_each_spelling_finds_its_own_row() -> None:
    """No row hides another: every representative spelling leads back to the row that made it."""
    hidden = [(key, row_of(key).syntax) for one, key in KEYS if row_of(key) is not one]
    assert hidden == []


def test_each_form_exists_somewhere_and_says_where_it_is_written() -> None:
    """Every form has a target, or says why none any more; a source section, a summary."""
    for _, key in KEYS:
        form = isa.find(key)
        assert bool(parse_targets(form.targets)) != bool(form.gone), key
        assert form.source.section, key
        assert form.summary, key


def test_operand_types_are_types() -> None:
    """Each register operand has a PTX type with a known width, each count is positive."""
    for _, key in KEYS:
        for spec in isa.find(key).operands:
            assert spec.count >= 1, (key, spec)
            if spec.role in ("read", "write", "update"):
                assert type_bits(spec.type) > 0, (key, spec)


def test_destinations_come_first() -> None:
    """Written operands stand at the front; only loads of Tensor Memory have more than one."""
    for _, key in KEYS:
        written = [spec.role in ("write", "update") for spec in isa.find(key).operands]
        assert written == sorted(written, reverse=True), key
        assert sum(written) <= 1 or key.startswith(("tcgen05.ld.red.", "tcgen05.ld.spc")), key


def test_no_spelling_holds_a_modifier_twice_over() -> None:
    """The modifiers of a spelling account for all its parts: nothing is lost in the record."""
    for one, key in KEYS:
        modifiers = set(isa.find(key).modifiers) - set(one.implied)
        assert len(modifiers) == len(key.split(".")) - 1, key


def test_modifier_order_does_not_matter_but_type_order_does() -> None:
    """Triton's order of atom modifiers is the same form; swapped cvt types are another."""
    triton = isa.find("atom.global.gpu.acq_rel.add.f32")
    manual = isa.find("atom.acq_rel.gpu.global.add.f32")
    assert dict(triton.modifiers) == dict(manual.modifiers)
    assert isa.find("cvt.rn.f16.f32").modifiers["dtype"] == "f16"
    assert isa.find("cvt.f32.f16").modifiers["dtype"] == "f32"


def test_shuffled_modifiers_give_the_same_record() -> None:
    """Any order of an opcode's parts is found and means the same, but for types, for the two ends
    of a copy and for the words of its name (fresh seed)."""
    seed = random.randrange(1 << 32)  # noqa: S311 - not cryptography
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311 - not cryptography
    for _, key in rng.sample(KEYS, 300):
        head, *parts = key.split(".")
        form = isa.find(key)
        kinds = {value: name for name, value in form.modifiers.items()}
        fixed = {"type", "dtype", "atype", "btype", "ctype", "part", "alayout", "blayout",
                 "primary", "secondary"} | ({"space", "source"} if "source" in form.modifiers
                                            else set())
        names = [i for i, p in enumerate(parts) if p in NAMES.get(head, ())]
        movable = [i for i, p in enumerate(parts) if kinds.get(p) not in fixed and (
            parts.count(p) == 1) and i > max(names, default=-1)]
        order = movable[:]
        rng.shuffle(order)
        mixed = parts[:]
        for i, j in zip(movable, order, strict=True):
            mixed[i] = parts[j]
        assert dict(isa.find(".".join((head, *mixed))).modifiers) == dict(form.modifiers), key


@pytest.mark.parametrize(("opcode", "known"), [
    ("cp.async.bulk.tensor.2d.bulk_group.global.shared::cta", True),
    ("mbarrier.arrive.release.cta.noComplete.b64", True), ("barrier.aligned.sync", True),
    ("fence.release.proxy.tensormap::generic.sys", False), ("barrier.sync.cta", False),
    ("mbarrier.arrive.release.cta.expect_tx.b64", False), ("cp.bulk.async.commit_group", False),
    ("cp.async.bulk.tensor.2d.shared::cta.global.bulk_group", False),
    ("cp.async.bulk.global.shared::cluster.mbarrier::complete_tx::bytes", False),
])
def test_what_moves_and_what_does_not(opcode: str, *, known: bool) -> None:
    """As ptxas 13.5 takes them: the name's words, and the two ends of a copy, keep their order."""
    assert isa.legal(opcode, "sm_90a").legal == known


@pytest.mark.parametrize(("opcode", "family"), [
    ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "mma.sync"),
    ("mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "mma.sp"),
    ("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16", "wmma.load"),
    ("wmma.mma.xor.popc.sync.aligned.row.col.m8n8k128.s32.b1.b1.s32", "wmma.mma"),
    ("cp.async.ca.shared.global", "cp.async"),
    ("cp.async.wait_group", "cp.async.wait_group"),
    ("cp.async.mbarrier.arrive.noinc.shared.b64", "cp.async.mbarrier.arrive"),
    ("barrier.cta.sync.aligned", "bar.sync"),
    ("bar.red.popc.u32", "bar.red"),
    ("bar.warp.sync", "bar.warp.sync"),
    ("match.any.sync.b32", "match.sync"),
    ("mbarrier.arrive.expect_tx.shared::cta.b64", "mbarrier.arrive"),
    ("mbarrier.arrive_drop.shared.b64", "mbarrier.arrive_drop"),
    ("mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.try_wait"),
    ("shfl.sync.bfly.b32", "shfl.sync"),
    ("fence.proxy.async.shared::cta", "fence"),
    ("mul24.lo.s32", "mul24"),
    ("ld.global.nc.v4.f32", "ld"),
])
def test_families_are_those_that_executors_register_by(opcode: str, family: str) -> None:
    """The family is the head, or one of the agreed longer names."""
    assert isa.find(opcode).family == family


def test_operands_follow_the_modifiers() -> None:
    """Vector counts, widened types and the cache policy come from the spelling."""
    vector = isa.find("ld.global.L2::cache_hint.v4.f32").operands
    assert [(o.name, o.count, o.optional) for o in vector] == [
        ("d", 4, False), ("a", 1, False), ("policy", 1, False)]
    assert [o.name for o in isa.find("ld.global.f32").operands] == ["d", "a"]
    wide = isa.find("mad.wide.s16").operands
    assert [o.type for o in wide] == ["s32", "s16", "s16", "s32"]
    assert isa.find("setp.eq.f16x2").operands[0].pair_required
    assert isa.find("mov.b64").operands[1].packs
    assert isa.find("cp.async.cg.shared.global").operands[2].values == (16,)


def test_missing_operands_are_the_optional_ones() -> None:
    """Given n operands, take() leaves out the last optional ones and keeps the required."""
    red = isa.find("bar.red.and.pred")
    assert [o.name for o in red.take(3) or ()] == ["d", "a", "c"]
    assert [o.name for o in red.take(4) or ()] == ["d", "a", "n", "c"]
    assert red.take(2) is None
    assert red.take(5) is None


def test_the_rest_of_the_isa_is_said_to_be_elsewhere() -> None:
    """Textures are not called unknown instructions; the table names what it lacks."""
    for head in LATER_ISSUES:
        assert not rows(head)
        with pytest.raises(UnknownForm, match="not in this table yet"):
            isa.find(f"{head}.something")
    assert "tex" not in heads()


def test_a_row_that_is_wrongly_written_fails_by_name() -> None:
    """An operand that the row language does not know is an error that shows the row."""
    broken: Row = row("frob.f32 d, <<a>>", "nonsense")
    with pytest.raises(MmalabError, match="frob"):
        broken.operands({"type": "f32"})


def test_forms_lists_by_glob_and_by_words() -> None:
    """A glob matches keys; words must all be there; None lists everything."""
    assert "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" in isa.forms("mma.sync*bf16*")
    assert all("shared" in key and "v4" in key for key in isa.forms("ld shared v4"))
    assert len(isa.forms()) > 5000
    assert isa.forms("no-such-word") == []


def test_the_newest_requirement_wins() -> None:
    """Modifiers raise what the row asks for: cluster scope needs sm_90, bf16 atomics sm_90."""
    assert isa.find("ld.acquire.gpu.global.b32").targets == "sm_75+"
    assert isa.find("ld.acquire.cluster.global.b32").targets == "sm_90+"
    assert isa.find("ld.acquire.cluster.global.b32").ptx == (7, 8)
    assert isa.find("atom.global.add.noftz.bf16x2").targets == "sm_90+"
    assert "sm_75" in TARGETS
