"""Which preprocessor macros tell a target: the number never has the letter.

``__CUDA_ARCH__`` is 1200 for sm_120, sm_120f and sm_120a alike. What tells them apart is
``__CUDA_ARCH_FAMILY_SPECIFIC__`` (f and a) and ``__CUDA_ARCH_SPECIFIC__`` (a alone)::

    >>> macros(["sm_120f"])[0].defined                                        # doctest: +SKIP
    {'__CUDA_ARCH__': '1200', '__CUDA_ARCH_FAMILY_SPECIFIC__': '1200'}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from mmalab.isa.targets import target as target_row
from mmalab.toolchain import compile_cuda

__all__ = ["NAMES", "Macros", "macros"]

#: The macros asked about.
NAMES = ("__CUDA_ARCH__", "__CUDA_ARCH_FAMILY_SPECIFIC__", "__CUDA_ARCH_SPECIFIC__")


@dataclass(frozen=True, slots=True)
class Macros:
    """What a CUDA compiler defines for one target: a macro that is missing is not defined."""

    target: str
    compiler: str
    defined: Mapping[str, str]
    source: str = field(repr=False)


def macros(targets: Iterable[str], toolkit: str | None = None) -> tuple[Macros, ...]:
    """Preprocess a probe for each target and read the macros out of the PTX.

    Raises:
        UsageError: no such target.
        ToolError: no CUDA compiler is installed, or it does not know the target.
    """
    lines = "".join(f'#ifdef {name}\nasm volatile("// macro {name} " TEXT({name}));\n#endif\n'
                    for name in NAMES)
    source = ("#define WORDS(x) #x\n#define TEXT(x) WORDS(x)\n"
              f'extern "C" __global__ void probe()\n{{\n{lines}}}\n')
    found = []
    for name in targets:
        compiled = compile_cuda(source, target_row(name).name, toolkit=toolkit)
        defined = dict(re.findall(r"// macro (\w+) (\w+)", compiled.text))
        found.append(Macros(name, compiled.compiler, defined, source))
    return tuple(found)
