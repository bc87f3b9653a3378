"""``mmalab gemm M N K``: a kernel of ours on real numbers, checked against two references."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from inspect import signature
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import typer

from mmalab.cli.choices import choices_of, family_of
from mmalab.cli.described import described, in_lines, notice
from mmalab.cli.output import Json, print_json, say
from mmalab.errors import UsageError
from mmalab.findings import verdict

__all__ = ["gemm", "operands", "run_gemm"]

#: Kernel families that have a gemm, with the options that only some of them have, as arguments.
_KERNELS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "sm80_mma": ("layout", "stages"),
    "sm90_wgmma": (),
})
#: Values of those arguments of sm80_mma's factory that --plan sets and that have none by default.
_UNSET: Mapping[str, Any] = MappingProxyType({
    "warp_tile": (64, 64), "tile": (256, 128), "span": 64})
#: Arguments of the factories that are options of their own.
_OPTIONS = ("m", "n", "k", "dtype", "accumulate", "promote_every")
#: Where the error of a result comes from, when it is not the sums.
_ROUNDED: Mapping[str, str] = MappingProxyType({
    "bf16": ", most of it C's rounding to bf16 (8 bits)",
    "f16": ", most of it C's rounding to f16 (11 bits)"})
_WHERE = "mmalab gemm --help"


def gemm(
    m: Annotated[int, typer.Argument(help="rows of A and C")],
    n: Annotated[int, typer.Argument(help="columns of B and C")],
    k: Annotated[int, typer.Argument(help="the dimension summed over")],
    *,
    kernel: Annotated[str, typer.Option(help="family: sm80_mma or sm90_wgmma")] = "sm80_mma",
    dtype: Annotated[str, typer.Option(
        help="bf16, f16, tf32, e4m3, s8; sm90_wgmma: and e5m2")] = "bf16",
    layout: Annotated[str | None, typer.Option(
        help="sm80_mma's shared tiles: swizzled, padded, plain")] = None,
    stages: Annotated[int | None, typer.Option(
        help="sm80_mma: slices of K in shared memory")] = None,
    accumulate: Annotated[str | None, typer.Option(help="f32, f16, s32")] = None,
    promote_every: Annotated[int | None, typer.Option(help="add partial sums in FP32")] = None,
    plan: Annotated[str, typer.Option(
        help="the kernel's choices, KEY=VALUE,...: tile=256x128,stages=4")] = "",
    target: Annotated[str | None, typer.Option(help="whose arithmetic; the kernel's own")] = None,
    on: Annotated[str, typer.Option(help="cpu or gpu")] = "cpu",
    numerics: Annotated[str, typer.Option(help="exact or fast")] = "exact",
    sanitize: Annotated[bool, typer.Option(help="check order and protocols")] = True,
    seed: Annotated[int, typer.Option(help="of the random operands")] = 0,
    dry_run: Annotated[bool, typer.Option(help="say what the kernel is made of, run nothing")]
    = False,
    json: Json = False,
) -> None:
    """Multiply random matrices; compare with FP64 and, bit for bit, with the accumulate core.

    Exit 1 when the sanitizer finds an error, or the bits differ from those of the unit.
    """
    kernel = family_of(kernel)
    if kernel not in _KERNELS:
        raise UsageError(f"--kernel {kernel}", "is not a family of kernels",
                         legal=list(_KERNELS), where=_WHERE)
    if on not in ("cpu", "gpu"):
        raise UsageError(f"--on {on}", "is not a place to run", legal=["cpu", "gpu"], where=_WHERE)
    own = {key: value for key, value in (("layout", layout), ("stages", stages))
           if value is not None}
    made = _made(kernel, (m, n, k), {"dtype": dtype, "accumulate": accumulate,
                                     "promote_every": promote_every}, own, plan)
    if dry_run:
        told = described(made)
        if json:
            print_json(told)
        else:
            say(*in_lines(told))
        return
    soon = notice(made, sanitize=sanitize)
    if on == "cpu" and soon:
        sys.stderr.write(f"{soon}\n")
    if on == "gpu":
        found = run_on_gpu(made, target=target, seed=seed)
    else:
        found = run_gemm(made, target=target, numerics=numerics, sanitize=sanitize, seed=seed)
    if json:
        print_json(found)
    else:
        _print(found)
    if found["verdict"] == "findings" or found["bits_equal"] is False:
        raise typer.Exit(1)


def _made(family: str, sizes: tuple[int, int, int], common: dict[str, Any],
          own: dict[str, Any], plan: str) -> Any:
    """The kernel that the options describe.

    Raises:
        UsageError: an option or a part of the plan that the family does not have.
    """
    from mmalab.kernels import sm80_mma, sm90_wgmma

    for key, value in own.items():
        if key not in _KERNELS[family]:
            raise UsageError(f"--{key} {value}", f"is no option of {family}",
                             legal=_instead(key, value), where=_WHERE)
    given = choices_of(plan, "--plan")
    known = _arguments(sm80_mma.gemm) if family == "sm80_mma" else {
        field.name: field.default for field in fields(sm90_wgmma.Plan)}
    for key, value in given.items():
        if key not in known:
            raise UsageError(f"--plan {key}={value}", f"is no choice of {family}",
                             legal=list(known), where=_WHERE)
        if _kind(value) != _kind(known[key]):
            raise UsageError(f"--plan {key}={value}", f"is not {_kind(known[key])}",
                             legal=f"such as {key}={_spelled(known[key]) or 'tma'}", where=_WHERE)
        if key in own:
            raise UsageError(f"--plan {key}={value} and --{key} {own[key]}", "say the same twice",
                             legal="one of them", where=_WHERE)
    m, n, k = sizes
    if family == "sm80_mma":
        return sm80_mma.gemm(m, n, k, **common, **own, **given)
    return sm90_wgmma.gemm(m, n, k, **common, plan=sm90_wgmma.Plan(**given) if given else None)


def _arguments(factory: Callable[..., Any]) -> dict[str, Any]:
    """What --plan sets of a factory without a Plan: each argument with a value."""
    return {name: _UNSET.get(name, parameter.default)
            for name, parameter in signature(factory).parameters.items() if name not in _OPTIONS}


def _kind(value: Any) -> str:
    """What a choice is, in words."""
    if isinstance(value, tuple):
        return f"{len(value)} numbers"
    return {bool: "true or false", int: "a number", str: "a word"}.get(type(value), "given")


def _spelled(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()


def _instead(key: str, value: Any) -> str:
    return (f"--plan {key}={value}" if key == "stages" else
            "without it: tiles are as the tensor maps' 128B swizzle lays them out")


def run_gemm(kernel: Any, *, target: str | None = None, numerics: str = "exact",
             sanitize: bool = True, seed: int = 0) -> dict[str, Any]:
    """Run one GEMM kernel on random operands; findings, counters and both comparisons as data."""
    from mmalab.sanitizer import emulate

    chip = target or kernel.target
    arguments = operands(kernel, seed)
    start = time.perf_counter()
    done = emulate(kernel, arguments, target=chip, numerics=numerics, sanitize=sanitize)
    seconds = time.perf_counter() - start
    return {
        **_compared(kernel, arguments, chip, seed, exactly=numerics == "exact"),
        "on": "cpu", "seconds": round(seconds, 4), "verdict": verdict(done.findings),
        "findings": [finding.as_dict() for finding in done.findings],
        "counters": done.counters, "fidelity": done.fidelity,
    }


def run_on_gpu(kernel: Any, *, target: str | None = None, seed: int = 0) -> dict[str, Any]:
    """Run one GEMM kernel on the GPU; both comparisons and the launch as data."""
    from mmalab.device import launch

    arguments = operands(kernel, seed)
    done = launch(kernel, arguments, target=target)
    return {
        **_compared(kernel, arguments, done.target, seed, exactly=True),
        "on": done.device, "compiler": done.compiler, "seconds": done.milliseconds / 1000,
        "verdict": "clean", "findings": [], "counters": {}, "fidelity": {},
    }


def _compared(kernel: Any, arguments: list[Any], chip: str, seed: int, *,
              exactly: bool) -> dict[str, Any]:
    """The result against an FP64 product, and bit for bit against the unit's arithmetic."""
    a, b, c = (_values(array, param.dtype)
               for array, param in zip(arguments, kernel.params, strict=True))
    exact = a @ b.T
    error = c - exact
    unit = f"{chip.rstrip('af')}.{kernel.facts['unit']}"
    equal = None
    if exactly and kernel.reference is not None:
        expected = np.asarray(kernel.reference(arguments, unit)[0])
        equal = expected.tobytes() == np.asarray(arguments[2]).tobytes()
    return {
        "kernel": kernel.name, "target": chip, "unit": unit, "seed": seed,
        "instruction": kernel.facts["instruction"], "grid": kernel.grid, "block": kernel.block,
        "bits_equal": equal,
        "relative_rms": float(np.sqrt(np.mean(error**2) / max(np.mean(exact**2), 1e-300))),
        "out": kernel.params[-1].dtype,
    }


