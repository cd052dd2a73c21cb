"""`kb run`, `kb score` and `kb eval` as commands: what they print, write and exit with. Verdicts come from a stand-in for the executor."""

from __future__ import annotations

import json
import sys
import types
from dataclasses import replace

import pytest
from click.testing import CliRunner

from autokernel import self_test
from autokernel.cli import cli
from autokernel.cli.layout import ids, short, width, wrapped
from autokernel.errors import InternalError, MissingOnMachine
from autokernel.records import Comparison, Evaluation, Measurement, Verdict

MIDDLE = ("smoke", "shape_sweep", "stability", "determinism", "edge_cases")
SPEED = {"fast": 3.0, "even": 1.0, "slow": 0.5}  # what a candidate's text says of itself


def measurement(ms):
    return Measurement(samples_ms=(ms,) * 12, calls_per_window=1, protocol="window/1", null_ms=0.01)


def compared(opponent, speedup):
    return Comparison(against=opponent, speedup=speedup, low=0.95 * speedup, high=1.05 * speedup, confidence=0.99,
                      verified_low=0.94 * speedup, pairs=12, candidate=measurement(1.0), opponent=measurement(speedup))


class Executor:
    """Stands in for the broker's: no processes."""

    def __init__(self, device, store, memory_gb=None, seed=None, compiles=False):
        self.device, self.seed = device, seed

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def machine(self):
        return {"torch": "2.13.0", "device_name": "Test Processor", "driver": None}


