from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autokernel.errors import InternalError, MissingOnMachine, StorageError, UsageError
from autokernel.loop import LoopOptions, search_problem
from autokernel.moveon import MoveOn
from autokernel.records import Candidate
from autokernel.run import run_level
from autokernel.run_folder import RunFolder
from autokernel.standing import Standing
from autokernel.trials import Trial

_spec = importlib.util.spec_from_file_location("loop_script", Path(__file__).with_name("loop_script.py"))
script = importlib.util.module_from_spec(_spec)
sys.modules["loop_script"] = script
_spec.loader.exec_module(script)
text = script.text

PROBLEM = script.PROBLEMS[0]
OFF = MoveOn(reverts=None, roofline=None, hours=None, speedup=None, closed=None)


class Recorder:
    """A Progress that remembers; it may raise at a trial."""

    def __init__(self, interrupt_at=None):
        self.events, self.interrupt_at = [], interrupt_at

    def problem_started(self, uid, index, total, standing):
        self.events.append(("started", uid, index, total, standing.iterations))

    def trial_done(self, trial, standing):
        self.events.append((trial.phase, trial.iteration, trial.decision))
        if len(self.events) == self.interrupt_at:
            raise KeyboardInterrupt

    def problem_ended(self, outcome):
        self.events.append(("ended", outcome.problem, outcome.status))


@pytest.fixture
def run(tmp_path):
    with RunFolder.open(tmp_path / "run", script.HEADER) as opened:
        yield opened


def search(run, texts, problem=PROBLEM, **options):
    evaluate = script.ScriptedEvaluate()
    settings = LoopOptions(**{"move_on": OFF, **options})
    outcome = search_problem(problem, script.ScriptedProposer(texts), evaluate, run, settings)
    return outcome, [trial.key[1:] + (trial.decision,) for trial in run.ledger.contents.of(problem.uid)], evaluate.asked


def test_only_an_interval_above_the_threshold_is_kept(run):
    # low ends: 1.005, 1.0100, 1.015; the second lies on the threshold, which is not above it
    outcome, trials, asked = search(run, [text(1, 1.01), text(2, 1.015), text(3, 1.02), text(4, 1.03)])
    assert trials == [("search", 1, "reverted"), ("search", 2, "reverted"), ("search", 3, "kept"), ("search", 4, "reverted"),
                      ("final", 3, "kept")]
    assert asked[:4] == [("L1/1", "quick", ("eager",))] * 3 + [("L1/1", "quick", ("incumbent", "eager"))]
    assert asked[4] == ("L1/1", "strict", ("eager", "compile"))
    assert (outcome.status, outcome.stopped_by, outcome.iterations, outcome.kept) == ("champion", "proposer", 4, 1)


def test_an_incumbent_that_holds_back_does_not_make_the_next_one_faster(run):
    class Sandbagged(script.ScriptedEvaluate):
        def __call__(self, problem, candidate, *, rules, incumbent=None, against=("eager",)):
            found = super().__call__(problem, candidate, rules=rules, incumbent=incumbent, against=against)
            slow = tuple(script.comparison("incumbent", 2.0) if c.against == "incumbent" else c for c in found.comparisons)
            return replace(found, comparisons=slow)  # whatever comes is twice as fast as the incumbent says it is

    search_problem(PROBLEM, script.ScriptedProposer([text(1, 1.5), text(2, 1.2), text(3, 1.51), text(4, 1.53)]), Sandbagged(), run,
                   LoopOptions(move_on=OFF))
    trials = [(t.iteration, t.decision) for t in run.ledger.contents.of("L1/1") if t.phase == "search"]
    # neither 1.2x eager nor 1.51x is surely more than the 1.5x that the first was kept for
    assert trials == [(1, "kept"), (2, "reverted"), (3, "reverted"), (4, "kept")]


def test_what_is_likely_next_is_built_while_one_is_judged(run):
    class FarSighted(script.ScriptedProposer):
        def foresee(self, problem, history, pending):
            following = self.texts[len(history) + 1:]
            return [script.Candidate(following[0], "python")] if following else []

    class Building(script.ScriptedEvaluate):
        def prepare(self, problem, candidate):
            self.asked.append((problem.uid, "prepare", candidate.source))

    building, texts = Building(), [text(1, 1.0), text(2, 1.0)]
    search_problem(PROBLEM, FarSighted(texts), building, run, LoopOptions(move_on=OFF))
    assert building.asked[:3] == [("L1/1", "prepare", texts[1]), ("L1/1", "quick", ("eager",)), ("L1/1", "quick", ("eager",))]


