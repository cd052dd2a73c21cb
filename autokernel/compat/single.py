"""One candidate on one problem under KernelBench's rules; beside it, where asked, the ratio of windows that the judge timed."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from autokernel.builders import detect
from autokernel.compat.result import Judged, judged
from autokernel.errors import MissingOnMachine, UsageError
from autokernel.executor.compat_host import CompatHost
from autokernel.machine import cpu_name
from autokernel.records import Candidate
from autokernel.rules import KERNELBENCH, CompatRules
from kernelbench_bridge.architectures import check_backend, gpu_vendor

if TYPE_CHECKING:
    from autokernel.executor.broker import Executor
    from autokernel.session import ProblemLike

METHODS = ("cuda_event", "do_bench", "do_bench_impl", "host_time")
ON_THE_CPU = ("host_time",)
NATIVE = ("cuda", "cpp")  # our own kinds, whose file calls `native`


@dataclass(frozen=True)
class CompatOptions:
    """How KernelBench's evaluator is called; the defaults are its scripts'."""

    precision: str = "fp32"
    backend: str = "cuda"  # KernelBench's word: triton, tilelang and cute are imported from a file, everything else is executed as text
    timing_method: str = ""  # "" takes cuda_event on a GPU and host_time on the CPU
    measure: bool = True
    correct_trials: int = KERNELBENCH.correct_trials
    perf_trials: int = KERNELBENCH.perf_trials
    seed: int = KERNELBENCH.seed
    check_speedup: bool = True
    build_dir: str = ""
    rules: CompatRules = field(default=KERNELBENCH)

    def method(self, device: str) -> str:
        """The timing method on this device. Raises ValueError for an unknown one, UsageError where the device has it not."""
        name = self.timing_method or ("host_time" if device == "cpu" else self.rules.timing_method)
        return check_method(name, device)

    def orders(self, reference: str, candidate: str, device: str) -> dict[str, Any]:
        """What a worker is told."""
        return {"what": "eval", "reference": reference, "candidate": candidate, "backend": self.backend, "precision": self.precision,
                "seed": self.seed, "trials": self.correct_trials, "perf_trials": self.perf_trials, "measure": self.measure,
                "timing_method": self.method(device), "tolerance": self.rules.tolerance(self.precision),
                "check_speedup": self.check_speedup, "build_dir": self.build_dir}


PACKAGES = {"triton": "triton", "tilelang": "tilelang", "cute": "cutlass"}
TK_FOLDER = "THUNDERKITTENS_ROOT"


def require_backend(backend: str) -> None:
    """MissingOnMachine where a back end's package is not installed; nothing for those that need none."""
    name = backend.lower()
    package = PACKAGES.get(name)
    if package and importlib.util.find_spec(package) is None:
        install = {"cutlass": "nvidia-cutlass-dsl"}.get(package, package)
        raise MissingOnMachine(f"the back end {name} needs the package {package}, missing here. Install it: pip install {install}.")
    if name == "thunderkittens" and not os.environ.get(TK_FOLDER):
        raise MissingOnMachine(f"the back end thunderkittens needs ThunderKittens' headers. Get them, and set {TK_FOLDER} to their folder.")


class UnknownMethod(UsageError, ValueError):
    """A timing method that KernelBench does not know either."""


def check_method(name: str, device: str) -> str:
    """`name` if it can time on the device. Raises UnknownMethod, UsageError, or MissingOnMachine for the one that is not built here."""
    if name == "nsight_python_time":
        raise MissingOnMachine("the timing method nsight_python_time is not built here; pass cuda_event, do_bench or host_time.")
    if name not in METHODS:
        raise UnknownMethod(f"the timing method '{name}' is not supported; choose one of {', '.join(METHODS)}.")
    if device == "cpu" and name not in ON_THE_CPU:
        raise UsageError(f"the timing method {name} needs a GPU; on the CPU pass host_time.")
    return name


def kernelbench_backend(source: str) -> str:
    """KernelBench's back end for a file by its syntax tree: "triton", else "cuda". Raises UsageError for our native kinds."""
    kind = detect(source)
    if kind in NATIVE:
        raise UsageError(f"this is a candidate for --backend {kind}, which KernelBench cannot load; judge it with --rules strict.")
    return "triton" if kind == "triton" else "cuda"


def evaluate_compat(host: CompatHost, reference: str, candidate: Candidate, options: CompatOptions) -> Judged:
    """KernelBench's verdict and times. Its candidates are built ahead where they compile, and inputs kept between candidates.

    Raises ValueError where KernelBench refuses the back end on this device, and what `CompatOptions.method` raises.
    """
    hardware = host.facts.device_name or cpu_name()
    vendor = gpu_vendor(hardware) if host.device != "cpu" else "a CPU"
    check_backend(options.backend, vendor, options.precision)
    orders = options.orders(reference, candidate.source, host.device)
    built = None if options.build_dir else host.build(orders, candidate.sha256, options.rules.build_s)
    if built is not None and not built.loaded:
        return judged(built, hardware=hardware, device=host.device, rules=options.rules)
    seeds = [*host.trial_seeds(options.seed, options.correct_trials), *([options.seed] if options.measure else [])]
    answer = host.evaluate(orders, candidate.sha256, options.rules.timeout_s, host.keep_draws(reference, seeds))
    return judged(answer, hardware=hardware, device=host.device, rules=options.rules)


@dataclass(frozen=True)
class Verified:
    """What the judge's own clock says beside the times that the candidate's process reported."""

    speedup: float | None = None  # over eager, by paired windows; None where there is none
    low: float | None = None
    high: float | None = None
    rules: str = ""
    verdict: str = ""  # "accepted", or which stage refused and why

    def to_json(self) -> Mapping[str, Any]:
        """Plain JSON values."""
        return {"speedup": self.speedup, "interval": None if self.low is None else [self.low, self.high], "rules": self.rules,
                "verdict": self.verdict}


def verify(executor: Executor, problem: ProblemLike, candidate: Candidate, precision: str) -> Verified:
    """The paired comparison with eager under the quick rules. Raises AutoKernelErrors for faults of this machine."""
    from autokernel.evaluate import evaluate
    from autokernel.rules import QUICK, in_precision

    rules = in_precision(QUICK, precision)
    found = evaluate(problem, Candidate(candidate.source, detect(candidate.source)), rules=rules, executor=executor)
    made = found.against("eager")
    verdict = "accepted" if found.accepted else f"refused by {found.refused_by}: {found.reason}"
    if made is None:
        return Verified(rules=found.rules, verdict=verdict if not found.accepted else "accepted, not timed")
    return Verified(made.speedup, made.low, made.high, found.rules, verdict)
