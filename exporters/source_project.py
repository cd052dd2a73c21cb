"""A kernel-builder source project for winners with a compiled part: build.toml (edition 5), sources, torch-ext/, card."""

from __future__ import annotations

from collections.abc import Mapping

from exporters.package import Kernel


def source_files(kernel: Kernel, variant: Mapping[str, bytes]) -> dict[str, bytes]:
    """The project's files by path."""
    return {}
