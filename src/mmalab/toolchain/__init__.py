"""NVIDIA's assemblers and disassemblers as functions: PTX to cubin, cubin to objects.

Nothing of NVIDIA's is in this package: it runs the tools that ``pip install 'mmalab[toolchain]'``
brings, or those of an installed CUDA toolkit, several versions side by side.
"""

from mmalab.toolchain.assembler import Cubin, assemble, disassemble, load_cubin, retarget_text
from mmalab.toolchain.cuda import compile_cuda
from mmalab.toolchain.diagnostics import AssemblyError, Diagnostic, Resources, ResourceTable
from mmalab.toolchain.locate import Tool, find, supported_ptx, supported_targets, tools
from mmalab.toolchain.loops import Loop
from mmalab.toolchain.lowering import Lowering, lowerings
from mmalab.toolchain.sass import Control, Function, Instruction, Predicate, Sass, read_sass

__all__ = [
    "AssemblyError", "Control", "Cubin", "Diagnostic", "Function", "Instruction", "Loop",
    "Lowering", "Predicate", "ResourceTable", "Resources", "Sass", "Tool", "assemble",
    "compile_cuda", "disassemble", "find", "load_cubin", "lowerings", "read_sass",
    "retarget_text", "supported_ptx", "supported_targets", "tools",
]
