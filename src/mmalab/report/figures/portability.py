"""Which matrix instructions exist where: article B's table of targets, from the rows."""

from __future__ import annotations

from mmalab import isa
from mmalab.claims.records import load
from mmalab.errors import ToolError
from mmalab.report.figure import Evidence, Figure, Table
from mmalab.report.svg import Svg

__all__ = ["ATLAS", "FAMILIES", "TARGETS", "families"]

TARGETS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103a", "sm_110a",
           "sm_120a", "sm_121a")
#: One instruction of each family, by the family's name.
FAMILIES = {
    "mma.sync FP16": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
    "mma.sync BF16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "mma.sync FP8": "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
    "mma.sync NVFP4": "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale"
                      ".scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    "wgmma": "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
    "tcgen05.mma": "tcgen05.mma.cta_group::1.kind::f16",
    "TMA": "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
    "setmaxnreg": "setmaxnreg.inc.sync.aligned.u32",
}
ATLAS = "records/compiled/atlas_targets_13.5.json"


def families() -> Figure:
    """A grid of families by targets; a mark where the row says native or emulated."""
    rows = {name: _row(form) for name, form in FAMILIES.items()}

    def draw(width: int) -> str:
        left, step = (114.0, 24.0) if width < 420 else (130.0, 26.0)
        cell = (width - left) / len(TARGETS)
        drawing = Svg(width, 34 + step * len(rows), "matrix instructions by target")
        for at, target in enumerate(TARGETS):
            drawing.text(left + cell * (at + 0.5), 14 + 13 * (at % 2) * (width < 620),
                         target.removeprefix("sm_"), "muted", anchor="middle")
        for y, (name, has) in enumerate(rows.items()):
            top = 32 + step * y
            drawing.text(left - 10, top + 15, name, anchor="end")
            for at, (target, how) in enumerate(zip(TARGETS, has, strict=True)):
                kind = {"native": "accent", "emulated": "soft"}.get(how, "well")
                drawing.box(left + cell * at + 1, top, cell - 2, step - 4, kind,
                            f"{name} on {target}: {how or 'does not exist'}", radius=2)
        return str(drawing)

    return Figure(
        "portability", "What runs where",
        "One instruction of each family on eleven targets: coloured where the chip has it, grey "
        "where the assembler builds it out of others. wgmma exists on sm_90a alone, tcgen05 on the "
        "data-centre Blackwells; mma.sync is what spans them.",
        draw,
        Table(("family", "instruction", *TARGETS),
              tuple((name, FAMILIES[name], *(how or "-" for how in has))
                    for name, has in rows.items())),
        (Evidence("derived", "the target set of each row, and what its chip executes"),
         *_compiled()),
        "mmalab atlas --what targets", "B, section 4", wide=True)


def _row(name: str) -> list[str]:
    """native, emulated or nothing, by target; what is no product runs as it is."""
    form = isa.find(name)
    targets = isa.parse_targets(form.targets)
    found = []
    for target in TARGETS:
        how = isa.execution(form, target) if target in targets else None
        emulated = how is not None and not how.native
        found.append("" if target not in targets else "emulated" if emulated else "native")
    return found


def _compiled() -> tuple[Evidence, ...]:
    """The atlas, where its record is: every spelling tried on every target."""
    try:
        record = load(ATLAS)
    except ToolError:
        return ()
    return (Evidence("compiled", f"ptxas {record['ptxas']}: {record['verdicts']:,} verdicts over "
                                 f"{record['spellings']:,} spellings"),)