def operands(kernel: Any, seed: int) -> list[Any]:
    """Uniform in [-1, 1) (whole numbers for integers); the result starts as all ones."""
    from mmalab import formats

    rng = np.random.default_rng(seed)
    arrays: list[Any] = []
    for param in kernel.params:
        dtype = formats.dtype_of(param.dtype)
        if param.role == "out":
            array = np.empty(param.shape, dtype)
            array.reshape(-1).view(np.uint8)[:] = 0xFF
        elif np.dtype(dtype).kind in "iu":
            array = rng.integers(-128, 128, param.shape).astype(dtype)
        else:
            array = rng.uniform(-1, 1, param.shape).astype(dtype)
        arrays.append(array)
    return arrays


def _values(array: Any, dtype: str) -> Any:
    """What the words mean, in FP64: TF32 ignores the low 13 bits of its words."""
    if dtype == "tf32":
        return (np.asarray(array).view(np.uint32) & 0xFFFFE000).view(np.float32).astype(float)
    return np.asarray(array).astype(float)


def _print(found: dict[str, Any]) -> None:
    counters = found["counters"]
    say(f"{found['kernel']} as {found['unit']} on {found['on']}: {found['seconds']:.4f} s")
    if counters:
        say(f"  {counters['instructions']:,} warp instructions, "
            f"{counters['tensor.flops']:,} tensor FLOPs, {counters['shared.wavefronts']:,} shared "
            f"wavefronts (ideal {counters['shared.wavefronts.ideal']:,})")
    rounded = _ROUNDED.get(found["out"], "") if found["unit"].endswith(".f32") else ""
    say(f"  against FP64: relative RMS {found['relative_rms']:.3e}{rounded}")
    if found["bits_equal"] is not None:
        say("  against the unit's arithmetic: "
            + ("every bit equal" if found["bits_equal"] else "bits differ"))
    for finding in found["findings"]:
        say(f"  {finding['severity']}[{finding['code']}] {finding['message']}")
    say(f"  verdict: {found['verdict']}")
