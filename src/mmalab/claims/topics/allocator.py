"""Article B: what tcgen05.alloc becomes, who guards it, and what the compiler checks.

Every count is made in the article's probe, assembled by every installed release: what its own
release (12.9) shows and a newer one does not is a change of the compiler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from mmalab import isa
from mmalab.claims.assembled import ARTICLE, Build, build, builds, by_compilers, newest, releases
from mmalab.claims.compare import derived, same
from mmalab.claims.model import Answer, Statement, answer, open_question
from mmalab.claims.probe import Probe, body
from mmalab.claims.registry import claim

TARGET = "sm_100a"
PROBE = Probe()
CHECKED = ("--g-tensor-memory-access-check",)
_CLAIM_COLUMNS = "UTCATOMSWS.FIND_AND_SET.ALIGN"


def probes(probe: Probe = PROBE, **options: Any) -> dict[str, Build]:
    """A variation of the probe under every release."""
    return builds(probe.text(), TARGET, **options)


def handlers(tried: Build) -> list[str]:
    """Names of the trap handlers in a listing, without their common beginning."""
    return sorted(set(re.findall(r"guardrail_trap_(\w+)", tried.made.sass.text)))


def references(tried: Build) -> int:
    """Lines of the listing that name a guardrail, as ``grep -c`` counts them."""
    return sum("guardrail" in line for line in tried.made.sass.text.splitlines())


def across(values: Callable[[Build], Any], article: Any, probe: Probe = PROBE
           ) -> tuple[dict[str, Any], dict[str, bool]]:
    """A figure of the probe by release, and which releases have the article's."""
    found = {release: values(tried) for release, tried in probes(probe).items()}
    return found, {f"ptxas {release}": same(value, article) for release, value in found.items()}