def test_only_the_final_measurement_is_reported(run):
    class Drifting(script.ScriptedEvaluate):
        def __call__(self, problem, candidate, *, rules, incumbent=None, against=("eager",)):
            found = super().__call__(problem, candidate, rules=rules, incumbent=incumbent, against=against)
            slower = (script.comparison("eager", 1.15), script.comparison("compile", 0.9))
            return found if rules.name == "quick" else replace(found, comparisons=slower)

    outcome = search_problem(PROBLEM, script.ScriptedProposer([text(1, 1.4)]), Drifting(), run, LoopOptions(move_on=OFF))
    assert (outcome.speedup, outcome.low, outcome.high, outcome.compile_speedup) == pytest.approx((1.15, 1.145, 1.155, 0.9))


def test_a_kept_candidate_is_rechecked_within_ten_iterations(run):
    _, trials, asked = search(run, [text(1, 1.2), *(text(number, 1.0) for number in range(2, 14))])
    assert trials.index(("strict", 1, "kept")) == 11
    assert asked[11] == ("L1/1", "strict", ("eager",))
    assert [found for found in trials if found[0] == "strict"] == [("strict", 1, "kept")]


def test_the_newest_kept_candidate_stands_for_older_ones(run):
    _, trials, _ = search(run, [text(1, 1.2), text(2, 1.3), text(3, 1.0), text(4, 1.0)], strict_within=3)
    assert [found for found in trials if found[0] == "strict"] == [("strict", 2, "kept")]


def test_a_refused_recheck_goes_back_to_the_last_kept_one_that_passes(run):
    texts = [text(1, 1.2), text(2, 1.5, strict=False), text(3, 1.7, strict=False), text(4, 1.25), text(5, 1.0)]
    outcome, trials, _ = search(run, texts, strict_within=2)
    assert trials == [("search", 1, "kept"), ("search", 2, "kept"), ("search", 3, "kept"),
                      ("strict", 3, "reverted"), ("strict", 2, "reverted"), ("strict", 1, "kept"),
                      ("search", 4, "kept"), ("search", 5, "reverted"), ("final", 4, "kept")]
    assert outcome.speedup == 1.25
    log = subprocess.run(["git", "log", "--format=%s"], cwd=run.workspaces / "L1_1", capture_output=True, text=True, check=True).stdout
    assert log.splitlines()[1:3] == ["back to iteration 1: strict/6 refused iteration 2 (smoke)",
                                     "back to iteration 2: strict/6 refused iteration 3 (smoke)"]


def test_a_refused_final_goes_back_too(run):
    outcome, trials, _ = search(run, [text(1, 1.2), text(2, 1.5, strict=False)])
    assert trials[2:] == [("final", 2, "reverted"), ("final", 1, "kept")]
    assert outcome.speedup == 1.2


def test_a_fast_but_wrong_candidate_does_not_end_the_search(run):
    outcome, trials, _ = search(run, [text(1, 9.0, strict=False), text(2, 1.3)], move_on=MoveOn())
    assert trials == [("search", 1, "kept"), ("final", 1, "reverted"), ("search", 2, "kept"), ("final", 2, "kept")]
    assert (outcome.speedup, outcome.stopped_by) == (1.3, "proposer")


def test_the_history_shows_the_later_refusal(run):
    seen = []

    class Watching(script.ScriptedProposer):
        def propose(self, problem, history):
            seen.append([(found.accepted, found.rules) for found in history])
            return super().propose(problem, history)

    texts = [text(1, 1.5, strict=False), text(2, 1.0), text(3, 1.0)]
    search_problem(PROBLEM, Watching(texts), script.ScriptedEvaluate(), run, LoopOptions(move_on=OFF, strict_within=1))
    assert seen[1] == [(True, "quick/6")]
    assert seen[2] == [(False, "strict/6"), (True, "quick/6")]


def test_where_nothing_is_faster_the_best_right_one_is_the_champion(run):
    outcome, trials, _ = search(run, [text(1, 0.7), text(2, 0.9), text(3, 5.0, quick=False), text(4, 0.8)])
    assert trials[4:] == [("final", 2, "kept")]
    assert (outcome.status, outcome.speedup, outcome.kept) == ("champion", 0.9, 0)


