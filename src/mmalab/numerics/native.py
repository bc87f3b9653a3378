r"""From LLVM IR text to callable machine code, compiled once per machine and kept on disk.

    >>> import ctypes
    >>> text = "define i32 @twice(i32 %x) {\n  %y = add i32 %x, %x\n  ret i32 %y\n}"
    >>> code = load(text, {"twice": (ctypes.c_int32, ctypes.c_int32)})
    >>> code["twice"](21)
    42

The object file is kept under a key of everything that decides it (the text, the versions, the
processor and its features), so a second process compiles nothing. A damaged entry is found by its
digest and rebuilt; entries appear whole or not at all; a cache that cannot be written is done
without. Addresses never enter the text: functions of the host are declared by name and bound when
the object is linked (`externals`), so the same object serves every process.

The cache lies in ``$MMALAB_CACHE``, else ``$XDG_CACHE_HOME/mmalab``, else ``~/.cache/mmalab``.
``MMALAB_CPU`` names another processor than this one (``haswell``: AVX2, ``skylake-avx512``); it
must be one whose code runs here. Calls through ctypes release the interpreter lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from mmalab.errors import ToolError, UsageError

__all__ = ["Handle", "Processor", "cache_folder", "compile_count", "load", "object_code",
           "processor"]

#: Changes when this file builds other code from the same text.
_BUILD = "2"

_SYMBOL_TABLE = 2

_lock = threading.RLock()
_names = count()
_compiled = 0


@dataclass(frozen=True, slots=True)
class Processor:
    """A processor to compile for, as LLVM names it: `features` are ``+avx2,-avx512f,...``."""

    triple: str
    name: str
    features: str

    def has(self, feature: str) -> bool:
        """Whether `feature` is among those that may be used ("avx2", "avx512f", "f16c")."""
        return f"+{feature}" in self.features.split(",")

    @property
    def converts_halves(self) -> bool:
        """Whether FP16 conversions are instructions; else LLVM calls a library we lack."""
        return self.has("f16c") or self.triple.startswith(("aarch64", "arm64"))

    @property
    def vector_bits(self) -> int:
        """Width of the widest comfortable vector register."""
        return 512 if self.has("avx512f") else 256 if self.has("avx2") else 128


#: Features of the processors that can be asked for by name; others take LLVM's own list.
_NAMED = {
    "haswell": "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+sse4.2",
    "skylake-avx512": ("+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt,+sse4.2,+avx512f,+avx512bw,"
                       "+avx512dq,+avx512vl,+avx512cd"),
}


@lru_cache(maxsize=1)
def _binding() -> Any:
    # Late, because importing LLVM costs a quarter of a second and many uses never compile.
    from llvmlite import binding  # noqa: PLC0415

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@lru_cache(maxsize=8)
def processor(name: str = "") -> Processor:
    """The processor to compile for: `name`, else ``$MMALAB_CPU``, else this machine's.

    Raises:
        UsageError: a name that is neither this machine's nor one of the named ones.
    """
    llvm = _binding()
    triple = llvm.get_process_triple()
    name = name or os.environ.get("MMALAB_CPU", "")
    host = llvm.get_host_cpu_name()
    if name and name not in ("host", host):
        if name not in _NAMED:  # LLVM ends the process at a name that it does not know
            raise UsageError(f"processor {name!r}", "is not known (MMALAB_CPU)",
                             legal=["host", host, *_NAMED], where="mmalab doctor")
        return Processor(triple, name, _NAMED[name])
    return Processor(triple, host, llvm.get_host_cpu_features().flatten())


def cache_folder() -> Path | None:
    """Where objects are kept (not made yet); None where nobody has a place for them."""
    named = os.environ.get("MMALAB_CACHE")
    if named:
        return Path(named) / "objects"
    root = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(root) if root else Path.home() / ".cache") / "mmalab" / "objects"
    except RuntimeError:  # a user without a home directory
        return None


def compile_count() -> int:
    """How many texts this process has compiled (cache hits do not count)."""
    return _compiled


class Handle:
    """Linked code. Functions stay valid as long as the handle lives."""

    def __init__(self, tracker: Any, functions: Mapping[str, tuple[Any, ...]]) -> None:
        self._tracker = tracker
        self._functions = {
            name: ctypes.CFUNCTYPE(*signature)(tracker[name])
            for name, signature in functions.items()
        }

    def __getitem__(self, name: str) -> Any:
        """The function as a ctypes callable; it runs without the interpreter lock."""
        return self._functions[name]

    def address(self, name: str) -> int:
        """Where the function lies, for other compiled code to call."""
        return int(self._tracker[name])


_handles: dict[str, Handle] = {}


def load(text: str, functions: Mapping[str, tuple[Any, ...]],
         externals: Mapping[str, int] | None = None, *, cpu: str = "", opt: int = 2) -> Handle:
    """Code for IR `text`, compiled or taken from the cache.

    Args:
        text: one LLVM module.
        functions: exported functions: name -> (result type, *argument types) in ctypes.
        externals: addresses of functions that the text declares and does not define.
        cpu: see :func:`processor`.
        opt: optimisation level, 0 to 3.

    Raises:
        ToolError: the text is not valid IR, or a declared function has no address.
    """
    key = _key(text, processor(cpu), opt)
    full = repr((key, sorted(functions), sorted((externals or {}).items())))
    with _lock:
        if full not in _handles:
            _handles[full] = _link(object_code(text, cpu=cpu, opt=opt), functions, externals or {})
        return _handles[full]


def object_code(text: str, *, cpu: str = "", opt: int = 2) -> bytes:
    """The object file of `text`, from the cache if it is there."""
    target = processor(cpu)
    folder = cache_folder()
    path = folder / f"{_key(text, target, opt)}.o" if folder is not None else None
    found = _read(path) if path is not None else None
    if found is None:
        with _lock:
            found = _compile(text, target, opt)
        if path is not None:
            _write(path, found)
    return found


def _key(text: str, target: Processor, opt: int) -> str:
    llvm = _binding()
    parts = (_BUILD, repr(llvm.llvm_version_info), target.triple, target.name, target.features,
             str(opt), text)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _read(path: Path) -> bytes | None:
    """A cached object whose digest is right, else None."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, body = data[:32], data[32:]
    return body if hashlib.sha256(body).digest() == digest else None


