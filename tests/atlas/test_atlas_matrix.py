"""The capability matrix: a batch judges as a run alone, and as the handed facts say."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from facts import read_facts

from mmalab import atlas, isa
from mmalab.atlas import judging
from mmalab.atlas.agreement import digest_of, stated
from mmalab.atlas.judging import Judgement, judge, judge_all
from mmalab.atlas.releases import known_targets, newest_ptx, release, written
from mmalab.atlas.specimens import Specimen, all_specimens, specimens_of
from mmalab.errors import ToolError, UnknownForm, UsageError
from mmalab.toolchain import AssemblyError, assemble
from mmalab.toolchain.locate import Tool

RECORD = Path(__file__).parents[2] / "records/compiled/atlas_targets_13.5.json"

#: Refused without a line, beyond the words of older releases, in a macro, or with advice.
AWKWARD = (
    "cvta.global.u32", "tcgen05.ld.spcompress.sync.aligned.32x32b.x4.min.sp::2:4.f32.b2",
    "st.bulk.shared::cta", "setmaxnreg.inc.sync.aligned.u32",
    "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
)

#: Targets whose sets of instructions differ.
KINDS = ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_100", "sm_100f", "sm_100a", "sm_107a", "sm_110a",
         "sm_120a")

pytestmark = pytest.mark.toolkit


def alone(ptxas: Tool, specimen: Specimen, target: str, version: str) -> Judgement:
    """What a run of the assembler on nothing but this specimen says."""
    try:
        said = assemble(specimen.module(target, version), None, ptxas.toolkit,
                        line_info=False).diagnostics
    except AssemblyError as refused:
        said = refused.diagnostics
    errors = dict.fromkeys(d.message for d in said if d.severity in ("error", "fatal"))
    lined = [d for d in said if d.line is not None]
    advice = dict.fromkeys(d.message for d in lined if d.severity not in ("error", "fatal"))
    return Judgement(tuple(errors), tuple(advice))


def test_a_batch_judges_as_alone(ptxas: Tool) -> None:
    """Fresh specimens, among two hundred others, and the ones that are refused without a line."""
    seed = random.randrange(1 << 32)  # noqa: S311 - not cryptography
    print("seed", seed)
    rng = random.Random(seed)  # noqa: S311 - not cryptography
    version = written(newest_ptx(ptxas))
    target = rng.choice(known_targets(ptxas))
    batch = rng.sample(all_specimens(), 200) + [s for key in AWKWARD for s in specimens_of(key)]
    rng.shuffle(batch)
    judged = judge(ptxas, batch, target, version)
    sample = [*rng.sample(range(200), 12), *(
        at for at, s in enumerate(batch) if s.opcode in AWKWARD)]
    for at in sample:
        assert judged[at] == alone(ptxas, batch[at], target, version), (batch[at].text, target)


@pytest.mark.shared
def test_the_handed_facts(shared: Path) -> None:
    """Every verdict and every message of the four matrices, from a batch of all their rows: on one
    target of each kind, and three of the others."""
    facts = read_facts(shared / "facts" / "isa")
    assert len(facts) == 419
    others = sorted({target for fact in facts for target in fact.targets} - set(KINDS))
    targets = [*KINDS, *random.sample(others, 3)]
    print(targets)
    judged = judge_all(release("13.5"), [f.specimen for f in facts], [(t, "9.5") for t in targets])
    compared, wrong = 0, []
    for at, fact in enumerate(facts):
        for target in set(fact.targets).intersection(targets):
            said = judged[target, "9.5"][at]
            compared += 1
            words = {_plain(w) for w in (*said.errors, *said.advice)}
            if said.accepted != (target in fact.accepted) or (
                    not said.accepted and _plain(fact.messages[target]) not in words):
                wrong.append((fact.name, target, words, fact.messages.get(target)))
    assert wrong == []
    assert compared > 3000


def _plain(words: str) -> str:
    """A message without the name of the function, or of the file, that it was made in."""
    words = re.sub(r"^ptxas .*?(?:error|fatal)\s*: ", "", words)
    return re.sub(r"Function '\w+'", "Function", words)


@pytest.mark.shared
def test_the_shapes_of_wgmma(shared: Path) -> None:
    """Every recorded N of each combination of types assembles, and no other multiple of 8 does."""
    recorded = json.loads((shared / "facts/isa/isa_wgmma_shapes.json").read_text(encoding="utf-8"))
    specimens, expected = [], []
    for name, sizes in recorded.items():
        types, k, source, *sparse = name.split()
        dtype, atype, *rest = types.split(".")
        head = f"wgmma.mma_async{'.sp' if sparse else ''}.sync.aligned"
        tail = f"{k}.{dtype}.{atype}.{rest[0] if rest else atype}" + ".and.popc" * (atype == "b1")
        largest = specimens_of(f"{head}.m64n256{tail}")
        for n in range(8, 265, 8):
            specimens.append(_narrowed(largest[source == "rs"], n, 4 if dtype == "f16" else 2))
            expected.append(n in sizes)
    judged = judge(release("13.5"), specimens, "sm_90a", "9.5")
    wrong = [(s.text[:80], j.errors) for s, j, fits in zip(specimens, judged, expected, strict=True)
             if j.accepted != fits]
    assert wrong == []


def _narrowed(widest: Specimen, n: int, per: int) -> Specimen:
    """The same product with another N, and as many registers of D."""
    file = widest.text.partition("{%")[2][0]
    d = "{" + ", ".join(f"%{file}{i}" for i in range(n // per)) + "}"
    text = re.sub(r"\{[^}]*\}", d, widest.text.replace("m64n256", f"m64n{n}"), count=1)
    highest = dict(widest.registers)
    highest[file] = max(highest[file], n // per)
    return Specimen(text, widest.opcode, text, "straight", tuple(highest.items()))


# --- the record -----------------------------------------------------------------------------------


def test_the_record_is_the_table() -> None:
    """The committed matrix is what the instruction table states, without an exception."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    assert record["exceptions"] == {}
    rows = [(s.name, stated(s, record["targets"], record["ptx"])) for s in all_specimens()]
    remake = "the table has changed: " + record["command"].replace("FILE", RECORD.name)
    assert len(rows) == record["spellings"], remake
    assert digest_of(rows) == record["digest"], remake
    assert sum(len(table) for _, table in rows) == record["accepted"]


