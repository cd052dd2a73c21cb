"""KernelBench's library under its names, for code that calls it today.

    from autokernel.compat.kernelbench import eval_kernel_against_ref, construct_kernelbench_dataset, fastp

Importing this needs no LLM package, scoring and data sets need no torch. `eval_kernel_against_ref` runs the candidate in a fresh
sandboxed process, and returns a result where KernelBench raises or returns None (docs/kernelbench.md lists each difference).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from autokernel.compat.result import KernelExecResult
from autokernel.compat.single import CompatOptions, check_method, evaluate_compat
from autokernel.errors import MissingOnMachine
from autokernel.executor.compat_host import CompatHost
from autokernel.machine import default_device, has_gpu
from autokernel.records import Candidate
from autokernel.rules import KERNELBENCH, PRECISIONS
from kernelbench_bridge.architectures import gpu_vendor, set_gpu_arch
from kernelbench_bridge.baselines import fetch_baseline_time
from kernelbench_bridge.dataset import (
    HuggingFaceKernelBenchDataset,
    KernelBenchDataset,
    KernelBenchProblem,
    LocalKernelBenchDataset,
    construct_kernelbench_dataset,
    fetch_ref_arch_from_dataset,
)
from kernelbench_bridge.extraction import extract_code_blocks, extract_first_code, extract_last_code, extract_python_code
from kernelbench_bridge.problem import code_hash as get_code_hash
from kernelbench_bridge.run_directory import serializable as check_metadata_serializable_all_types
from kernelbench_bridge.static_rules import CHECKS, STRICT_CHECKS, WARNING_CHECKS, validate_kernel_static
from scorer.kernelbench import (
    fastp,
    geometric_mean_speed_ratio_correct_and_faster_only,
    geometric_mean_speed_ratio_correct_only,
)
from scorer.kernelbench import pass_at_k as calc_pass_at_k
from scorer.timing import timing_stats

__all__ = [
    "CHECKS", "HuggingFaceKernelBenchDataset", "KernelBenchDataset", "KernelBenchProblem", "KernelExecResult",
    "LocalKernelBenchDataset", "STRICT_CHECKS", "TIMING_FUNCTIONS", "WARNING_CHECKS", "calc_pass_at_k",
    "check_metadata_serializable_all_types", "construct_kernelbench_dataset", "eval_kernel_against_ref", "extract_code_blocks",
    "extract_first_code", "extract_last_code", "extract_python_code", "fastp", "fetch_baseline_time",
    "fetch_ref_arch_from_problem_id", "geometric_mean_speed_ratio_correct_and_faster_only",
    "geometric_mean_speed_ratio_correct_only", "get_code_hash", "get_gpu_vendor", "get_timing_stats",
    "get_tolerance_for_precision", "get_torch_dtype_from_string", "measure_ref_program_time", "set_gpu_arch",
    "timing_method_name", "validate_kernel_static",
]

TIMING_FUNCTIONS = {
    "cuda_event": "time_execution_with_cuda_event", "do_bench": "time_execution_with_do_bench_interface",
    "do_bench_impl": "time_execution_with_do_bench_impl", "host_time": "time_execution_with_host_time",
    "nsight_python_time": "time_execution_with_nsight_python",
}
"""KernelBench's functions by the names of its methods."""

get_gpu_vendor = gpu_vendor
_hosts: dict[tuple[int, str], CompatHost] = {}  # by process, which a fork changes, and device
_opening = threading.Lock()
_opener: dict[int, ThreadPoolExecutor] = {}  # by process: a host's own processes end with the thread that opened it


def eval_kernel_against_ref(original_model_src: str, custom_model_src: str, seed_num: int = KERNELBENCH.seed, num_correct_trials: int = 1,
                            num_perf_trials: int = 10, measure_performance: bool = False, timing_method: str = "cuda_event",
                            verbose: bool = False, build_dir: str | os.PathLike[str] | None = None, device: Any = None,
                            backend: str = "cuda", precision: Any = "torch.float32", check_for_excessive_speedup: bool = True,
                            excessive_speedup_threshold: float = 10, *,
                            timeout_s: float | None = None) -> KernelExecResult:
    """Evaluate a candidate against a reference as KernelBench does, with its arguments in its order.

    `device` is a torch.device, an index or text, None for the first GPU or, without one, the CPU; `precision` a torch.dtype or "fp32",
    "fp16", "bf16". Times are in ms and unverified: they are the candidate's process's own. On the CPU the default method is host_time.
    `timeout_s` ends an evaluation that hangs (default 180). What KernelBench prints is not printed; `verbose` is taken and ignored.
    Raises ValueError for an unknown timing method or a back end that the device does not run, AssertionError for a precision that
    has no tolerance, and AutoKernelErrors for faults of this machine.
    """
    from dataclasses import replace

    name = _device_name(device)
    method = "" if name == "cpu" and timing_method == "cuda_event" else check_method(timing_method, name)
    rules = replace(KERNELBENCH, excessive_speedup=excessive_speedup_threshold, timeout_s=timeout_s or KERNELBENCH.timeout_s)
    options = CompatOptions(precision=_precision(precision), backend=backend, timing_method=method, measure=measure_performance,
                            correct_trials=num_correct_trials, perf_trials=num_perf_trials, seed=seed_num,
                            check_speedup=check_for_excessive_speedup, build_dir=os.fspath(build_dir) if build_dir else "", rules=rules)
    found = evaluate_compat(_host(name), original_model_src, Candidate(custom_model_src, "python"), options)
    if found.note:
        found.result.metadata["autokernel_note"] = found.note
    return found.result


