"""The compiler flags that a candidate may ask for. Every other flag refuses the build: flags can name files and plug-ins."""

from __future__ import annotations

import re

_ALLOWED = {
    "cuda": (
        r"--?use_fast_math",
        r"--?(ftz|fmad|prec-div|prec-sqrt)=(true|false)",
        r"--?maxrregcount=\d{1,3}",
        r"--extra-device-vectorization",
        r"-std=c\+\+(17|20)",
    ),
    "cpp": (
        r"-O[123]",
        r"-ffast-math",
        r"-fno-(math-errno|trapping-math|signed-zeros|tree-vectorize)",
        r"-f(associative-math|reciprocal-math|finite-math-only|unroll-loops|openmp)",
        r"-ffp-contract=(fast|off|on)",
        r"-mprefer-vector-width=(128|256|512)",
        r"-std=c\+\+(17|20)",
    ),
}
SHOWN = {
    "cuda": "--use_fast_math, --ftz=, --fmad=, --prec-div=, --prec-sqrt= (true or false), --maxrregcount=N, --extra-device-vectorization, "
    "-std=c++17, -std=c++20",
    "cpp": "-O1, -O2, -O3, -ffast-math, -fno-math-errno, -fno-trapping-math, -fno-signed-zeros, -fno-tree-vectorize, -fassociative-math, "
    "-freciprocal-math, -ffinite-math-only, -funroll-loops, -fopenmp, -ffp-contract=, -mprefer-vector-width=, -std=c++17, -std=c++20",
}
"""The allowed flags in words, for messages."""


def is_allowed(flag: str, kind: str) -> bool:
    """Whether a candidate may pass `flag` to the compiler of `kind` ("cuda", "cpp")."""
    return any(re.fullmatch(pattern, flag, re.ASCII) for pattern in _ALLOWED[kind])
