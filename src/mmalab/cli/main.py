"""``mmalab VERB``: the table of verbs, and what every verb shares.

A verb is a module of this package with one function of its name (``sass.py``, ``sass``); the module
is imported when the verb is called, so ``mmalab forms`` never pays for the assembler's reader.
The layers below are imported where they are used for the same reason: these are the only modules
of the project whose functions import.

Exit codes: 0 clean, 1 findings or illegal, 2 wrong use or unsupported.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from difflib import get_close_matches
from io import TextIOWrapper
from typing import Any

import typer
from typer.core import TyperGroup

import mmalab
from mmalab.cli.output import print_json
from mmalab.cli.questions import epilog, matching
from mmalab.errors import MmalabError, UsageError

__all__ = ["VERBS", "app", "main"]

#: Every verb, in the order of ``--help``, with the question it answers.
VERBS: dict[str, str] = {
    "tour": "The main job in one go, on any machine.",
    "doctor": "What is installed and usable here; each probe's failure said.",
    "forms": "Which instructions exist.",
    "explain": "One instruction whole: operands, fragments, targets, version, source.",
    "layout": "Where an element of a matrix operand lives, both ways.",
    "legal": "Is this instruction legal on that chip, why not, and what instead.",
    "banks": "Wavefronts of a shared-memory access pattern.",
    "swizzle": "Which swizzle or padding removes the bank conflicts of a tile.",
    "descriptor": "A descriptor's word explained, or made from its fields.",
    "plan": "Tensor Memory, occupancy, stages, registers, traffic, formats, decode: what fits.",
    "numerics": "What a tensor core's sums keep: accumulator bits, errors, dot products.",
    "check": "Static findings in a PTX file.",
    "run": "Execute a kernel on the CPU, with the chip's own arithmetic.",
    "asm": "Assemble for one or more chips: opcodes, registers, loops, native or emulated.",
    "atlas": "What every installed assembler accepts, and what it makes of it.",
    "sass": "Read a cubin: instructions, loops, work per instruction.",
    "gemm": "Run a matrix product with a kernel of ours.",
    "bench": "Time our kernels on the GPU against the best of cublasLt.",
    "claims": "The claims of two articles, run again: their value, ours, the verdict.",
    "report": "One self-contained HTML page of all of it, with figures and an explorer.",
}


class _Verbs(TyperGroup):
    """The group of verbs; each becomes a command when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        if cmd_name not in self.commands:
            # --help lists all verbs: their one-liners are known without loading them.
            module = importlib.import_module(f"mmalab.cli.{cmd_name}")
            verb = getattr(module, cmd_name)
            asked = epilog(cmd_name)
            if not isinstance(verb, typer.Typer):  # a verb with questions of its own is one already
                single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
                single.command(cmd_name, help=VERBS[cmd_name], epilog=asked)(verb)
                verb = single
            else:
                verb.info.epilog = asked
            self.commands[cmd_name] = typer.main.get_command(verb)
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        width = max(map(len, VERBS))
        lines = [f"  {verb:<{width}}  {question}" for verb, question in VERBS.items()]
        sys.stdout.write("\n".join((
            "Usage: mmalab VERB [OPTIONS]", "", (mmalab.__doc__ or "").splitlines()[0], "",
            *lines, "", "Each verb has --help (with questions that it answers) and --json.",
            "mmalab --ask 'hang barrier' finds the command for a question.",
            "Exit: 0 clean, 1 findings or illegal, 2 wrong use or unsupported.", "")))

    def invoke(self, ctx: Any) -> Any:
        as_json = "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader has gone (`mmalab forms | head`): that is no failure.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except Exception as error:
            told = _told(error, ctx.invoked_subcommand)
            if told is None:
                raise
            if as_json:
                print_json({"verdict": "refused", "findings": [], "counters": {}, "fidelity": {},
                            "deadlock": None, "reason": str(told)})
            sys.stderr.write(f"{told}\n")
            raise typer.Exit(2) from None


def _told(error: Exception, verb: str | None) -> MmalabError | None:
    """What to tell instead of a traceback or a frame: files that cannot be used, sizes that do not
    fit, words that no verb takes. None: nothing is known that would help."""
    where = f"mmalab {verb} --help" if verb in VERBS else "mmalab --help"
    if isinstance(error, MmalabError):
        return error
    if isinstance(error, OSError):
        return UsageError(f"{error.filename or 'input or output'}", error.strerror or str(error),
                          legal="a file that can be read, a folder that can be written",
                          where=where)
    if isinstance(error, MemoryError):
        return UsageError("more memory than there is", str(error), legal="smaller sizes",
                          where=where)
    return _misspelt(error)


def _misspelt(error: Any) -> UsageError | None:
    """The parser's complaint with what would do; its exceptions have no public name."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ == "NoArgsIsHelpError":
        return None
    legal = [*(getattr(error, "possibilities", None) or ())]
    if lost := re.match(r"No such command '(.*?)'", error.message):
        verbs = context.command.list_commands(context)
        legal = get_close_matches(lost[1], verbs, n=3) or verbs
    given = lost[0] if lost else error.message if legal else error.format_message()
    return UsageError(
        given.rstrip("."), where=f"{context.command_path} --help",
        legal=legal or " ".join((context.command_path,
                                 *context.command.collect_usage_pieces(context))))


app = typer.Typer(cls=_Verbs, add_completion=False, no_args_is_help=True,
                  pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"mmalab {mmalab.__version__}\n")
        raise typer.Exit


def _print_questions(words: str | None) -> None:
    if words is None:
        return
    found = matching(words)
    for row in found:
        sys.stdout.write(f"{row.words}\n    mmalab {row.command}\n")
    if not found:
        sys.stderr.write(f"no question has {words!r}\n  legal: words like hang, registers, swizzle;"
                         " mmalab --ask '?' lists all\n")
    raise typer.Exit(0 if found else 2)


@app.callback()
def _common(
    *,
    ask: str = typer.Option(None, "--ask", is_eager=True, callback=_print_questions,
                            help="Find the command for a question, by words in it."),
    version: bool = typer.Option(False, "--version", is_eager=True, callback=_print_version,
                                 help="Print the version and leave."),
) -> None:
    """Options of the command itself."""
    del ask, version  # their callbacks have done the work


def main() -> None:
    """Entry point of the ``mmalab`` command."""
    for stream in (sys.stdout, sys.stderr):
        # bytes of a file that are no text, and marks that a terminal lacks, are spelled \\udcNN
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="mmalab")
