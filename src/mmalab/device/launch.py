"""Run a kernel on a GPU: the same value and the same arguments as :func:`mmalab.emulate`.

    >>> c = np.zeros((1024, 1024), np.float32)                    # doctest: +SKIP
    >>> done = launch(gemm(1024, 1024, 1024), [a, b, c])
    >>> done.device, done.milliseconds
    ('NVIDIA H200', 0.041)

Arrays are copied to the device, the kernel runs once, and they are copied back in place. When the
launch is refused, or the kernel faults or hangs, the CPU emulator runs it on the same arguments,
and the first thing that it finds wrong is part of the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol, cast

from numpy.typing import NDArray

from mmalab.device.driver import DriverError, Hung
from mmalab.device.faults import fault, refused
from mmalab.device.gpu import PATIENCE_S, Code, Gpu, buffers, open_gpu
from mmalab.device.signature import (
    Extent,
    Shape,
    Signature,
    check_shape,
    read_shape,
    read_signature,
)
from mmalab.emulator.arguments import as_array, bind
from mmalab.emulator.memory import AddressSpace
from mmalab.emulator.program import Program
from mmalab.emulator.requests import arguments, check_kernel
from mmalab.errors import UsageError
from mmalab.isa import runs_on
from mmalab.isa import target as target_row
from mmalab.plan.occupancy import Compiled, of_compiled
from mmalab.ptx import parse
from mmalab.ptx.kernel import Kernel
from mmalab.ptx.nodes import Module
from mmalab.tensormap import TensorMap
from mmalab.toolchain import assemble, tools
from mmalab.toolchain.assembler import retarget_text

__all__ = ["Launch", "Loaded", "check_fits", "check_resident", "code_target", "launch", "load"]


@dataclass(frozen=True, slots=True)
class Launch:
    """What one launch was: the device, the code and its time between two events (one run, cold)."""

    kernel: str
    device: str
    target: str
    #: ptxas and its release, or the driver's own compiler.
    compiler: str
    shape: Shape
    milliseconds: float


def launch(kernel: Kernel | Module | str, args: Sequence[Any], *, entry: str | None = None,
           grid: Extent | None = None, block: Extent | None = None,
           cluster: Extent | None = None, dynamic_shared: int | None = None,
           target: str | None = None, gpu: int = 0, toolkit: str | None = None,
           patience: float = PATIENCE_S) -> Launch:
    """Execute a kernel on a GPU; arrays among `args` are read and written in place.

    Args:
        kernel: a Kernel value, a parsed module, or PTX text.
        args: one value per parameter: arrays for pointers, numbers and bytes by declared type,
            tensor maps, which the driver encodes over the array's copy on the device.
        entry, grid, block, cluster, dynamic_shared: the launch; a Kernel brings its own.
        target: what ptxas assembles for; None is the device's own.
        gpu: the device's number.
        toolkit: release of ptxas; None is the newest, and without one the driver compiles.
        patience: seconds after which a kernel that has not returned is given up.

    Raises:
        UsageError: arguments, launch or target that do not fit the kernel or the device.
        ToolError: no GPU, driver or cuda-core; ptxas refuses the text; the kernel faults or hangs.
    """
    own = kernel if isinstance(kernel, Kernel) else None
    if isinstance(patience, bool) or not isinstance(patience, (int, float)) or not patience > 0:
        raise UsageError(f"patience {patience!r}", "is no number of seconds", legal="more than 0",
                         where="mmalab.launch")
    check_kernel(kernel)
    args = arguments(args)
    values = list(own.values(args)) if own else args
    device = open_gpu(gpu)
    loaded = load(device, kernel, entry=entry, grid=grid, block=block, cluster=cluster,
                  dynamic_shared=dynamic_shared, target=target, toolkit=toolkit)
    with buffers(device) as held:
        parameters = loaded.bind(values, held)
        try:
            milliseconds = device.run(loaded.code, loaded.shape, parameters, loaded.offsets,
                                      patience)
            held.bring_back(_inputs(own, args))
        except (DriverError, Hung) as failed:
            if not refused(failed):
                device.lost = device.lost or (
                    f"kernel {loaded.signature.entry} ended with {failed.rule}")
            raise fault(failed, f"{device.name} ({device.chip})", loaded.signature, loaded.shape,
                        loaded.text, values) from failed
    return Launch(loaded.signature.entry, device.name, loaded.target, loaded.compiler,
                  loaded.shape, milliseconds)


class Places(Protocol):
    """Who knows where arrays lie on the device."""

    def add(self, array: NDArray[Any], name: str) -> int:
        """The device address of an array."""

    def add_map(self, made: TensorMap, name: str) -> bytes:
        """The 128 bytes of a tensor map."""

    def add_maps(self, maps: Sequence[TensorMap], name: str) -> int:
        """The device address of tensor maps one behind the other."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A kernel that is ready to be launched on one device, again and again."""

    code: Code
    shape: Shape
    signature: Signature
    target: str
    compiler: str
    text: str

    @property
    def offsets(self) -> list[int]:
        """Where each parameter begins in the block."""
        return [offset for offset, _, _, _ in self.signature.params]

    def bind(self, values: Sequence[Any], held: Places) -> bytes:
        """The parameter block for the entry's own values; arrays are placed by `held`.

        Raises:
            UsageError: values that do not fit the parameters.
        """
        return bind(cast("Program", self.signature), values, cast("AddressSpace", held))


