"""What the right answer is, and how far a right answer may lie from it: the float64 oracle and bound of law 6.

An `InputSet` is one draw with eager's outputs; judged sets also carry the float64 oracle (as the difference to eager) and, per
element, how much it changes when every floating input and weight moves by one ulp. Nothing float64 stays resident.
"""

from __future__ import annotations

import copy
import math
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from autokernel import compare
from autokernel.executor import transposed, wire
from autokernel.executor.draws import ProblemCode, ProblemFailed, map_tensors, tensors
from autokernel.executor.faults import out_of_memory
from autokernel.executor.precision import default_dtype
from autokernel.executor.seeding import seed_generators

MOVES = 2  # draws of one-ulp moves
COINS = 0x5851F42D4C957F2D  # tells their seed from the inputs'


@dataclass
class KindError:
    """Eager's own error on one kind of input set, one entry an output tensor."""

    largest: list[float]
    rms: list[float]
    change: list[float]  # the oracle's largest change under one-ulp moves
    change_rms: list[float]


@dataclass
class InputSet:
    """One draw: private inputs, eager's outputs (complex ones as their parts), and the float64 oracle's figures (flat, float32)."""

    kind: str
    seed: int
    inputs: tuple[Any, ...] | None  # None: redrawn from the seed when needed
    outputs: list[Tensor]
    deltas: list[Tensor | None] = field(default_factory=list)
    changes: list[Tensor | None] = field(default_factory=list)
    why_skipped: str = ""  # why no candidate can be judged on it; own sets are judged all the same
    ieee_rms: list[float] = field(default_factory=list)  # rms error of eager without TF32 or reduced precision


