"""Special registers as vectors: thread and CTA indices, lane masks, counters of the launch."""

from __future__ import annotations

from mmalab.emulator.native.abi import Context
from mmalab.emulator.native.emit import Value, const
from mmalab.emulator.native.scope import V32, Scope
from mmalab.errors import UnsupportedInstruction

__all__ = ["KNOWN", "special"]

_UNIFORM = {
    "%ctaid.x": Context.CTAID_X, "%ctaid.y": Context.CTAID_Y, "%ctaid.z": Context.CTAID_Z,
    "%ntid.x": Context.NTID_X, "%ntid.y": Context.NTID_Y, "%ntid.z": Context.NTID_Z,
    "%nctaid.x": Context.NCTAID_X, "%nctaid.y": Context.NCTAID_Y, "%nctaid.z": Context.NCTAID_Z,
}
_LANE_MASKS = {
    "%lanemask_eq": [1 << i for i in range(32)],
    "%lanemask_lt": [(1 << i) - 1 for i in range(32)],
    "%lanemask_le": [(2 << i) - 1 for i in range(32)],
    "%lanemask_gt": [~((2 << i) - 1) for i in range(32)],
    "%lanemask_ge": [~((1 << i) - 1) for i in range(32)],
    "%laneid": list(range(32)),
}
_TID = {"%tid.x": 0, "%tid.y": 1, "%tid.z": 2}

#: Special registers that compiled code knows; others escape.
KNOWN = frozenset([*_UNIFORM, *_LANE_MASKS, *_TID, "%warpid"])


def _words(values: list[int]) -> Value:
    signed = [(v & 0xFFFFFFFF) - (1 << 32 if v & 0x80000000 else 0) for v in values]
    return Value(V32, "<" + ", ".join(f"i32 {v}" for v in signed) + ">")


def _warp(scope: Scope) -> Value:
    first = scope.f.cast("trunc", scope.frame.word(Context.FIRST_ROW), "i32")
    return scope.f.binary("sub", scope.frame.row, first)


def special(scope: Scope, name: str) -> Value:
    """The register as <32 x i32>."""
    f, frame = scope.f, scope.frame
    if name in _UNIFORM:
        word = f.cast("trunc", frame.word(_UNIFORM[name]), "i32")
        return f.splat(word)
    if name in _LANE_MASKS:
        return _words(_LANE_MASKS[name])
    if name in _TID:
        wide = f.cast("zext", _warp(scope), "i64")
        start = f.binary("mul", wide, const("i64", 3 * 128))
        start = f.binary("add", start, const("i64", 128 * _TID[name]))
        return f.load(V32, f.offset(frame.pointer(Context.TID), start), 4)
    if name == "%warpid":
        return f.splat(_warp(scope))
    raise UnsupportedInstruction(name, "compiled code does not know this special register")
