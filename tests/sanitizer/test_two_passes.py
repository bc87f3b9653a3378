"""A sanitized run may go through a kernel twice; the caller sees it run once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mmalab

ADD = """.version 8.6
.target sm_90a
.address_size 64
.visible .entry add(PARAM) {
  .reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .pred %p;
  .shared .align 128 .b8 ones[128];
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, ones;
  shl.b32 %r2, %r0, 2;
  add.u32 %r2, %r1, %r2;
  mov.u32 %r3, 1;
  st.shared.u32 [%r2], %r3;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  setp.ne.u32 %p, %r0, 0;
  @%p bra DONE;
  ADDRESS
  cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [%rd0, {%r0}], [%r1];
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
DONE:
  ret;
}
"""
BY_VALUE = ".param .align 64 .b8 map[128]", "mov.b64 %rd1, map; cvta.param.u64 %rd0, %rd1;"
BY_ADDRESS = ".param .u64 map", "ld.param.u64 %rd0, [map];"


@pytest.mark.parametrize("many", [False, True], ids=["map", "list of maps"])
@pytest.mark.parametrize(("parameter", "address"), [BY_VALUE, BY_ADDRESS],
                         ids=["by value", "by address"])
def test_a_reduction_through_a_map_happens_once(parameter: str, address: str, *,
                                                many: bool) -> None:
    """Memory behind tensor maps is put back between the passes."""
    tensor = np.full(32, 7, np.uint32)
    made: Any = mmalab.TensorMap.tiled(tensor, box=(32,), swizzle="none")
    run = mmalab.emulate(ADD.replace("PARAM", parameter).replace("ADDRESS", address),
                         [[made] if many else made], block=32)
    assert run.findings == []
    assert (tensor == 8).all()
