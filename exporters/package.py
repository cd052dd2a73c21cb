"""The files of one build variant: Python modules, libraries and metadata.json, with an id made from their content."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exporters.errors import refused
from exporters.op_module import layer_text, op_module
from exporters.operation import OP, Launcher, Operation
from exporters.winner_module import winner_module

STABLE_ABI = "29"  # torch 2.9, the oldest that AutoKernel works with; the libraries hold no torch symbol at all
KERNELS_MINVER = "0.17.2"  # the first whose trust_remote_code takes names of repositories, as the card passes them
TEXTS = Path(__file__).with_name("texts")
_ID = "@ID@"
_SCOPE = ("_launch", "_fail", "_refuse", "_number", "_Tensor", "_float32", "_float16", "_bfloat16", "_float64", "_int64", "_int32", "_int8",
          "_uint8", "_bool")
_CUDA_SCOPE = ("_current_device", "_stream")


@dataclass(frozen=True)
class Kernel:
    """What a repository holds: its name, version, license and operations, all for one backend ("cpu" or "cuda")."""

    name: str  # lower-case letters, digits and dashes
    version: int
    license: str
    backend: str
    operations: tuple[Operation, ...]

    @property
    def python_name(self) -> str:
        """The name with underscores, as Python modules are called."""
        return self.name.replace("-", "_")

    @property
    def native(self) -> tuple[Operation, ...]:
        """The operations with a compiled part."""
        return tuple(operation for operation in self.operations if operation.native is not None)

    @property
    def variant(self) -> str:
        """The build folder's name: pure Python is one for all machines with the backend, a library is one for its processor."""
        if not self.native:
            return f"torch-{self.backend}"
        words = {f"{operation.native.backend}-{operation.native.processor}" for operation in self.native if operation.native is not None}
        if len(words) != 1:
            raise refused(f"the winners were compiled for different backends: {', '.join(sorted(words))}. "
                          "Run the export on one machine, with one CUDA version.", rule="one-toolchain")
        return f"torch-stable-abi{STABLE_ABI}-{words.pop()}-linux"

    @property
    def archs(self) -> tuple[str, ...]:
        """GPU architectures that every library was compiled for, as the Hub writes them."""
        sets = [set(operation.native.archs) for operation in self.native if operation.native is not None]
        return tuple(sorted(set.intersection(*sets))) if sets else ()


def variant_files(kernel: Kernel, evidence: Mapping[str, Any]) -> dict[str, bytes]:
    """The variant's files by their path in its folder. `evidence` goes into metadata.json under a key of our own.

    The same kernel gives the same bytes; another content another id, since loaders keep modules by it.
    """
    single = len(kernel.operations) == 1
    files: dict[str, bytes] = {}
    for operation in kernel.operations:
        native = f"_native_{operation.name}" if operation.native is not None else None
        files[f"{operation.module}.py"] = op_module(operation, kernel.backend).encode()
        files[f"{operation.winner}.py"] = winner_module(operation.source, native).encode("utf-8", "surrogatepass")
        if operation.native is not None:
            files[f"{native}.py"] = _native_text(operation).encode()
            files[f"lib_{operation.name}.so"] = operation.native.library
        if operation.fallback:
            files[f"_reference_{operation.name}.py"] = operation.reference.encode()
    if kernel.native:
        files["_binding.py"] = _text("native.py")
    files["_runtime.py"] = _text("runtime.py")
    files["_ops.py"] = _ops_text(kernel).encode()
    files["layers.py"] = _layers_text(kernel).encode()
    files["models.py"] = _models_text(kernel).encode()
    files["__init__.py"] = _init_text(kernel, single).encode()
    ident = f"_{kernel.python_name}_{kernel.backend}_{_content_hash(files)}"
    files = {path: data.replace(_ID.encode(), ident.encode()) if path.endswith(".py") else data for path, data in sorted(files.items())}
    files["metadata.json"] = _metadata(kernel, ident, files, evidence)
    return files


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """Base64 SHA-256 by path, of everything but the metadata itself, as `kernels` writes them."""
    return {path: base64.b64encode(hashlib.sha256(data).digest()).decode() for path, data in sorted(files.items())
            if path not in ("metadata.json", "metadata.json.sigstore")}


