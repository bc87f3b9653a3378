"""Article B: which machine instruction each kind of tcgen05.mma is, and what its operands are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from mmalab import isa
from mmalab.claims.assembled import (
    ARTICLE,
    Build,
    build,
    builds,
    by_compilers,
    highest_ptx,
    newest,
    releases,
    targets,
)
from mmalab.claims.compare import derived, same
from mmalab.claims.model import Answer, Evidence, Statement, answer
from mmalab.claims.probe import BLOCK_KINDS, KINDS, Probe, body, warp_kernels
from mmalab.claims.registry import claim
from mmalab.claims.sources import source
from mmalab.claims.together import Read, read_together

#: Chips with Tensor Memory whose own targets are assembled.
CHIPS = ("sm_100a", "sm_103a", "sm_107a", "sm_110a")


def product(tried: Build) -> str:
    """The machine instruction of the probe's product, as text."""
    return next(i.text for i in tried.made.sass if i.matrix)


@lru_cache(maxsize=1)
def variations() -> dict[str, Probe]:
    """Every kind and modifier of the article, and more, one probe each."""
    found = {kind: Probe(kind=kind) for kind in KINDS}
    found |= {f"{kind} {scale}": Probe(kind=kind, scale=scale) for kind, scale in BLOCK_KINDS}
    for name, probe in list(found.items()):
        found[f"{name} .sp"] = replace(probe, sparse=True)
        found[f"{name} .cta_group::2"] = replace(probe, group=2)
        if not probe.scale:
            found[f"{name} .ws"] = replace(probe, stationary=True)
            found[f"{name} .ashift"] = replace(probe, shifted=True)
            found[f"{name}, A in Tensor Memory"] = replace(probe, a_in_memory=True)
    return found


def sweep(chip: str, release: str) -> Mapping[str, Read]:
    """Every variation on a chip by one release."""
    return read_together({name: probe.text() for name, probe in variations().items()}, chip,
                         release)


def by_chip(name: str) -> dict[str, dict[str, str]]:
    """Opcode of a variation by chip and release; ptxas's words where it refuses."""
    return {chip: {release: _opcode_of(sweep(chip, release)[name])
                   for release in releases() if chip in targets(release)} for chip in CHIPS}


def _opcode_of(read: Read) -> str:
    return read.products[0].split(maxsplit=1)[0] if read.products else read.message


@lru_cache(maxsize=1)
def all_products() -> dict[str, str]:
    """The machine instruction of every variation that is accepted, on every chip, by the article's
    release and the newest.
    """
    return {f"{name} {chip} {release}": line for chip in CHIPS
            for release in (ARTICLE, newest()) if chip in targets(release)
            for name, read in sweep(chip, release).items() for line in read.products}


def _swept(what: str = "") -> Evidence:
    return by_compilers(" ".join(CHIPS), what=what or f"{len(variations())} variations")


_PRINTED = {
    "B-061": Probe(), "B-062": Probe(sparse=True), "B-063": Probe(group=2),
    "B-064": Probe(kind="mxf4nvf4", scale="4X"), "B-136": Probe(kind="mxf4", scale="2X"),
}


@claim(*_PRINTED)
def _printed(said: Statement) -> Answer:
    """The article's own release gives the line as printed; others the same form."""
    probe = _PRINTED[said.id]
    found = {release: product(tried) for release, tried in builds(probe.text(), "sm_100a").items()}

    def form(line: str) -> str:
        return re.sub(r"UR\d+", "UR", line)

    return answer(found, by_compilers(),
                  must={f"ptxas {ARTICLE}: as printed": found[ARTICLE] == said.value},
                  across={f"ptxas {release}: the same form": form(line) == form(said.value)
                          for release, line in found.items()},
                  as_written=f"ptxas {ARTICLE}: the same form",
                  unchecked="which uniform registers: newer releases choose others")


@claim("B-065", "B-135")
def _scale_operands(said: Statement) -> Answer:
    """Two scale addresses that differ share one operand: an even-odd pair of registers."""
    probe = Probe(kind="mxf4nvf4", scale="4X", scales_apart=True)
    line = product(build(probe.text(), "sm_100a", ARTICLE))
    places = [at for at, word in enumerate(line.split(", "), 1) if "tmem[" in word]
    ours = {"tmem operands": len(places), "places": places,
            "scales in": len(places), "line": line}
    wanted = [said.value] if isinstance(said.value, int) else list(said.value)
    taken = [len(places)]  # the last of them holds both scale addresses
    return answer(ours, by_compilers(),
                  must={f"scales are tmem operand {' and '.join(map(str, wanted))}":
                        same(taken, wanted)},
                  right=f"the scales are the third tmem operand (operand {places[-1]}), one "
                        "register pair for both addresses")