def measure_ref_program_time(ref_arch_name: str, ref_arch_src: str, num_warmup: int = 5, num_trials: int = 100, discard_first: int = 1,
                             timing_method: str = "cuda_event", use_torch_compile: bool = False, torch_compile_backend: str = "inductor",
                             torch_compile_options: str = "default", device: Any = "cuda:0", verbose: bool = False,
                             precision: str = "fp32") -> dict[str, Any] | None:
    """Statistics of a reference's time in ms, None where it does not run, as KernelBench has it.

    5 warm-ups and 1 dropped trial are fixed, as in KernelBench's scripts; other numbers raise ValueError.
    """
    if (num_warmup, discard_first) != (5, 1):
        raise ValueError("num_warmup must be 5 and discard_first 1, as KernelBench's scripts have them; leave them out.")
    from autokernel.compat.baseline import BaselineOptions, measure_reference

    name = _device_name(device)
    method = check_method("host_time" if name == "cpu" and timing_method == "cuda_event" else timing_method, name)
    mode = "" if not use_torch_compile else "cudagraphs" if torch_compile_backend == "cudagraphs" else torch_compile_options or "default"
    return measure_reference(_host(name), ref_arch_src, BaselineOptions(precision, mode, method, num_trials)).stats


def fetch_ref_arch_from_problem_id(problem_id: int | str, dataset: KernelBenchDataset, with_name: bool = False) -> Any:
    """A problem's code by its id, which may be text; with its path or name before it where asked."""
    return fetch_ref_arch_from_dataset(dataset, problem_id, with_name=with_name)


def get_torch_dtype_from_string(precision: str) -> Any:
    """torch's dtype of "fp32", "fp16" or "bf16". Raises ValueError for any other."""
    import torch

    found = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
    if found is None:
        raise ValueError(f"the precision '{precision}' is not supported; use {', '.join(PRECISIONS)}.")
    return found


def get_tolerance_for_precision(precision: Any) -> float:
    """KernelBench's tolerance, absolute and relative. Raises ValueError for another name and AssertionError for another dtype."""
    if isinstance(precision, str) and precision not in PRECISIONS:
        raise ValueError(f"the precision '{precision}' is not supported; use {', '.join(PRECISIONS)}.")
    return KERNELBENCH.tolerance(_precision(precision))


def get_timing_stats(elapsed_times: Sequence[float], device: Any = None) -> dict[str, Any]:
    """KernelBench's statistics of times in ms; with the device's name where one is given. Raises ValueError for no times."""
    name = "" if device is None or device == 0 else str(device)
    return timing_stats(elapsed_times, hardware=_host(_device_name(device)).facts.device_name if name else "", device=name)


def timing_method_name(method: str) -> str:
    """KernelBench's name of a method's function. Raises ValueError for a method that it does not have."""
    if method not in TIMING_FUNCTIONS:
        raise ValueError(f"the timing method '{method}' is not supported; choose one of {', '.join(TIMING_FUNCTIONS)}.")
    return TIMING_FUNCTIONS[method]


def close() -> None:
    """End the processes that evaluations left warm."""
    with _opening:
        for process, device in [key for key in _hosts if key[0] == os.getpid()]:
            _hosts.pop((process, device)).__exit__(None, None, None)


def _precision(asked: Any) -> str:
    """Our word for a precision; a dtype's own name where it is none of ours."""
    text = str(asked).removeprefix("torch.")
    return {"float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}.get(text, text)


def _device_name(asked: Any) -> str:
    if asked is None:
        return default_device()
    text = f"cuda:{asked}" if isinstance(asked, int) else str(asked)
    text = "cuda:0" if text == "cuda" else text
    if text.startswith("cuda") and not has_gpu():
        raise MissingOnMachine(f"no GPU '{text}' is visible on this machine. Pass device='cpu' to evaluate there.")
    return text


def _host(device: str) -> CompatHost:
    """The warm host of a device, opened at the first use and closed when Python ends."""
    import atexit

    key = (os.getpid(), device)
    with _opening:
        if key not in _hosts:
            if key[0] not in _opener:
                _opener[key[0]] = ThreadPoolExecutor(1, "autokernel-host")
                atexit.register(close)
            _hosts[key] = _opener[key[0]].submit(CompatHost(device, _store()).__enter__).result()
        return _hosts[key]


def _store() -> Path:
    from autokernel.machine import cache_folder

    return cache_folder() / "store"
