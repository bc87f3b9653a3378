"""Edits keep every byte that they do not change."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_texts import corpus_files, read

from mmalab.errors import UsageError
from mmalab.ptx import (
    Editor,
    insert_after,
    insert_before,
    parse,
    print_module,
    remove,
    replace,
    retarget,
    same_structure,
)
from mmalab.ptx.nodes import (
    Block,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Register,
    Variable,
)
from mmalab.ptx.printer import module_text

TEXT = """\
//c
.version 8.0
.target sm_90a // tt
.address_size 64
.global .b32 x, y[4] = {1,2};  // two

.visible .entry k(.param .u64 p)
.maxntid 128
{
\t.reg .b32 %r<4>;   // regs
\tmov.u32 %r1, 5; // five
\t{ .reg .pred p; setp.eq.s32 p, %r1, 3; }
L: add.s32 %r2,%r1,1;
\tret;
}
"""
NEW = Instruction("mov.u32", (Register("%r3"), Immediate(7, "7")))


@pytest.fixture
def module() -> Module:
    return parse(TEXT)


def test_replace_keeps_the_rest(module):
    """A node or a text takes the place of a statement; its comment stays."""
    mov = module.entries[0].body[1]
    for new in (NEW, "mov.u32 %r3, 7;"):
        assert str(replace(module, mov, new)) == TEXT.replace("mov.u32 %r1, 5;", "mov.u32 %r3, 7;")


def test_replace_by_several(module):
    """More statements go on lines of their own with the same indent."""
    mov = module.entries[0].body[1]
    assert str(replace(module, mov, NEW, "bar.sync 0;")) == TEXT.replace(
        "mov.u32 %r1, 5;", "mov.u32 %r3, 7;\n\tbar.sync 0;")


def test_insert_around(module):
    """Before a statement and behind it, its comment included."""
    mov = module.entries[0].body[1]
    line = "\tmov.u32 %r1, 5; // five\n"
    assert str(insert_before(module, mov, NEW)) == TEXT.replace(line, "\tmov.u32 %r3, 7;\n" + line)
    assert str(insert_after(module, mov, NEW)) == TEXT.replace(line, line + "\tmov.u32 %r3, 7;\n")


def test_insert_on_a_line_with_others(module):
    """Behind a label of the same line the new statement stays behind the label."""
    add = module.entries[0].body[4]
    assert str(insert_before(module, add, NEW)) == TEXT.replace("L: add", "L: mov.u32 %r3, 7; add")


def test_remove(module):
    """A statement goes with its line; beside something else, alone."""
    *_, add, ret = module.entries[0].body
    assert str(remove(module, ret)) == TEXT.replace("\tret;\n", "")
    assert str(remove(module, add)) == TEXT.replace("add.s32 %r2,%r1,1;", "")


def test_statement_in_a_block(module):
    """Statements of nested blocks are named like others."""
    block = module.entries[0].body[2]
    assert isinstance(block, Block)
    assert str(replace(module, block.statements[1], NEW)) == TEXT.replace(
        "setp.eq.s32 p, %r1, 3;", "mov.u32 %r3, 7;")


def test_one_of_two_variables(module):
    """A change to one name of a list spells all of them out."""
    y = module.variables[1]
    edited = replace(module, y, changed(y, name="z"))
    assert str(edited) == TEXT.replace(
        ".global .b32 x, y[4] = {1,2};", ".global .b32 x;\n.global .b32 z[4] = {1, 2};")
    assert [item.name for item in edited.variables] == ["x", "z"]


def test_retarget(module):
    """Only the words of the header change."""
    edited = retarget(module, "sm_100a", version=(8, 8), options=["debug"])
    assert str(edited) == TEXT.replace("8.0", "8.8").replace("sm_90a", "sm_100a, debug")
    assert str(retarget(module)) == TEXT
    assert retarget(edited, options=[]).target_options == ()


def test_many_edits_at_once(module):
    """An editor applies any number of edits, in whatever order they were made."""
    _, mov, _, _, add, ret = module.entries[0].body
    editor = Editor(module)
    editor.remove(ret)
    editor.insert_before(ret, NEW)
    editor.replace(mov, "exit;")
    editor.insert_after(add, "bar.sync 0;")
    editor.retarget("sm_80")
    assert editor.text() == (TEXT.replace("sm_90a", "sm_80").replace("mov.u32 %r1, 5;", "exit;")
                             .replace("%r1,1;\n\tret;\n",
                                      "%r1,1; bar.sync 0;\n\tmov.u32 %r3, 7;\n"))


def test_edit_conflicts_are_refused(module):
    """Two edits of one text, a foreign node and a changed tree are usage errors."""
    mov = module.entries[0].body[1]
    editor = Editor(module)
    editor.replace(mov, "exit;")
    editor.remove(mov)
    with pytest.raises(UsageError, match="two edits change the same text"):
        editor.text()
    with pytest.raises(UsageError, match="not one of the module's own"):
        Editor(module).remove(parse(TEXT).entries[0].body[1])
    with pytest.raises(UsageError, match="tree was changed"):
        Editor(changed(module, target="sm_80"))


def test_carriage_returns_are_kept():
    """In a CR LF file inserted lines end with CR LF."""
    dos = TEXT.replace("\n", "\r\n")
    module = parse(dos)
    edited = insert_after(module, module.entries[0].body[1], NEW)
    assert str(edited) == dos.replace("// five\r\n", "// five\r\n\tmov.u32 %r3, 7;\r\n")


def test_print_of_an_unchanged_module(module):
    """It is the text itself."""
    assert print_module(module) == TEXT


def test_print_of_a_changed_tree(module):
    """Header, variables and blocks of a changed tree change in their places only."""
    (entry,) = module.entries
    block = entry.body[2]
    body = (*entry.body[:2], changed(block, statements=(*block.statements, NEW)), *entry.body[3:5])
    tree = changed(module, target="sm_80", version=(7, 8), variables=module.variables[:1],
                   functions=(changed(entry, body=body),))
    assert print_module(tree) == (
        TEXT.replace("8.0", "7.8").replace("sm_90a", "sm_80").replace("\tret;\n", "")
        .replace(".global .b32 x, y[4] = {1,2};", ".global .b32 x;")
        .replace("%r1, 3; }", "%r1, 3; mov.u32 %r3, 7; }"))


def test_print_of_a_changed_header(module):
    """New attributes respell what stands before the body, not the body."""
    (entry,) = module.entries
    tree = changed(module, functions=(changed(entry, attributes=((".maxntid", "64"),)),))
    head, tail = TEXT.split(".visible", maxsplit=1)[0], TEXT[TEXT.index("{\n\t.reg"):]
    assert print_module(tree) == (
        head + ".visible .entry k(\n    .param .u64 p\n)\n.maxntid 64\n" + tail)


def test_print_of_added_functions(module):
    """A function that is new comes behind the one that it follows; a removed one goes."""
    extra = Function("f", "func", (), body=(Label("A"), Instruction("ret", ())))
    tree = changed(module, functions=(*module.functions, extra))
    again = parse(print_module(tree))
    assert str(again).startswith(TEXT.rstrip())
    assert same_structure(again, tree)
    assert print_module(changed(again, functions=again.functions[:1])).startswith(TEXT.rstrip())


def test_print_of_a_tree_without_text():
    """A module made of nodes alone is spelled canonically."""
    module = Module((8, 0), "sm_80", 64, (Variable("global", "f32", "v", (2,), 8,
                    initializer=(1.0, float("-inf"))),),
                    (Function("k", "entry", (), body=(NEW, Block((NEW,)))),))
    assert print_module(module) == """\
