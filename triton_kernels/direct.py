"""What every candidate of the search carries beside its kernels: launches that skip Triton's look-up, for Triton 3.5 to 3.7.

No starter: it has no OP. The search writes `DirectKernel` and `direct` into a candidate's file and puts `@direct` on each kernel that is launched
(autokernel/proposers/launches.py). A look-up takes about 20 us of Python, and many times that where a process has just been woken.
"""

from __future__ import annotations

import torch
import triton


class DirectKernel:
    """A kernel whose launches, from the second with like arguments on, go straight to what was compiled for the first."""

    def __init__(self, kernel):
        self.kernel, self.compiled = kernel, {}
        self.given = 1 + max(n for n, parameter in enumerate(kernel.params) if not parameter.is_constexpr)  # constants alone from there on

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launch((*grid, 1, 1)[:3], arguments, options)

    def launch(self, grid, arguments, options):
        """All arguments by position. Triton compiles for constants, types, integers and whether pointers are multiples of 16."""
        key = (torch.cuda.current_device(), arguments[self.given:], *options.values(), *[
            (x.dtype, x.data_ptr() % 16) if isinstance(x, torch.Tensor) else float if isinstance(x, float) else x for x in arguments[:self.given]
        ])
        compiled = self.compiled.get(key)
        if compiled is None:
            self.compiled[key] = self.kernel[grid](*arguments, **options)
        else:
            compiled[grid](*arguments)


def direct(kernel):
    """Direct launches for a compiled kernel; an interpreted one stays as it is."""
    return DirectKernel(kernel) if isinstance(kernel, triton.JITFunction) else kernel