def test_fallbacks_are_tried_twice_at_most(run):
    outcome, trials, _ = search(run, [text(number, 0.5 + number / 10, strict=False) for number in range(1, 5)])
    assert trials[4:] == [("final", 4, "reverted"), ("final", 3, "reverted")]
    assert (outcome.status, outcome.champion) == ("none", None)
    assert "no candidate passed" in outcome.reason


def test_no_candidate_at_all(run):
    outcome, trials, _ = search(run, [])
    assert (outcome.status, outcome.stopped_by, trials) == ("none", "proposer", [])


def test_a_problem_that_cannot_be_judged_ends_at_once(run):
    outcome, trials, _ = search(run, ["# unjudged=1\n", text(2, 1.5)])
    assert (outcome.status, outcome.stopped_by, outcome.reason) == ("unjudged", "problem", "unscorable: zeros pass")
    assert trials == [("search", 1, "reverted")]


class Refusing(script.ScriptedEvaluate):
    """Refuses by "problem", with `reason`, whatever is judged by `rules`."""

    def __init__(self, reason, rules):
        super().__init__()
        self.reason, self.rules = reason, rules

    def __call__(self, problem, candidate, *, rules, incumbent=None, against=("eager",)):
        if rules.name == self.rules:
            return script.evaluation(problem, candidate, rules.label, False, refused_by="problem", reason=self.reason)
        return super().__call__(problem, candidate, rules=rules, incumbent=incumbent, against=against)


@pytest.mark.parametrize("rules", ["quick", "strict"])
@pytest.mark.parametrize(("reason", "status"), [
    ("reference fails: no get_inputs", "unjudged"), ("does not fit: needs 900 GB", "unjudged"), ("unscorable: zeros pass", "unjudged"),
    ("incumbent fails: crashed", "error"), ("judge: its process died", "error"), ("the reference fails now and then", "error"),
])
def test_only_a_fault_of_the_problem_itself_ends_it(tmp_path, reason, status, rules):
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        first = level(run, evaluate=Refusing(reason, rules), problems=script.PROBLEMS[:1]).outcomes[0]
        recorded = [trial.evaluation.reason for trial in run.ledger.contents.trials if trial.evaluation.refused_by == "problem"]
    assert (first.status, first.stopped_by, first.finished) == (status, "problem", status == "unjudged")
    assert reason in first.reason and ("autokernel doctor" in first.reason) == (status == "error")
    assert recorded == ([reason] if status == "unjudged" else [])
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        again = level(run, problems=script.PROBLEMS[:1]).outcomes[0]
        iterations = [trial.iteration for trial in run.ledger.contents.trials if trial.phase == "search"]
    assert again.status == ("unjudged" if status == "unjudged" else "champion")
    assert status == "unjudged" or (again.speedup, iterations) == (1.4, list(range(1, 10)))


def test_an_incumbent_that_fails_as_an_opponent_is_judged_again_and_dropped(run):
    class Flaky(script.ScriptedEvaluate):
        def __call__(self, problem, candidate, *, rules, incumbent=None, against=("eager",)):
            if incumbent is not None and "speed=1.5" in incumbent.source:
                return script.evaluation(problem, candidate, rules.label, False, refused_by="problem", reason="incumbent fails: crashed")
            return super().__call__(problem, candidate, rules=rules, incumbent=incumbent, against=against)

    texts = [text(1, 1.2), text(2, 1.5, strict=False), text(3, 1.3), text(4, 1.3)]
    outcome = search_problem(PROBLEM, script.ScriptedProposer(texts), Flaky(), run, LoopOptions(move_on=OFF))
    trials = [trial.key[1:] + (trial.decision,) for trial in run.ledger.contents.trials]
    assert trials == [("search", 1, "kept"), ("search", 2, "kept"), ("search", 3, "reverted"), ("strict", 2, "reverted"),
                      ("search", 4, "kept"), ("final", 4, "kept")]
    assert (outcome.status, outcome.speedup) == ("champion", 1.3)


