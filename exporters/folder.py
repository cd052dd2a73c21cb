"""An exported folder read back for publishing: its variants' metadata, and that nothing was changed since it was proven."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporters.errors import ExportError
from exporters.package import digests

MAIN = ("README.md", "media/")  # what goes to the branch main; all else goes to the version's branch
UPLOADED = ("README.md", "media/", "build/", "benchmarks/", "evaluations/", "source/")


@dataclass(frozen=True)
class ExportedFolder:
    """Files by path, and each variant's metadata by its folder's name."""

    files: Mapping[str, bytes]
    variants: Mapping[str, Mapping[str, Any]]

    @property
    def version(self) -> int:
        """The version that every variant states."""
        return int(next(iter(self.variants.values()))["version"])

    @property
    def name(self) -> str:
        """The kernel's name."""
        return str(next(iter(self.variants.values()))["name"])

    @property
    def repo(self) -> str:
        """The repository that the card names."""
        return str(next(iter(self.variants.values()))["autokernel"]["repo"])

    @property
    def api(self) -> frozenset[str]:
        """What users rely on between versions, over all variants."""
        return frozenset(entry for metadata in self.variants.values() for entry in metadata["autokernel"]["api"])


def read_export(folder: Path) -> ExportedFolder:
    """The export in `folder`. Raises ExportError where it is none, or is not what was proven."""
    if not folder.is_dir():
        raise ExportError(f"there is no folder '{folder}'. "
                          "Pass the folder that `autokernel export --out` wrote.")
    try:
        found = sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
    except OSError as error:
        raise ExportError(f"cannot read '{folder}': {error.strerror}. "
                          "Check its permissions.") from error
    files = {name: data for name, data in files.items() if name.startswith(UPLOADED)}
    variants = {name.split("/")[1]: _metadata(name, data) for name, data in files.items()
                if name.startswith("build/") and name.count("/") == 2 and name.endswith("/metadata.json")}
    if not variants or "README.md" not in files:
        raise ExportError(f"'{folder}' is no exported kernel (no build/VARIANT/metadata.json, or no README.md). "
                          "Pass the folder that `autokernel export --out` wrote.")
    versions = {metadata["version"] for metadata in variants.values()}
    if len(versions) != 1:
        raise ExportError(f"the variants in '{folder}' state different versions: {', '.join(map(str, sorted(versions)))}. "
                          "Run `autokernel export` for each with one --version.")
    for variant, metadata in variants.items():
        _check_digest(variant, metadata, files)
    return ExportedFolder(files, variants)


def _metadata(name: str, data: bytes) -> dict[str, Any]:
    try:
        metadata = json.loads(data)
        kinds = ((metadata["version"], int), (metadata["name"], str), (metadata["id"], str), (metadata["autokernel"]["api"], list),
                 (metadata["autokernel"]["repo"], str), (metadata["digest"]["files"], dict))
        if not all(isinstance(value, kind) for value, kind in kinds):
            raise TypeError("a field is of another kind")
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(f"'{name}' is not metadata that AutoKernel wrote ({error}). "
                          "Run `autokernel export` again.") from error
    return dict(metadata)


def _check_digest(variant: str, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    start = f"build/{variant}/"
    now = digests({name.removeprefix(start): data for name, data in files.items() if name.startswith(start)})
    proven = metadata["digest"]["files"]
    odd = sorted(name for name in {*now, *proven} if now.get(name) != proven.get(name))
    if odd:
        raise ExportError(f"'{start}{odd[0]}' is not what was proven: it was changed, added or removed after the export. "
                          "Run `autokernel export` again; what leaves is what was judged.")
