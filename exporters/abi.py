"""Whether a library loads beside another system's glibc and any Python: our own reading, and kernel-abi-check's where it is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from exporters.elf import needs

MANYLINUX = "manylinux_2_28"
LIMITS = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
"""Newest symbol versions that manylinux_2_28, the Hub's base, has."""


def abi_report(library: bytes) -> dict[str, Any]:
    """Facts for metadata and card: needed libraries, newest versions by family, what lies above manylinux_2_28, torch and Python symbols.

    `kernel_abi_check` is its verdict ("pass" or the violations), or None where the package is not installed.
    """
    found = needs(library)
    newest = {family: version for family in (*LIMITS, "GOMP") if (version := found.newest(family)) is not None}
    above = {family: newest[family] for family, limit in LIMITS.items() if family in newest and _numbers(newest[family]) > limit}
    return {
        "libraries": list(found.libraries), "newest": newest, "above_" + MANYLINUX: above,
        "python_symbols": [s for s in found.symbols if s.startswith(("Py", "_Py"))],
        "torch_symbols": [s for s in found.symbols if s.startswith(("aoti_torch", "torch_")) or "c10" in s or "at6" in s],
        "kernel_abi_check": _kernel_abi_check(library),
    }


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _kernel_abi_check(library: bytes) -> dict[str, Any] | None:
    try:
        import kernel_abi_check
    except ImportError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "library.abi3.so"
        path.write_bytes(library)
        checked = kernel_abi_check.ObjectFile(str(path))
        return {"python_3.9": _verdict(checked.check_python_abi("3.9")), MANYLINUX: _verdict(checked.check_manylinux(MANYLINUX))}


def _verdict(violations: Any) -> str:
    listed = sorted({" ".join(str(v) for name in ("name", "dep", "version", "added") if (v := getattr(violation, name, None)) is not None)
                     or str(violation) for violation in violations})
    return "; ".join(listed) if listed else "pass"
