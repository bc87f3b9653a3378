"""Article B: which chip takes which instruction, from which PTX version, and in whose words."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from mmalab import isa
from mmalab.claims.assembled import (
    ARTICLE,
    build,
    build_many,
    builds,
    by_compilers,
    highest_ptx,
    newest,
    releases,
    targets,
)
from mmalab.claims.compare import compiled, derived, same
from mmalab.claims.model import Answer, Statement, answer, out_of_reach
from mmalab.claims.probe import KINDS, WARP_MMA, WARPGROUP, Probe, body
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.toolchain import find, supported_targets, tools

PROBE = Probe().text()
FAMILIES = {"tcgen05": PROBE, "wgmma": WARPGROUP, "mma.sync": WARP_MMA}
VERSIONS = ("8.3", "8.4", "8.5", "8.6", "8.7", "8.8")


@lru_cache(maxsize=1)
def matrix() -> dict[str, dict[str, str]]:
    """family -> "release target" -> ptxas's words, empty where it accepts; the article's A5 loop,
    for every target since Ampere."""
    jobs = {f"{family}|{release} {chip}": (text, chip, release)
            for family, text in FAMILIES.items() for release in (ARTICLE, newest())
            for chip in targets(release, "sm_80")}
    found: dict[str, dict[str, str]] = {family: {} for family in FAMILIES}
    for name, tried in build_many(jobs).items():
        family, where = name.split("|")
        found[family][where] = tried.message
    return found


def takers(family: str) -> list[str]:
    """Targets that take a family, by either release."""
    return sorted({where.split()[1] for where, words in matrix()[family].items() if not words})


def by_version(text: str) -> dict[str, dict[str, str]]:
    """ptxas's words by PTX version and release, empty where it accepts."""
    return {version: {release: tried.message for release, tried in builds(
        re.sub(r"^\.version .*", f".version {version}", text, flags=re.MULTILINE),
        "sm_100a").items()} for version in VERSIONS}


@claim("B-008")
def _two_disagreements(said: Statement) -> Answer:
    """The opcode names of a paper's table, and 8.4 as the first version: both against them."""
    opcodes = {i.opcode for tried in builds(PROBE, "sm_100a").values()
               for i in tried.made.sass if i.matrix}
    refused = all(by_version(PROBE)["8.4"].values())
    found = [not opcodes & {"HMMA", "QMMA", "OMMA", "IMMA"}, refused]
    return answer(sum(found), by_compilers(),
                  must={"the opcodes are UTC*": found[0], "8.4 is refused": found[1],
                        f"{said.value} places": sum(found) == said.value},
                  unchecked="the paper and the post themselves")


@claim("B-043")
def _first_version(said: Statement) -> Answer:
    found = by_version(PROBE)
    first = min((v for v, row in found.items() if not all(row.values())), key=float)
    words = set(found["8.5"].values())
    late = by_version(Probe(kind="mxf4nvf4", scale="4X", version="8.6").text())
    return answer(float(first), by_compilers(),
                  must={f"{said.value}": float(first) == float(said.value),
                        "every release agrees": all(
                            bool(row[r]) == (float(v) < float(first))
                            for v, row in found.items() for r in row),
                        "the words name it": words == {
                            "Feature 'tcgen05.alloc' requires PTX ISA .version 8.6 or later"}},
                  unchecked=f"kind::mxf4nvf4 needs more: {late['8.6'][newest()]}",
                  command="mmalab legal tcgen05.alloc.cta_group::1.sync.aligned.b32 --ptx 8.5")


@claim("B-044")
def _which_toolkit(_said: Statement) -> Answer:
    """The manual's release notes, which the installed releases confirm where they can."""
    row = source("ptx.releases")
    limits = {release: ".".join(map(str, highest_ptx(release))) for release in releases()}
    agree = {release: row.value.get(release) in (None, limit)
             for release, limit in limits.items()}
    return answer({"12.8": row.value["12.8"], **limits}, by_compilers("every target"),
                  row.evidence,
                  must={"12.8 reads 8.6": float(row.value["12.8"]) >= 8.6,
                        **{f"ptxas {release} reads what the notes say": ok
                           for release, ok in agree.items()}},
                  should={"8.6 is the version that came with it": row.value["12.8"] == "8.6"},
                  right=f"8.6 came with CUDA 12.7; 12.8 reads {row.value['12.8']}")


