"""PTX as text in and text out: parse it, print it byte for byte, edit it, write it from Python."""

from mmalab.ptx.parser import parse

__all__ = ["parse"]
