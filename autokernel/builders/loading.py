"""Imports a candidate's file as a module, in the worker."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def import_candidate(path: Path) -> ModuleType:
    """The file at `path`, imported under the name "candidate" and entered in sys.modules. Raises whatever the file raises.

    A real file, because Triton's JIT and load_inline read their source back from it. No .pyc is written: the folder is not ours.
    """
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("candidate", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"'{path.name}' cannot be imported; pass a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module
