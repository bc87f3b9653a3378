"""The page in a browser: wide and narrow, light and dark, by pointer and by keys.

Needs Chromium (Debian's package `chromium`); where it is not installed these tests are skipped and
say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from report.chromium import Chromium, find_chromium

from mmalab import isa
from mmalab.claims.statements import recorded
from mmalab.plan.tmem import ledger
from mmalab.report import Report

SIZES = {"desktop": (1280, 900, False), "tablet": (800, 1000, True), "phone": (390, 844, True)}
BF16 = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    path = find_chromium()
    if path is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    with Chromium(path) as started:
        yield started


@pytest.fixture
def desktop(browser: Chromium, page: Path) -> Chromium:
    browser.open(page)
    return browser


def text(browser: Chromium, name: str) -> str:
    return str(browser.evaluate(f"document.getElementById({name!r}).textContent"))


def choose(browser: Chromium, name: str, value: str) -> None:
    """Select the option with this value or words, as a person would."""
    assert browser.evaluate(
        f"(() => {{ const s = document.getElementById({name!r});"
        f"const o = [...s.options].find((o) => o.value === {value!r} || o.text === {value!r});"
        "if (!o) return false; s.value = o.value; s.dispatchEvent(new Event('change'));"
        "return true; })()"), (name, value)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_it_loads_without_a_word(browser: Chromium, page: Path, size: str, dark: bool) -> None:
    """No error, no request but the file, nothing wider than the window, the colours asked for."""
    width, height, touch = SIZES[size]
    browser.open(page, width=width, height=height, dark=dark, touch=touch)
    assert browser.logs == []
    assert browser.requests == [page.resolve().as_uri()]
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    background = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    level = sum(map(int, background.removeprefix("rgb(").rstrip(")").split(",")))
    assert level < 100 if dark else level > 700
    shown = browser.evaluate("[...document.querySelectorAll('figure svg')]"
                             ".filter((s) => s.getBoundingClientRect().width > 0).length")
    assert shown == browser.evaluate("document.querySelectorAll('figure').length")


def test_words_can_be_read_in_both_schemes(browser: Chromium, page: Path) -> None:
    """Contrast of the page's inks with its ground: 4.5 at least."""
    script = """(() => {
      const style = getComputedStyle(document.documentElement);
      const light = (name) => {
        const hex = style.getPropertyValue(name).trim().slice(1);
        const [r, g, b] = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
          .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      const pairs = [["--ink", "--bg"], ["--muted", "--bg"], ["--muted", "--panel"],
        ["--accent", "--bg"], ["--warn", "--bg"], ["--on-accent", "--accent"],
        ["--on-accent", "--warn"], ["--accent", "--accent-soft"], ["--warn", "--warn-soft"],
        ["--muted", "--well"]];
      return pairs.map(([a, b]) => {
        const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
        return [`${a} on ${b}`, (x + 0.05) / (y + 0.05)];
      });
    })()"""
    for dark in (False, True):
        browser.open(page, dark=dark)
        weak = {pair: ratio for pair, ratio in browser.evaluate(script) if ratio < 4.5}
        assert weak == {}, ("dark" if dark else "light")


def test_the_button_changes_the_colours(desktop: Chromium) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = desktop.evaluate(ground)
    for word in ("light", "dark"):
        desktop.point("#theme", click=True)
        assert word in text(desktop, "theme")
    assert desktop.evaluate(ground) != light
    desktop.point("#theme", click=True)
    assert desktop.evaluate(ground) == light
    assert desktop.logs == []


def test_an_element_is_asked_by_pointing(desktop: Chromium) -> None:
    """D[9][5]: the cell under the pointer is told as isa tells it."""
    assert BF16 in text(desktop, "fragment-form")
    choose(desktop, "fragment-form", BF16)
    choose(desktop, "fragment-operand", "D")
    desktop.point("#fragment-matrix", (3 + 0.5) / 8, (12 + 0.5) / 16)
    place = isa.layout(BF16, "D", at=(12, 3))
    high, low = place.bits
    assert text(desktop, "fragment-answer") == (
        f"D[12][3] is in lane {place.lane}, slot {place.slot}: register {place.register}, "
        f"bits {high}:{low}, byte {4 * place.slot} of its 16")
    assert text(desktop, "fragment-command").endswith("-D --at 12,3")


def test_a_lane_is_asked_by_a_tap(desktop: Chromium) -> None:
    choose(desktop, "fragment-form", BF16)
    choose(desktop, "fragment-operand", "A")
    desktop.point("#fragment-lanes", 0.5, (6 + 0.5) / 32, click=True)
    held = [place.at for place in isa.places(BF16, "A", lane=6)]
    words = ", ".join(f"[{row}][{col}]" for row, col in held)
    assert text(desktop, "fragment-answer") == f"lane 6 holds {len(held)} elements of A: {words}"


