"""One open problem in the judge: its oracle sets, the calls that are judged, the windows that are timed."""

from __future__ import annotations

import hashlib
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from autokernel import compare
from autokernel.executor import ahead, wire
from autokernel.executor.draws import ProblemCode, ProblemFailed
from autokernel.executor.faults import LinkFailed
from autokernel.executor.link import Window, WorkerLink, input_bytes
from autokernel.executor.oracle import InputSet, Oracle, output_rms
from autokernel.executor.slices import by_slice

SPARE_BYTES = 2 << 30  # beside one set: with less free device memory the judge gives back what its allocator holds unused
PRECISIONS = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}  # fp32 leaves the problem as it is
KEEP_INPUT_BYTES = 1 << 30  # judged sets with larger inputs redraw them from their seed


@dataclass(frozen=True)
class Fresh:
    """Eager's output on a new draw, complex ones as their parts, and what an answer may be off by (None: nothing, for integers)."""

    eager: Tensor
    bound: compare.Bound | None


class Bench:
    """Everything the judge holds of one problem. `rules`: the numbers of Rules that figures need, and `pool_bytes`."""

    def __init__(self, source: str, name: str, seed: int, rules: dict[str, Any], device: torch.device) -> None:
        self.device, self.rules, self.seed = device, rules, seed
        self.drawn = 0
        self.dtype = PRECISIONS[rules.get("precision", "fp32")]
        self.code = ProblemCode(source, name, device, self.dtype)
        self.oracle = Oracle(self.code, self.next_seed() & 0x7FFFFFFF)
        self.second: Oracle | None = None
        self.sets: dict[tuple[str, int], InputSet] = {}
        self.uneven: dict[int, Tensor] = {}  # outputs bounded slice by slice: the errors that timed calls may have there
        first = self.code.draw(self.next_seed())
        self.expected = self.oracle.inspect(first, self.oracle.seed)
        if not self.expected:
            raise ProblemFailed("its forward must return a tensor")
        self.input_bytes = input_bytes(first)
        self.output_bytes = sum(leaf.numel() * leaf.element_size() for leaf in self.expected)
        self.large = self.input_bytes + self.output_bytes > rules["large_set_bytes"]
        self.eager_ms = self._time_eager(first)
        self.products = self._count_products(first)

    def next_seed(self) -> int:
        """A seed nobody can guess without the session's own secret."""
        self.drawn += 1
        return int.from_bytes(hashlib.sha256(f"{self.seed}:{self.drawn}".encode()).digest()[:6], "little") | 1

    def facts(self) -> dict[str, Any]:
        """What broker and gate need to know of the problem; sizes in bytes, time in ms."""
        weights = sum(p.numel() * p.element_size() for p in self.oracle.model.parameters())
        return {
            "eager_ms": self.eager_ms, "input_bytes": self.input_bytes, "output_bytes": self.output_bytes, "weight_bytes": weights,
            "products": self.products, "random": self.oracle.random, "mutates": self.oracle.mutates, "moved": self.code.moved,
            "form": self._form(), "outputs": [[list(leaf.shape), str(leaf.dtype).removeprefix("torch.")] for leaf in self.expected],
        }

    def _form(self) -> dict[str, Any] | None:
        """How Model is constructed and called, without values; None where that cannot be written down."""
        try:
            return {"arguments": ahead.form(self.code.init_arguments(self.oracle.seed), Tensor),
                    "inputs": ahead.form(self.code.draw(self.oracle.seed), Tensor)}
        except ValueError:
            return None

    def _time_eager(self, inputs: tuple[Any, ...]) -> float:
        times = []
        for _ in range(3):
            self._synchronise()
            start = time.perf_counter()
            self.oracle.eager(self.oracle.given(inputs), 1)
            self._synchronise()
            times.append((time.perf_counter() - start) * 1e3)
        return min(times)

    def _count_products(self, inputs: tuple[Any, ...]) -> dict[str, int]:
        """FLOPs of products by the arithmetic that the reference is computed in here; convolutions are TF32 where cuDNN may use it."""
        with FlopCounterMode(display=False) as counter:
            self.oracle.eager(self.oracle.given(inputs), 1)
        counts = counter.get_flop_counts().get("Global", {})
        if self.dtype is not None:
            return {str(self.dtype).removeprefix("torch."): int(sum(counts.values()))}
        convolved = sum(flops for op, flops in counts.items() if "convolution" in str(op))
        tf32 = int(convolved) if self.device.type == "cuda" and torch.backends.cudnn.allow_tf32 else 0
        return {"ieee": int(sum(counts.values())) - tf32, "tf32": tf32}

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def deadline(self, calls: int) -> float:
        """Seconds a window of that many calls may take."""
        return float(max(self.rules["later_call_floor_s"], self.rules["later_call_times_eager"] * self.eager_ms * calls / 1e3))

    def redraw(self) -> dict[str, Any]:
        """Forget the pool: the next evaluation sees new sets."""
        self.sets, self.second = {}, None
        return {}

    def construct(self, *, worker: WorkerLink, weights: str, timeout_s: float) -> dict[str, Any]:
        """Have a worker build its model. `weights`: "first", or of a second seed with neutral parameters "moved" in construction, or
        "loaded" by name after it; "replaced": constructed with the first and all of the second's loaded. `neutral`: how many are moved."""
        if weights == "first":
            worker.construct(self.oracle.seed, self.code.init_arguments(self.oracle.seed), timeout_s, dtype=self.dtype)
            return {"neutral": 0}
        oracle = self._second()
        seed = self.oracle.seed if weights == "replaced" else oracle.seed
        worker.construct(seed, self.code.init_arguments(seed), timeout_s, dtype=self.dtype, moved=weights == "moved" and oracle.neutral > 0,
                         state=dict(oracle.model.named_parameters()) if weights != "moved" else None)
        return {"neutral": oracle.neutral}

    def _second(self) -> Oracle:
        """The model of a second weight seed, its neutral parameters moved unless that makes its answer not finite."""
        if self.second is None:
            seed, inputs = self.next_seed() & 0x7FFFFFFF, self.code.draw(self.next_seed())
            self.second = Oracle(self.code, seed, moved=True)
            answers = self.second.inspect(inputs, 1)
            if not all(bool(leaf.isfinite().all()) for leaf in answers if leaf.is_floating_point()):
                self.second = Oracle(self.code, seed)
                self.second.inspect(inputs, 1)
        return self.second

    def judged(self, kind: str, index: int, *, keep: bool = True) -> InputSet:
        """The pool's set of that kind and number, made where it is not there; large ones of the pool keep no inputs."""
        known = self.sets.get((kind, index))
        if known is None:
            self._trim()
            known = self.oracle.judged_set(kind, self.next_seed())
            held = sum(map(self._held, self.sets.values()))
            if keep and held + self._held(known) <= self.rules["pool_bytes"]:
                known.inputs = known.inputs if self.input_bytes <= KEEP_INPUT_BYTES else None
                self.sets[(kind, index)] = known
        return known

    def _held(self, made: InputSet) -> int:
        parts: list[Tensor | None] = [*made.outputs, *made.deltas, *made.changes]
        own = sum(part.numel() * part.element_size() for part in parts if part is not None)
        return own + (self.input_bytes if made.inputs is not None and self.input_bytes <= KEEP_INPUT_BYTES else 0)

    def call(self, *, worker: WorkerLink, kind: str, index: int, keep: bool, timeout_s: float | None = None) -> dict[str, Any]:
        """One call on a judged set: figures for each output, input changed or not. `skipped` where the oracle is not finite.

        `keep`: the set may come again, so the pool should hold it.
        """
        made = self.judged(kind, index, keep=keep)
        if kind != "own" and made.why_skipped:
            return {"skipped": made.why_skipped}
        inputs = made.inputs if made.inputs is not None else self.code.draw_kind(kind, made.seed)
        window = self.patient_window(worker, [inputs], made.seed, timeout_s or self.deadline(1))
        changed = None if self.oracle.mutates else worker.unchanged([inputs])
        errors = [self.judge(made, number, answer) for number, answer in enumerate(window.outputs[0])]
        return {"figures": [plain(error) for error in errors], "changed_input": changed, "ieee_rms": made.ieee_rms,
                "eager_rms": self.oracle.errors[kind].rms, "output_rms": [output_rms(o) for o in made.outputs],
                "oracle": self.oracle.why_eager, "event_ms": window.event_ms, "ms": window.ms}

    def judge(self, made: InputSet, number: int, answer: Tensor) -> compare.ErrorFigures:
        """Figures of one output tensor against a judged set's oracle."""
        eager, delta, change = made.outputs[number], made.deltas[number], made.changes[number]
        answer = compare.as_real(answer)
        if not eager.is_floating_point():
            return compare.exact_error(answer, eager, delta)
        bound = self._bound(made.kind, number, eager, change)
        if number in self.uneven and delta is not None and change is not None:
            local = torch.maximum(change, by_slice(delta.abs(), tuple(eager.shape)))
            bound = replace(bound, error=0.0, change=local)
        return compare.floating_error(answer, eager, delta, bound)

    def fresh(self, outputs: list[Tensor]) -> list[Fresh]:
        """What answers on a new draw are compared with, made once for all who answer: eager's own `outputs`."""
        if "own" not in self.oracle.errors:
            self.judged("own", 0)
        made = []
        for number, eager in enumerate(map(compare.as_real, outputs)):
            bound = self._bound("own", number, eager, None) if eager.is_floating_point() else None
            made.append(Fresh(eager, replace(bound, error=0.0, change=self.uneven[number]) if bound and number in self.uneven else bound))
        return made

    def _bound(self, kind: str, number: int, eager: Tensor, change: Tensor | None) -> compare.Bound:
        return self.oracle.bound(kind, number, change, self.rules["bound_times_error"], self.rules["bound_ulps"],
                                 self.rules["rms_times_error"], eager)

    def blindness(self) -> float:
        """Largest share, over the outputs, of elements below their bound on the problem's own inputs, where zeros would pass.

        Where it is above the rules' share, that output is bounded slice by slice from here on, and the share is what is left.
        """
        own, worst = self.judged("own", 0), 0.0
        for number, leaf in enumerate(own.outputs):
            blind = self.judge(own, number, leaf).blind
            delta, change = own.deltas[number], own.changes[number]
            if blind > self.rules["blind_share"] and number not in self.uneven and delta is not None and change is not None:
                self.uneven[number] = by_slice(torch.maximum(delta.abs(), change), tuple(leaf.shape))
                blind = self.judge(own, number, leaf).blind
            worst = max(worst, blind)
        return worst

    def _trim(self) -> None:
        """Give the judge's unused memory back to the device where a worker, or the float64 oracle, could lack it."""
        if self.device.type != "cuda":
            return
        free, _ = torch.cuda.mem_get_info(self.device)
        if free < self.input_bytes + 2 * self.output_bytes + SPARE_BYTES:
            torch.cuda.empty_cache()

    def window(self, worker: WorkerLink, sets: list[tuple[Any, ...]], seed: int, timeout_s: float,
               order: int = wire.GO) -> Window:
        """One window of one call a set; raises LinkFailed where the worker is at fault."""
        self._trim()
        return worker.window(sets, self.expected, self.oracle.signature, seed=seed if self.oracle.random else 0, timeout_s=timeout_s,
                             clone_aliases=self.oracle.aliases, order=order)

    def patient_window(self, worker: WorkerLink, sets: list[tuple[Any, ...]], seed: int, timeout_s: float) -> Window:
        """A window whose time does not count: where memory runs out, what the judge holds unused may be what the worker lacks."""
        try:
            return self.window(worker, sets, seed, timeout_s)
        except LinkFailed as fault:
            if not fault.out_of_memory or self.device.type != "cuda":
                raise
        torch.cuda.empty_cache()
        return self.window(worker, sets, seed, timeout_s)

    def new_draws(self, *, worker: WorkerLink, second: bool, count: int, timeout_s: float | None = None) -> dict[str, Any]:
        """`count` calls on new draws compared with eager (of the second weights where `second`); stops at the first wrong one."""
        oracle = self.second if second and self.second is not None else self.oracle
        worst: list[dict[str, Any]] = []
        for _ in range(count):
            seed = self.next_seed()
            inputs = self.code.draw(seed)
            expected = self.fresh(oracle.eager(self.oracle.given(inputs), seed))
            window = self.patient_window(worker, [inputs], seed, timeout_s or self.deadline(1))
            worst = [plain(judge_fresh(e, answer)) for e, answer in zip(expected, window.outputs[0], strict=True)]
            if not all(figure["within"] for figure in worst):
                break
        return {"figures": worst, "neutral": oracle.neutral}

    def repeat(self, *, worker: WorkerLink, repeats: int) -> dict[str, Any]:
        """Does an earlier input set give the same answer again? Largest difference of candidate and of eager to themselves.

        Small problems come two sets a window, which also shows outputs that a later call overwrites.
        """
        small = not self.large
        seeds = [self.next_seed() for _ in range(repeats + 2)]
        sets = {seed: self.code.draw(seed) for seed in (seeds if small else [])}

        def run(*wanted: int) -> list[list[Tensor]]:
            given = [sets[s] if s in sets else self.code.draw(s) for s in wanted]
            # a forward that draws is seeded with seed + position, so the repeated set always comes first
            return self.patient_window(worker, given, seeds[0], self.deadline(len(wanted))).outputs

        before = run(seeds[0], seeds[1]) if small else run(seeds[0])
        overwritten = False
        if small:
            alone = self._eager_pair(seeds, sets)
            overwritten = not all(judge_fresh(e, a).within for e, a in zip(self.fresh(alone), before[0], strict=True))
        spread = 0.0
        for other in seeds[2:]:
            again = run(seeds[0], other) if small else run(seeds[0])
            spread = max(spread, _spread(before[0], again[0]))
        eager_spread = self._eager_spread(seeds[0]) if spread > 0 else 0.0
        return {"spread": spread, "eager_spread": eager_spread, "overwritten": overwritten}

    def _eager_pair(self, seeds: list[int], sets: dict[int, tuple[Any, ...]]) -> list[Tensor]:
        return self.oracle.eager(self.oracle.given(sets[seeds[0]]), seeds[0])

    def _eager_spread(self, seed: int) -> float:
        inputs = self.code.draw(seed)
        runs = [self.oracle.eager(self.oracle.given(inputs), seed) for _ in range(4)]
        return max(_spread(runs[0], other) for other in runs[1:])


def judge_fresh(expected: Fresh, answer: Tensor) -> compare.ErrorFigures:
    """Figures of an answer on a new draw, against eager's own."""
    answer = compare.as_real(answer)
    if expected.bound is None:
        return compare.exact_error(answer, expected.eager, None)
    return compare.floating_error(answer, expected.eager, None, expected.bound)


def _spread(left: list[Tensor], right: list[Tensor]) -> float:
    """Largest difference between two runs' outputs; 0.0 where they are the same bits."""
    worst = 0.0
    for a, b in zip(left, right, strict=True):
        if not compare.identical(a, b):
            difference = (compare.as_real(a).double() - compare.as_real(b).double()).abs().nan_to_num_(nan=float("inf"))
            worst = max(worst, float(difference.max()), 5e-324)
    return worst


def plain(error: compare.ErrorFigures) -> dict[str, Any]:
    """Figures as a dict of JSON values."""
    return {**asdict(error), "within": error.within}
