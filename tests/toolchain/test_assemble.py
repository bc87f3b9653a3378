"""assemble: retargeting, resources, errors, cache, time limit."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest
from sources import EMPTY, LOOP, matrix_kernel

import mmalab
from mmalab.errors import ToolError, UsageError
from mmalab.toolchain import AssemblyError, assemble, assembler, load_cubin, retarget_text
from mmalab.toolchain.invoke import invoke


def test_retarget_changes_two_words() -> None:
    """Only .target and, if it is too old for the chip, .version change; the rest is untouched."""
    text = ("// .version 1.0\n/* .target x */\n.version 7.0\n.target  sm_80, debug\n"
            ".address_size 64\n")
    assert retarget_text(text, None) == (text, "sm_80")
    changed, name = retarget_text(text, "sm_100a")
    assert name == "sm_100a"
    assert changed == text.replace("7.0", "8.6").replace("sm_80", "sm_100a")
    assert retarget_text(changed, "sm_80")[0] == text.replace("7.0", "8.6")


@pytest.mark.parametrize("text", ["", "hello", ".target sm_80\n", ".version 8.0\n"])
def test_text_without_a_header_is_refused(text: str) -> None:
    """Text that is no PTX module is named as such before any tool runs."""
    with pytest.raises(UsageError, match=r"does not begin with \.version and \.target"):
        retarget_text(text, "sm_90a")


def test_unknown_target_is_refused() -> None:
    """A target that does not exist is refused with the list of those that do."""
    with pytest.raises(UsageError, match="sm_90a"):
        assemble(EMPTY, "sm_91")


@pytest.mark.parametrize("options", [{"opt_level": 4}, {"opt_level": -1}, {"maxrregcount": 8},
                                     {"maxrregcount": 300}])
def test_options_out_of_range(options: dict[str, int]) -> None:
    """Options that ptxas would bend are refused."""
    with pytest.raises(UsageError):
        assemble(EMPTY, **options)


@pytest.mark.toolkit
def test_public_name() -> None:
    """mmalab.assemble gives a cubin for the module's own target, an ELF image."""
    cubin = mmalab.assemble(EMPTY)
    assert cubin.target == "sm_80"
    assert cubin.bytes[:4] == b"\x7fELF"
    assert cubin.warnings == ()


@pytest.mark.toolkit
def test_module_and_text_are_the_same() -> None:
    """A parsed module assembles to the bytes that its text assembles to."""
    assert assemble(mmalab.ptx.parse(LOOP)).bytes == assemble(LOOP).bytes


@pytest.mark.toolkit
def test_versions_differ() -> None:
    """toolkit= selects the assembler, and the cubin says which it was."""
    assert assemble(LOOP, toolkit="12.9").toolkit == "12.9"
    assert assemble(LOOP, toolkit="13.5").toolkit == "13.5"


@pytest.mark.toolkit
def test_resources_are_read() -> None:
    """Registers, shared memory, barriers come back; a register bound brings spills."""
    body = "\n".join(f"ld.volatile.global.f64 %x{i}, [%d0+{8 * i}];" for i in range(40))
    use = "\n".join(f"st.volatile.global.f64 [%d0+{8 * i}], %x{39 - i};" for i in range(40))
    text = (".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
            ".reg .b64 %d<2>; .reg .f64 %x<41>; .shared .b32 tile[100]; .reg .b32 %r<3>;\n"
            f"ld.param.u64 %d0, [p];\n{body}\nst.shared.f64 [tile], %x0;\nbar.sync 0;\n"
            f"bar.sync 1;\n{use}\nret;\n}}\n")
    free, tight = assemble(text).resources, assemble(text, maxrregcount=32).resources
    assert free.registers > 80
    assert free.spills == 0
    assert (free.shared, free.barriers) == (400, 2)
    assert tight.registers <= 32
    assert tight.spills > 0
    assert tight.stack > 0


@pytest.mark.toolkit
def test_refusal_has_the_lines() -> None:
    """What ptxas refuses is an error with its messages, each at its line of the text given."""
    text = EMPTY.replace("ret;", "\n.reg .b32 %r<3>;\nadd.f32 %r1, %r2;\nret;")
    with pytest.raises(AssemblyError) as caught:
        assemble(text, target="sm_90a")
    assert [(d.line, d.severity) for d in caught.value.diagnostics] == [(6, "error")]
    assert "Arguments mismatch for instruction 'add'" in caught.value.output
    assert caught.value.command[0].endswith("ptxas")


