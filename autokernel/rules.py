"""Every number that decides a verdict, as frozen, versioned presets. No tolerance stands anywhere else.

A version rises whenever a verdict could change; records, resumes and scores never mix versions silently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from autokernel.errors import UsageError


@dataclass(frozen=True)
class Deadlines:
    """Seconds each phase may take before the whole process group is killed (law 9)."""

    build_s: float = 300.0
    import_s: float = 60.0
    first_call_s: float = 60.0
    later_call_floor_s: float = 10.0
    later_call_times_eager: float = 20.0  # later calls: max(floor, this many times eager's own time)
    baseline_first_call_s: float = 300.0  # torch.compile compiles here
    problem_s: float = 300.0  # the problem's own code in the judge


@dataclass(frozen=True)
class Looks:
    """When a paired comparison looks at its interval, and what error each look may spend (two-sided)."""

    pairs: tuple[int, ...]
    alpha: tuple[float, ...]
    budget_s: float  # wall time of one comparison; then the interval stands as it is
    first_look_s: float  # the first look may take this long, so that slow problems get an interval at all
    fewest: int = 6  # no budget ends a comparison before: with three pairs every eighth of two equal kernels looks faster
    keep_above: float = 1.01  # keep only if the interval's lower end exceeds this speedup
    tie_within: float = 0.01  # an interval inside 1 +- this is a tie
    narrow: float = 1.25  # a decided interval whose ends are further apart than this ratio is looked at again while the budget lasts
    slower_below: float = 0.67  # three first pairs all below this speedup end the comparison


@dataclass(frozen=True)
class Rules:
    """One preset: what a candidate must pass, and the numbers the gate and the clock use."""

    name: str
    version: int
    looks: Looks
    own_sets: int  # input sets of the problem's own distribution judged against fp64
    extended_kinds: tuple[str, ...]  # input sets beyond the problem's range, judged where fp64 stays finite
    edge_kinds: tuple[str, ...]
    repeats: int  # times an earlier input set comes back
    second_process: bool  # the final call is repeated in a fresh process with another weight seed
    fresh_every: int  # evaluations after which the secret pool is redrawn; 1 = every one
    loaded_weights: bool = False  # and once more with weights that are loaded after construction, as users of an export load theirs
    bound_times_error: float = 32.0  # per element: |c - r64| <= this * max(E, U) + ulps * ulp(r64)
    bound_ulps: float = 4.0
    rms_times_error: float = 8.0
    large_set_bytes: int = 4 << 30  # above this one fp64 set is judged instead of all
    window_work_ms: float = 8.0
    window_most_ms: float = 64.0  # of a baseline's work, in the longer windows of a candidate that is much faster
    window_calls: tuple[int, ...] = (1, 2, 4, 16)
    window_l2_times: float = 2.0
    ieee_ratio: float = 2.0
    emulated_ratio: float = 8.0
    tf32_ratio: float = 4.0  # where eager itself uses TF32: times its rms error that a candidate's may be; bfloat16's is eight times
    blind_share: float = 0.10
    repeat_times_eager: float = 4.0  # repeats may differ by this times eager's own spread, itself a sample of a few runs
    control_pairs: int = 6  # pairs of one-call windows beside windows of several calls, more where these leave it open
    control_rounds: int = 4  # so many times at most
    control_alpha: float = 0.05  # what single calls and windows may each be wrong by when they contradict each other, twice
    control_margin: float = 0.5  # one-call windows may cost a candidate this share more than its opponent's own surplus there
    left_behind: float = 1.10  # an opponent slower than this alone after a candidate, against before: more than a device drifts
    interference: float = 1.02  # an opponent slower than this beside the candidate, against alone, is interfered with
    write_share: float = 0.5  # outputs written in less than this share of the time that the fastest filling takes were not written
    deadlines: Deadlines = Deadlines()
    precision: str = "fp32"  # what weights and floating inputs are cast to before anything is judged

    @property
    def label(self) -> str:
        """Name and version as records carry them, e.g. "strict/1", the precision where it is another than fp32."""
        return f"{self.name}/{self.version}{'' if self.precision == 'fp32' else f'+{self.precision}'}"


STRICT = Rules(
    name="strict", version=6,
    looks=Looks(pairs=(12, 24, 48, 96), alpha=(0.001, 0.002, 0.003, 0.004), budget_s=2.0, first_look_s=5.0),
    own_sets=3, extended_kinds=("negated", "scaled", "difference", "sparse", "outliers"),
    edge_kinds=("zeros", "constant", "large", "denormal"),
    repeats=2, second_process=True, fresh_every=1,
)
QUICK = Rules(
    name="quick", version=6,
    looks=Looks(pairs=(11, 24), alpha=(0.001, 0.002), budget_s=0.4, first_look_s=2.5, narrow=math.inf),
    own_sets=1, extended_kinds=("difference",), edge_kinds=(), repeats=1, second_process=False, fresh_every=25,
)
PRESETS = {rules.name: rules for rules in (STRICT, QUICK)}


def preset(name: str) -> Rules:
    """The preset of that name ("strict", "quick"), or UsageError naming those there are."""
    if name not in PRESETS:
        raise UsageError(f"no rules named '{name}'; choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]


@dataclass(frozen=True)
class CompatRules:
    """KernelBench's evaluator: its seeds, trials and tolerances. Compared and timed in the candidate's process, so never verified."""

    name: str = "kernelbench"
    version: int = 1
    seed: int = 42
    correct_trials: int = 5
    perf_trials: int = 100
    fp32_tolerance: float = 1e-4  # absolute and relative, the relative part of the candidate's magnitude
    half_tolerance: float = 1e-2  # fp16 and bf16
    timing_method: str = "cuda_event"
    excessive_speedup: float = 10.0  # above it the result is flagged, nothing more
    build_s: float = 300.0  # compiling apart; KernelBench has one deadline for everything
    timeout_s: float = 180.0  # the evaluation itself

    @property
    def label(self) -> str:
        """Name and version as records carry them."""
        return f"{self.name}/{self.version}"

    def tolerance(self, precision: str) -> float:
        """KernelBench's tolerance for "fp32", "fp16" or "bf16". Raises AssertionError for anything else, as it does."""
        if precision not in PRECISIONS:
            raise AssertionError(f"the precision must be one of {', '.join(PRECISIONS)}, and is {precision}.")
        return self.fp32_tolerance if precision == "fp32" else self.half_tolerance


PRECISIONS = ("fp32", "fp16", "bf16")
KERNELBENCH = CompatRules()


def in_precision(rules: Rules, precision: str) -> Rules:
    """The rules with the problem in another precision. Raises UsageError for one that is not known."""
    if precision not in PRECISIONS:
        raise UsageError(f"there is no precision '{precision}'; choose one of {', '.join(PRECISIONS)}.")
    return replace(rules, precision=precision)
