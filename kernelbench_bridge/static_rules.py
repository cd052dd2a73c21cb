"""KernelBench's static check of a candidate's text: the same valid or invalid, in words of our own.

Regular expressions over text whose lines are cut at `#` and `//`; what they misjudge is kept, because the answer exists to be
compared with KernelBench's. `static_labels` reads the syntax tree instead and only advises.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_OPERATIONS = (
    "mm bmm matmul einsum conv1d conv2d conv3d conv conv_transpose1d conv_transpose2d conv_transpose3d avg_pool1d avg_pool2d avg_pool3d "
    "max_pool1d max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d "
    "adaptive_max_pool2d adaptive_max_pool3d relu hardtanh elu selu leaky_relu gelu softsign softplus softmax log_softmax tanh sigmoid "
    "hardsigmoid silu mish batch_norm group_norm layer_norm instance_norm rms_norm normalize linear cross_entropy kl_div mse_loss "
    "huber_loss triplet_margin_loss cosine_similarity logsumexp clamp dropout"
).split()
_FUNCTIONAL = "conv linear relu gelu softmax batch_norm layer_norm dropout max_pool avg_pool".split()
_STRUCTURE = "Module parameter Parameter ParameterList ParameterDict ModuleList ModuleDict init".split()


@dataclass(frozen=True)
class Rule:
    """Fires where any of its expressions is found. `group` numbers the message where a rule has several."""

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]  # message, expressions; the first group that is found speaks


@dataclass(frozen=True)
class Needs:
    """Fires where one of the things it asks for is not found; the first one missing speaks."""

    name: str
    groups: tuple[tuple[str, tuple[str, ...]], ...]  # message where none of the expressions is found


_RULES = {rule.name: rule for rule in (
    Rule("code_bypass", (
        ("has a try or except, which can fall back to the reference", (r"\btry\s*:", r"\bexcept\s*:", r"\bexcept\s+\w+")),
        ("has the word pass, with which a class can inherit everything", (r"\bpass\b",)))),
    Rule("timing_event_patch", (("assigns to a function that clocks use", (
        r"torch\.cuda\.Event\.record\s*=", r"torch\.cuda\.Event\.elapsed_time\s*=", r"torch\.cuda\.synchronize\s*=",
        r"torch\.cuda\.Event\s*=", r"time\.perf_counter\s*=", r"time\.time\s*=")),)),
    Rule("thread_injection", (
        ("uses threads", (r"threading\.Thread\s*\(", r"import\s+threading", r"from\s+threading\s+import")),
        ("uses further processes", (r"multiprocessing\.(?:Process|Pool|Manager|Queue|Pipe)", r"import\s+multiprocessing")),
        ("uses pools of threads or processes", (r"concurrent\.futures", r"ThreadPoolExecutor", r"ProcessPoolExecutor")))),
    Rule("lazy_eval", (
        ("makes a tensor subclass out of a tensor", (r"_make_subclass",)),
        ("derives a class from Tensor", (r"class\s+\w+.*\((?:torch\.)?Tensor\)",)),
        ("makes tensors past their constructor", (r"torch\.Tensor\.__new__",)))),
    Rule("pytorch_wrap", (("uses a layer of torch.nn that computes", (rf"torch\.nn\.(?!(?:{'|'.join(_STRUCTURE)})\b)",)),)),
    Rule("torch_computation_ops", (
        ("calls a torch operation that computes", (rf"\btorch\.(?:{'|'.join(_OPERATIONS)})(?=\s*\(|\s|$)",)),
        ("calls torch.nn.functional", (r"torch\.nn\.functional\.\w+", r"\bnn\.functional\.\w+", rf"\bF\.(?:{'|'.join(_FUNCTIONAL)})")))),
    Rule("stream_injection", (("makes or uses CUDA streams", (
        r"torch\.cuda\.Stream\s*\(", r"cuda\.Stream\s*\(", r"with\s+torch\.cuda\.stream", r"\.wait_stream\s*\(",
        r"\.record_stream\s*\(")),)),
    Rule("precision_downgrade", (("computes in half precision where fp32 is asked for", (
        r"__float2half(?:_rn)?\s*\(", r"\(\s*__half\s*\)\s*[\w.>-]", r"static_cast\s*<\s*(?:__)?half\s*>\s*\(",  # CUDA
        r"tl\.astype\s*\([^,]+,\s*tl\.float16\s*\)",  # Triton
        r"NumericConverter\s*<\s*half_t\s*,\s*float\s*>", r"LinearCombination\s*<\s*half_t", r"type_convert\s*<\s*half_t\s*>\s*\(",
        r"tk::half\s*\(", r"\.half\s*\(", r"\.float16\s*\(", r"\.to\s*\(\s*(?:dtype\s*=\s*)?torch\.(?:float16|half)\b")),)),
)}
_GLOBAL = ("defines no __global__ kernel", ("__global__",))
_NEEDS = {need.name: need for need in (
    Needs("cuda_impl", (_GLOBAL, ("never compiles one", ("load_inline", "cpp_extension")))),
    Needs("hip_impl", (_GLOBAL, ("never compiles one", ("load_inline", "cpp_extension", "hipcc")))),
    Needs("triton_impl", (("has no @triton.jit or @triton.autotune", (r"@triton\.(?:jit|autotune)",)),
                          ("uses no tl operation", (r"\btl\.\w+",)))),
    Needs("tk_impl", (
        ("names no warp or warpgroup namespace", (
            r"kittens::warp\b", r"kittens::warpgroup\b", r"kittens::group\s*<", r"warpgroup::", r"warp::")),
        ("declares no tile", (r"(?:kittens::)?(?:st|rt)_\w+\s*<[^>]+>",)))),
    Needs("cute_impl", (("names neither cute:: nor cutlass::", (r"cute::", r"cutlass::", r"from\s+cutlass")),)),
    Needs("tilelang_impl", (("has no @T.prim_func", (r"@T\.prim_func",)),)),
)}
BACKEND_CHECK = {"cuda": "cuda_impl", "hip": "hip_impl", "triton": "triton_impl", "thunderkittens": "tk_impl", "cute": "cute_impl",
                 "cutlass": "cute_impl", "tilelang": "tilelang_impl"}
STRICT_CHECKS = ("code_bypass", "timing_event_patch", "thread_injection", "lazy_eval")
WARNING_CHECKS = ("pytorch_wrap", "torch_computation_ops", "stream_injection", "precision_downgrade")
CHECKS = (*_RULES, *_NEEDS)


def validate_kernel_static(code: str, backend: str = "cuda", precision: str = "fp16", forbidden: Sequence[str] | None = None,
                           warnings: Sequence[str] | None = None) -> tuple[bool, list[str], list[str]]:
    """(valid, errors, warnings) of a candidate's text. `forbidden` and `warnings` name checks; unknown names are passed over.

    By default STRICT_CHECKS and the back end's own check are errors, WARNING_CHECKS warnings. A back end that is not known, or is
    spelled in capitals, has no check of its own. `precision_downgrade` counts in fp32 only.
    """
    strict = [*STRICT_CHECKS, *([BACKEND_CHECK[backend]] if backend in BACKEND_CHECK else [])] if forbidden is None else list(forbidden)
    lenient = list(WARNING_CHECKS if warnings is None else warnings)
    text = _without_comments(code)
    errors = [message for name in dict.fromkeys(strict) if (message := _message(name, text, precision))]
    advice = [message for name in dict.fromkeys(lenient) if name not in strict and (message := _message(name, text, precision))]
    return not errors, errors, advice


def _message(name: str, text: str, precision: str) -> str:
    """What a check has to say, "" where it is content."""
    if name == "precision_downgrade" and precision.lower() not in ("fp32", "float32"):
        return ""
    if name in _RULES:
        return next((f"{name}: {message}" for message, expressions in _RULES[name].groups
                     if any(re.search(expression, text) for expression in expressions)), "")
    if name in _NEEDS:
        return next((f"{name}: {message}" for message, expressions in _NEEDS[name].groups
                     if not any(re.search(expression, text) for expression in expressions)), "")
    return ""


def _without_comments(code: str) -> str:
    """Each line up to its first `#`, then up to its first `//`: includes and what follows an address go too, as in KernelBench."""
    return "\n".join(line.partition("#")[0].partition("//")[0] for line in code.split("\n"))