.version 8.0
.target sm_80
.address_size 64
.global .align 8 .f32 v[2] = {1.0, 0dFFF0000000000000};

.entry k()
{
    mov.u32 %r3, 7;
    {
        mov.u32 %r3, 7;
    }
}
"""


SMALL = [text for text in map(read, corpus_files()) if len(text) < 12_000]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SMALL), st.data())
def test_edited_trees_print_to_themselves(text, data):
    """parse(print_module(tree)) is the tree, for trees with statements dropped, doubled, moved."""
    module = parse(text)
    which = data.draw(st.sampled_from([i for i, f in enumerate(module.functions) if f.body]))
    function = module.functions[which]
    body = list(function.body)
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(body)))
        movable = [item for item in body if isinstance(item, Instruction)]
        match data.draw(st.sampled_from(["drop", "new", "move"])):
            case "drop" if at < len(body) and isinstance(body[at], Instruction):
                del body[at]
            case "new":
                body.insert(at, NEW)
            case "move" if movable:
                body.insert(at, data.draw(st.sampled_from(movable)))
    functions = list(module.functions)
    functions[which] = changed(function, body=tuple(body))
    tree = changed(module, functions=tuple(functions))
    printed = print_module(tree)
    assert same_structure(parse(printed), tree)
    assert same_structure(parse(module_text(tree)), tree)