def load(device: Gpu, kernel: Kernel | Module | str, *, entry: str | None = None,
         grid: Extent | None = None, block: Extent | None = None,
         cluster: Extent | None = None, dynamic_shared: int | None = None,
         target: str | None = None, toolkit: str | None = None) -> Loaded:
    """Assemble a kernel for `device` and load it there; arguments as of :func:`launch`.

    Raises:
        UsageError: launch or target that do not fit the kernel or the device.
        ToolError: ptxas or the driver refuses it.
    """
    own = kernel if isinstance(kernel, Kernel) else None
    text = own.ptx if own else str(kernel)
    module = kernel if isinstance(kernel, Module) else parse(text)
    signature = read_signature(module, entry or (own.entry if own else None))
    shape = read_shape(signature, own, grid=grid, block=block, cluster=cluster,
                       dynamic_shared=dynamic_shared)
    check_shape(signature, shape, device.chip)
    device.enter()
    if own is not None and own.facts.get("meets"):
        check_resident(own, device.attribute("MULTIPROCESSOR_COUNT"))
    wanted = code_target(module.target, device.chip, target)
    code, compiler = _code(device, text, signature.entry, wanted, toolkit, shape)
    return Loaded(code, shape, signature, wanted, compiler, text)


def check_resident(kernel: Kernel, sms: int) -> None:
    """Refuse a kernel whose CTAs all wait for each other (its fact ``meets``), one an SM, where an
    SM would have to run one after another: it would never end.

    Raises:
        UsageError: with the number of SMs that its factory should be told.
    """
    if prod(kernel.grid) > sms:
        raise UsageError(f"{kernel.name}: {prod(kernel.grid)} CTAs", "wait for each other, one an "
                         f"SM, and the device has {sms}", legal=f"a plan with sms={sms}",
                         where="mmalab.launch")


def code_target(own: str, chip: str, asked: str | None) -> str:
    """What to assemble for, so that code of target `own` runs on `chip`.

    Raises:
        UsageError: `own` (or what was asked for) does not run there.
    """
    row, device = target_row(own), target_row(chip)
    if not runs_on(row, device):
        raise UsageError(f"a kernel for {own}", f"does not run on this device, {chip}",
                         legal=f"{chip} and what runs on it", where="mmalab.launch")
    native = own if row.number == device.number else chip + row.suffix
    wanted = target_row(asked or native)
    # Machine code, unlike PTX, stays within one major version.
    if wanted.number > device.number or wanted.capability[0] != device.capability[0]:
        raise UsageError(f"machine code for {wanted}", f"does not run on this device, {chip}",
                         legal=native, where="mmalab.launch")
    return wanted.name


def check_fits(compiled: Compiled, shape: Shape, chip: str) -> None:
    """Refuse a CTA that the SM has no room for, now that registers and static shared memory are
    known: the driver would say "too many resources" and not which.

    Raises:
        UsageError: with the most that fits.
    """
    misfit = of_compiled(compiled, threads=prod(shape.block), target=chip,
                         dynamic_shared=shape.dynamic_shared).misfit
    if misfit:
        raise UsageError(misfit.given, misfit.rule, legal=misfit.nearest, where=misfit.source)


def _code(device: Gpu, text: str, entry: str, target: str, toolkit: str | None,
          shape: Shape) -> tuple[Code, str]:
    """The kernel, assembled by ptxas, or by the driver where there is no ptxas."""
    if toolkit is None and not tools("ptxas"):
        ptx, _ = retarget_text(text, target)
        return device.load(ptx.encode() + b"\0", entry, ptx=True), "driver"
    cubin = assemble(text, target, toolkit)
    check_fits(cubin.resources[entry], shape, device.chip)
    return device.load(cubin.bytes, entry), f"ptxas {cubin.toolkit}"


def _inputs(kernel: Kernel | None, args: Sequence[Any]) -> list[NDArray[Any]]:
    """The arrays that a Kernel only reads."""
    if kernel is None:
        return []
    arrays = [(param.role, as_array(value))
              for param, value in zip(kernel.params, args, strict=True)]
    return [array for role, array in arrays if role == "in" and array is not None]
