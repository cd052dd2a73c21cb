"""Error figures: the chunked meaning, and the judge's fused kernel (interpreted) against it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
from autokernel import compare  # noqa: E402  needs torch
from autokernel.executor.slices import by_slice  # noqa: E402

BOUND = compare.Bound(error=1e-6, change=0.0, times=32.0, ulps=4.0, rms=1e-5)


def test_an_element_out_of_bound_is_found_with_its_place() -> None:
    eager = torch.linspace(1, 2, 1000)
    wrong = eager.clone()
    wrong[617] += 1e-3
    figures = compare.floating_error(wrong, eager, None, BOUND)
    limit = 32e-6 + 4 * torch.finfo(torch.float32).eps * float(eager[617])
    assert figures.where == 617 and not figures.within
    assert figures.max_error == pytest.approx(1e-3, rel=1e-3) and figures.ratio == pytest.approx(1e-3 / limit, rel=1e-3)
    assert compare.floating_error(eager, eager, None, BOUND).within


def test_nan_and_infinity_match_only_themselves() -> None:
    eager = torch.tensor([1.0, float("nan"), float("inf"), -float("inf")])
    assert compare.floating_error(eager, eager, None, BOUND).within
    for place, value in ((0, float("nan")), (0, float("inf")), (1, 2.0), (2, -float("inf")), (3, 0.0)):
        other = eager.clone()
        other[place] = value
        assert compare.floating_error(other, eager, None, BOUND).nonfinite == 1


def test_the_oracle_is_eager_plus_delta_and_the_bound_follows_each_element() -> None:
    eager = torch.ones(4)
    delta = torch.tensor([0.0, 1e-3, 0.0, 0.0])
    assert compare.floating_error(eager + delta, eager, delta, BOUND).within
    assert not compare.floating_error(eager, eager, delta, BOUND).within
    loose = compare.Bound(1e-6, torch.tensor([0.0, 1e-3, 0.0, 0.0]), 32.0, 4.0, 1e-2)
    assert compare.floating_error(eager, eager, delta, loose).within


def test_integers_equal_eager_or_float64_where_the_two_differ() -> None:
    eager, other = torch.tensor([1, 2, 3]), torch.tensor([1, 5, 3])
    assert compare.exact_error(torch.tensor([1, 5, 3]), eager, other).within
    assert compare.exact_error(torch.tensor([1, 2, 4]), eager, other).where == 2
    assert not compare.exact_error(torch.tensor([1, 5, 3]), eager, None).within


def test_identical_is_bitwise() -> None:
    zero = torch.tensor([0.0, float("nan")])
    assert compare.identical(zero, zero.clone())
    assert not compare.identical(zero, torch.tensor([-0.0, float("nan")]))


FUSED = """
import torch
from autokernel import compare, compare_cuda
torch.manual_seed(0)
n = 40000
eager = torch.randn(n)
eager[5], eager[6], eager[7] = float("nan"), float("inf"), -float("inf")
answer = eager + 1e-5 * torch.randn(n)
answer[5], answer[6], answer[9], answer[12345] = float("nan"), float("inf"), float("nan"), eager[12345] + 1.0
answer[7] = -float("inf")
for delta, change in ((None, 1e-6), (1e-7 * torch.randn(n), torch.rand(n) * 1e-5)):
    bound = compare.Bound(1e-6, change, 32.0, 4.0, 1.0)
    info = torch.finfo(torch.float32)
    fused = compare_cuda.table(answer, eager, delta, change, error=1e-6, times=32.0, ulps_eps=4 * info.eps, tiny=info.tiny)
    chunked = compare._chunked_table(answer, eager, delta, bound)
    assert fused.shape == (3, 6)
    best = int(fused[:, 0].argmax())
    assert int(fused[best, 4]) == int(chunked[0, 4]) == 12345
    torch.testing.assert_close(fused[best, 0], chunked[0, 0])
    torch.testing.assert_close(fused[:, 1].max(), chunked[0, 1])
    torch.testing.assert_close(fused[:, 2].sum(), chunked[0, 2])
    assert fused[:, 3].sum() == chunked[0, 3] == 1
    assert fused[:, 5].sum() == chunked[0, 5]
left, right = torch.randn(n), torch.randn(n).double()
for other in (None, right):
    largest, squares = compare.extent(left, other)
    fused = compare_cuda.extent(left, other)
    assert float(fused[0]) == largest
    torch.testing.assert_close(float(fused[1]), squares)
