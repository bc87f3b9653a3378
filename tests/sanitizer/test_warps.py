"""Lane masks and collectives inside one warp."""

from __future__ import annotations

from scenario import FULL, HIGH, LOW, Scenario


def test_a_lane_outside_its_own_mask_is_reported():
    """Lanes 8 to 15 execute bar.warp.sync with mask 0xff."""
    s = Scenario(threads=32)
    s.warp_sync(mask=LOW, members=0xFF)
    (finding,) = s.findings()
    assert finding.code == "warp-sync-mask"
    assert "lanes 8-15 execute it" in finding.message
    assert finding.witness == {"members": 0xFF, "executing": LOW, "count": 1}


def test_a_matching_mask_is_clean():
    """Half a warp under the mask that names it, for sync, shuffle and vote."""
    s = Scenario(threads=32)
    s.warp_sync(mask=LOW, members=LOW)
    s.collective(mask=LOW, members=LOW)
    s.collective(mask=LOW, members=LOW, text="vote.sync.all.pred")
    assert s.codes() == []


def test_a_vote_outside_its_mask_is_reported():
    """The same rule for vote."""
    s = Scenario(threads=32)
    s.collective(mask=FULL, members=LOW, text="vote.sync.all.pred")
    assert s.codes() == ["warp-sync-mask"]


def test_a_shuffle_from_an_absent_lane_is_reported():
    """Lanes that read from a lane which does not take part."""
    s = Scenario(threads=32)
    s.collective(mask=LOW, members=LOW, inactive=0b110)
    assert "lanes 1-2 read from a lane" in s.findings()[0].message


def test_an_aligned_collective_needs_all_lanes():
    """ldmatrix by half a warp, whether the rest is elsewhere or has ended."""
    for ended in (False, True):
        s = Scenario(threads=32)
        if ended:
            s.exit(0, mask=HIGH)
        s.collective(mask=LOW, text="ldmatrix.sync.aligned.m8n8.x1")
        assert s.codes() == ["divergent-collective"]


def test_a_partial_last_warp_is_whole():
    """48 threads: the second warp has sixteen lanes, all of which come; a matrix lacks the others'
    part, which is a warning."""
    s = Scenario(threads=48)
    s.collective(1, mask=LOW)
    assert s.codes() == []
    s.collective(1, mask=LOW, text="mma.sync.aligned.m16n8k16")
    assert [(f.code, f.severity) for f in s.findings()] == [("divergent-collective", "warning")]
    assert "warp 1 has 16. Repair: a block of 64 threads" in s.findings()[0].message