def test_an_incumbent_that_passes_alone_and_fails_as_an_opponent_is_dropped_when_it_has_cost_three(run):
    class Flaky(script.ScriptedEvaluate):
        def __call__(self, problem, candidate, *, rules, incumbent=None, against=("eager",)):
            if incumbent is not None and "speed=1.5" in incumbent.source:
                return script.evaluation(problem, candidate, rules.label, False, refused_by="problem", reason="incumbent fails: crashed")
            return super().__call__(problem, candidate, rules=rules, incumbent=incumbent, against=against)

    texts = [text(1, 1.2), text(2, 1.5), *(text(number, 1.6) for number in range(3, 7))]
    outcome = search_problem(PROBLEM, script.ScriptedProposer(texts), Flaky(), run, LoopOptions(move_on=OFF))
    trials = [trial.key[1:] + (trial.decision,) for trial in run.ledger.contents.trials]
    assert trials == [("search", 1, "kept"), ("search", 2, "kept"), ("search", 3, "reverted"), ("strict", 2, "kept"),
                      ("search", 4, "reverted"), ("search", 5, "reverted"), ("search", 6, "kept"), ("final", 6, "kept")]
    log = subprocess.run(["git", "log", "--format=%s"], cwd=run.workspaces / "L1_1", capture_output=True, text=True, check=True).stdout
    assert "back to iteration 1: it failed as an opponent too often" in log
    assert (outcome.status, outcome.speedup) == ("champion", 1.6)
    again = Standing(run.ledger.contents.trials)
    assert [trial.iteration for trial in again.chain] == [1, 6]


@pytest.mark.parametrize(("rules", "texts", "stopped_by", "iterations"), [
    (MoveOn(), [text(number, 1.0) for number in range(20)], "reverts", 5),
    (MoveOn(reverts=3), [text(0, 1.5), *(text(number, 1.5) for number in range(1, 20))], "reverts", 4),
    (MoveOn(reverts=None), [text(number, 1.0) for number in range(20)], "iterations", 12),
    (MoveOn(), [text(1, 1.5), text(2, 2.0), text(3, 3.0)], "speedup", 2),
    (MoveOn(speedup=None), [text(1, 1.5), text(2, 2.0), text(3, 3.0)], "proposer", 3),
    (MoveOn(speedup=4.0), [text(1, 1.5), text(2, 4.0), text(3, 5.0)], "speedup", 2),
    (MoveOn(), ["# 1 speed=1.2 quick=1 strict=1 roofline=0.91\n", text(2, 1.5)], "roofline", 1),
    (MoveOn(roofline=None), ["# 1 speed=1.2 quick=1 strict=1 roofline=0.91\n", text(2, 1.5)], "proposer", 2),
    (MoveOn(), ["# 1 speed=0.5 quick=1 strict=1 roofline=0.485\n", text(2, 1.5)], "closed", 1),
    (MoveOn(), ["# 1 speed=0.5 quick=1 strict=1 roofline=0.475\n", text(2, 1.5)], "proposer", 2),  # by the interval's upper end, 0.505
    (MoveOn(closed=None), ["# 1 speed=0.5 quick=1 strict=1 roofline=0.485\n", text(2, 1.5)], "proposer", 2),
])
def test_each_move_on_rule_ends_the_search_and_can_be_off(run, rules, texts, stopped_by, iterations):
    outcome, _, _ = search(run, texts, move_on=rules, iterations=12)
    assert (outcome.stopped_by, outcome.iterations) == (stopped_by, iterations)


def test_two_hours_count_over_all_sessions():
    candidate = Candidate(text(1, 1.0), "python")
    trials = [Trial(number, "search", "reverted", script.evaluation(PROBLEM, candidate), seconds=1801.0) for number in (1, 2, 3)]
    rule = MoveOn(reverts=None)
    assert rule.stops(Standing(trials)) is None
    trials.append(Trial(4, "search", "reverted", script.evaluation(PROBLEM, candidate), seconds=1801.0))
    assert rule.stops(Standing(trials)) == "hours"
    assert MoveOn(reverts=None, hours=None).stops(Standing(trials)) is None


@pytest.mark.parametrize("options", [{"iterations": 0}, {"iterations": 301}, {"minutes": 0}])
def test_options_out_of_range_are_wrong_usage(options):
    with pytest.raises(UsageError, match="Pass"):
        LoopOptions(**options)


