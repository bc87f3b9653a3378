"""Kernels on a real GPU, through cuda-core: `launch`, and what the device says of itself."""

from mmalab.device.launch import Launch, launch
from mmalab.device.probe import info, sm_clock

__all__ = ["Launch", "info", "launch", "sm_clock"]