def test_elements_are_asked_by_keys(desktop: Chromium) -> None:
    choose(desktop, "fragment-operand", "D")
    desktop.evaluate("document.getElementById('fragment-matrix').focus()")
    before = text(desktop, "fragment-answer")
    desktop.key("ArrowRight")
    desktop.key("ArrowDown")
    after = text(desktop, "fragment-answer")
    assert before.startswith("D[9][5]")
    assert after.startswith("D[10][6]")


def test_every_instruction_can_be_chosen(desktop: Chromium, made: Report) -> None:
    for row in made.explorer["fragments"]:
        choose(desktop, "fragment-form", row["form"])
        for operand in row["operands"]:
            choose(desktop, "fragment-operand", operand["operand"])
            assert text(desktop, "fragment-answer").startswith(f"{operand['operand']}[")
    assert desktop.logs == []


def test_banks_by_choice(desktop: Chromium) -> None:
    assert text(desktop, "access-answer").startswith("4 wavefronts, 1 without conflicts")
    choose(desktop, "access-how", "swizzle 64B")
    assert text(desktop, "access-answer").startswith("1 wavefront, 1 without conflicts")
    choose(desktop, "access-how", "padded by 16 bytes")
    choose(desktop, "access-kind", "cp.async")
    assert text(desktop, "access-answer").startswith("2 wavefronts")
    choose(desktop, "access-pitch", "128")
    assert desktop.logs == []


def test_plans_by_choice(desktop: Chromium) -> None:
    again = ledger(128, 256, scales="nvfp4", stages=2)
    choose(desktop, "plan-stages", "2")
    assert text(desktop, "plan-tmem-answer").startswith(f"{again.columns} of 512 columns: ")
    choose(desktop, "plan-size", "64x128x1")
    assert "mxf4nvf4 with cta_group::1 has M = 128" in text(desktop, "plan-tmem-answer")
    choose(desktop, "plan-format", "f16")
    found = ledger(64, 128, "f16", stages=2)
    assert text(desktop, "plan-tmem-answer").startswith(f"{found.columns} of 512 columns, ")
    assert desktop.logs == []


def test_boxes_by_pointing_and_refusals(desktop: Chromium) -> None:
    desktop.point('#box-from [data-key="3,1"]')
    assert text(desktop, "box-answer") == (
        "row 3, chunk 1 lands at byte 416: line 3, banks 8 to 11")
    assert desktop.evaluate("document.querySelectorAll('#box-pair .same').length") == 2
    choose(desktop, "box-inner", "256")
    assert "128" in text(desktop, "box-answer")
    assert desktop.evaluate("document.getElementById('box-pair').offsetParent") is None
    assert desktop.logs == []


def test_a_reload_begins_anew(desktop: Chromium, page: Path) -> None:
    """A browser that keeps what was chosen would show other answers than the choices."""
    desktop.point("#claim-corrections", click=True)
    choose(desktop, "box-inner", "256")
    for _ in range(3):
        desktop.open(page)
        assert desktop.evaluate("document.querySelectorAll('.claim[hidden]').length") == 0
        assert desktop.evaluate(
            "document.querySelectorAll('#claim-filters input:not(:checked)').length") == 1
        assert desktop.evaluate("document.getElementById('box-inner').value") == "128"


def test_claims_are_filtered(desktop: Chromium, made: Report) -> None:
    """By words, by verdict, by article, and all again."""
    def shown() -> list[str]:
        return list(desktop.evaluate("[...document.querySelectorAll('.claim:not([hidden])')]"
                                     ".map((c) => c.id)"))

    def search(words: str) -> None:
        desktop.evaluate(f"(() => {{ const s = document.getElementById('claim-search');"
                         f"s.value = {words!r}; s.dispatchEvent(new Event('input')); }})()")

    everything = list(recorded())
    assert shown() == everything
    desktop.point("#claim-corrections", click=True)
    wrong = [name for name, verdict in recorded().items() if verdict.refuted]
    assert shown() == wrong
    assert text(desktop, "claim-count") == f"{len(wrong)} of {len(everything)} claims"
    search("ptxas registers")
    both = [claim.id for claim in made.claims.rows
            if "ptxas" in claim.text and "registers" in claim.text]
    assert shown() == [name for name in both if name in wrong]
    desktop.point("#claim-reset", click=True)
    search("ptxas registers")
    assert shown() == both != []
    search("b-047")
    assert "B-047" in shown()
    search("qqqq")
    assert shown() == []
    desktop.point("#claim-reset", click=True)
    desktop.point('#claim-filters input[name="article"][value="A"]', click=True)
    assert shown() == [name for name in everything if name.startswith("B")]
    assert desktop.logs == []


def test_faults_and_numbers_open(desktop: Chromium) -> None:
    """Every details element opens without an error and shows something."""
    closed = desktop.evaluate(
        "[...document.querySelectorAll('details')].filter((d) => { d.open = true;"
        "return d.getBoundingClientRect().height < 20 && d.closest('[hidden]') === null"
        "&& d.offsetParent !== null; }).length")
    assert closed == 0
    assert desktop.logs == []
