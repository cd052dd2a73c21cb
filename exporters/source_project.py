"""A kernel-builder source project for kernels with compiled parts: build.toml (edition 5), sources, torch-ext/, card.

The builder makes binaries of its own from it, with launchers as operators of torch's stable ABI in the place of ctypes; the Python above
them is the same. `kernels._rust.Build.open` accepts build.toml; nothing here was built by kernel-builder itself, which needs Nix.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporters.operation import Launcher, Native, Operation
from exporters.package import Kernel
from exporters.stable_binding import STABLE_ABI, binding_source

_BINDING = "torch-ext/torch_binding.cpp"
_LEFT_OUT = ("metadata.json", "_ops.py", "_binding.py")  # the builder's own, and what only ctypes needs


def source_files(kernel: Kernel, variant: Mapping[str, bytes], card: bytes) -> dict[str, bytes]:
    """The project's files by path; `variant` are those of the build variant."""
    package = f"torch-ext/{kernel.python_name}"
    files = {f"{package}/{name}": data for name, data in variant.items()
             if name not in _LEFT_OUT and not name.startswith(("_native_", "lib_"))}
    for operation, native in _compiled(kernel):
        files[f"{package}/_native_{operation.name}.py"] = _launchers_text(operation, native.launchers).encode()
        files[_source(operation, native)] = native.code.encode("utf-8", "surrogatepass")
    files["build.toml"] = _build_toml(kernel).encode()
    files[_BINDING] = binding_source([(o.name, n) for o, n in _compiled(kernel)], kernel.backend).encode()
    files["CARD.md"] = card
    files["flake.nix"] = _FLAKE.replace("@NAME@", kernel.name).encode()
    return files


def _compiled(kernel: Kernel) -> list[tuple[Operation, Native]]:
    return [(operation, operation.native) for operation in kernel.operations if operation.native is not None]


def _source(operation: Operation, native: Native) -> str:
    return f"kernels/{operation.name}.{'cpp' if native.backend == 'cpu' else 'cu'}"


def _build_toml(kernel: Kernel) -> str:
    lines = ["[general]", f'name = "{kernel.name}"', f"version = {kernel.version}", "edition = 5", f'license = "{kernel.license}"',
             f'backends = ["{kernel.backend}"]', ""]
    if kernel.backend == "cuda":
        word = next(native.backend for _, native in _compiled(kernel)).removeprefix("cu")
        lines += ["[general.cuda]", f'minver = "{word[:-1]}.{word[-1]}"', ""]
    lines += ["[torch]", f'src = ["{_BINDING}"]', f'stable-abi = "{STABLE_ABI[0]}.{STABLE_ABI[1]}"', ""]
    for operation, native in _compiled(kernel):
        lines += [f"[kernel.{operation.name}]", f'backend = "{kernel.backend}"', 'depends = ["torch"]',
                  f'src = ["{_source(operation, native)}"]']
        flags = ", ".join(f'"{flag}"' for flag in ("-O3", *native.flags))
        if kernel.backend == "cuda":
            lines += [f"cuda-capabilities = [{', '.join(repr(arch).replace(chr(39), chr(34)) for arch in native.archs)}]",
                      f"cuda-flags = [{flags}]"]
        else:
            lines += [f"cxx-flags = [{flags}]"]
        lines.append("")
    return "\n".join(lines)


def _launchers_text(operation: Operation, launchers: tuple[Launcher, ...]) -> str:
    names = [f"{launcher.name} = ops.launch_{operation.name}_{launcher.name}" for launcher in launchers]
    return "\n".join([f'"""The compiled launchers of {operation.name}, as operators of the extension."""', "", "from ._ops import ops", "",
                      *names]) + "\n"


_FLAKE = """{
  description = "@NAME@";
  inputs.kernel-builder.url = "github:huggingface/kernels";
  outputs = { self, kernel-builder }: kernel-builder.lib.genKernelFlakeOutputs { inherit self; path = ./.; };
}
"""
