"""AutoKernel: judge, search and score kernels for KernelBench problems. Importing it imports neither torch nor triton."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

# Editable installs and bare checkouts: the starters lie at the source root, in folders that carry other projects' import names and
# so have no __init__.py; an editable finder cannot see those. A wheel holds them inside this package and needs nothing.
_root = Path(__file__).resolve().parent.parent
if (_root / "setup.py").is_file() and (_root / "triton_kernels").is_dir():
    __path__.append(str(_root))
