"""`kb score` on KernelBench's results: both scores, what they refuse, and how fast they answer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from autokernel.cli import cli
from autokernel.compat.own_file import OURS, SCHEMA
from autokernel.compat.scores import score_run
from autokernel.errors import UsageError
from kernelbench_bridge import BridgeError

CARD = "NVIDIA H200"


def entry(sample=0, *, correct=True, compiled=True, runtime=1.0, card=CARD, **metadata):
    return {"sample_id": sample, "compiled": compiled, "correctness": correct, "metadata": {"hardware": card, **metadata},
            "runtime": runtime if correct else -1.0, "runtime_stats": {}}


def stats(mean, card=CARD):
    return {"mean": mean, "std": 0.0, "min": mean, "max": mean, "num_trials": 100, "hardware": card, "device": "cuda:0"}


@pytest.fixture
def write(tmp_path):
    """Writes a run directory `run` and a baseline of all 100 problems at 2 ms, and gives both paths."""
    def make(results, *, entries=None, environment=None, ours=None, config=None):
        folder = tmp_path / "run"
        folder.mkdir(exist_ok=True)
        (folder / "eval_results.json").write_text(json.dumps(results, indent=4))
        if ours is not None:
            (folder / OURS).write_text(json.dumps({"schema": SCHEMA, **ours}))
        if config is not None:
            (folder / "generation_config.yaml").write_text(config)
        whole = {"level1": {f"{n}_Name.py": stats(2.0) for n in range(1, 101)} if entries is None else entries}
        baseline = tmp_path / "baseline_time_torch.json"
        baseline.write_text(json.dumps(whole | ({"autokernel": environment} if environment else {})))
        return folder, baseline
    return make


def test_both_scores_by_hand(write):
    run, baseline = write({"1": [entry(runtime=1.0)], "2": [entry(runtime=4.0)], "3": [entry(correct=False)],
                           "4": [entry(correct=False, compiled=False)], "5": [entry(runtime=-1.0)]})
    found = score_run(run, baseline, level=1)
    assert found.compat.fast_p == {"0.0": 0.02, "0.5": 0.01, "0.8": 0.01, "1.0": 0.01, "1.5": 0.01, "2.0": 0.0}
    assert (found.compat.compiled_count, found.compat.correct_count, found.compat.aligned) == (4, 3, 100)
    assert found.honest.uids["correct"] == ("L1/1", "L1/2", "L1/5")
    assert found.honest.opponents["eager"].geometric_mean == pytest.approx(1.0)
    assert found.honest.opponents["eager"].untimed == ("L1/5",)
    assert found.exclusions == ("L1/5 are right, but were not timed",)
    assert any("NaN" in note for note in found.compat.notes)
    assert json.loads(json.dumps(found.to_json()))["kernelbench"]["geo_mean_speedup"] is None


def test_a_verified_ratio_counts_in_the_honest_score_alone(write):
    verified = {"speedup": 1.5, "interval": [1.4, 1.6], "rules": "quick/1", "verdict": "accepted"}
    run, baseline = write({"1": [entry(runtime=0.01)], "2": [entry(runtime=0.01)]}, ours={"conditions": {"level": 1}, "samples": {
        "1/0": {"verified": verified}, "2/0": {"verified": {"verdict": "refused by stability: it keeps results"}}}})
    found = score_run(run, baseline)
    assert found.compat.geo_mean_speedup == pytest.approx(200.0)
    assert found.honest.opponents["eager"].geometric_mean == pytest.approx(1.5)
    assert found.verified == ("L1/1",)
    assert found.honest.uids["failed"] == ("L1/2",)
    assert found.exclusions == ("L1/2 are right under KernelBench's rules and refused by the judge",)


def test_names_without_py_score_zero_in_kernelbench_and_count_in_the_honest_score(write):
    run, baseline = write({"1": [entry()]}, entries={"1_Name": stats(2.0)})
    found = score_run(run, baseline, level=1)
    assert set(found.compat.fast_p.values()) == {0.0}
    assert "no problem's name is in the baseline" in found.compat.notes[0]
    assert found.honest.opponents["eager"].geometric_mean == pytest.approx(2.0)


@pytest.mark.parametrize(("environment", "config", "words"), [
    ({"precision": "bf16", "device_name": CARD}, "precision: fp32\n", "of precision fp32 and the baseline of precision bf16"),
    ({"precision": "fp32", "device_name": "NVIDIA A100"}, None, "of card NVIDIA H200 and the baseline of card NVIDIA A100"),
])
def test_a_baseline_of_another_precision_or_card_is_refused_unless_forced(write, environment, config, words):
    run, baseline = write({"1": [entry()]}, environment=environment, config=config)
    with pytest.raises(UsageError, match=words):
        score_run(run, baseline, level=1)
    forced = CliRunner().invoke(cli, ["kb", "score", str(run), "--baseline", str(baseline), "--level", "1", "--force", "--json"])
    assert forced.exit_code == 0
    assert words in json.loads(forced.stdout)["forced"][0]


def test_the_baselines_entries_say_their_card_where_nothing_else_does(write):
    run, baseline = write({"1": [entry()]}, entries={"1_Name.py": stats(2.0, "NVIDIA H100 80GB HBM3")})
    with pytest.raises(UsageError, match="NVIDIA H100 80GB HBM3"):
        score_run(run, baseline, level=1)


def test_a_results_file_alone_is_enough(write):
    run, baseline = write({"7": [entry()]})
    result = CliRunner().invoke(cli, ["kb", "score", str(run / "eval_results.json"), "--baseline", str(baseline), "--level", "1", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["kernelbench"]["correct_count"] == 1


def test_the_level_comes_from_the_samples_where_nothing_says_it(write):
    run, baseline = write({"1": [entry()]})
    with pytest.raises(UsageError, match="--level"):
        score_run(run, baseline)
    (run / "level_1_problem_1_sample_0_kernel.py").write_text("")
    assert score_run(run, baseline).level == 1


@pytest.mark.parametrize(("text", "words"), [
    ('{"1": [', "no whole JSON"), ("[]", "no object"), ('{"a": []}', "no problem id"), ('{"1": {"sample_id": 0}}', "no list of samples"),
])
def test_a_half_written_or_foreign_file_is_refused_and_left_alone(write, text, words):
    run, baseline = write({})
    (run / "eval_results.json").write_text(text)
    with pytest.raises(BridgeError, match=words):
        score_run(run, baseline, level=1)
    assert (run / "eval_results.json").read_text() == text


def test_without_a_baseline_it_says_how_to_get_one(write):
    run, _ = write({"1": [entry()]})
    result = CliRunner().invoke(cli, ["kb", "score", str(run)])
    assert result.exit_code == 2
    assert "kb baseline" in result.stderr


def test_a_hundred_problems_are_scored_in_under_half_a_second_without_torch(write, processor_seconds):
    """Half a second on a machine that starts python with click in 0.2 s; on a slower one no more than that many times as long."""
    run, baseline = write({str(n): [entry(sample, runtime=1.0 + n / 100) for sample in range(3)] for n in range(1, 101)})
    command = ["-m", "autokernel", "kb", "score", str(run), "--baseline", str(baseline), "--level", "1", "--json"]
    done = subprocess.run([sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True, timeout=60)
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "scorer.kernelbench" in loaded
    assert not loaded & {"torch", "triton", "numpy", "pyarrow", "datasets", "yaml"}
    assert json.loads(done.stdout)["kernelbench"]["correct_count"] == 100
    assert processor_seconds(*command) < max(0.5, 2.5 * processor_seconds("-c", "import click"))