def judge(problem, candidate, *, rules, executor, incumbent=None, against=("eager",)):
    """Accepts what says how fast it is."""
    common = {"problem": problem.uid, "problem_hash": problem.hash, "candidate": candidate.sha256, "builder": candidate.builder,
              "rules": rules.label, "machine": executor.machine(), "created": "2026-01-01T00:00:00+00:00"}
    if "needs nvcc" in candidate.source:
        raise MissingOnMachine("builder 'cuda' needs nvcc.", hint="Install it.")
    if "unscorable" in candidate.source:
        return Evaluation(**common, accepted=False, refused_by="problem", reason="unscorable: zeros pass", verdicts=(), comparisons=())
    if "unjudged" in candidate.source:
        return Evaluation(**common, accepted=False, refused_by="problem", reason="does not fit: needs 900 GB", verdicts=(), comparisons=())
    speed = next((value for word, value in SPEED.items() if word in candidate.source), None)
    if speed is None:
        return Evaluation(**common, accepted=False, refused_by="smoke", reason="output 0 is off by 3", comparisons=(),
                          verdicts=(Verdict("smoke", False, "output 0 is off by 3", {"worst": 3.0}),),
                          log="Traceback\nboom\n\x1b[31mred\x1b]0;title\x07\x9b1m\u202e up\n")
    return Evaluation(**common, accepted=True, refused_by=None, reason="", verdicts=tuple(Verdict(stage, True) for stage in MIDDLE),
                      comparisons=tuple(compared(name, speed) for name in against), times_ms={"candidate": 1.0, "eager": speed},
                      precision_class="ieee-grade", verified="window", breakdown_s={"gate": 0.5})


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the command with the stand-in, in a folder of its own."""
    module = types.ModuleType("autokernel.evaluate")
    module.evaluate = judge
    module.Evaluator = lambda executor: lambda problem, candidate, **asked: module.evaluate(problem, candidate, executor=executor, **asked)
    monkeypatch.setitem(sys.modules, "autokernel.evaluate", module)
    monkeypatch.setattr("autokernel.executor.broker.Executor", Executor)
    monkeypatch.setattr("autokernel.doctor.visible_gpus", lambda: 0)
    monkeypatch.setenv("AUTOKERNEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="autokernel")


@pytest.fixture
def replay(tmp_path):
    """A folder of candidates, and the arguments that replay them over three embedded problems."""
    folder = tmp_path / "candidates"
    folder.mkdir()
    for name, text in {"L1_1_a": "# wrong", "L1_1_b": "# fast", "L1_2_a": "# slow", "L1_3_a": "# wrong too"}.items():
        (folder / f"{name}.py").write_text(text + "\n")
    return ["kb", "run", "--level", "1", "--source", "embedded", "--problems", "1-3", "--proposer", "replay", "--candidates", folder]


def test_a_run_prints_a_line_for_each_iteration_a_table_and_the_score(run, replay, tmp_path):
    result = run(*replay)
    assert result.exit_code == 0, result.output
    assert "embedded set" in result.stderr
    assert "L1/1 (1 of 3)" in result.stderr
    assert "#1 reverted  python  refused by smoke: output 0 is off by 3" in result.stderr
    assert "#2 kept      python  3.00x eager [2.85, 3.15]" in result.stderr
    assert "champion 3.00x eager [2.85, 3.15], 3.00x compile; ended by --stop-speedup after 2 iterations" in result.stderr
    rows = result.stdout.splitlines()
    assert rows[0].split() == ["problem", "against", "eager", "compile", "tries", "ended", "by", "name"]
    assert rows[1].startswith("L1/1") and "3.00x [2.85, 3.15]" in rows[1]
    assert rows[2].startswith("L1/2") and "0.50x [0.47, 0.53]" in rows[2]
    assert rows[3].split()[:5] == ["L1/3", "none", "-", "1", "proposer"]
    assert rows[4] == "         no candidate passed: output 0 is off by 3"
    assert "\n  not in this run: L1/4-" in result.stdout and "missing" not in result.stdout
    assert max(map(len, rows)) <= 80
    assert "embedded problems, not KernelBench's" in result.stdout
    assert "3 of" not in result.stdout.split("correct")[0]
    assert (tmp_path / "runs" / "L1-embedded-cpu-replay" / "winners" / "L1_1.py").read_text().endswith("# fast\n")


def test_the_same_command_again_judges_nothing_and_prints_the_same(run, replay, monkeypatch):
    first = run(*replay)
    monkeypatch.setattr(sys.modules["autokernel.evaluate"], "evaluate", lambda *a, **k: pytest.fail("judged again"))
    second = run(*replay)
    assert second.exit_code == 0
    assert second.stdout == first.stdout


def test_json_has_outcomes_and_score(run, replay):
    result = json.loads(run(*replay, "--json").stdout)
    assert [(o["problem"], o["status"], o["speedup"]) for o in result["outcomes"]] == [
        ("L1/1", "champion", 3.0), ("L1/2", "champion", 0.5), ("L1/3", "none", None)]
    score = result["score"]
    assert score["origin"] == "embedded" and score["marks"]
    assert score["counts"]["correct"] == 2 and score["counts"]["failed"] == 1
    assert score["against"]["eager"]["fast_p"]["1.0"] == pytest.approx(1 / score["denominator"])
    assert score["coverage"] == pytest.approx(3 / score["level_size"])


@pytest.mark.parametrize(("more", "word"), [
    (["--level", "2", "--problems", "1"], "level 1"),
    (["--rules", "quick"], "--fresh"),
    (["--iterations", "0"], "iterations"),
    (["--minutes", "0"], "minutes"),
    (["--max-reverts", "-1"], "max-reverts"),
])
def test_what_a_run_cannot_go_on_with_is_exit_2(run, replay, tmp_path, more, word):
    out = ["--out", tmp_path / "here"]
    assert run(*replay, *out).exit_code == 0
    (tmp_path / "candidates" / "L2_1.py").write_text("# fast\n")
    result = run(*replay, *more, *out)
    assert result.exit_code == 2
    assert word in result.stderr


def test_fresh_sets_the_earlier_run_aside(run, replay, tmp_path):
    out = ["--out", tmp_path / "here"]
    run(*replay, *out)
    result = run(*replay, *out, "--rules", "quick", "--fresh")
    assert result.exit_code == 0
    assert list(tmp_path.glob("here/*old*")) or list(tmp_path.glob("here.old*"))


def test_an_interrupted_run_exits_130_and_goes_on(run, replay, monkeypatch):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt
    monkeypatch.setattr(sys.modules["autokernel.evaluate"], "evaluate", interrupted)
    result = run(*replay)
    assert result.exit_code == 130
    assert "the same command goes on" in result.stderr
    monkeypatch.setattr(sys.modules["autokernel.evaluate"], "evaluate", judge)
    assert run(*replay).exit_code == 0


def test_move_on_rules_can_be_off(run, replay):
    result = run(*replay, "--stop-speedup", "off", "--max-reverts", "0", "--stop-roofline", "off", "--max-hours", "off")
    assert result.exit_code == 0
    assert "ended by the proposer (it has no more)" in result.stderr and "--stop-speedup" not in result.stderr


def test_an_unjudged_problem_has_its_own_status(run, replay):
    (replay[-1] / "L1_1_a.py").write_text("# unjudged\n")
    score = json.loads(run(*replay, "--json").stdout)["score"]
    assert score["uids"]["does not fit"] == ["L1/1"]


def test_shards_are_merged_into_one_score_and_named(run, replay, tmp_path):
    index = replay.index("1-3")
    for out, asked in (("one", "1"), ("two", "2-3")):
        assert run(*replay[:index], asked, *replay[index + 1:], "--out", tmp_path / out).exit_code == 0
    both = json.loads(run("kb", "score", tmp_path / "one", tmp_path / "two", "--json").stdout)
    assert both["runs"] == [str(tmp_path / "one"), str(tmp_path / "two")]
    assert both["uids"]["correct"] == ["L1/1", "L1/2"] and both["uids"]["failed"] == ["L1/3"]
    assert both["against"]["best"]["geometric_mean"] == pytest.approx((3.0 * 0.5) ** 0.5)
    text = run("kb", "score", tmp_path / "one", tmp_path / "two").stdout
    assert "fast_p above               0.0     0.5     0.8     1.0     1.5     2.0" in text
    assert "against the better of both: geometric mean 1.225x over 2" in text
    assert "put together from" in text and "not in these runs: L1/4-" in text
    assert both["not_run"] == both["uids"]["missing"] == [f"L1/{number}" for number in range(4, both["level_size"] + 1)]
    assert max(map(len, text.splitlines()[:-2])) <= 80


def test_problems_tried_in_vain_are_told_from_those_never_asked_for(run, replay, monkeypatch, tmp_path):
    def failing(problem, candidate, **more):
        if problem.uid == "L1/2":
            raise InternalError("a worker process did not start.")
        return judge(problem, candidate, **more)

    monkeypatch.setattr(sys.modules["autokernel.evaluate"], "evaluate", failing)
    text = run(*replay, "--out", tmp_path / "one").stdout
    assert "\n  tried, not judged: L1/2\n  not in this run: L1/4-" in text
    assert "\nL1/2     error" in text and "\n         a worker process did not start.\n" in text
    scored = json.loads(run("kb", "score", tmp_path / "one", "--json").stdout)
    assert "L1/2" in scored["uids"]["missing"] and "L1/2" not in scored["not_run"]


def test_shares_of_the_scorable_and_of_all_are_told_apart_only_where_they_differ(run, replay, tmp_path):
    (replay[-1] / "L1_1_a.py").write_text("# unscorable\n")
    text = run(*replay).stdout
    assert "\n  correct   1 of 12 scorable (8.3%), 1 of all 13 (7.7%)\n" in text
    assert "\n    of 12 scorable          8.3%    0.0% " in text and "\n    of all 13               7.7%    0.0% " in text
    assert "\n  unscorable: L1/1\n" in text


def test_long_texts_are_cut_after_a_word_and_ids_joined(monkeypatch):
    assert short("one two three four", 14) == "one two..."
    assert short("one two three", 13) == "one two three"
    assert short("one  two\nthree", 20) == "one two three"
    assert short("x" * 30, 10) == "xxxxxxx..."
    assert ids(["L1/1", "L1/3", "L1/2", "L1/7", "L2/4"]) == "L1/1-3, 7, L2/4"
    monkeypatch.setenv("COLUMNS", "20")
    assert width() == 60
    assert list(wrapped("word " * 14, "  ", "    ")) == ["  " + " ".join(["word"] * 11), "    " + " ".join(["word"] * 3)]


def test_the_same_run_twice_and_runs_of_two_levels_are_exit_2(run, replay, tmp_path):
    run(*replay, "--out", tmp_path / "one")
    (tmp_path / "candidates" / "L2_1_a.py").write_text("# fast\n")
    run("kb", "run", "--level", "2", "--source", "embedded", "--problems", "1", *replay[8:], "--out", tmp_path / "two")
    twice = run("kb", "score", tmp_path / "one", tmp_path / "one")
    levels = run("kb", "score", tmp_path / "one", tmp_path / "two")
    assert (twice.exit_code, levels.exit_code) == (2, 2)
    assert "named twice" in twice.stderr
    assert "not of one level" in levels.stderr


def candidate(tmp_path, text):
    path = tmp_path / "candidate.py"
    path.write_text(text)
    return path


def test_eval_of_a_right_candidate_is_exit_0_and_prints_the_promised_object(run, tmp_path):
    result = run("kb", "eval", "L1/1", candidate(tmp_path, "# fast\n"), "--source", "embedded", "--json")
    verdict = json.loads(result.stdout)
    assert result.exit_code == 0
    assert verdict["accepted"] is True and verdict["refused_by"] is None
    assert verdict["speedup"] == 3.0 and verdict["interval"] == [pytest.approx(2.85), pytest.approx(3.15)] and verdict["against"] == "eager"
    assert [stage["stage"] for stage in verdict["stages"]] == list(MIDDLE)
    assert {"reason", "verified", "oracle", "precision_class", "labels", "times_ms", "breakdown_s", "rules", "machine"} <= set(verdict)
    assert verdict["rules"] == "strict/6"


@pytest.mark.parametrize(("text", "more", "code", "word"), [
    ("# wrong\n", [], 1, "refused by smoke"),
    ("# slow\n", [], 0, "0.500x against eager"),
    ("# slow\n", ["--min-speedup", "0.45"], 0, "accepted"),
    ("# slow\n", ["--min-speedup", "0.5"], 1, "Slower than --min-speedup 0.5"),
    ("# even\n", ["--against", "compile,eager"], 0, "1.000x against compile"),
    ("# unjudged\n", [], 1, "does not fit"),
    ("# needs nvcc\n", [], 3, "needs nvcc"),
    ("# fast\n", ["--rules", "quick", "--timeout", "5"], 0, "quick+timeout=5s/6"),
    ("# fast\n", ["--backend", "fortran"], 2, "fortran"),
])
def test_eval_exits_with_the_verdict(run, tmp_path, text, more, code, word):
    result = run("kb", "eval", "L1/1", candidate(tmp_path, text), "--source", "embedded", *more)
    assert result.exit_code == code, result.output
    assert word in result.output


def test_eval_shows_a_refused_candidates_own_output(run, tmp_path):
    result = run("kb", "eval", "L1/1", candidate(tmp_path, "# wrong\n"), "--source", "embedded")
    assert "the candidate's own output:\n    Traceback\n    boom" in result.stdout
    assert all(letter.isprintable() for line in result.stdout.split("\n") for letter in line) and "[31mred" in result.stdout


def test_eval_on_a_problem_that_needs_a_missing_package_is_exit_3(run, tmp_path):
    problem = tmp_path / "mine.py"
    problem.write_text("import no_such_package_of_ours\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    result = run("kb", "eval", problem, candidate(tmp_path, "# fast\n"))
    assert result.exit_code == 3
    assert "no_such_package_of_ours" in result.stderr


@pytest.mark.slow
def test_doctors_self_test_knows_right_from_wrong_from_cheating(tmp_path, monkeypatch):
    """The real executor, on the CPU."""
    monkeypatch.setenv("AUTOKERNEL_CACHE_DIR", str(tmp_path))
    entries = self_test.quick_entries("cpu")
    few = [entry for entry in entries if entry.name in ("reads_the_home", "zeroes_inputs", "empty_output")]  # each has its own test
    assert len(entries) >= 15 and len(few) == 3
    monkeypatch.setattr(self_test, "quick_entries", lambda device: few)
    result = CliRunner().invoke(cli, ["doctor", "--self-test", "--device", "cpu", "--rules", "quick", "--json"], prog_name="autokernel")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    cases = report["self_test"]
    assert [(case["name"], case["accepted"]) for case in cases[:4]] == [
        ("right", True), ("wrong by a little", False), ("returns its first answer again", False),
        ("patches the clock and the comparison", False)]
    assert all(case["passed"] for case in cases) and report["certified"]
    assert [case["name"] for case in cases[4:]] == [entry.strategy.rstrip(".") for entry in few]


def test_doctor_does_not_certify_a_machine_on_which_a_verdict_is_wrong(tmp_path, monkeypatch):
    def wrong(executor, rules):
        made = Evaluation(problem="p", problem_hash="p", candidate="c", builder="python", rules="quick/1", accepted=False,
                          refused_by="smoke", reason="wrong", verdicts=(), comparisons=(), machine={"sandbox": "none"})
        yield self_test.Case("right", True, made)
        yield self_test.Case("reads what it should not", None, replace(made, log="ESCAPED: a file"))
        yield self_test.Case("wrong", False, made, ("smoke",))
        yield self_test.Case("wrong elsewhere", False, made, ("stability",))

    monkeypatch.setattr(self_test, "self_test", wrong)
    monkeypatch.setattr("autokernel.executor.broker.Executor.__enter__", lambda executor: executor)
    monkeypatch.setenv("AUTOKERNEL_CACHE_DIR", str(tmp_path))
    result = CliRunner().invoke(cli, ["doctor", "--self-test", "--device", "cpu"], prog_name="autokernel")
    assert result.exit_code == 1
    assert "not certified: 3 of 4 verdicts are wrong" in result.stdout and "ok    wrong: refused by smoke" in result.stdout
