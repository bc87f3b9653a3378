"""Conversions that the host does exactly: integers, f32/f64, f16, bf16; the rest escapes."""

from __future__ import annotations

from mmalab.emulator.native.emit import Value, const, vector
from mmalab.emulator.native.generate import floats
from mmalab.emulator.native.generate.integers import is_integer
from mmalab.emulator.native.generate.registry import generates
from mmalab.emulator.native.primitive import V16, V32, VF32, VF64, PrimitiveWriter
from mmalab.emulator.types import width

__all__: list[str] = []

_HALF = vector("half")
_ROUND = {"rzi": "trunc", "rni": "roundeven", "rmi": "floor", "rpi": "ceil"}


@generates("cvt")
def _convert(w: PrimitiveWriter) -> bool:
    to, come = w.modifier("dtype"), w.modifier("atype")
    plain = {"dtype", "atype", "rounding", "ftz"}
    if set(w.site.form.modifiers) - plain:
        return False
    if is_integer(to) and is_integer(come):
        return _resize(w, to, come)
    if is_integer(to) and floats.is_float(come):
        return _to_integer(w, to, come)
    if floats.is_float(to) and is_integer(come):
        return _from_integer(w, to, come)
    if to in ("f16x2", "bf16x2") and come == "f32":
        return _pack(w, to)
    if to in ("f16", "bf16") and come == "f32":
        narrow = _narrow(w, w.read_float(1, "f32"), to)
        return narrow is not None and _write(w, narrow)
    if to == "f32" and come in ("f16", "bf16"):
        return _widen(w, come)
    return False


def _write(w: PrimitiveWriter, value: Value, *, signed: bool = False) -> bool:
    w.write(0, value, signed=signed)
    return True


def _resize(w: PrimitiveWriter, to: str, come: str) -> bool:
    value = w.read(1, come)
    value = w.f.resize(value, vector(f"i{width(to)}"), signed=come[0] == "s")
    return _write(w, value, signed=to[0] == "s")


def _to_integer(w: PrimitiveWriter, to: str, come: str) -> bool:
    """Out of range saturates, NaN gives 0 (only where the width makes that the chip's rule)."""
    bits = width(to)
    if bits != 32 or come != "f32" or w.modifier("rounding") not in _ROUND:
        return False
    f = w.f
    value = floats.read(w, 1, come)
    value = f.call(VF32, f"llvm.{_ROUND[w.modifier('rounding')]}.v32f32", [value])
    name = "fptosi" if to[0] == "s" else "fptoui"
    return _write(w, f.call(V32, f"llvm.{name}.sat.v32i32.v32f32", [value]))


def _from_integer(w: PrimitiveWriter, to: str, come: str) -> bool:
    exact = width(come) < (24 if to == "f32" else 53)
    if w.modifier("rounding", "rn") != "rn" and not exact:
        return False
    value = w.read(1, come)
    operation = "sitofp" if come[0] == "s" else "uitofp"
    return _write(w, w.f.cast(operation, value, VF32 if to == "f32" else VF64))


def _narrow(w: PrimitiveWriter, value: Value, to: str) -> Value | None:
    """f32 to f16 or bf16, to nearest even, as <32 x i16>."""
    if w.modifier("rounding") != "rn" or w.modifier("ftz"):
        return None
    f = w.f
    nan = f.compare("fcmp uno", value, value)
    if to == "f16":
        narrow = f.cast("bitcast", f.cast("fptrunc", value, _HALF), V16)
        return f.select(nan, const(V16, 0x7FFF), narrow)
    raw = f.cast("bitcast", value, V32)
    odd = f.binary("and", f.binary("lshr", raw, const(V32, 16)), const(V32, 1))
    rounded = f.binary("add", raw, f.binary("add", odd, const(V32, 0x7FFF)))
    high = f.cast("trunc", f.binary("lshr", rounded, const(V32, 16)), V16)
    return f.select(nan, const(V16, 0x7FFF), high)


def _pack(w: PrimitiveWriter, to: str) -> bool:
    """``cvt.rn.f16x2.f32 d, a, b``: a in the high half."""
    halves = []
    for index in (1, 2):
        narrow = _narrow(w, w.read_float(index, "f32"), to.removesuffix("x2"))
        if narrow is None:
            return False
        halves.append(w.f.resize(narrow, V32))
    high = w.f.binary("shl", halves[0], const(V32, 16))
    return _write(w, w.f.binary("or", high, halves[1]))


def _widen(w: PrimitiveWriter, come: str) -> bool:
    """f16 or bf16 to f32, exact; a NaN becomes the canonical one."""
    if w.modifier("ftz"):
        return False
    f = w.f
    word = w.read(1, "b16")
    if come == "f16":
        value = f.cast("fpext", f.cast("bitcast", word, _HALF), VF32)
    else:
        high = f.binary("shl", f.resize(word, V32), const(V32, 16))
        value = f.cast("bitcast", high, VF32)
    nan = f.compare("fcmp uno", value, value)
    raw = f.select(nan, const(V32, 0x7FFFFFFF), f.cast("bitcast", value, V32))
    return _write(w, raw)