@claim("B-066")
def _no_vector_register(said: Statement) -> Answer:
    found = {what: re.findall(r"\bR\d+", line) for what, line in all_products().items()}
    return answer(f"{sum(map(len, found.values()))} in {len(found)} products", _swept(),
                  must={"no product names a vector register": sum(map(len, found.values()))
                        == said.value})


@claim("B-067")
def _uniform_datapath(_said: Statement) -> Answer:
    """Code for the oldest chip that today's disassembler reads, which is a Turing."""
    loop = body(["mov.u32 %r1, 0;", "mov.u32 %r2, 0;", "AGAIN:", "add.u32 %r2, %r2, %r1;",
                 "st.global.u32 [%rd1], %r2;", "add.u32 %r1, %r1, 1;",
                 "setp.lt.u32 %p1, %r1, 999;", "@%p1 bra AGAIN;"], version="7.0", target="sm_75")
    found = {release: sorted({op.split(".")[0] for op in tried.opcodes
                              if re.match(r"U[A-Z]", op)})
             for release, tried in builds(loop, "sm_75").items()}
    return answer(found, by_compilers("sm_75"),
                  must={f"ptxas {release}: uniform instructions": bool(words)
                        for release, words in found.items()},
                  unchecked="that Volta has none: nvdisasm 13 reads no Volta code")


@claim("B-069")
def _fourth_slot(_said: Statement) -> Answer:
    """A dense product with an instruction descriptor of its own, against a sparse one."""
    lines = {"dense": product(build(Probe().text(), "sm_100a", ARTICLE)),
             "dense, run-time descriptor": product(
                 build(Probe(descriptor=True).text(), "sm_100a", ARTICLE)),
             "sparse": product(build(Probe(sparse=True).text(), "sm_100a", ARTICLE))}
    fourth = {name: line.split(", ")[3] for name, line in lines.items()}
    pairs = {name: [line.split(", ")[4]] for name, line in lines.items()}
    mixed = fourth["dense, run-time descriptor"] != "tmem[URZ]"
    return answer(fourth, by_compilers(what=f"ptxas {ARTICLE}"),
                  must={"dense: URZ": fourth["dense"] == "tmem[URZ]",
                        "sparse: an address": fourth["sparse"] != "tmem[URZ]"},
                  should={"dense is URZ whatever the descriptor": not mixed},
                  right=f"with a run-time instruction descriptor a dense product has "
                        f"{fourth['dense, run-time descriptor']} there, the lower half of the pair "
                        f"that ends in {pairs['dense, run-time descriptor'][0]}: no metadata")


@claim("B-070")
def _three_states(said: Statement) -> Answer:
    """Sparse and block-scaled at once: accumulator, metadata, two scales, all addresses."""
    taken = {f"{kind} {scale}": {release: tried.accepted for release, tried in builds(
        Probe(kind=kind, scale=scale, sparse=True).text(), "sm_100a").items()}
        for kind, scale in BLOCK_KINDS}
    operands = isa.find("tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale.block32")
    addresses = [o.name for o in operands.operands if o.role == "address"]
    states = {"d", "e", "sa"} & set(addresses)
    return answer(addresses, by_compilers(), derived("the record of tcgen05.mma.sp.block_scale"),
                  must={"three kinds of state": len(states) == said.value,
                        "every scaled kind assembles sparse": all(
                            ok for row in taken.values() for ok in row.values())})


#: Claims of the table of opcodes (an image), and the variation of each: generated here.
_TABLE = {
    "B-071": "f16", "B-072": "tf32", "B-073": "f8f6f4", "B-074": "i8", "B-075": "mxf8f6f4 1X",
    "B-076": "mxf4 2X", "B-077": "mxf4nvf4 4X", "B-078": "mxf4nvf4 2X",
}


