"""The level's score, by hand."""

from __future__ import annotations

import json
import math

import pytest

from scorer import THRESHOLDS, ProblemResult, ScorerError, fast_p, geometric_mean, score_level


def correct(uid: str, eager: float, compiled: float | None = None, width: float = 0.1, **more) -> ProblemResult:
    speedup = {"eager": eager} | ({} if compiled is None else {"compile": compiled})
    return ProblemResult(uid, "correct", speedup, {name: (value - width, value + width) for name, value in speedup.items()}, **more)


def test_fast_p_is_strict():
    assert fast_p([1.0, 1.0000001, 0.5], 1.0, 4) == 0.25
    assert fast_p([1.0, 1.1, 0.5], 0.0, 4) == 0.75
    assert fast_p([], 0.0, 0) is None


def test_geometric_mean():
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([1e300] * 5) == pytest.approx(1e300)
    assert geometric_mean([]) is None


def test_a_level_by_hand():
    level = [f"L1/{number}" for number in range(1, 11)]
    score = score_level(level, [
        correct("L1/1", 4.0), correct("L1/2", 1.0), correct("L1/10", 0.6),
        ProblemResult("L1/3", "failed", reason="smoke"), ProblemResult("L1/4", "unscorable", reason="zeros pass"),
        ProblemResult("L1/5", "does not fit"), ProblemResult("L1/6", "reference fails"), ProblemResult("L1/7", "unscorable"),
    ])
    assert (score.level_size, score.denominator) == (10, 8)
    assert score.uids == {"correct": ("L1/1", "L1/2", "L1/10"), "failed": ("L1/3",), "unscorable": ("L1/4", "L1/7"),
                          "does not fit": ("L1/5",), "missing": ("L1/8", "L1/9"), "reference fails": ("L1/6",)}
    assert score.correctness == 3 / 8 and score.correctness_whole_level == 3 / 10
    assert score.coverage == 6 / 10
    eager = score.opponents["eager"]
    assert eager.fast_p == {0.0: 3 / 8, 0.5: 3 / 8, 0.8: 2 / 8, 1.0: 1 / 8, 1.5: 1 / 8, 2.0: 1 / 8}
    assert eager.fast_p_whole_level == {0.0: 0.3, 0.5: 0.3, 0.8: 0.2, 1.0: 0.1, 1.5: 0.1, 2.0: 0.1}
    assert eager.fast_p_low[0.5] == 2 / 8  # 0.6 +- 0.1 does not lie above 0.5
    assert eager.geometric_mean == pytest.approx((4.0 * 1.0 * 0.6) ** (1 / 3))
    assert (eager.timed, eager.untimed) == (3, ())
    assert list(score.opponents) == ["eager"]


def test_best_is_the_smaller_speedup_problem_by_problem():
    results = [correct("L1/1", 3.0, 1.2), correct("L1/2", 0.9, 2.5), correct("L1/3", 2.2), correct("L1/4", 1.8, no_baseline=("compile",))]
    score = score_level(["L1/1", "L1/2", "L1/3", "L1/4"], results)
    assert list(score.opponents) == ["eager", "compile", "best"]
    best = score.opponents["best"]
    assert (best.timed, best.untimed) == (3, ("L1/3",))  # L1/3 was never timed against compile; L1/4 cannot be
    assert best.geometric_mean == pytest.approx((1.2 * 0.9 * 1.8) ** (1 / 3))
    assert best.fast_p[1.0] == 2 / 4 and best.fast_p_low[1.0] == 2 / 4
    assert score.opponents["compile"].untimed == ("L1/3", "L1/4")
    assert score.opponents["eager"].fast_p[1.5] == 3 / 4


def test_an_untimed_correct_problem_counts_for_correctness_alone():
    score = score_level(["L1/1", "L1/2"], [ProblemResult("L1/1", "correct"), correct("L1/2", 2.0)])
    assert score.correctness == 1.0
    assert score.opponents["eager"].fast_p[0.0] == 0.5
    assert score_level(["L1/1"], [ProblemResult("L1/1", "correct")]).opponents == {}


def test_a_level_of_unscorable_problems_has_no_rates():
    score = score_level(["L1/1"], [ProblemResult("L1/1", "unscorable")])
    assert score.correctness is None and score.correctness_whole_level == 0.0 and score.coverage == 1.0


def test_json_holds_plain_values_and_kernelbenchs_keys():
    plain = score_level(["L1/1", "L1/2"], [correct("L1/1", 1.6, 1.2)]).to_json()
    again = json.loads(json.dumps(plain, allow_nan=False))
    assert again == plain
    assert list(again["against"]["eager"]["fast_p"]) == ["0.0", "0.5", "0.8", "1.0", "1.5", "2.0"] == list(map(str, THRESHOLDS))
    assert again["counts"]["missing"] == 1 and again["uids"]["missing"] == ["L1/2"]
    assert again["against"]["best"]["fast_p"]["1.0"] == 0.5


@pytest.mark.parametrize(("uids", "results", "says"), [
    ([], [], "no problems"),
    (["L1/1"], [ProblemResult("L2/1", "failed")], "does not have: L2/1"),
    (["L1/1"], [ProblemResult("L1/1", "failed")] * 2, "two results"),
])
def test_what_cannot_be_scored_is_refused(uids, results, says):
    with pytest.raises(ScorerError, match=says) as caught:
        score_level(uids, results)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("status", "speedup", "interval"), [
    ("wrong", {}, {}), ("failed", {"eager": 2.0}, {}), ("correct", {"eager": 0.0}, {}), ("correct", {"eager": -1.0}, {}),
    ("correct", {"eager": math.nan}, {}), ("correct", {"eager": math.inf}, {}), ("correct", {"eager": 1.0}, {"eager": (1.1, 0.9)}),
])
def test_impossible_results_cannot_be_built(status, speedup, interval):
    with pytest.raises(ScorerError, match="must"):
        ProblemResult("L1/1", status, speedup, interval)


def test_weak_problems_are_scored_and_shown_without():
    results = [ProblemResult("L1/1", "correct", speedup={"eager": 3.0}, weak=True),
               ProblemResult("L1/2", "correct", speedup={"eager": 0.5}),
               ProblemResult("L1/3", "failed", weak=True), ProblemResult("L1/4", "unscorable", weak=True)]
    score = score_level([f"L1/{number}" for number in range(1, 5)], results)
    assert score.weak == ("L1/1", "L1/3") and score.denominator == 3
    eager = score.opponents["eager"]
    assert (eager.fast_p[1.0], eager.fast_p_without_weak[1.0], eager.fast_p_without_weak[0.0]) == (1 / 3, 0.0, 1.0)
    assert score.to_json()["weak"] == ["L1/1", "L1/3"]
