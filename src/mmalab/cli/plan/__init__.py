"""``mmalab plan QUESTION``: what a choice costs, before anything is written or run.

Each question is a module here with one function; the planners themselves are in
:mod:`mmalab.plan`. A plan that does not fit ends with exit code 1 and says what would fit.
"""

from __future__ import annotations

import typer

from mmalab.cli.plan.chips import chips
from mmalab.cli.plan.decode import decode
from mmalab.cli.plan.formats import formats
from mmalab.cli.plan.occupancy import occupancy
from mmalab.cli.plan.rates import rates
from mmalab.cli.plan.registers import registers
from mmalab.cli.plan.smem import smem
from mmalab.cli.plan.tiles import tiles
from mmalab.cli.plan.tmem import tmem
from mmalab.cli.plan.traffic import traffic

__all__ = ["plan"]

plan = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
for question in (tmem, occupancy, smem, tiles, registers, traffic, rates, formats, decode, chips):
    plan.command(question.__name__)(question)


@plan.callback()
def _questions() -> None:
    """What a choice costs, before anything is written or run. Each question has --help and --json;
    exit 1: it does not fit."""