def in_order(lines: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether the words occur in this order, other lines between them."""
    rest = iter(lines)
    return all(any(word in line for line in rest) for word in wanted)


@lru_cache(maxsize=16)
def spin_loop(release: str) -> tuple[str, ...]:
    """The loop of the probe that sleeps and tries again."""
    sass = build(PROBE.text(), TARGET, release).made.sass
    return next(tuple(i.text for i in loop.instructions) for function in sass.functions
                for loop in function.loops
                if any(i.opcode == "NANOSLEEP" for i in loop.instructions))


@claim("B-004")
def _spinning_atomic(_said: Statement) -> Answer:
    loops = {release: spin_loop(release) for release in releases()}
    must = {f"ptxas {release}: the loop sleeps and claims again": in_order(
        loop, ("NANOSLEEP", _CLAIM_COLUMNS)) for release, loop in loops.items()}
    must |= {f"ptxas {release}: claimed once before it": tried.opcodes.count(_CLAIM_COLUMNS) == 2
             for release, tried in probes().items()}
    must |= {f"ptxas {release}: on uniform registers": all(
        not re.search(r"\bR\d", line) for line in tried.lines if "UTCATOMSWS" in line)
        for release, tried in probes().items()}
    return answer(list(loops[newest()]), by_compilers(), must=must)


@claim("B-005")
def _handlers(said: Statement) -> Answer:
    found, agree = across(lambda tried: len(handlers(tried)), said.value)
    return answer(found, by_compilers(), across=agree, as_written=f"ptxas {ARTICLE}",
                  right=f"{found[newest()]} from ptxas {newest()} on: "
                        + ", ".join(handlers(probes()[newest()])))


@claim("B-006")
def _use_after_free(_said: Statement) -> Answer:
    """A probe that frees and then multiplies gets no other guard than the article's."""
    text, product = PROBE.text(), PROBE.product()
    late = text.replace(product, "").replace("ret;", f"{product}\n    ret;")
    extra = {release: set(handlers(tried)) - set(handlers(probes()[release]))
             for release, tried in builds(late, TARGET).items()}
    default = {name for tried in probes().values() for name in handlers(tried)}
    opt_in = sorted({name for tried in probes(options=CHECKED).values()
                     for name in handlers(tried)} - default)
    uses = [name for name in default if "alloc" not in name]
    return answer({"default": sorted(default), "on request": opt_in}, by_compilers(),
                  must={"a use after the free is guarded": any(extra.values()) or bool(uses)},
                  right="the default handlers watch alloc and dealloc; accesses are checked only "
                        f"with {CHECKED[0]}")


@claim("B-030")
def _column_rule(said: Statement) -> Answer:
    counts = (16, 32, 48, 64, 96, 128, 256, 512, 1024)
    taken = {release: [c for c in counts
                       if probes(replace(PROBE, columns=c, immediate=True))[release].accepted]
             for release in releases()}
    spec = next(o for o in isa.find("tcgen05.alloc.cta_group::1.sync.aligned.b32").operands
                if o.name == "columns")
    ours = {"min": min(spec.values or ()), "max": max(spec.values or ()), "power_of_two": all(
        c & (c - 1) == 0 for c in spec.values or ())}
    return answer(ours, by_compilers(what="counts as immediates"),
                  derived("the record of tcgen05.alloc"),
                  must={"32 to 512, powers of two": same(ours, said.value),
                        **{f"ptxas {release} takes just these": legal == [32, 64, 128, 256, 512]
                           for release, legal in taken.items()}},
                  command="mmalab explain tcgen05.alloc.cta_group::1.sync.aligned.b32")


@claim("B-042")
def _assembles(said: Statement) -> Answer:
    tried = probes(replace(PROBE, columns=said.value))
    return answer({release: "accepted" if each.accepted else each.message
                   for release, each in tried.items()}, by_compilers(),
                  must={f"ptxas {release}": each.accepted for release, each in tried.items()}
                  | {"the probe has that many columns": said.value == PROBE.columns})


@claim("B-046")
def _commit_space(said: Statement) -> Answer:
    cta = {release: tried.message
           for release, tried in probes(replace(PROBE, commit="shared::cta")).items()}
    none = {release: tried.accepted
            for release, tried in probes(replace(PROBE, commit="")).items()}
    return answer({"shared::cta": cta[newest()], "no space": none}, by_compilers(),
                  must={f"ptxas {release} rejects .shared::cta so": words == said.value
                        for release, words in cta.items()},
                  should={f"ptxas {release} needs .shared::cluster": not taken
                          for release, taken in none.items()},
                  right="a generic address is accepted: .shared::cluster may be left out")


@claim("B-047")
def _silent_counts(said: Statement) -> Answer:
    words = {way: {release: {c: probes(replace(PROBE, columns=c, immediate=way == "immediate"))
                             [release].message for c in said.value} for release in releases()}
             for way in ("register", "immediate")}
    silent = {f"ptxas {release}: {c} as {way}": not message
              for way, rows in words.items() for release, row in rows.items()
              for c, message in row.items()}
    return answer({way: rows[newest()] for way, rows in words.items()}, by_compilers(),
                  must=silent,
                  right="silent only through a register, as in the probe; written as an immediate "
                        "every one of them is an error")


@claim("B-048")
def _trap_on_count(_said: Statement) -> Answer:
    names = {name for tried in probes().values() for name in handlers(tried)}
    return open_question(
        "the default code divides the count by 32 and has no test of it, and none of the trap "
        f"handlers is about it ({', '.join(sorted(names))}): what the chip does needs a chip with "
        "Tensor Memory", by_compilers())


@claim("B-049")
def _sequence(said: Statement) -> Answer:
    wanted = [said.value[0], said.value[1], said.value[2], said.value[3], said.value[2]]
    found = {release: in_order(tried.lines, wanted) for release, tried in probes().items()}
    return answer({release: "in order" if ok else "not so" for release, ok in found.items()},
                  by_compilers(), across={f"ptxas {r}": ok for r, ok in found.items()},
                  as_written=f"ptxas {ARTICLE}")


@claim("B-050")
def _no_other_exit(_said: Statement) -> Answer:
    """The loop's only branch goes back on failure; nothing counts."""
    exits = {release: [line for line in spin_loop(release) if "BRA" in line or "EXIT" in line]
             for release in releases()}
    return answer(exits, by_compilers(),
                  must={f"ptxas {release}: one conditional branch": len(lines) == 1
                        for release, lines in exits.items()},
                  unchecked="whether a claim can starve: it needs the chip")


@claim("B-051")
def _published(said: Statement) -> Answer:
    found = {release: [line for line in tried.lines if line.startswith(("ATOMS.OR", "STS ["))]
             for release, tried in probes().items()}
    return answer(found, by_compilers(),
                  must={f"ptxas {release}: ATOMS.OR, then STS": in_order(
                      tried.lines, ("ATOMS.OR", "STS [")) for release, tried in probes().items()}
                  | {f"ptxas {ARTICLE}: registers as printed": in_order(found[ARTICLE],
                                                                        said.value)})


@claim("B-052")
def _virtual_counter(said: Statement) -> Answer:
    """Leave out one instruction after the other, and see which takes the counter with it."""
    has = {what: {release: said.value in tried.lines for release, tried in probes(probe).items()}
           for what, probe in (("all", PROBE), ("relinquish", replace(PROBE, relinquish=False)),
                               ("dealloc", replace(PROBE, free=False)))}
    return answer({f"without {what}": rows for what, rows in has.items() if what != "all"},
                  by_compilers(),
                  must={f"ptxas {release}: it stays without relinquish": kept
                        for release, kept in has["relinquish"].items()},
                  right="it belongs to relinquish_alloc_permit, with which it disappears")


@claim("B-053")
def _references(said: Statement) -> Answer:
    found = {release: {f"O{level}": references(probes(opt_level=level)[release])
                       for level in range(4)} for release in releases()}
    return answer(found, by_compilers(),
                  across={f"ptxas {r}": same(row, said.value) for r, row in found.items()},
                  as_written=f"ptxas {ARTICLE}",
                  right=f"{found[newest()]['O3']} at every level from ptxas {newest()} on")


@claim("B-054")
def _names(said: Statement) -> Answer:
    found, agree = across(handlers, sorted(said.value))
    return answer(found, by_compilers(), across=agree, as_written=f"ptxas {ARTICLE}",
                  right=f"ptxas {newest()} has only {', '.join(found[newest()])}")


@claim("B-055")
def _taxonomy(_said: Statement) -> Answer:
    """Follow the tests: alloc records a start bit 16 above the columns, dealloc looks for both."""
    tried = probes()[ARTICLE]
    start = in_order(tried.lines, ("0x10", "ATOMS.OR"))
    tests = [line for line in tried.lines if re.match(r"CALL.*guardrail", line)]
    phase = probes(replace(PROBE, relinquish=False))[ARTICLE]
    set_by_relinquish = (any("STS.U8" in line for line in tried.lines)
                         and not any("STS.U8" in line for line in phase.lines))
    return answer({"tests": len(tests), "start bit": start, "phase byte": set_by_relinquish},
                  by_compilers(),
                  must={"three tests, three handlers": len(tests) == len(handlers(tried)) == 3,
                        "the phase is set by relinquish, tested by alloc": set_by_relinquish},
                  should={"'not returned by alloc' means another allocation's column": not start},
                  right="the second is a base that is no allocation's start (a bit recorded beside "
                        "the columns), the third an alloc after relinquish")


@claim("B-056")
def _unconditional(_said: Statement) -> Answer:
    levels = {release: len({references(probes(opt_level=level)[release]) for level in range(4)})
              for release in releases()}
    bare = {release: references(tried)
            for release, tried in probes(replace(PROBE, free=False)).items()}
    full = {release: references(tried) for release, tried in probes().items()}
    return answer({"whole probe": full, "without dealloc": bare}, by_compilers(),
                  must={"the same at every -O": set(levels.values()) == {1},
                        **{f"ptxas {release}: without dealloc too": bare[release] == full[release]
                           for release in full}},
                  right="each check comes with its instruction: without dealloc "
                        + ", ".join(f"{count} references under {release}"
                                    for release, count in bare.items())
                        + "; accesses are never checked by default")


_SETMAXNREG = body(
    ["setmaxnreg.dec.sync.aligned.u32 24;", "mov.u32 %r1, %tid.x;",
     "setmaxnreg.inc.sync.aligned.u32 240;", "st.global.u32 [%rd1], %r1;"],
    version="8.0", target="sm_90a",
).replace("\n{\n", "\n.maxntid 128,1,1\n.maxnreg 168\n{\n")


@claim("B-057")
def _first_at_run_time(_said: Statement) -> Answer:
    """Hopper's setmaxnreg, two years older, is a claim in a loop too."""
    found = {}
    for release, tried in builds(_SETMAXNREG, "sm_90a").items():
        loops = [loop for function in tried.made.sass.functions for loop in function.loops]
        found[release] = [i.text for loop in loops for i in loop.instructions
                          if i.opcode == "USETMAXREG"]
    return answer(found, by_compilers("sm_90a", what="setmaxnreg.inc"),
                  must={"alloc claims at run time and may wait": all(
                      any(_CLAIM_COLUMNS in line for line in spin_loop(r)) for r in releases())},
                  should={"nothing before it did": not any(found.values())},
                  right="Hopper's setmaxnreg.inc is already a claim (TRY_ALLOC) in a retry loop, "
                        "on the CTA's own registers; the new pool is the first that CTAs share")


@claim("B-058")
def _instruction_counts(said: Statement) -> Answer:
    found = {release: {f"O{level}": len(probes(opt_level=level)[release].lines)
                       for level in (3, 0)} for release in releases()}
    idle = {release: tried.opcodes.count("NOP") for release, tried in probes().items()}
    return answer(found, by_compilers(),
                  across={f"ptxas {r}": same(row, said.value) for r, row in found.items()},
                  as_written=f"ptxas {ARTICLE}",
                  right=", ".join(f"{row['O3']} and {row['O0']} under {r}"
                                  for r, row in found.items())
                        + f"; NOPs included, {idle[ARTICLE]} of {found[ARTICLE]['O3']}")


@claim("B-059")
def _resources(said: Statement) -> Answer:
    def used(tried: Build) -> dict[str, int]:
        row = tried.made.resources.only
        return {"registers": row.registers, "smem": row.shared}

    found, agree = across(used, said.value)
    return answer(found, by_compilers(), across=agree, as_written=f"ptxas {ARTICLE}",
                  right=", ".join(f"{row['registers']} registers under {release}"
                                  for release, row in found.items()))


@claim("B-060")
def _two_are_tensor(said: Statement) -> Answer:
    def tensor(tried: Build) -> int:
        return sum(i.matrix or i.opcode == "LDTM" for i in tried.made.sass)

    found, agree = across(tensor, said.value)
    return answer(found, by_compilers(what="UTCHMMA and LDTM"), across=agree,
                  as_written=f"ptxas {ARTICLE}")


@claim("B-128")
def _relinquish(_said: Statement) -> Answer:
    """In the article's release relinquish writes a byte that alloc reads before it claims."""
    tried = probes()[ARTICLE]
    written = [line for line in tried.lines if "STS.U8" in line]
    return answer(written, by_compilers(),
                  must={"relinquish writes a phase byte": bool(written),
                        "alloc reads it first": in_order(tried.lines, ("LDS.U8", _CLAIM_COLUMNS))},
                  unchecked=f"ptxas {newest()} no longer tests it: "
                            f"{len(handlers(probes()[newest()]))} handlers are left")


@claim("B-161")
def _only_the_probe(said: Statement) -> Answer:
    counts = {release: len(tried.lines) for release, tried in probes().items()}
    wider = {release: len(tried.lines)
             for release, tried in probes(replace(PROBE, drain=32)).items()}
    return answer({"probe": counts, "drain of 32": wider}, by_compilers(),
                  must={f"{said.value}: another kernel, another count": all(
                      wider[release] != count for release, count in counts.items()),
                      "and another compiler": len(set(counts.values())) > 1})
