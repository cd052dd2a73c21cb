"""torch_binding.cpp over torch's stable ABI: one operator a launcher, with the checks that the ctypes functions make."""

from __future__ import annotations

from collections.abc import Sequence

from exporters.operation import Launcher, Native

STABLE_ABI = (2, 10)
_SCALAR_TYPES = {"f32*": "Float", "f16*": "Half", "bf16*": "BFloat16", "f64*": "Double", "i64*": "Long", "i32*": "Int", "i8*": "Char",
                 "u8*": "Byte", "bool*": "Bool"}
_C_SCALARS = {"i32": "int32_t", "i64": "int64_t", "f32": "float", "f64": "double"}
_INTEGERS = ("i32", "i64")

_HEAD = """\
// Launchers as operators, over torch's stable ABI: one binary for every torch from {version} on.
#include <cstdint>
#include <limits>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

#include "registration.h"

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
"""
_STREAM = """
extern "C" AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index, void** ret_stream);
"""


def binding_source(parts: Sequence[tuple[str, Native]], backend: str) -> str:
    """The file's text for operations by name, `backend` "cpu" or "cuda"."""
    launchers = [(name, launcher) for name, native in parts for launcher in native.launchers]
    lines = [_HEAD.format(version=f"{STABLE_ABI[0]}.{STABLE_ABI[1]}")]
    if backend == "cuda":
        lines.append(_STREAM)
    lines += [_declaration(launcher, backend) for _, launcher in launchers]
    lines += ["", *(_function(name, launcher, backend) for name, launcher in launchers)]
    lines += ["STABLE_TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {",
              *(f'    ops.def("{_operator(name, launcher)}({_schema(launcher)}) -> ()");' for name, launcher in launchers), "}", "",
              f"STABLE_TORCH_LIBRARY_IMPL_EXPAND(TORCH_EXTENSION_NAME, {backend.upper()}, ops) {{",
              *(f'    ops.impl("{op}", TORCH_BOX(&{op}));' for op in (_operator(*pair) for pair in launchers)), "}", "",
              "REGISTER_EXTENSION(TORCH_EXTENSION_NAME)"]
    return "\n".join(lines) + "\n"


def _operator(name: str, launcher: Launcher) -> str:
    return f"launch_{name}_{launcher.name}"


def _schema(launcher: Launcher) -> str:
    """Any tensor may be written: the launcher's text alone says which."""
    takes, letter = [], ord("a")
    for kind, name in launcher.arguments:
        if kind.endswith("*"):
            takes.append(f"Tensor({chr(letter)}!) {name}")
            letter += 1
        else:
            takes.append(f"{'int' if kind in _INTEGERS else 'float'} {name}")
    return ", ".join(takes)


def _declaration(launcher: Launcher, backend: str) -> str:
    types = ["void*" if kind.endswith("*") else _C_SCALARS[kind] for kind, _ in launcher.arguments]
    return f'extern "C" int {launcher.name}({", ".join([*types, *(["void*"] if backend == "cuda" else [])])});'


def _function(operation: str, launcher: Launcher, backend: str) -> str:
    name = _operator(operation, launcher)
    takes = [f"{'Tensor' if k.endswith('*') else 'int64_t' if k in _INTEGERS else 'double'} {n}" for k, n in launcher.arguments]
    lines = [f"void {name}({', '.join(takes)}) {{"]
    passed = []
    first = ""
    for kind, argument in launcher.arguments:
        if kind.endswith("*"):
            place = "is_cpu" if backend == "cpu" else "is_cuda"
            lines.append(f"    STD_TORCH_CHECK({argument}.{place}() && {argument}.is_contiguous(), "
                         f'"{name}: {argument} must be a contiguous {backend} tensor");')
            if kind in _SCALAR_TYPES:
                lines.append(f"    STD_TORCH_CHECK({argument}.scalar_type() == ScalarType::{_SCALAR_TYPES[kind]}, "
                             f'"{name}: {argument} must be {kind[:-1]}");')
            passed.append(f"{argument}.data_ptr()")
            first = first or argument
        elif kind == "i32":
            lines.append(f"    STD_TORCH_CHECK({argument} >= std::numeric_limits<int32_t>::min() && {argument} <= "
                         f'std::numeric_limits<int32_t>::max(), "{name}: {argument} must fit 32 bits");')
            passed.append(f"static_cast<int32_t>({argument})")
        else:
            passed.append(f"static_cast<{_C_SCALARS[kind]}>({argument})")
    if backend == "cuda":
        device = f"{first}.get_device()" if first else "0"
        lines += ["    void* stream_ = nullptr;",
                  f'    STD_TORCH_CHECK(aoti_torch_get_current_cuda_stream({device}, &stream_) == 0, "{name}: no CUDA stream");']
        passed.append("stream_")
    lines += [f"    const int status_ = {launcher.name}({', '.join(passed)});",
              f'    STD_TORCH_CHECK(status_ == 0, "{name} returned ", status_);', "}", ""]
    return "\n".join(lines)
