"""Everything that the code writes for the site: whole pages by path, parts of pages by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from generators import (
    api_pages,
    claim_pages,
    example_gemm,
    excerpts,
    finding_pages,
    isa_pages,
    layer_map,
    records,
    tensor_memory_page,
    units,
    verb_pages,
)

__all__ = ["pages", "parts"]


def pages() -> dict[str, str]:
    """Path below docs/ -> Markdown, for the pages that nobody writes by hand."""
    return {
        **isa_pages.pages(),
        **tensor_memory_page.pages(),
        **finding_pages.pages(),
        **claim_pages.pages(),
        **verb_pages.pages(),
        **api_pages.pages(),
    }


def parts() -> Mapping[str, Callable[[], str]]:
    """Name in a ``<!-- generated: NAME -->`` comment -> what makes its replacement."""
    return {
        "layers": layer_map.drawing,
        "packages": layer_map.packages,
        "hopper-findings": example_gemm.findings,
        "hopper-mended": example_gemm.mended,
        "floating-units": units.floating,
        "other-units": units.others,
        "records": records.table_of_records,
        "measured": records.measured,
        "benches": records.benches,
        "verdict-counts": claim_pages.counts,
        "verdict-meanings": claim_pages.meanings,
        "corrections": claim_pages.corrections,
        "atlas-questions": verb_pages.atlas_questions,
        "row": excerpts.row,
        "executor": excerpts.executor,
        "generator": excerpts.generator,
    }
