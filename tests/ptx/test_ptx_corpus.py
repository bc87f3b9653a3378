"""The parser and the printer on what compilers and people wrote."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ptx_texts import corpus_files, read

from mmalab.ptx import parse, print_module, same_structure
from mmalab.ptx.nodes import Instruction
from mmalab.ptx.parser import parse_with_spans
from mmalab.ptx.printer import module_text


def check(text: str) -> None:
    """All promises about one text."""
    module = parse(text)
    slow, _ = parse_with_spans(text, fast=False)
    assert module == slow
    assert str(module) == text
    assert print_module(module) == text
    assert same_structure(parse(module_text(module)), module)
    for function in module.functions:
        for statement in function.instructions():
            assert text.splitlines()[statement.line - 1].find(statement.text.split("\n")[0]) >= 0


@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.stem)
def test_compilers_output(path):
    """Fast equals slow, text is kept byte for byte, the canonical text means the same."""
    check(read(path))


@pytest.mark.shared
def test_litmus_kernels(shared):
    """The same for every hand-written litmus kernel."""
    paths = sorted((shared / "litmus").glob("*.ptx"))
    assert len(paths) > 300
    for path in paths:
        check(read(path))


@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.stem)
def test_one_changed_statement_changes_one_place(path):
    """A tree with one instruction replaced prints with all other bytes as they were."""
    text = read(path)
    module, spans = parse_with_spans(text)
    entry = next(item for item in module.functions if item.body)
    at = next(i for i, item in enumerate(entry.body) if isinstance(item, Instruction))
    body = (*entry.body[:at], Instruction("exit", ()), *entry.body[at + 1 :])
    functions = tuple(replace(item, body=body) if item is entry else item
                      for item in module.functions)
    start, end = spans.nodes[id(entry.body[at])]
    assert text[start:end] == entry.body[at].text
    assert print_module(replace(module, functions=functions)) == f"{text[:start]}exit;{text[end:]}"
