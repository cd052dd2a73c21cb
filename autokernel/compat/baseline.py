"""Times of references in KernelBench's baseline layout, with what they were measured under beside."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from autokernel.executor import compat_wire
from autokernel.executor.compat_host import CompatHost
from autokernel.machine import cpu_name, driver_version, package_version
from autokernel.rules import KERNELBENCH
from scorer.timing import timing_stats

MODES = ("", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "cudagraphs")
DEADLINE_S = 900.0  # for one reference; max-autotune compiles for minutes


class Reference(Protocol):
    """What a baseline needs of a problem."""

    @property
    def problem_id(self) -> int:
        """Its number in the level."""

    @property
    def name(self) -> str:
        """File name without `.py`."""

    @property
    def source(self) -> str:
        """Its text."""


@dataclass(frozen=True)
class BaselineOptions:
    """How references are timed. `mode` is "" for eager, else torch.compile's mode, or "cudagraphs" for that back end."""

    precision: str = "fp32"
    mode: str = ""
    timing_method: str = "cuda_event"
    trials: int = KERNELBENCH.perf_trials

    @property
    def config(self) -> str:
        """KernelBench's name of the configuration, as in baseline_time_{config}.json."""
        if not self.mode:
            return "torch"
        return "torch_compile_cudagraphs" if self.mode == "cudagraphs" else f"torch_compile_inductor_{self.mode}"

    def compile(self) -> dict[str, Any] | None:
        """torch.compile's arguments, None for eager."""
        if not self.mode:
            return None
        return {"backend": "cudagraphs"} if self.mode == "cudagraphs" else {"backend": "inductor", "mode": self.mode}


@dataclass(frozen=True)
class Measured:
    """One reference's statistics, None with the reason where it did not run."""

    stats: dict[str, Any] | None
    reason: str = ""
    samples_ms: tuple[float, ...] = ()


def measure_reference(host: CompatHost, source: str, options: BaselineOptions) -> Measured:
    """Time one reference in a process of its own. Times are that process's, as KernelBench takes them."""
    orders = {"what": "baseline", "reference": source, "candidate": "", "backend": "cuda", "precision": options.precision,
              "seed": KERNELBENCH.seed, "trials": 0, "perf_trials": options.trials, "timing_method": options.timing_method,
              "compile": options.compile()}
    answer = host.baseline(orders, DEADLINE_S, host.keep_draws(source, [KERNELBENCH.seed]))
    report = answer.report
    if report is None:
        return Measured(None, answer.message)
    if not report.flags & compat_wire.REFERENCE_TIMED or not report.reference_ms:
        return Measured(None, f"{report.error_name}: {report.error}")
    times = tuple(report.reference_ms)
    return Measured(timing_stats(times, hardware=host.facts.device_name or cpu_name(), device=host.device), samples_ms=times)


def measure_level(host: CompatHost, problems: Iterable[Reference], options: BaselineOptions) -> Iterator[tuple[Reference, Measured]]:
    """Each problem and its statistics, one after the other."""
    for problem in problems:
        yield problem, measure_reference(host, problem.source, options)


def environment(host: CompatHost, options: BaselineOptions, origin: str) -> dict[str, Any]:
    """What a baseline was measured under: what a score must agree with, and what explains a difference."""
    from autokernel import __version__

    return {"precision": options.precision, "config": options.config, "timing_method": options.timing_method, "trials": options.trials,
            "device": host.device, "device_name": host.facts.device_name or cpu_name(), "torch": host.facts.torch,
            "cuda": host.facts.cuda or None, "driver": driver_version() if host.device != "cpu" else None,
            "triton": package_version("triton"), "problems": origin, "autokernel": __version__, "unverified": True,
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}
