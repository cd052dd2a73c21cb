"""A prompt for a model that is to write a kernel, in words of our own. KernelBench's prompts are other texts."""

from __future__ import annotations

from collections.abc import Mapping

from kernelbench_bridge.errors import BridgeError

PRECISION = {
    "fp32": "Inputs, weights and outputs are torch.float32. Accumulate in float32 or better; TF32 and half precision are refused.",
    "fp16": "Weights and floating inputs are cast to torch.float16, and outputs must be torch.float16. Accumulate in float32.",
    "bf16": "Weights and floating inputs are cast to torch.bfloat16, and outputs must be torch.bfloat16. Accumulate in float32.",
}
_TRITON = '''import torch
import triton
import triton.language as tl


@triton.jit
def twice(source, target, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    tl.store(target + place, 2.0 * tl.load(source + place, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        twice[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
'''
_NATIVE = '''import torch
import native

{literal} = r\'\'\'
{code}
\'\'\'
SIGNATURES = {{"twice": "f32* source, f32* target, i64 count"}}


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        native.twice(x, y, x.numel())
        return y
'''
_CUDA = '''__global__ void twice_kernel(const float* source, float* target, int64_t count) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) target[i] = 2.0f * source[i];
}
extern "C" int twice(const float* source, float* target, int64_t count, void* stream) {
    twice_kernel<<<(count + 255) / 256, 256, 0, (cudaStream_t)stream>>>(source, target, count);
    return cudaGetLastError();
}'''
_CPP = '''extern "C" int twice(const float* source, float* target, int64_t count) {
    for (int64_t i = 0; i < count; ++i) target[i] = 2.0f * source[i];
    return 0;
}'''
_INLINE = '''import torch
from torch.utils.cpp_extension import load_inline

CODE = r\'\'\'
#include <torch/extension.h>
__global__ void twice_kernel(const float* source, float* target, int64_t count) {
    int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    if (i < count) target[i] = 2.0f * source[i];
}
torch::Tensor twice(torch::Tensor source) {
    auto target = torch::empty_like(source);
    twice_kernel<<<(source.numel() + 255) / 256, 256>>>(source.data_ptr<float>(), target.data_ptr<float>(), source.numel());
    return target;
}
\'\'\'
module = load_inline(name="twice", cpp_sources="torch::Tensor twice(torch::Tensor source);", cuda_sources=CODE, functions=["twice"])


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return module.twice(x)
'''
BACKENDS: Mapping[str, tuple[str, str]] = {  # what to call it, and an example (none for those that are not built here)
    "triton": ("Triton, in functions decorated with @triton.jit", _TRITON),
    "cuda": ("CUDA C++ in a module-level string CUDA_SRC, called through the module `native`",
             _NATIVE.format(literal="CUDA_SRC", code=_CUDA)),
    "cpp": ("C++ for the CPU in a module-level string CPP_SRC, called through the module `native`",
            _NATIVE.format(literal="CPP_SRC", code=_CPP)),
    "inline": ("CUDA C++ compiled by torch.utils.cpp_extension.load_inline", _INLINE),
    "tilelang": ("TileLang, in functions decorated with @T.prim_func", ""),
    "cute": ("CuTe's Python language (the package cutlass)", ""),
    "thunderkittens": ("CUDA C++ with ThunderKittens, compiled by torch.utils.cpp_extension", ""),
    "hip": ("HIP C++ compiled by torch.utils.cpp_extension", ""),
}


class UnknownChoice(BridgeError, KeyError):
    """A back end or a precision that there is no prompt for."""

    def __str__(self) -> str:
        return BridgeError.__str__(self)


def prompt(source: str, *, backend: str, precision: str, hardware: Mapping[str, str]) -> str:
    """The prompt: the task, what an answer must hold to, an example of its form, the device's facts, the problem's text.

    Raises UnknownChoice (exit 2, a KeyError) for a back end or precision that is not known.
    """
    if backend not in BACKENDS:
        raise UnknownChoice(f"there is no back end '{backend}'; choose one of {', '.join(BACKENDS)}.")
    if precision not in PRECISION:
        raise UnknownChoice(f"there is no precision '{precision}'; choose one of {', '.join(PRECISION)}.")
    language, example = BACKENDS[backend]
    parts = [
        f"Write a faster version of the PyTorch module `Model` below, with kernels in {language}.",
        "Your file is judged like this:\n"
        "- It defines `class ModelNew(torch.nn.Module)` with the constructor and the `forward` of `Model`: same arguments, same outputs in "
        "shape, dtype and nesting.\n"
        "- Both modules are constructed after the same seed. Draw the same random numbers in the same order, so that weights agree.\n"
        "- It is called with values it has not seen, also outside the usual range. Do not keep results between calls, do not write to "
        "inputs, and return tensors of your own.\n"
        "- All work must be done when the device has been waited for. It is timed from outside, against PyTorch, on fresh inputs.\n"
        f"- {PRECISION[precision]}",
    ]
    if hardware:
        parts.append("It runs on this device:\n" + "\n".join(f"- {name}: {value}" for name, value in hardware.items()))
    if example:
        parts.append(f"The form of an answer, shown for a module that doubles its input:\n\n```python\n{example}```")
    parts.append(f"The module:\n\n```python\n{source.rstrip()}\n```")
    parts.append("Answer with one whole Python file in one ```python fence, and nothing after it.")
    return "\n\n".join(parts) + "\n"
