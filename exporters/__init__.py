"""Hub kernels from plain values: layout, card, checks, upload. Imports no sibling and no torch."""

from __future__ import annotations

from exporters.errors import ExportError, refused
from exporters.operation import (
    CLASS_ONLY,
    OP,
    Argument,
    Facts,
    Launcher,
    Native,
    Operation,
    Parameter,
    TensorSpec,
    form_of,
    names_for,
)
from exporters.package import Kernel, digests, variant_files
from exporters.python_rules import check_python, keeps_state

__all__ = [
    "CLASS_ONLY", "OP", "Argument", "ExportError", "Facts", "Kernel", "Launcher", "Native", "Operation", "Parameter", "TensorSpec",
    "check_python", "digests", "form_of", "keeps_state", "names_for", "refused", "variant_files",
]
