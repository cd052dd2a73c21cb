"""Shards of one device model become one run."""

from __future__ import annotations

import itertools

import pytest

from scorer import ProblemResult, ScorerError, Shard, merge, score_level


def shard(name: str, results: list[ProblemResult], **more) -> Shard:
    return Shard(**{"name": name, "device": "NVIDIA H200", "torch": "2.11.0", "rules": "strict/1", "results": results} | more)


def test_shards_are_put_together_in_order_of_the_level():
    later = [ProblemResult("L1/10", "failed"), ProblemResult("L1/9", "correct", {"eager": 2.0})]
    merged = merge([shard("b", later, machine={"driver": "570"}),
                    shard("a", [ProblemResult("L1/2", "failed")], machine={"driver": "580", "cpus": 16})])
    assert merged.shards == ("a", "b")
    assert [result.uid for result in merged.results] == ["L1/2", "L1/9", "L1/10"]
    assert merged.differences == ("cpus: 16 (a), None (b)", "driver: 580 (a), 570 (b)")
    assert (merged.device, merged.torch, merged.rules, merged.replaced) == ("NVIDIA H200", "2.11.0", "strict/1", ())
    assert score_level(["L1/2", "L1/9", "L1/10"], merged.results).opponents["eager"].fast_p[1.5] == 1 / 3


@pytest.mark.parametrize(("field", "value", "says"), [
    ("device", "NVIDIA H100", r"device model .* NVIDIA H200 \(a\), NVIDIA H100 \(b\)"), ("torch", "2.13.0", "torch version"),
    ("rules", "strict/2", r"rules .* strict/1 \(a\), strict/2 \(b\)"), ("precision", "bf16", "precision"),
    ("origin", "embedded", r"KernelBench \(a\), embedded \(b\)"),
])
def test_what_is_not_comparable_is_refused_by_name(field, value, says):
    with pytest.raises(ScorerError, match=says) as caught:
        merge([shard("a", []), shard("b", [], **{field: value})])
    assert caught.value.exit_code == 2 and "Score them apart" in str(caught.value)


def test_the_newest_result_counts_in_whatever_order_shards_come():
    old = ProblemResult("L1/1", "correct", {"eager": 9.0}, created="2030-01-01T00:00:00Z", problem_hash="h")
    new = ProblemResult("L1/1", "failed", created="2030-01-02T00:00:00Z", problem_hash="h")
    gone = ProblemResult("L1/1", "missing", created="2030-01-03T00:00:00Z")
    shards = [shard("a", [new]), shard("b", [old]), shard("c", [gone])]
    for order in itertools.permutations(shards):
        merged = merge(order)
        assert merged.results == (new,)
        assert merged.replaced == ("L1/1: b (correct) gives way to a (failed)",)


def test_a_tie_goes_to_the_last_shard_by_name():
    first, last = ProblemResult("L1/1", "failed"), ProblemResult("L1/1", "correct", {"eager": 1.0})
    assert merge([shard("z", [last]), shard("a", [first])]).results == (last,)
    assert merge([shard("a", [first]), shard("z", [last])]).results == (last,)


def test_one_id_with_two_codes_is_refused():
    with pytest.raises(ScorerError, match=r"the code of L1/1 .* h1 \(a\), h2 \(b\)"):
        merge([shard(name, [ProblemResult("L1/1", "failed", problem_hash=code)]) for name, code in (("a", "h1"), ("b", "h2"))])


def test_nothing_and_twice_the_same_are_refused():
    with pytest.raises(ScorerError, match="no runs"):
        merge([])
    with pytest.raises(ScorerError, match="same name"):
        merge([shard("a", []), shard("a", [])])