@claim(*_TABLE)
def _opcode(said: Statement) -> Answer:
    """On the article's target by every release; on later chips it may be another word."""
    found = by_chip(_TABLE[said.id])
    home = found.pop("sm_100a")
    # A chip without the kind says so; that is no other opcode.
    others = {chip: sorted({word for word in row.values() if word.startswith("UTC")})
              for chip, row in found.items()}
    must = {f"sm_100a, ptxas {release}": word == said.value for release, word in home.items()}
    across = {"sm_100a": all(must.values())} | {
        chip: words == [said.value] for chip, words in others.items() if words}
    missing = [chip for chip, words in others.items() if not words]
    words = ", ".join(f"{chip} {' '.join(row)}" for chip, row in others.items()
                      if row and row != [said.value])
    return answer({"sm_100a": home[newest()], **{chip: words or ["not supported"]
                                                 for chip, words in others.items()}},
                  _swept("one kind"), must=must, across=across, as_written="sm_100a",
                  right=words, unchecked=f"not on {' '.join(missing)}: no such kind there"
                  if missing else "")


@claim("B-079")
def _modifiers(said: Statement) -> Answer:
    base = _opcode_of(sweep("sm_100a", newest())["f16"])
    ours = {}
    for name in said.value:
        words = {_opcode_of(sweep("sm_100a", release)[f"f16 {name}"]).removeprefix(base)
                 for release in releases()}
        ours[name] = " ".join(sorted(words)) or "no suffix"
    both = Probe(stationary=True, group=2)
    return answer(ours, by_compilers(),
                  must={f"{name}: {word}": word == said.value[name] for name, word in ours.items()},
                  unchecked=".ws with .cta_group::2: "
                            + build(both.text(), "sm_100a", newest()).message)


@claim("B-080")
def _table_is_measured(_said: Statement) -> Answer:
    """The whole table once more, by every release: no opcode differs."""
    home = {name: {release: _opcode_of(sweep("sm_100a", release)[name]) for release in releases()
                   if sweep("sm_100a", release)[name].products} for name in variations()}
    differ = [name for name, row in home.items() if len(set(row.values())) > 1]
    table = {name: next(iter(row.values()), "not accepted") for name, row in home.items()}
    return answer(table, by_compilers(what=f"{len(home)} variations"),
                  must={"every kind of the article assembles": all(home[kind] for kind in KINDS),
                        "the releases agree on every opcode": not differ})


@claim("B-081")
def _their_table(said: Statement) -> Answer:
    row = source("delaware.opcodes")
    return answer(row.value, row.evidence,
                  must={f"{kind} is {name}": name in said.value
                        for kind, name in row.value.items()}
                  | {"no name with UTC": not any("UTC" in name for name in row.value.values())},
                  unchecked="HMMA and IMMA, and the table itself")


@claim("B-082")
def _never_those(_said: Statement) -> Answer:
    """In no variation; and the paper's names are what mma.sync gives on sm_120a."""
    bad = [what for what, line in all_products().items()
           if re.match(r"(HMMA|QMMA|OMMA|IMMA)\b", line)]
    return answer(f"{len(bad)} of {len(all_products())} products", _swept(),
                  must={"none is HMMA, QMMA, OMMA or IMMA": not bad},
                  unchecked="those four are what mma.sync becomes on sm_120a")


#: Chips of every generation since Ampere, and a product of each of the paper's names.
WARP_CHIPS = ("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")
_NAMED = {"HMMA": "f16", "QMMA": "e4m3", "IMMA": "s8", "OMMA": "nvfp4"}


@claim("B-083")
def _names_since_volta(_said: Statement) -> Answer:
    """Each name must be there from the start of the span to Hopper."""
    found = {name: {chip: [op.split(".")[0] for op in read_together(
        warp_kernels(), chip, newest())[kernel].opcodes] for chip in WARP_CHIPS}
        for name, kernel in _NAMED.items()}
    where = {name: [chip for chip, words in row.items() if name in words]
             for name, row in found.items()}
    return answer(where, by_compilers("sm_80 sm_89 sm_90a sm_100a sm_120a", what="mma.sync"),
                  must={f"{name} on sm_80 and sm_90a": all(name in row[chip]
                                                           for chip in ("sm_80", "sm_90a"))
                        for name, row in found.items()},
                  right="; ".join(f"{name}: {', '.join(chips)}" for name, chips in where.items()))


@claim("B-084")
def _register_files(_said: Statement) -> Answer:
    warp = {release: read_together(warp_kernels(), "sm_100a", release)["f16"].products[0]
            for release in releases()}
    vector = {release: len(re.findall(r"\bR\d+", line)) for release, line in warp.items()}
    uniform = {what: "UR" in line and not re.search(r"\bR\d", line)
               for what, line in all_products().items()}
    return answer([warp[newest()], sweep("sm_100a", newest())["f16"].products[0]],
                  _swept(),
                  must={"HMMA names vector registers": all(vector.values()),
                        "the products of tcgen05 uniform ones alone": all(uniform.values())})


