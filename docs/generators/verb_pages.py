"""The command line page: every verb with its arguments and options, from the commands themselves.

What `mmalab VERB --help` says is what stands here: the page asks the same command objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import typer

from generators.markdown import anchor, code, prose, table
from mmalab.cli.atlas import QUESTIONS
from mmalab.cli.main import VERBS, app

__all__ = ["atlas_questions", "commands", "pages"]


def commands(verb: str) -> Iterator[tuple[str, Any]]:
    """A verb's commands by the words that call them: one, or one for each of its questions."""
    command = typer.main.get_command(app).get_command(None, verb)  # type: ignore[attr-defined]
    questions = getattr(command, "commands", None)
    if not questions:
        yield verb, command
        return
    for name, question in questions.items():
        yield f"{verb} {name}", question


def atlas_questions() -> str:
    """Every question of the atlas, as the verb lists them."""
    return table(("`--what`", "answers"),
                 [(code(name), prose(question)) for name, question in QUESTIONS.items()])


def pages() -> dict[str, str]:
    """cli.md."""
    parts = ["# Command line", _INTRODUCTION,
             table(("verb", "question"),
                   [(f"[`{verb}`](#{anchor(verb)})", question) for verb, question
                    in VERBS.items()])]
    for verb, question in VERBS.items():
        parts += [f"## {verb}", question]
        listed = list(commands(verb))
        for words, command in listed:
            if len(listed) > 1:
                parts.append(f"### {words}")
            parts += _command(words, command)
    return {"cli.md": "\n\n".join(parts) + "\n"}


_INTRODUCTION = """Every verb has `--help` and `--json`. Exit codes: 0 clean, 1 findings, illegal
or a refuted claim, 2 wrong use or unsupported. `mmalab --version` prints the version. This page is
written from the commands when the site is built."""


def _command(words: str, command: Any) -> Iterator[str]:
    said = inspect.cleandoc(command.callback.__doc__ or command.help or "")
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join(["mmalab", words, *(_usage(one) for one in arguments), "[OPTIONS]"])
    yield code(usage)
    yield said
    if arguments:
        yield table(("argument", "is"),
                    [(code(one.name), prose(one.help or "")) for one in arguments])
    yield table(("option", "is", "if not given"), [
        (", ".join(map(code, [*one.opts, *one.secondary_opts])), prose(one.help or ""),
         _default(one)) for one in options])


def _usage(argument: Any) -> str:
    name = argument.name.upper() + ("..." if argument.nargs == -1 or argument.multiple else "")
    return name if argument.required else f"[{name}]"


def _default(option: Any) -> str:
    if option.required:
        return "must be given"
    if option.default in (None, False, (), []) or callable(option.default):
        return ""
    if option.default is True:
        return code(option.opts[0])
    return code(str(option.default))