def test_a_rule_that_is_not_positive_is_wrong_usage():
    with pytest.raises(UsageError, match="'reverts' must be above 0"):
        MoveOn(reverts=0)


def test_the_winner_carries_its_figures_and_the_command_that_repeats_them(tmp_path):
    header = replace(script.HEADER, options={"source": "/data/kernelbench"})
    with RunFolder.open(tmp_path / "run", header) as run:
        outcome, _, _ = search(run, [text(1, 1.4)])
        winner = (run.folder / "winners" / "L1_1.py").read_text()
        expected = f"autokernel kb eval L1/1 {run.folder / 'winners' / 'L1_1.py'} --source /data/kernelbench"
    assert winner.splitlines()[0] == "# L1/1 scripted: 1.4x eager (1.395 to 1.405); 0.7x compile (0.695 to 0.705)"
    assert "# Machine: cpus 2, device cpu, torch 2.13.0\n" in winner
    assert f"#   {expected}" in winner
    assert winner.endswith(text(1, 1.4))
    assert outcome.champion in winner


def test_another_text_under_the_same_uid_is_refused(run):
    search(run, ["# unjudged=1\n"])
    other = replace(PROBLEM, source="class Model: pass\n")
    run.ledger.contents.outcomes.clear()
    with pytest.raises(UsageError, match="judged another version of L1/1"):
        search(run, [text(1, 1.4)], problem=other)


def test_an_answer_about_another_candidate_is_an_internal_error(run):
    def confused(problem, candidate, *, rules, incumbent=None, against=("eager",)):
        return script.evaluation(problem, Candidate("another", "python"))

    with pytest.raises(InternalError, match="evaluate answered about"):
        search_problem(PROBLEM, script.ScriptedProposer([text(1, 1.4)]), confused, run, LoopOptions())
    assert run.ledger.contents.trials == []


def level(run, progress=None, evaluate=None, problems=script.PROBLEMS, missing=None, **options):
    return run_level(problems, script.ScriptedProposer(script.TEXTS), evaluate or script.ScriptedEvaluate(), run,
                     replace(script.OPTIONS, **options), progress, missing)


def test_a_finished_level_is_not_searched_again(tmp_path):
    for _ in range(2):
        with RunFolder.open(tmp_path / "run", script.HEADER) as run:
            watch = Recorder()
            found = level(run, watch)
            assert [outcome.problem for outcome in found.outcomes] == ["L1/1", "L1/2"]
            assert (found.not_reached, found.interrupted) == ((), False)
    assert watch.events == []


def test_progress_is_told_everything(run):
    watch = Recorder()
    level(run, watch)
    assert watch.events[:3] == [("started", "L1/1", 1, 2, 0), ("search", 1, "reverted"), ("search", 2, "kept")]
    assert ("ended", "L1/1", "champion") in watch.events
    assert watch.events[-1] == ("ended", "L1/2", "champion")


def test_ctrl_c_leaves_a_run_that_goes_on(tmp_path):
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        found = level(run, Recorder(interrupt_at=4))
        assert (found.interrupted, found.outcomes, found.not_reached) == (True, (), ("L1/1", "L1/2"))
        before = len(run.ledger.contents.trials)
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        assert before == 3
        watch = Recorder()
        assert level(run, watch).interrupted is False
        assert watch.events[0] == ("started", "L1/1", 1, 2, 3)


def test_a_problem_that_lacks_a_package_says_so_and_the_level_goes_on(tmp_path):
    def missing(problem):
        return ("transformers",) if problem.uid == "L1/1" else ()

    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        found = level(run, missing=missing)
        assert [(outcome.status, outcome.reason) for outcome in found.outcomes][0] == ("missing", "needs transformers")
        assert found.outcomes[1].status == "champion"
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        assert level(run).outcomes[0].status == "champion"


def test_a_fault_of_our_own_ends_one_problem_and_is_tried_again(tmp_path):
    class Faulty(script.ScriptedEvaluate):
        def __call__(self, problem, candidate, **more):
            if problem.uid == "L1/1" and len(self.asked) == 2:
                raise InternalError("the judge died.")
            return super().__call__(problem, candidate, **more)

    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        found = level(run, evaluate=Faulty())
        assert (found.outcomes[0].status, found.outcomes[0].reason, found.outcomes[0].iterations) == ("error", "the judge died.", 2)
        assert found.outcomes[1].status == "champion"
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        assert [outcome.status for outcome in level(run).outcomes] == ["champion", "champion"]
        iterations = [trial.iteration for trial in run.ledger.contents.of("L1/1") if trial.phase == "search"]
        assert iterations == list(range(1, len(iterations) + 1))


