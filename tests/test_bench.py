"""What the judge keeps of an open problem: sets in the pool, and inputs only where they are small."""

from __future__ import annotations

import pytest
import torch

from autokernel.executor import bench as module
from autokernel.executor.bench import Bench

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x).sum(1)

def get_inputs():
    return [torch.rand(10, 1000)]

def get_init_inputs():
    return []
"""
NUMBERS = {"bound_times_error": 32.0, "bound_ulps": 4.0, "rms_times_error": 8.0, "large_set_bytes": 1 << 30, "blind_share": 0.1,
           "precision": "fp32", "later_call_floor_s": 10.0, "later_call_times_eager": 20.0}
OUTPUTS = 3 * 10 * 4  # bytes a set: eager's answer, the difference to float64 and the change by moves
INPUTS = 10 * 1000 * 4


@pytest.mark.parametrize(("most", "pool", "kept", "inputs"), [
    (1 << 30, 2 * (OUTPUTS + INPUTS), 2, True), (1 << 30, 2 * OUTPUTS + INPUTS, 1, True),
    (0, 2 * OUTPUTS, 2, False), (0, 2 * OUTPUTS - 1, 1, False),  # inputs that are not kept take no room
])
def test_the_pool_counts_what_it_holds(monkeypatch: pytest.MonkeyPatch, most: int, pool: int, kept: int, inputs: bool) -> None:
    monkeypatch.setattr(module, "KEEP_INPUT_BYTES", most)
    bench = Bench(PROBLEM, "L1/1", 1, NUMBERS | {"pool_bytes": pool}, torch.device("cpu"))
    first, second = bench.judged("own", 0), bench.judged("difference", 0)
    assert len(bench.sets) == kept and (first.inputs is not None) is inputs
    assert (bench.judged("difference", 0) is second) is (kept == 2)


def test_a_set_that_is_not_pooled_has_its_inputs_until_it_was_called_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_INPUT_BYTES", 0)
    bench = Bench(PROBLEM, "L1/1", 1, NUMBERS | {"pool_bytes": 1 << 20}, torch.device("cpu"))
    made = bench.judged("scaled", 0, keep=False)
    assert made.inputs is not None and not bench.sets
    assert torch.equal(made.inputs[0], bench.code.draw_kind("scaled", made.seed)[0])


EXACT = PROBLEM.replace("torch.relu(x).sum(1)", "x[0, :SIZE] * 0.0 + 0.75")


@pytest.mark.parametrize(("size", "ulps", "share", "right"), [
    (1, 3, 1.0, True), (1, 8, 1.0, False), (1000, 3, 1.0, False), (1000, 1, 1.0, False), (1000, 3, 0.01, True),
])
def test_few_numbers_may_each_be_off_by_what_an_element_may_where_eager_is_exact(size: int, ulps: int, share: float, right: bool) -> None:
    bench = Bench(EXACT.replace("SIZE", str(size)), "L1/1", 1, NUMBERS | {"pool_bytes": 1 << 20}, torch.device("cpu"))
    made = bench.judged("own", 0)
    assert bench.oracle.errors["own"].rms == [0.0] and torch.equal(made.outputs[0], torch.full((size,), 0.75))
    answer = made.outputs[0].clone()
    answer[:max(1, int(size * share))] += ulps * 2.0 ** -24  # an ulp of 0.75
    assert bench.judge(made, 0, answer).within is right
    fresh = module.judge_fresh(bench.fresh([made.outputs[0]])[0], answer)
    assert fresh.within is right


@pytest.mark.parametrize(("dtype", "off", "right"), [
    ("float32", 1e-38, True), ("float32", 2e-38, False), ("bfloat16", 1e-38, True), ("float16", 1e-6, False), ("float64", 1e-38, False),
])
def test_flushed_subnormals_are_no_rms_error(dtype: str, off: float, right: bool) -> None:
    source = PROBLEM.replace("torch.relu(x).sum(1)", f"(x[0] * 0.0).to(torch.{dtype})")
    bench = Bench(source, "L1/1", 1, NUMBERS | {"pool_bytes": 1 << 20}, torch.device("cpu"))
    made = bench.judged("own", 0)
    assert not made.outputs[0].any()
    answer = torch.full_like(made.outputs[0], off)
    assert answer.all() and bench.judge(made, 0, answer).within is right
