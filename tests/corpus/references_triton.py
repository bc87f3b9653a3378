"""References of the Triton kernels."""

__all__: list[str] = []