@claim("B-045")
def _not_8_4(_said: Statement) -> Answer:
    words = by_version(PROBE)["8.4"]
    return answer(words, by_compilers(),
                  must={f"ptxas {release} refuses 8.4": bool(said) for release, said
                        in words.items()},
                  command="mmalab legal tcgen05.alloc.cta_group::1.sync.aligned.b32 --ptx 8.4")


@claim("B-085", "B-086", "B-087")
def _refusal(said: Statement) -> Answer:
    """With the file's own .target changed; as printed, ptxas stops at the target."""
    text, chip = {"B-085": (PROBE, "sm_100"), "B-086": (WARPGROUP, "sm_100a"),
                  "B-087": (WARPGROUP, "sm_120a")}[said.id]
    found = {release: tried.message for release, tried in builds(text, chip).items()}
    kept = build(text, chip, ARTICLE, retarget=False).message
    return answer(found, by_compilers(chip),
                  must={f"ptxas {release}: in these words": words == said.value
                        for release, words in found.items()},
                  unchecked=f"with the printed .target left in place ptxas says: {kept}")


@claim("B-088")
def _wgmma_is_gone(said: Statement) -> Answer:
    return answer(takers("wgmma"), by_compilers("every target since sm_80"),
                  must={f"{chip} refuses it": chip not in takers("wgmma") for chip in said.value}
                  | {"sm_90a alone takes it": takers("wgmma") == ["sm_90a"]},
                  command="mmalab legal wgmma.fence.sync.aligned --target sm_100a")


@claim("A-144")
def _wgmma_needs_90a(_said: Statement) -> Answer:
    return answer(takers("wgmma"), by_compilers("every target since sm_80"),
                  derived("the record of wgmma"),
                  must={"sm_90a alone": takers("wgmma") == ["sm_90a"],
                        "so says the record": str(isa.find(
                            "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16").targets)
                        == "sm_90a"},
                  command="mmalab legal wgmma.fence.sync.aligned --target sm_100a")


@claim("B-089")
def _plain_sm_100(_said: Statement) -> Answer:
    found = {family: "sm_100" in takers(family) for family in ("tcgen05", "wgmma")}
    return answer(found, by_compilers("sm_100"),
                  must={f"no {family}": not taken for family, taken in found.items()},
                  command="mmalab legal tcgen05.wait::ld.sync.aligned --target sm_100")


@claim("B-090")
def _specific_targets_only(_said: Statement) -> Answer:
    """Family targets (f) take it too, and their PTX is compiled for later chips of the family."""
    family = [chip for chip in takers("tcgen05") if chip.endswith("f")]
    generic = [chip for chip in takers("tcgen05") if chip[-1].isdigit()]
    portable = Probe(target="sm_100f", version="8.8").text()
    elsewhere = {chip: build(portable, chip, newest(), retarget=False).accepted
                 for chip in ("sm_100a", "sm_103a")}
    return answer({"takes it": takers("tcgen05"), ".target sm_100f compiles for": elsewhere},
                  by_compilers("every target since sm_80"),
                  must={"no generic target": not generic},
                  should={"architecture-specific targets only": not family,
                          "compatible with nothing else": not elsewhere["sm_103a"]},
                  right=f"family targets take it too ({', '.join(family)}): PTX for sm_100f is "
                        "also compiled for sm_103")


@claim("B-091")
def _what_spans(_said: Statement) -> Answer:
    chips = ("sm_90a", "sm_100a", "sm_120a")
    spans = [family for family in FAMILIES if all(chip in takers(family) for chip in chips)]
    return answer(spans, by_compilers("every target since sm_80"),
                  must={"mma.sync alone": spans == ["mma.sync"]})