def _write(path: Path, body: bytes) -> None:
    """Put an object into the cache at once, or, where that is impossible, not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(hashlib.sha256(body).digest() + body)
        Path(file.name).replace(path)
    except OSError:
        return


def _compile(text: str, target: Processor, opt: int) -> bytes:
    global _compiled  # noqa: PLW0603
    llvm = _binding()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise ToolError("LLVM", "refused generated code", output=str(error)) from error
    module.triple = target.triple
    # The large code model: a linked object's sections, and the functions that it calls, may lie
    # anywhere (beside a CUDA context they do lie more than 2 GiB apart).
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.name, features=target.features, opt=opt, reloc="static", codemodel="large",
    )
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=opt)
    # Loops are written as vectors already: unrolling them again only costs compile time.
    options.loop_unrolling = options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    _compiled += 1
    return bytes(machine.emit_object(module))


def _undefined(body: bytes) -> list[str]:
    """Names that an ELF object leaves to the linker."""
    if body[:5] != b"\x7fELF\x02":
        return []
    (offset,) = struct.unpack_from("<Q", body, 0x28)
    size, sections = struct.unpack_from("<HH", body, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", body, offset + i * size) for i in range(sections)]
    names = []
    for kind, start, length, link in ((h[1], h[4], h[5], h[6]) for h in headers):
        if kind != _SYMBOL_TABLE:
            continue
        strings = headers[link][4]
        for at in range(start, start + length, 24):
            name, _, section = struct.unpack_from("<IHH", body, at)
            if name and not section:
                end = body.index(b"\0", strings + name)
                names.append(body[strings + name : end].decode())
    return names


@lru_cache(maxsize=1)
def _jit() -> Any:
    return _binding().create_lljit_compiler()


def _link(body: bytes, functions: Mapping[str, tuple[Any, ...]],
          externals: Mapping[str, int]) -> Handle:
    process = ctypes.CDLL(None)  # memcpy and the like
    missing = [name for name in _undefined(body)
               if not externals.get(name) and not hasattr(process, name)]
    if missing:  # LLVM would end the process
        raise ToolError(f"generated code calls {', '.join(missing)}", "no address was given for it")
    builder = _binding().JITLibraryBuilder().add_object_img(body).add_current_process()
    for name, address in externals.items():
        builder = builder.import_symbol(name, address)
    for name in functions:
        builder = builder.export_symbol(name)
    try:
        tracker = builder.link(_jit(), f"mmalab.{next(_names)}")
    except RuntimeError as error:
        raise ToolError("LLVM", "could not link generated code", output=str(error)) from error
    return Handle(tracker, functions)
