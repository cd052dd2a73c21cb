"""Builders: one backend a file, found by scanning this folder for modules that define `BUILDER`. Imports no torch."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from autokernel.builders.protocol import Builder, BuildResult
from autokernel.builders.syntax import CandidateFault, detect
from autokernel.errors import UsageError

__all__ = ["BuildResult", "Builder", "CandidateFault", "detect", "get", "names"]


@functools.lru_cache(maxsize=1)
def _scan() -> dict[str, Builder]:
    found: dict[str, Builder] = {}
    for info in pkgutil.iter_modules(__path__):
        builder = getattr(importlib.import_module(f"{__name__}.{info.name}"), "BUILDER", None)
        if builder is not None:
            found[builder.name] = builder
    return dict(sorted(found.items()))


def names() -> tuple[str, ...]:
    """Names of all builders, sorted: what `--backend` accepts."""
    return tuple(_scan())


def get(name: str) -> Builder:
    """The builder of that name. Raises UsageError for a name that no module here has."""
    try:
        return _scan()[name]
    except KeyError:
        raise UsageError(f"there is no builder '{name}'; choose one of {', '.join(names())}.") from None