def test_scale_or_masked_lanes() -> None:
    """Sparse kind::i8 takes either; both together, which no operand list has, assembles nowhere."""
    dense, sparse = (specimens_of(f"tcgen05.mma{sp}.cta_group::1.kind::i8") for sp in ("", ".sp"))
    both, = (s for s in dense if "lanes x 4" in s.name and "scale" in s.name and "[a]" in s.name)
    assert not any("lanes" in s.name and "scale" in s.name for s in sparse)
    with_metadata = both.text.replace("mma.", "mma.sp.", 1).replace("%q4, ", "%q4, [%r0], ", 1)
    there = Specimen("both", sparse[0].opcode, with_metadata, "straight", both.registers)
    for judged, specimen, legal in zip(
            judge(release("13.5"), [both, there, *sparse], "sm_100a", "9.5"),
            [both, there, *sparse], [True, False, *(True for _ in sparse)], strict=True):
        verdict = isa.legal(specimen.text, "sm_100a")
        assert (judged.accepted, verdict.legal) == (legal, legal), specimen.text
    assert isa.legal(with_metadata, "sm_100a").instead.endswith("dense ones take both")


@pytest.mark.shared
def test_the_record_is_what_the_facts_say(shared: Path) -> None:
    """Wherever a row of the handed matrices is a specimen, the record has its targets."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    by_opcode = {s.name: s for s in all_specimens()}
    compared = 0
    for fact in read_facts(shared / "facts" / "isa"):
        specimen = by_opcode.get(fact.specimen.opcode)
        if specimen is None or _shape_of(specimen) != _shape_of(fact.specimen):
            continue  # a spelling that is wrong on purpose, or another operand list
        ours = stated(specimen, record["targets"], record["ptx"])
        assert ours & frozenset(fact.targets) == set(fact.accepted), (fact.name, ours)
        compared += len(fact.targets)
    assert compared > 3000


def _shape_of(specimen: Specimen) -> str:
    """The operands without their names: what makes two operand lists the same."""
    operands = specimen.text.split("; ")[-1].partition(" ")[2].replace(" ", "")
    return re.sub(r"%\w+|tile", "%", operands)


# --- as a function --------------------------------------------------------------------------------


def test_an_answer_can_be_repeated() -> None:
    """Its module assembles for each accepted target and is refused with its words elsewhere."""
    row, = atlas.matrix(["wgmma.fence.sync.aligned"], ["sm_90", "sm_90a", "sm_100a", "sm_120a"])
    assert row.targets == ("sm_90a",)
    assert row.messages["sm_120a"].startswith(
        "Instruction 'wgmma.fence' not supported on .target 'sm_120a'")
    assert "mma.sync" in row.reason("sm_120a")
    assert assemble(row.ptx).target == "sm_90a"
    with pytest.raises(AssemblyError) as refused:
        assemble(row.module("sm_100a"))
    assert all(words in str(refused.value) for words in row.messages["sm_100a"].split("; "))


def test_the_cache_answers_without_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    forms = ["elect.sync", "movmatrix.sync.aligned.m8n8.trans.b16"]
    first = atlas.matrix(forms, ["sm_80", "sm_90"])

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the assembler was run again")

    monkeypatch.setattr(judging, "invoke", never)
    assert atlas.matrix(forms, ["sm_80", "sm_90"]) == first


def test_advice_is_kept_apart() -> None:
    """An advisory is no refusal: plain sparse metadata, on a chip that may be slower with it."""
    row, = atlas.matrix(["mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"], ["sm_90"])
    assert row.targets == ("sm_90",)
    assert "ordered_metadata" in row.advice["sm_90"]


def test_further_operand_lists_have_names() -> None:
    rows = atlas.matrix(["tcgen05.mma.cta_group::1.kind::f16"], ["sm_100a", "sm_110a"])
    targets = {row.form.partition(" ")[2]: row.targets for row in rows}
    assert targets["[d], [a], b, idesc, enable"] == ("sm_100a", "sm_110a")
    assert targets["[d], a, b, idesc, enable, scale_input"] == ("sm_100a",)


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"targets": ["sm_101a"]}, UsageError, "sm_100a"),
    ({"forms": ["wgmma.mma"]}, UnknownForm, "wgmma"),
    ({"forms": "no such words"}, UsageError, "no such words"),
    ({"toolkit": "11.8"}, ToolError, "13.5"),
    ({"toolkit": "12.9", "targets": ["sm_110a"]}, ToolError, "--toolkit 13.5"),
    ({"toolkit": "12.9", "ptx_version": "9.0"}, UsageError, "8.8"),
])
def test_wrong_use(options: dict[str, object], error: type[Exception], words: str) -> None:
    """Rule, value and what would be legal."""
    with pytest.raises(error, match=re.escape(words)):
        atlas.matrix(**{"forms": ["add.u32"], **options})  # type: ignore[arg-type]


def test_every_form_has_a_specimen() -> None:
    """The specimens span the list of forms, each with its own name."""
    specimens = all_specimens()
    assert {s.opcode for s in specimens} == set(isa.forms())
    assert len({s.name for s in specimens}) == len(specimens)


def test_kept_specimens_are_the_written_ones(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Read back from the cache they are what the table writes, to the last field."""
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path))
    written = all_specimens.__wrapped__()
    assert all_specimens.__wrapped__() == written
    assert list(tmp_path.rglob("*"))