@claim("B-093")
def _not_on_a_workstation(_said: Statement) -> Answer:
    """No consumer target takes it; this package writes, checks and compiles it without a chip."""
    consumer = [chip for chip in takers("tcgen05") if chip.startswith(("sm_89", "sm_12"))]
    modules = [chip for chip in takers("tcgen05") if chip.startswith(("sm_101", "sm_110"))]
    return answer(takers("tcgen05"), by_compilers("every target since sm_80"),
                  must={"no consumer target takes it": not consumer},
                  should={"nor any chip outside a data centre": not modules,
                          "it cannot be written or checked without the chip": bool(
                              build(PROBE, "sm_100a", newest()).message)},
                  right="no consumer GPU runs it, but sm_110a (the Thor module) has it, and it can "
                        "be written, checked and compiled anywhere, as here")


@claim("B-003")
def _no_gpu_needed(said: Statement) -> Answer:
    """Sizes of the programs that did the work; whether there is a GPU makes no difference."""
    used = {str(tool): tool.path.stat().st_size / 2**20 for tool in tools("ptxas")[-1:]}
    made = build(PROBE, "sm_100a", ARTICLE)
    return answer({f"ptxas {name}, MiB": round(size, 1) for name, size in used.items()},
                  by_compilers(),
                  must={"it lowers for compute capability 10.0 here": made.accepted,
                        "and reads it back": bool(made.lines)},
                  unchecked=f"{said.value} MB are the downloaded wheel")


@claim("B-041")
def _toolchain(said: Statement) -> Answer:
    """The same ptxas, and a disassembler in which the article's counts come out."""
    ptxas, nvdisasm = str(find("ptxas", ARTICLE)), str(find("nvdisasm"))
    return answer([ptxas, nvdisasm], by_compilers(),
                  must={f"ptxas {said.value[0]}": ptxas == said.value[0],
                        "152 instructions of the probe, as the article counts": len(build(
                            PROBE, "sm_100a", ARTICLE).lines) == 152},
                  unchecked=f"nvdisasm {said.value[1]}: {nvdisasm} is installed",
                  command="mmalab doctor")


@claim("B-171")
def _what_pip_gives(said: Statement) -> Answer:
    ptxas, nvdisasm = str(find("ptxas", ARTICLE)), str(find("nvdisasm"))
    return answer([ptxas, nvdisasm], by_compilers(),
                  must={f"ptxas {said.value[0]} of the CUDA 12 wheel": ptxas == said.value[0]},
                  should={f"disassemblers {said.value[1]}": nvdisasm == said.value[1]},
                  right=f"only when pinned: unpinned, later releases come ({nvdisasm} here)",
                  command="mmalab doctor")


@claim("B-172")
def _kind_loop(said: Statement) -> Answer:
    found = {kind: {release: tried.matrix if tried.accepted else tried.message
                    for release, tried in builds(PROBE.replace("kind::f16", f"kind::{kind}"),
                                                 "sm_100a").items()} for kind in KINDS}
    return answer({kind: row[newest()] for kind, row in found.items()}, by_compilers(),
                  must={f"{kind} assembles": all(isinstance(words, list)
                                                 for words in found[kind].values())
                        for kind in said.value})


@claim("B-173")
def _target_loop(said: Statement) -> Answer:
    """As printed, and with .target (and .version) changed for each target."""
    chips = ("sm_90a", "sm_100a", "sm_103a", "sm_100", "sm_120a")
    printed = {f"{chip} {family}": build(text, chip, ARTICLE, retarget=False).message
               for chip in chips for family, text in FAMILIES.items()}
    changed = {f"{chip} {family}": build(text, chip, ARTICLE).message
               for chip in chips for family, text in FAMILIES.items()}
    mismatch = [where for where, words in printed.items() if "cannot be compiled for" in words]
    return answer({"stopped at the target": mismatch,
                   "refused for the instruction": [w for w, words in changed.items() if words]},
                  by_compilers(" ".join(chips)),
                  must={f"{said.value} targets, three files": len(chips) == said.value,
                        "the instruction is named once .target is changed": all(
                            "not supported on .target" in words
                            for words in changed.values() if words)},
                  should={"as printed it gives those messages": not mismatch},
                  right="the files' .target (and .version 8.8 for sm_103a) must be changed for "
                        "each, else ptxas stops at 'cannot be compiled for architecture'")


@claim("B-174")
def _version_loop(said: Statement) -> Answer:
    found = [version for version, row in by_version(PROBE).items() if not row[ARTICLE]]
    return answer(found, by_compilers(), must={"8.6, 8.7, 8.8": same(found, said.value)})


