"""``run`` on a kernel that comes to a standstill: the cause first, then who waits for what."""

from __future__ import annotations

from pathlib import Path

LITMUS = Path(__file__).parents[1] / "litmus"


def test_a_deadlock_in_words_and_as_data(mmalab, tmp_path: Path) -> None:
    """1024 bytes are announced and 512 come: four warps wait in one line."""
    words = ("run", LITMUS / "kernels" / "bulk_load_expect_more.ptx", "--block", "128",
             "--arg", f"out:128:u32:{tmp_path / 'out.npy'}", "--arg", f"in:{LITMUS}/iota_u32.npy")
    text = mmalab(*words)
    assert text.code == 1
    told = text.out[text.out.index("\ndeadlock:") :].splitlines()
    assert told[2].startswith("    cause (bytes): the mbarrier at 0x2400 was promised 1024 bytes")
    assert told[3] == "    repair: announce 512 bytes"
    assert told[4].startswith("    CTA (0, 0, 0), warps 0, 1, 2, 3, line 46: mbarrier.try_wait")
    assert told[5].endswith("released by 512 more bytes")
    report = mmalab(*words, "--json").json
    assert {finding["code"] for finding in report["findings"]} == {"tx-mismatch", "deadlock"}
    assert report["deadlock"]["causes"][0]["kind"] == "bytes"
    assert report["deadlock"]["waiting"][0]["waits_for"]["delivered_bytes"] == 512