assert compare_cuda.extent(eager, None)[0] == float("inf") and compare_cuda.extent(answer[9:10], eager[9:10])[0] == float("inf")
raised = torch.rand(n)
meant = raised.clone()
left[17], left[18] = float("nan"), float("inf")
for delta in (None, torch.randn(n) * 1e-3):
    compare_cuda.raise_to_difference(raised, left, right, delta)
    compare.raise_to_difference(meant, left, right, delta)
    assert torch.equal(raised, meant)
print("same")
"""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
def test_the_fused_kernel_gives_the_chunked_figures() -> None:
    done = subprocess.run([sys.executable, "-c", FUSED], env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.stdout.strip() == "same", done.stderr[-2000:]


def test_what_is_compared_stays_as_it_is_in_float64_too() -> None:
    eager, answer, delta = torch.randn(3, 100, dtype=torch.float64)
    kept = [tensor.clone() for tensor in (eager, answer)]
    compare.floating_error(answer, eager, delta.float(), BOUND)
    compare.extent(answer, eager)
    compare.raise_to_difference(torch.zeros(100), answer, eager, delta.float())
    assert all(map(torch.equal, (eager, answer), kept))


def test_the_quick_look_never_passes_what_the_close_one_refuses() -> None:
    torch.manual_seed(0)
    eager = torch.randn(3 * compare.SCREEN // 2)
    assert compare.surely_within(eager + 1e-6, eager, BOUND)
    for place in (0, compare.SCREEN, eager.numel() - 1):
        for value in (float("nan"), float("inf"), float(eager[place]) + 3.3e-5):
            wrong = eager.clone()
            wrong[place] = value
            assert not compare.surely_within(wrong, eager, BOUND)
    crowded = eager + 2e-5  # no element is out of bound, all together are
    assert not compare.floating_error(crowded, eager, None, BOUND).within and not compare.surely_within(crowded, eager, BOUND)
    assert not compare.surely_within(eager, eager, compare.Bound(1e-6, torch.zeros(eager.numel()), 32.0, 4.0, 1e-5))


def test_errors_slice_by_slice_follow_the_slices() -> None:
    errors = torch.ones(128, 3) * torch.tensor([1e-6, 1.0, 1e-3])
    local = by_slice(errors.reshape(-1), (128, 3)).reshape(128, 3)
    assert torch.allclose(local, 2.0 * errors)  # rows of 3 say nothing, columns of 128 do
    assert torch.equal(by_slice(errors[:8].reshape(-1), (8, 3)), torch.full((24,), 2.0))  # no slice is large enough


def test_zero_answers_are_not_blind() -> None:
    eager = torch.cat([torch.zeros(50), torch.full((25,), 1e-6), torch.ones(25)])
    assert compare.floating_error(eager, eager, None, BOUND).blind == 0.25


def test_extents_and_raised_changes_are_those_of_every_element() -> None:
    torch.manual_seed(0)
    left, right = torch.randn(compare.CACHED_CHUNK + 77), torch.randn(compare.CACHED_CHUNK + 77).double()
    error = (left.double() - right).abs()
    largest, squares = compare.extent(left, right)
    assert largest == float(error.max()) and squares == pytest.approx(float((error * error).sum()), rel=1e-12)
    assert compare.extent(left)[0] == float(left.abs().max()) and compare.extent(torch.empty(0)) == (0.0, 0.0)
    change = torch.full_like(left, 0.5)
    compare.raise_to_difference(change, left, right)
    assert torch.equal(change, error.float().clamp(min=0.5))
    change, delta = torch.zeros_like(left), torch.randn(left.numel()) * 1e-3
    compare.raise_to_difference(change, left, right, delta)
    assert torch.equal(change, (left.double() - (right.double() + delta)).abs().float())
    for value in (float("nan"), float("inf"), -float("inf")):
        wrong = left.clone()
        wrong[-3] = value
        assert compare.extent(wrong) == (float("inf"), float("inf")) == compare.extent(wrong, right)
        change = torch.full_like(left, 0.5)
        compare.raise_to_difference(change, wrong, right)
        assert float(change[-3]) == 0.5 and torch.equal(change[:-3], error.float().clamp(min=0.5)[:-3])