class Oracle:
    """Eager and float64 answers of one model; keeps eager's errors by kind."""

    def __init__(self, code: ProblemCode, seed: int, *, moved: bool = False) -> None:
        self.code, self.seed = code, seed
        self.neutral = 0  # neutral parameters that were moved
        if moved:
            self.model, self.neutral = code.moved_model(seed)
        else:
            self.model = code.model(seed)
        self.errors: dict[str, KindError] = {}
        self.why_eager = ""  # why eager float32 is the oracle, empty where float64 is
        self.random = False
        self.signature = b""
        self.mutates = False
        self.aliases = False
        # whether eager computes in IEEE float32: the same bits without TF32; None: not known yet
        self._is_ieee: bool | None = True if code.device.type != "cuda" else None
        self._coins: dict[torch.device, torch.Generator] = {}  # by device, for one-ulp moves
        self._coins_seed = 0  # from the set's own seed, which no worker is told before; the model's it is

    def eager(self, inputs: tuple[Any, ...], seed: int) -> list[Tensor]:
        """Eager's output tensors, in order, contiguous. A forward that draws is reseeded with `seed`."""
        seed_generators(self.code.device, seed)
        with torch.no_grad(), default_dtype(self.code.dtype):
            leaves, _ = self._flatten(self.model(*inputs))
        return [leaf.contiguous() for leaf in leaves]

    def _flatten(self, value: Any) -> tuple[list[Tensor], bytes]:
        try:
            leaves, signature = wire.flatten(value, Tensor)
        except ValueError as error:
            raise ProblemFailed(f"an output of the reference {error}; only nests of tensors are supported") from error
        return [leaf for leaf in leaves if isinstance(leaf, Tensor)], signature

    def inspect(self, inputs: tuple[Any, ...], seed: int) -> list[Tensor]:
        """First eager run: learn the outputs' structure, whether forward draws, changes or returns its inputs."""
        given = tensors(inputs)
        versions = [tensor._version for tensor in given]
        seed_generators(self.code.device, seed)
        before = _generator_state(self.code.device)
        with torch.no_grad(), default_dtype(self.code.dtype):
            leaves, self.signature = self._flatten(self.model(*inputs))
        self.random = not torch.equal(before, _generator_state(self.code.device))
        self.mutates = any(tensor._version != version for tensor, version in zip(given, versions, strict=True))
        memory = {tensor.untyped_storage().data_ptr() for tensor in given if tensor.numel()}
        self.aliases = any(leaf.untyped_storage().data_ptr() in memory for leaf in leaves if leaf.numel())
        if self.random:
            self.why_eager = "forward draws random numbers"
        return [leaf.contiguous() for leaf in leaves]

    def judged_set(self, kind: str, seed: int) -> InputSet:
        """A set with its oracle; updates the kind's errors. `why_skipped` is set where eager or float64 is not finite.

        Where float64 lacks memory even after a second try, a kind beyond the problem's range is skipped, and for the problem's own
        eager is the oracle from there on.
        """
        for attempt in range(3):
            try:
                return self._judged_set(kind, seed)
            except Exception as error:
                if not out_of_memory(error):
                    raise
                message = (str(error).splitlines() or ["out of memory"])[0][:120]
                if attempt == 1 and kind != "own":
                    return InputSet(kind, seed, None, [], why_skipped=f"float64 does not fit: {message}")
                if attempt == 1:
                    self.why_eager = f"float64 does not fit: {message}"
                if attempt == 2:
                    raise
            torch.cuda.empty_cache()
        raise AssertionError("unreachable")

    def _judged_set(self, kind: str, seed: int) -> InputSet:
        self._coins, self._coins_seed = {}, seed ^ COINS
        inputs = self.code.draw_kind(kind, seed)
        outputs = [compare.as_real(o) for o in self.eager(self.given(inputs), seed)]
        made = InputSet(kind, seed, inputs, outputs)
        exact = None if self.why_eager else self._float64(inputs)
        answers = outputs if exact is None else exact
        if not all(math.isfinite(compare.extent(leaf)[0]) for leaf in (*answers, *outputs) if leaf.is_floating_point()):
            made.why_skipped = "the reference is not finite there"
        raised = exact is not None
        if exact is None:
            made.deltas = [None] * len(outputs)
        else:
            made.deltas = [_delta(e, o) for e, o in zip(exact, outputs, strict=True)]
            made.ieee_rms = self._ieee_rms(inputs, seed, made, exact)
        del answers, exact  # as large as all the rest; eager and the difference to it say the same
        made.changes = [torch.zeros(o.numel(), device=o.device) if o.is_floating_point() else None for o in outputs]
        for _ in range(MOVES):
            moved = self._float64(inputs, move=True) if raised else self._moved_eager(inputs, seed)
            if moved is None:
                break
            while moved:  # each is let go when it has been looked at
                place = len(moved) - 1
                change, answer = made.changes[place], moved.pop()
                if change is not None:
                    compare.raise_to_difference(change, answer, outputs[place], made.deltas[place])
                del answer
        self._learn(made)
        return made

    def given(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """What forward is called with: a copy where the reference changes its inputs."""
        return map_tensors(inputs, torch.clone) if self.mutates else inputs

    def _float64(self, inputs: tuple[Any, ...], *, move: bool = False) -> list[Tensor] | None:
        """The model's outputs in float64, weights and inputs cast up (after one-ulp moves); None where that cannot run."""
        try:
            model = copy.deepcopy(self.model)
            if move:
                with torch.no_grad():
                    for parameter in model.parameters():
                        parameter.copy_(self._one_ulp(parameter))
            model = model.double()
            raised = map_tensors(inputs, lambda t: (self._one_ulp(t) if move else t).double() if t.is_floating_point() else t)
            slow = self.code.device.type == "cuda" and transposed.has_any(model)
            with torch.no_grad(), transposed.ByProducts() if slow else nullcontext():
                leaves, signature = self._flatten(model(*raised))
            if signature != self.signature:
                raise ProblemFailed("float64 must give the same structure and gives another")
            return [compare.as_real(leaf.contiguous()) for leaf in leaves]
        except Exception as error:  # any failure of the problem in float64 means eager is the oracle, and is recorded
            if out_of_memory(error):
                raise
            self.why_eager = f"float64 cannot run: {type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"
            return None

    def _one_ulp(self, tensor: Tensor) -> Tensor:
        """Every element moved to its neighbour above or below, by a fair coin. The coins come from generators of their own: after a seed
        that torch's generators have from an input, the coins would fall as that input's values do, and moves would not cancel in sums."""
        if not tensor.is_floating_point():
            return tensor
        coins = self._coins.get(tensor.device)
        if coins is None:
            coins = self._coins[tensor.device] = torch.Generator(tensor.device).manual_seed(self._coins_seed)
        direction = torch.empty_like(tensor, memory_format=torch.contiguous_format).bernoulli_(0.5, generator=coins)
        return torch.nextafter(tensor, direction.sub_(0.5).mul_(float("inf")))

    def _moved_eager(self, inputs: tuple[Any, ...], seed: int) -> list[Tensor]:
        moved = map_tensors(inputs, lambda t: self._one_ulp(t) if t.is_floating_point() else t.clone() if self.mutates else t)
        return [compare.as_real(o) for o in self.eager(moved, seed)]

    def _ieee_rms(self, inputs: tuple[Any, ...], seed: int, made: InputSet, exact: list[Tensor]) -> list[float]:
        """Rms error of eager without TF32 and reduced precision, by output: eager's own where it has neither, as on the CPU."""
        if self._is_ieee is not True:
            matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
            kept = (matmul.allow_tf32, cudnn.allow_tf32)
            matmul.allow_tf32, cudnn.allow_tf32 = False, False
            try:
                answers = [compare.as_real(o) for o in self.eager(self.given(inputs), seed)]
            finally:
                matmul.allow_tf32, cudnn.allow_tf32 = kept
            if self._is_ieee is None and made.kind == "difference":  # own inputs can be integers, which TF32 holds
                self._is_ieee = all(map(compare.identical, answers, made.outputs))
            if not self._is_ieee:
                return [compare.distance(a, e)[1] if a.is_floating_point() else 0.0 for a, e in zip(answers, exact, strict=True)]
        return [_size(delta)[1] if delta is not None and e.is_floating_point() else 0.0
                for delta, e in zip(made.deltas, exact, strict=True)]

    def _learn(self, made: InputSet) -> None:
        now = KindError([], [], [], [])
        for delta, moved in zip(made.deltas, made.changes, strict=True):
            if moved is None:
                own = (0.0, 0.0, 0.0, 0.0)
            else:
                u = _size(moved)
                own = (*(u if delta is None else _size(delta)), *u)
            for store, value in zip(vars(now).values(), own, strict=True):
                store.append(value)
        seen = self.errors.get(made.kind)
        if seen is not None:
            now = KindError(*(list(map(max, a, b)) for a, b in zip(vars(seen).values(), vars(now).values(), strict=True)))
        self.errors[made.kind] = now

    def bound(self, kind: str, index: int, change: Tensor | None, times: float, ulps: float, rms_times: float,
              output: Tensor) -> compare.Bound:
        """The limits for output `index` on inputs of `kind`. With `change` the per-element ones of a judged set; without, one number
        for fresh draws, widened by eager's own error, since those compare with eager. `output`: eager's."""
        seen = self.errors[kind]
        # eager may be exact by luck: half an ulp of a typical element, and where there are few of them what each alone is allowed
        floor = 2.0 ** -24 * output_rms(output) * (1.0 + 2.0 * ulps / math.sqrt(max(output.numel(), 1)))
        # arithmetic that flushes subnormals is off by as much as they are; float16's own begin far above what GPUs flush
        flushed = min(torch.finfo(output.dtype).tiny, torch.finfo(torch.float32).tiny)
        rms = rms_times * max(seen.rms[index], seen.change_rms[index]) + floor + flushed
        if change is not None:
            return compare.Bound(seen.largest[index], change, times, ulps, rms)
        return compare.Bound(seen.largest[index], seen.change[index], times + 1.0, ulps, rms + 2 * seen.rms[index])


def _delta(exact: Tensor, eager: Tensor) -> Tensor | None:
    """Float64's answer less eager's, flat float32; for integers float64's own answer where it is another."""
    if eager.is_floating_point():
        made = torch.empty(eager.numel(), dtype=torch.float32, device=eager.device)
        for start in range(0, eager.numel(), compare.CHUNK):
            part = slice(start, start + compare.CHUNK)
            made[part] = exact.reshape(-1)[part] - eager.reshape(-1)[part]
        return made
    other = exact.to(eager.dtype)
    return None if torch.equal(other, eager) else other


def _generator_state(device: torch.device) -> Tensor:
    state = torch.get_rng_state()
    return torch.cat([state, torch.cuda.get_rng_state(device)]) if device.type == "cuda" else state


def _size(tensor: Tensor) -> tuple[float, float]:
    """(largest, rms) absolute value of the finite elements; the others count as zeros."""
    largest, squares = compare.extent(tensor)
    if not math.isfinite(largest):
        largest, squares = compare.extent(tensor.nan_to_num(0.0, 0.0, 0.0))
    return largest, math.sqrt(squares / max(tensor.numel(), 1))


def output_rms(output: Tensor) -> float:
    """Root mean square of an output's elements, 0.0 for integers."""
    return _size(output)[1] if output.is_floating_point() else 0.0