@pytest.mark.toolkit
def test_a_refusal_tells_each_message_once() -> None:
    """With the lines that it is about; `diagnostics` has all, the screen a dozen."""
    copies = "cp.async.ca.shared.global [tile], [%rd1], 16;\n" * 40
    text = EMPTY.replace("sm_80", "sm_75").replace(
        "ret;", f"\n.reg .b64 %rd<2>; .shared .b8 tile[16];\n{copies}ret;")
    with pytest.raises(AssemblyError) as caught:
        assemble(text)
    assert len(caught.value.diagnostics) == 40
    assert caught.value.output == ("error: line 6: Feature 'cp.async' requires .target sm_80 or"
                                   " higher (also line 7, 8, 9 ...)")
    unknown = "".join(f"add.u32 %a{n}, %a{n}, 1;\n" for n in range(40))
    with pytest.raises(AssemblyError) as caught:
        assemble(EMPTY.replace("ret;", f"\n{unknown}ret;"))
    told = caught.value.output.splitlines()
    assert len(told) == 13
    assert told[-1].startswith("and ")


@pytest.mark.toolkit
def test_chip_unknown_to_an_old_assembler() -> None:
    """A chip newer than the assembler is refused with the chips it knows."""
    with pytest.raises(ToolError, match="does not assemble for sm_107a"):
        assemble(EMPTY, "sm_107a", toolkit="12.9")


@pytest.mark.toolkit
def test_line_information_does_not_change_the_code() -> None:
    """The PTX line of an instruction is free: the code is the same without it."""
    text = matrix_kernel("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", (4, 4, 2, 4),
                         target="sm_90a")
    with_lines, without = assemble(text), assemble(text, line_info=False)
    assert [i.encoding for i in with_lines.sass] == [i.encoding for i in without.sass]
    assert {i.ptx_line for i in without.sass} == {None}
    line = text[: text.index("mma.sync")].count("\n") + 1
    assert [i.ptx_line for i in with_lines.sass if i.matrix] == [line, line]


@pytest.mark.toolkit
def test_second_time_no_tool_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the cache come the same bytes and the same words, and another option is another key."""
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path))
    first = assemble(LOOP)
    code = [i.text for i in first.sass]
    ran: list[str] = []

    def watched(command, **rest):
        ran.append(Path(command[0]).name)
        return invoke(command, **rest)

    monkeypatch.setattr(assembler, "invoke", watched)
    again = assemble(LOOP)
    assert again == first
    assert [i.text for i in again.sass] == code
    assert ran == []
    assemble(LOOP, opt_level=1)
    assert ran == ["ptxas"]


@pytest.mark.toolkit
def test_damaged_cache_is_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage in every entry changes nothing but the time it takes."""
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path))
    first = assemble(LOOP)
    for path in (p for p in tmp_path.rglob("*") if p.is_file()):
        path.write_bytes(path.read_bytes()[:100])
    assert assemble(LOOP) == first


@pytest.mark.toolkit
def test_many_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assemblies in parallel, equal and different, do not meet in files."""
    monkeypatch.setenv("MMALAB_CACHE", str(tmp_path))
    levels = [0, 1, 2, 3] * 3
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        made = list(pool.map(lambda level: assemble(LOOP, opt_level=level).bytes, levels))
    assert made == made[:4] * 3
    assert len(set(made)) >= 2


@pytest.mark.toolkit
def test_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An assembly that takes too long ends in an error that says so."""
    monkeypatch.setenv("MMALAB_CACHE", "")
    with pytest.raises(ToolError, match=r"did not end within 1e-06 s"):
        assemble(LOOP, timeout=1e-6)


@pytest.mark.toolkit
def test_saved_and_read_back(tmp_path: Path) -> None:
    """A cubin read from its file has the same code, target and registers."""
    cubin = assemble(LOOP, "sm_90a")
    found = load_cubin(cubin.save(tmp_path / "k.cubin"))
    assert found.target == "sm_90a"
    assert [i.text for i in found.sass] == [i.text for i in cubin.sass]
    assert found.resources.registers == cubin.resources.registers


def test_not_a_cubin(tmp_path: Path) -> None:
    """A file that is no ELF image, or is not there, is refused by name."""
    (tmp_path / "x.cubin").write_text("text")
    with pytest.raises(UsageError, match="is not a cubin"):
        load_cubin(tmp_path / "x.cubin")
    with pytest.raises(UsageError, match="cannot be read"):
        load_cubin(tmp_path / "y.cubin")