@pytest.mark.parametrize("error", [MissingOnMachine("no nvcc.", hint="Install it."), StorageError("disk full.", hint="Free some.")])
def test_what_every_problem_would_meet_stops_the_level(run, error):
    def raising(problem, candidate, **more):
        raise error

    with pytest.raises(type(error)):
        level(run, evaluate=raising)


def test_a_strategy_learns_from_the_problems_solved_before_the_present_one_also_after_a_resume(tmp_path):
    class Learning(script.ScriptedProposer):
        def learn(self, solved):
            heard.append([(one.tried, one.champion) for one in solved])

    heard = []
    for _ in range(2):
        with RunFolder.open(tmp_path / "run", script.HEADER) as run:
            run_level(script.PROBLEMS, Learning(script.TEXTS), script.ScriptedEvaluate(), run, script.OPTIONS)
            champion = run.ledger.contents.champions()["L1/1"]
            tried = tuple(run.store.text(t.evaluation.candidate) for t in run.ledger.contents.of("L1/1") if t.phase == "search")
            solved = run.solved("L1/2")
            assert [(one.tried, one.champion) for one in solved] == [(tried, run.store.text(champion.evaluation.candidate))]
            assert run.solved("L1/1") == [] and len(run.solved("L1/3")) == 2
    assert heard == [[], [(tried, run.store.text(champion.evaluation.candidate))]]


def test_a_strategy_hears_of_the_next_problem_before_the_present_one_is_searched(tmp_path):
    class Ahead(script.ScriptedProposer):
        def look_ahead(self, problem):
            heard.append(f"soon {problem.uid}")

        def propose(self, problem, history):
            heard.append(problem.uid)
            return super().propose(problem, history)

    heard = []
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        run_level(script.PROBLEMS, Ahead(script.TEXTS), script.ScriptedEvaluate(), run, script.OPTIONS)
    changes = [word for word, before in zip(heard, [None, *heard], strict=False) if word != before]
    assert changes == ["soon L1/1", "soon L1/2", "L1/1", "soon L1/2", "L1/2"]


def slow(now, seconds):
    """Evaluations that each take so long on the clock `now`."""
    class Slow(script.ScriptedEvaluate):
        def __call__(self, problem, candidate, **more):
            now[0] += seconds
            return super().__call__(problem, candidate, **more)

    return Slow()


def test_the_minutes_are_shared_fairly(run, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("autokernel.loop.time.monotonic", lambda: now[0])

    # 100 s for two problems: 50 s with a fifth kept back for the first; what it leaves is the second's
    texts = [text(number, 1.0) for number in range(1, 50)]
    found = run_level(script.PROBLEMS, script.ScriptedProposer(texts), slow(now, 10.0), run, LoopOptions(move_on=OFF, minutes=100 / 60))
    ends = [(outcome.stopped_by, outcome.iterations, outcome.seconds) for outcome in found.outcomes]
    assert ends == [("minutes", 4, 50.0), ("minutes", 4, 50.0)]


def test_no_iteration_begins_that_would_outlast_the_time(run, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("autokernel.loop.time.monotonic", lambda: now[0])

    # of 100 s the start took 20; of the 80 for one problem a fifth is kept back, and in 64 s fit six iterations
    texts = [text(number, 1.0) for number in range(1, 50)]
    found = run_level(script.PROBLEMS[:1], script.ScriptedProposer(texts), slow(now, 10.0), run, LoopOptions(move_on=OFF, minutes=100 / 60),
                      began=980.0)
    assert [(outcome.stopped_by, outcome.iterations) for outcome in found.outcomes] == [("minutes", 6)]
    assert now[0] <= 1080.0


def test_problems_that_the_time_does_not_reach_are_named(run, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("autokernel.loop.time.monotonic", lambda: now[0])

    found = level(run, evaluate=slow(now, 100.0), minutes=1.0)
    assert [(outcome.problem, outcome.stopped_by, outcome.iterations) for outcome in found.outcomes] == [("L1/1", "minutes", 1)]
    assert found.not_reached == ("L1/2",)
