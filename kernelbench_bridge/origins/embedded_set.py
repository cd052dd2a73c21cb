"""The embedded set: our own small problems, shipped with the package as data, sized for two CPU cores. Not KernelBench's."""

from __future__ import annotations

from pathlib import Path

from kernelbench_bridge.origins import checkout
from kernelbench_bridge.origins.listing import Listing

FOLDER = Path(__file__).resolve().parent.parent / "embedded"


def levels() -> tuple[int, ...]:
    """Numbers of the embedded levels."""
    return checkout.levels(FOLDER)


def read_level(level: int) -> Listing:
    """All embedded problems of a level; the files are laid out as in a KernelBench checkout."""
    return checkout.read_level(FOLDER, level, "embedded")
