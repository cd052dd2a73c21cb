"""Intervals, looks, nulls, the one-call control and rooflines, on numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from autokernel import measure
from autokernel.records import Comparison, Measurement
from autokernel.rules import QUICK, STRICT

NULL = measure.Null(0.0, 0.0, 0.0, 0.01, 0.0)  # median, interval, spread, least; ms


def exactly(ms: float, spread: float = 0.0) -> measure.Null:
    return measure.Null(ms, ms, ms, spread, ms)


@pytest.mark.parametrize(("n", "alpha", "low", "high", "confidence"), [
    (12, 0.01, 2, 11, 0.99365), (12, 0.001, 1, 12, 0.99951), (24, 0.002, 5, 20, 0.99846), (3, 0.001, 1, 3, 0.75),
])
def test_order_statistics_give_the_known_ranks(n: int, alpha: float, low: int, high: int, confidence: float) -> None:
    # ranks and levels of performance.md 3.3, recomputed from the binomial distribution
    found = measure.median_interval([float(i) for i in range(1, n + 1)], alpha)
    assert (found.low, found.high) == (low, high)
    assert found.confidence == pytest.approx(confidence, abs=1e-4)


def test_no_values_have_no_interval() -> None:
    with pytest.raises(ValueError):
        measure.median_interval([], 0.01)


def pair(ours: list[float], theirs: list[float], calls: int) -> Comparison:
    windows = {"candidate_ms": [t * calls for t in ours], "opponent_ms": [t * calls for t in theirs]}
    return measure.comparison("eager", windows, exactly(0.0), calls, 0.05)


def test_a_comparison_is_the_median_log_ratio_of_net_times() -> None:
    made = measure.comparison("eager", {"candidate_ms": [3.0] * 12, "opponent_ms": [5.0] * 12}, exactly(1.0), 2, 0.001)
    assert made.speedup == pytest.approx(2.0) and made.low == pytest.approx(2.0) and made.candidate.samples_ms[0] == 1.0
    assert made.candidate.null_ms == 1.0 and made.pairs == 12


def test_a_window_below_the_null_counts_as_the_floor() -> None:
    assert measure.net(1.0, 2.0, 4) == measure.FLOOR_MS and measure.net(1.0, 2.0, 4, 0.1) == 0.025


def test_looks_end_when_decided_and_go_on_when_not() -> None:
    asked: list[tuple[int, int]] = []

    def windows(ours: float, theirs: float):
        def pairs(count: int, first: int) -> dict[str, list[float]]:
            asked.append((count, first))
            jitter = [1 + 0.03 * math.sin(first + i) for i in range(count)]
            return {"candidate_ms": [ours * j for j in jitter], "opponent_ms": [theirs] * count, "candidate_event_ms": [0.0] * count,
                    "opponent_event_ms": [0.0] * count}
        return pairs

    made = measure.compare("eager", windows(1.0, 2.0), NULL, 1, STRICT, lambda: 0.0)
    assert isinstance(made, Comparison) and made.pairs == 12 and made.low > 1.01
    asked.clear()
    made = measure.compare("eager", windows(1.0, 1.015), NULL, 1, STRICT, lambda: 0.0)
    assert isinstance(made, Comparison) and made.pairs == 96 and asked == [(12, 0), (12, 12), (24, 24), (48, 48)]
    clock = iter([0.0, 5.0, 10.0, 15.0])
    made = measure.compare("eager", windows(1.0, 1.015), NULL, 1, STRICT, lambda: next(clock))
    assert isinstance(made, Comparison) and made.pairs == 12  # the budget of 2 s was spent


def test_a_strict_speedup_is_looked_at_again_while_its_interval_is_wide() -> None:
    def pairs(count: int, first: int) -> dict[str, list[float]]:
        theirs = [2.0 + 2.0 * (first + place == 5) for place in range(count)]  # of the first twelve windows one was disturbed
        return {"candidate_ms": [1.0] * count, "opponent_ms": theirs,
                "candidate_event_ms": [0.0] * count, "opponent_event_ms": [0.0] * count}

    wide = measure.compare("eager", pairs, NULL, 1, QUICK, lambda: 0.0)  # which asks whether, not how much
    assert isinstance(wide, Comparison) and (wide.pairs, wide.low, wide.high) == (11, pytest.approx(2.0), pytest.approx(4.0))
    made = measure.compare("eager", pairs, NULL, 1, STRICT, lambda: 0.0)
    assert isinstance(made, Comparison) and (made.pairs, made.low, made.high) == (24, pytest.approx(2.0), pytest.approx(2.0))


def test_a_wrong_timed_call_is_handed_on() -> None:
    got = measure.compare("eager", lambda count, first: {"wrong": "candidate", "figures": []}, NULL, 1, QUICK, lambda: 0.0)
    assert got == {"wrong": "candidate", "figures": []}


def test_launch_overhead_that_both_sides_pay_is_not_work_moved_between_calls() -> None:
    many = pair([0.2] * 12, [0.37] * 12, 16)
    assert not measure.work_moved(pair([0.6] * 6, [0.77] * 6, 1), many, NULL, STRICT.control_margin)  # the H200's figures for L1/10


def test_a_candidate_that_does_sixteen_calls_work_in_one_is_found() -> None:
    many = pair([0.2] * 12, [0.37] * 12, 16)
    assert measure.work_moved(pair([3.2] * 6, [0.5] * 6, 1), many, NULL, STRICT.control_margin)
    # whatever single pairs say: the middle counts
    assert measure.work_moved(pair([3.2] * 4 + [0.35] * 2, [0.5] * 5 + [4.0], 1), many, NULL, STRICT.control_margin)
    assert not measure.work_moved(pair([3.2] * 2 + [0.35] * 4, [0.5] * 6, 1), many, NULL, STRICT.control_margin)


def test_single_calls_contradict_windows_where_neither_is_likely_to_be_luck() -> None:
    many = pair([1.0] * 24, [1.8 + 0.02 * n for n in range(24)], 2)
    slow = pair([3.0] * 24, [1.8 + 0.02 * n for n in range(24)], 1)
    noisy = pair([0.4] * 8 + [3.0] * 16, [1.8 + 0.02 * n for n in range(24)], 1)
    assert measure.contradicts(slow, many, 0.05) and not measure.contradicts(many, slow, 0.05)
    assert not measure.contradicts(noisy, many, 0.05) and not measure.contradicts(many, many, 0.05)


def test_an_opponent_that_happened_to_be_faster_one_call_at_a_time_is_no_evidence() -> None:
    assert not measure.work_moved(pair([10.0] * 6, [60.0] * 6, 1), pair([10.0] * 12, [100.0] * 12, 2), NULL, STRICT.control_margin)


def test_calls_a_window_grow_with_need_and_shrink_with_memory() -> None:
    gb, l2 = 1 << 30, 60 << 20
    assert measure.calls_per_window(STRICT, 9.0, gb, l2, 100 * gb) == 1
    assert measure.calls_per_window(STRICT, 3.0, gb, l2, 100 * gb) == 4
    assert measure.calls_per_window(STRICT, 0.1, 1 << 20, l2, 100 * gb) == 16
    assert measure.calls_per_window(STRICT, 3.0, 6 * gb, l2, 60 * gb) == 2
    assert measure.calls_per_window(STRICT, 3.0, 60 * gb, l2, 60 * gb) == 1
    assert measure.calls_per_window(replace(STRICT, window_calls=(2,)), 0.1, 1, l2, gb) == 2


def test_a_candidate_with_too_little_work_of_its_own_gets_longer_windows() -> None:
    gb, most = 1 << 30, STRICT.window_most_ms
    assert measure.longer_windows(STRICT, 1, 8.7, gb // 2, 100 * gb) == (2, 4)  # sixteen would be large sets
    assert measure.longer_windows(STRICT, 2, 4.0, 1 << 20, 100 * gb) == (4, 16) and measure.longer_windows(STRICT, 16, 0.1, 1, gb) == ()
    assert measure.longer_windows(STRICT, 1, 8.7, gb // 2, 5 * gb) == (2,)  # what memory has room for
    assert measure.longer_windows(STRICT, 1, 100.0, 1 << 20, 100 * gb) == (2,) and measure.longer_windows(STRICT, 1, 300.0, 1, gb) == ()
    assert measure.calls_for(STRICT, 1, (2, 4, 16), 8.0, 8.7) == 1  # enough as it is
    assert measure.calls_for(STRICT, 1, (2, 4, 16), 2.5, 8.7) == 4
    assert measure.calls_for(STRICT, 1, (2, 4, 16), 0.3, 8.7) == 4  # sixteen calls of its opponent's would take too long
    assert measure.calls_for(STRICT, 1, (2, 4, 16), 0.3, 0.3) == 16 and measure.calls_for(STRICT, 4, (), 0.3, 0.3) == 4
    assert measure.calls_for(STRICT, 1, (2,), 0.3, most) == 1


def test_the_roofline_is_the_slower_of_bytes_and_flops() -> None:
    ceilings = {"copy": [[1e6, 1e12], [1e9, 4e12]], "products": {"ieee": 1e14, "tf32": 3e14}, "ieee_alone": 5e13}
    facts = {"input_bytes": 4e9, "weight_bytes": 0, "output_bytes": 4e9, "products": {"ieee": 0, "tf32": 0}}
    assert measure.roofline_ms(facts, ceilings) == pytest.approx(2.0)
    assert measure.roofline_ms({**facts, "products": {"ieee": 1e12, "tf32": 0}}, ceilings) == pytest.approx(10.0)


@pytest.mark.parametrize(("ours", "label"), [(1.9, "ieee-grade"), (5.0, "fp32-emulated"), (9.0, "tf32 or half")])
def test_precision_is_classed_by_the_ratio_of_rms_errors(ours: float, label: str) -> None:
    assert measure.precision_class([ours * 1e-6], [1e-6], [1.0], STRICT) == label
    assert measure.precision_class([0.0], [0.0], [0.0], STRICT) == "ieee-grade"


def test_a_measurement_knows_its_median() -> None:
    assert Measurement((3.0, 1.0, 2.0), 1, "window/1", 0.0).median_ms == 2.0


def test_an_uncertain_null_cannot_make_equal_code_faster() -> None:
    # windows of 1.0 and 1.1 ms around a null of 0.95 +- 0.1: as it stands the null would say 3x
    null = measure.Null(0.95, 0.85, 0.99, 0.05, 0.85)
    made = measure.comparison("eager", {"candidate_ms": [1.0] * 12, "opponent_ms": [1.1] * 12}, null, 1, 0.001)
    assert made.speedup == pytest.approx(0.15 / 0.05) and made.low == pytest.approx(0.25 / 0.15)
    assert made.high == pytest.approx(3.0)  # at a null of 0.99 the floor, its spread, holds 0.01 ms at 0.05
    assert null.slack_us(4) == pytest.approx(0.14e3 / 4)


def test_the_verified_lower_end_takes_the_shims_work_off_the_opponent_alone() -> None:
    null = measure.Null(1.0, 1.0, 1.0, 0.0, 0.9)  # a worker may leave out 0.1 ms of the window
    made = measure.comparison("eager", {"candidate_ms": [1.2] * 12, "opponent_ms": [1.4] * 12}, null, 1, 0.001)
    assert made.low == pytest.approx(2.0) and made.verified_low == pytest.approx(0.4 / 0.3)


def test_the_null_is_an_interval_and_never_more_than_its_least() -> None:
    found = measure.null_of([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8], [0.7, 0.8, 0.9] * 3)
    assert (found.median_ms, found.low_ms, found.high_ms) == (1.4, 1.0, 1.8) and found.least_ms == 0.7