@claim("B-092")
def _accumulates_in_registers(_said: Statement) -> Answer:
    """Destination and addend of HMMA are vector registers on every chip."""
    kernels = {f"{release} {chip}": read_together(warp_kernels(), chip, release)["f16"].function
               for chip in WARP_CHIPS for release in releases()}
    found = {where: next(i for i in kernel.instructions if i.matrix)
             for where, kernel in kernels.items() if kernel is not None}
    return answer({where: i.text for where, i in found.items() if where.startswith(newest())},
                  by_compilers("sm_80 sm_89 sm_90a sm_100a sm_120a"),
                  must={"D and C are vector registers": all(
                      i.operands[0].file == "R" and i.operands[3].file == "R"
                      for i in found.values())})


@claim("B-134")
def _scales_from_memory(_said: Statement) -> Answer:
    """A register or a descriptor in their place is refused."""
    good = Probe(kind="mxf8f6f4", scale="1X").text()
    trials = {"[address]": good, "register": good.replace("[%r2], [%r2], %p1", "%r2, %r2, %p1"),
              "descriptor": good.replace("[%r2], [%r2], %p1", "%rd2, %rd3, %p1")}
    found = {name: {release: tried.accepted for release, tried in builds(text, "sm_100a").items()}
             for name, text in trials.items()}
    return answer({name: row[newest()] for name, row in found.items()}, by_compilers(),
                  must={"Tensor Memory addresses": all(found["[address]"].values()),
                        "not registers": not any(found["register"].values()),
                        "not descriptors": not any(found["descriptor"].values())})


@claim("B-142")
def _hardware_scaling_elsewhere(_said: Statement) -> Answer:
    """A consumer chip without Tensor Memory, and the same format."""
    scaled = warp_kernels()["nvfp4"]
    found = {release: {"product": product(tried), "conversions": sum(
        op.startswith("F2FP") for op in tried.opcodes)}
        for release, tried in builds(scaled, "sm_120a").items()}
    none = {release: build(Probe().text(), "sm_120a", release).accepted for release in releases()}
    software = [release for release, row in found.items()
                if row["conversions"] or "OMMA.SF" not in str(row["product"])]
    return answer(found, by_compilers("sm_120a", what="mma.sync kind::mxf4nvf4.block_scale"),
                  must={"sm_120a has no Tensor Memory": not any(none.values()),
                        "so the format is software there": len(software) == len(found)},
                  right="sm_120a scales in hardware too: one OMMA.SF with the scales in registers")


@claim("B-139")
def _scale_types(_said: Statement) -> Answer:
    """By mma.sync on sm_120a, where the type is in the instruction."""
    four = warp_kernels()["nvfp4"]
    trials = {
        "block32 E8M0": four.replace("scale_vec::4X", "scale_vec::2X").replace("ue4m3", "ue8m0"),
        "block32 E4M3": four.replace("scale_vec::4X", "scale_vec::2X"),
        "block16 E4M3": four, "block16 E8M0": four.replace("ue4m3", "ue8m0"),
    }
    found: dict[str, dict[str, bool]] = {}
    for name, text in trials.items():
        for release in releases():
            major, minor = highest_ptx(release)
            newer = text.replace(".version 8.7", f".version {major}.{minor}")
            found.setdefault(name, {})[release] = build(newer, "sm_120a", release).accepted
    want = {"block32 E8M0": True, "block32 E4M3": False, "block16 E4M3": True,
            "block16 E8M0": True}
    across = {f"ptxas {release}": all(found[name][release] is ok for name, ok in want.items())
              for release in releases()}
    return answer(found, by_compilers("sm_120a", what="mma.sync with every pair, newest PTX"),
                  must={"block32 takes E8M0 only": all(found["block32 E8M0"].values())
                        and not any(found["block32 E4M3"].values()),
                        "block16 takes E4M3": all(found["block16 E4M3"].values())},
                  across=across, as_written=f"ptxas {newest()}",
                  right="in mma.sync block16 took E4M3 alone until PTX 9.1: "
                        + ", ".join(f"{r} {'takes' if ok else 'refuses'} E8M0"
                                    for r, ok in found["block16 E8M0"].items()))