def _content_hash(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for path, data in sorted(files.items()):
        whole.update(f"{path}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()[:12]


def _metadata(kernel: Kernel, ident: str, files: Mapping[str, bytes], evidence: Mapping[str, Any]) -> bytes:
    backend: dict[str, Any] = {"type": kernel.backend}
    if kernel.archs:
        backend["archs"] = list(kernel.archs)
    data = {"name": kernel.name, "id": ident, "version": kernel.version, "license": kernel.license, "python-depends": [],
            "backend": backend, "kernels-minver": KERNELS_MINVER, "digest": {"algorithm": "sha256", "files": digests(files)},
            "autokernel": {"api": [operation.api for operation in kernel.operations], **evidence}}
    return (json.dumps(data, indent=2) + "\n").encode()


@functools.cache
def _text(name: str) -> bytes:
    return (TEXTS / name).read_bytes()


def _native_text(operation: Operation) -> str:
    assert operation.native is not None
    cuda = operation.native.backend != "cpu"
    lines = [f'"""The compiled launchers of {operation.name}."""', "", "from __future__ import annotations", "",
             "from . import _binding", ""]
    if operation.native.needs:
        lines += [f"_binding.check_processor({operation.native.needs!r})", ""]
    lines += [f'_library = _binding.load("lib_{operation.name}.so")', ""]
    for launcher in operation.native.launchers:
        lines += ["", *_bound(launcher, cuda), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _bound(launcher: Launcher, cuda: bool) -> list[str]:
    names = (*_SCOPE, *(_CUDA_SCOPE if cuda else ()))
    made = f'_binding.Launcher(_library, "{launcher.name}", {launcher.arguments!r}, {cuda})'
    return [f"def _bind_{launcher.name}({', '.join(names)}):", *(f"    {line}" for line in launcher.wrapper.splitlines()),
            f"    return {launcher.name}", "", "", f"{launcher.name} = _bind_{launcher.name}(**_binding.scope({made}))"]


def _ops_text(kernel: Kernel) -> str:
    return f'''"""The operators' namespace: unique to this content, as several versions of a kernel can be loaded at once."""

import torch

NAMESPACE = "{_ID}"
ops = getattr(torch.ops, NAMESPACE)


def add_op_namespace_prefix(op_name: str) -> str:
    """"NAMESPACE::op_name"."""
    return f"{{NAMESPACE}}::{{op_name}}"
'''


def _layers_text(kernel: Kernel) -> str:
    with_layer = [operation for operation in kernel.operations if operation.has_layer]
    lines = ['"""Layers for kernelize(): their forward takes the place of a module\'s own, whose parameters it reads."""', ""]
    if not with_layer:
        return "\n".join([*lines, "__all__: list[str] = []"]) + "\n"
    lines += ["from torch import Tensor, nn", "", f"from . import {', '.join([*(o.module for o in with_layer), '_runtime'])}", "",
              f"__all__ = {[o.title for o in with_layer]!r}", ""]
    return "\n".join(lines) + "\n" + "\n\n".join(layer_text(o) for o in with_layer)


def _models_text(kernel: Kernel) -> str:
    lines = ['"""The winners as KernelBench has them: classes with the constructor and the forward of the problem\'s Model."""', ""]
    lines += [f"from .{o.module} import ModelNew as {o.title}" for o in kernel.operations]
    return "\n".join([*lines, "", f"__all__ = {[o.title for o in kernel.operations]!r}"]) + "\n"


def _init_text(kernel: Kernel, single: bool) -> str:
    functions = [o for o in kernel.operations if o.form == OP]
    exported = ["layers", "models", *(o.name for o in functions), *(["ModelNew"] if single else [])]
    lines = [f'"""{kernel.name}: {len(kernel.operations)} operation{"s" if not single else ""}, forward only; see the card for what was '
             'verified."""', "", "from . import layers, models"]
    lines += [f"from .{o.module} import {o.name}" for o in functions]
    lines += [f"from .{kernel.operations[0].module} import ModelNew"] if single else []
    return "\n".join([*lines, "", f"__all__ = {exported!r}"]) + "\n"
