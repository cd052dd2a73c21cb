"""Lets the CPU's vector math library choose its code before two threads ask it at once.

MKL chooses by processor at a function's first call. Where two threads make that call together, one of them can be served by a coarser
version: log off by 1e-4, once in some hundred processes on a busy machine. One short call of each, on one thread, settles it.
"""

from __future__ import annotations

import torch

FUNCTIONS = ("acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "erfinv", "exp", "expm1", "lgamma", "log", "log10", "log1p", "log2",
             "sin", "sinh", "sqrt", "tan", "tanh")  # those of one argument that torch leaves to it, and some more
FEW = 8  # elements: too few for a second thread


def settle_math() -> None:
    """Call each function once, in both floating types. Starts no thread."""
    for dtype in (torch.float32, torch.float64):
        x = torch.full((FEW,), 0.5, dtype=dtype)
        for name in FUNCTIONS:
            getattr(torch, name)(x)
