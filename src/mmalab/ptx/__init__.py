"""PTX as text in and text out: parse it, print it byte for byte, edit it, write it from Python."""

from mmalab.ptx.builder import KernelBuilder
from mmalab.ptx.edit import (
    Editor,
    insert_after,
    insert_before,
    print_module,
    remove,
    replace,
    retarget,
)
from mmalab.ptx.parser import parse
from mmalab.ptx.printer import same_structure

__all__ = [
    "Editor", "KernelBuilder", "insert_after", "insert_before", "parse", "print_module", "remove",
    "replace", "retarget", "same_structure",
]