@claim("B-175")
def _where_12_9_ends(said: Statement) -> Answer:
    version = ".".join(map(str, highest_ptx(ARTICLE)))
    known = supported_targets(find("ptxas", ARTICLE))
    with_memory = [chip for chip in takers("tcgen05") if chip in known]
    return answer({"PTX": version, "newest target": known[-1], "with tcgen05": with_memory[-1]},
                  by_compilers("every target"),
                  must={"PTX 8.8": version == said.value[0],
                        "sm_103 is its newest with tcgen05": with_memory[-1].startswith("sm_103")},
                  should={"sm_103a is its newest target": known[-1] == said.value[1]},
                  right=f"it also knows {', '.join(c for c in known if c.startswith('sm_12'))}, "
                        "which have no Tensor Memory")


@claim("B-176")
def _reads_older_cubins(_said: Statement) -> Answer:
    made = build(PROBE, "sm_100a", ARTICLE)
    reader = str(find("nvdisasm"))
    return answer(f"{len(made.lines)} instructions of a {ARTICLE} cubin",
                  by_compilers(what=f"read by nvdisasm {reader}"),
                  must={"CUDA 13 reads CUDA 12": reader.startswith("13.") and bool(made.lines)})


@claim("B-177")
def _newer_wheel(_said: Statement) -> Answer:
    return out_of_reach("a container of then; today the wheel of CUDA "
                        f"{find('ptxas').toolkit} is installed and assembles")


@claim("B-170")
def _five_minutes(said: Statement) -> Answer:
    """Tier A is these claims; all ran in this process."""
    rows = {"A1": build(PROBE, "sm_100a", ARTICLE).accepted,
            "A5": bool(matrix()), "A6": bool(by_version(PROBE)),
            "A7": build(replace(Probe(), drain=128).text(), "sm_100a", ARTICLE).accepted}
    calls = 4 + len(KINDS) + 15 + len(VERSIONS) + 8 + 5
    return answer(f"{calls} calls of ptxas", by_compilers(),
                  must={f"{name} repeats": ok for name, ok in rows.items()},
                  unchecked=f"the time, under {said.value} minutes: it is the machine's")


@claim("B-165")
def _prediction_1(_said: Statement) -> Answer:
    """Outside tcgen05 no record names Tensor Memory, and no assembler knows such a state space."""
    outside = [key for key in isa.forms("*") if not key.startswith("tcgen05")
               and re.search(r"tmem|tensor::memory", key)]
    trials = {f"{op} {space}": f"{op}.{space}.u32 {operands};"
              for op, operands in (("ld", "%r1, [%r2]"), ("st", "[%r2], %r1"),
                                   ("atom", "%r1, [%r2], 1"), ("red", "[%r2], 1"))
              for space in ("tmem", "tensor", "tmem::cta", "shared::tensor")}
    # On the newest chip that has Tensor Memory, in the newest PTX.
    chip, version = "sm_107a", ".".join(map(str, highest_ptx(newest())))
    taken = [f"{what} for {target}" for what, line in trials.items() for target in (chip, "sm_100a")
             if build(body([line], version=version, target=target), target, newest()).accepted]
    return answer({"records outside tcgen05": outside, "accepted": taken},
                  derived(f"{len(isa.forms('*'))} spellings of the instruction table"),
                  compiled(f"ptxas {newest()} for sm_100a and {chip}, PTX {version}"),
                  must={"no record outside tcgen05 names it": not outside,
                        "ld, st, atom, red have no such state space": not taken},
                  unchecked=f"the future: true of ptxas {newest()}; a newer one is asked again",
                  command="mmalab forms tcgen05")


@claim("B-033")
def _only_tcgen05(_said: Statement) -> Answer:
    """What takes a Tensor Memory address is of that family; the rest has no such space."""
    searched = _prediction_1(_said)
    machine = {i.opcode for i in build(PROBE, "sm_100a", newest()).made.sass if "tmem[" in i.text}
    return replace(searched, ours={"machine instructions with tmem operands": sorted(machine)},
                   unchecked="texture paths: they have no such operand in PTX", command=None)
