"""`kb eval-run` over a directory with right, wrong, crashing and hanging candidates, killed in the middle and taken up again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from autokernel.compat.batch import Batch, BatchOptions, pending
from autokernel.compat.records import RunRecords
from autokernel.compat.single import CompatOptions
from autokernel.errors import InternalError
from kernelbench_bridge import Problem, load_level
from kernelbench_bridge.run_directory import kernel_name, samples

HEAD = "import math, torch, torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        "
GELU = "return nn.functional.gelu(x, approximate='tanh')"  # problem 1 of the embedded level 1
SOFTMAX = "return torch.softmax(x, dim=-1)"  # problem 2
FILES = {
    (1, 0): HEAD + GELU, (1, 1): HEAD + "return x", (1, 2): "import os\nos._exit(3)\n",
    (1, 3): HEAD + "import time; time.sleep(0.3); " + GELU,
    (2, 0): HEAD + SOFTMAX, (2, 1): "x = (", (2, 2): HEAD + "import time; time.sleep(600)", (2, 3): HEAD + "return x[0]",
    (3, 0): HEAD + "raise ValueError('no')",
}
EXPECTED = {  # compiled, correct, and a key of the metadata that says how
    (1, 0): (True, True, "correctness_trials"), (1, 1): (True, False, "max_difference"), (1, 2): (False, False, "error"),
    (1, 3): (True, True, "correctness_trials"), (2, 0): (True, True, "correctness_trials"), (2, 1): (False, False, "compilation_error"),
    (2, 2): (False, False, "error"), (2, 3): (True, False, "correctness_issue"),
    (3, 0): (False, False, "other_error"),  # its constructor lacks an argument
}


def fill(folder):
    folder.mkdir()
    for key, text in FILES.items():
        (folder / kernel_name(1, *key)).write_text(text)
    return folder


def command(folder, *more):
    return [sys.executable, "-m", "autokernel", "kb", "eval-run", str(folder), "--level", "1", "--source", "embedded", "--device", "cpu",
            "--no-times", "--correct-trials", "1", "--timeout", "10", "--pass-at-k", "1,2", "--json", *more]


def outcomes(folder):
    rows = json.loads((folder / "eval_results.json").read_text())
    return {(int(key), row["sample_id"]): row for key, entries in rows.items() for row in entries}


def check(found):
    assert list(found) == list(EXPECTED)
    for key, (compiled, correct, how) in EXPECTED.items():
        assert (found[key]["compiled"], found[key]["correctness"]) == (compiled, correct), key
        assert how in found[key]["metadata"], key


@pytest.mark.slow
def test_a_directory_killed_in_the_middle_ends_with_the_same_file(tmp_path, store):
    environment = {**os.environ, "AUTOKERNEL_CACHE_DIR": str(store)}
    folder = fill(tmp_path / "run")
    running = subprocess.Popen(command(folder), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120
    while time.monotonic() < end and not ((folder / "eval_results.json").exists() and len(outcomes(folder)) >= 3):
        time.sleep(0.05)
    running.send_signal(signal.SIGKILL)
    running.wait()
    before = outcomes(folder)
    assert 3 <= len(before) < len(FILES)
    done = subprocess.run(command(folder), env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    assert f"{len(before)} of {len(FILES)} samples are evaluated already" in done.stderr
    found = outcomes(folder)
    check(found)
    assert {key: found[key] for key in before} == before
    summary = json.loads(done.stdout)
    assert (summary["complete"], summary["evaluated"], summary["correct"]) == (True, 9, 3)
    passed = json.loads((folder / "pass_at_k_results.json").read_text())
    assert passed["problems"]["1"] == {"total_samples": 4, "correct_samples": 2, "pass@1": 0.5, "pass@2": pytest.approx(5 / 6)}
    text = (folder / "eval_results.json").read_bytes()
    again = subprocess.run(command(folder), env=environment, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0
    assert (folder / "eval_results.json").read_bytes() == text
    other = subprocess.run(command(folder, "--precision", "bf16"), env=environment, capture_output=True, text=True, timeout=60)
    assert other.returncode == 2
    assert "--fresh" in other.stderr


@pytest.mark.slow
def test_several_devices_share_the_samples(tmp_path, store):
    folder = fill(tmp_path / "run")
    records = RunRecords.open(folder, {"level": 1})
    loaded = load_level(1, "embedded")
    options = CompatOptions(measure=False, correct_trials=1)
    seen = []
    chosen = [sample for sample in samples(folder, 1)[0] if (sample.problem_id, sample.sample_id) not in ((2, 2), (1, 2))]
    batch = Batch(records, {problem.problem_id: problem for problem in loaded.problems}, BatchOptions(options), ["cpu", "cpu"], store,
                  lambda progress: seen.append(progress.done))
    assert batch.run(pending(chosen, records)) is True
    assert seen == list(range(1, len(chosen) + 1))
    found = outcomes(folder)
    assert {key: (row["compiled"], row["correctness"]) for key, row in found.items()} == {
        key: EXPECTED[key][:2] for key in EXPECTED if key not in ((2, 2), (1, 2))}


@pytest.mark.slow
def test_right_samples_get_the_judges_ratio_after_all_are_evaluated(tmp_path, store):
    """The two in order: while KernelBench's evaluator runs, nothing of the judge's is on the device."""
    source = ("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 2\n"
              "def get_inputs(): return [torch.randn(32, 32)]\ndef get_init_inputs(): return []\n")
    for number, body in enumerate(("return x + x", "return x")):
        text = f"import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): {body}\n"
        (tmp_path / kernel_name(1, 1, number)).write_text(text)
    records = RunRecords.open(tmp_path, {"level": 1})
    seen = []
    problems = {1: Problem(1, 1, "1_Twice", source, "file")}
    batch = Batch(records, problems, BatchOptions(CompatOptions(perf_trials=2), verified=True), ["cpu"], store,
                  lambda progress: seen.append((progress.sample.sample_id, progress.record is not None)))
    assert batch.run(samples(tmp_path, 1)[0]) is True
    assert seen == [(0, True), (1, True), (0, False)]
    ours = json.loads((tmp_path / "autokernel_eval.json").read_text())["samples"]
    assert ours["1/0"]["verified"]["verdict"] == "accepted"
    assert ours["1/0"]["times"] == "unverified"
    assert "verified" not in ours["1/1"]


@pytest.mark.parametrize("ill", [("cuda:0",), ("cuda:0", "cpu")])
@pytest.mark.slow
def test_a_device_that_is_lost_leaves_its_samples_to_the_others(tmp_path, store, monkeypatch, ill):
    from autokernel.compat import batch as batches

    class Sick(batches.CompatHost):
        def __enter__(self):
            if self.device in ill:
                raise InternalError(f"a worker process did not start on {self.device}")
            return super().__enter__()

    monkeypatch.setattr(batches, "CompatHost", Sick)
    folder = fill(tmp_path / "run")
    problems = {problem.problem_id: problem for problem in load_level(1, "embedded").problems}
    chosen = [sample for sample in samples(folder, 1)[0] if (sample.problem_id, sample.sample_id) in ((1, 1), (2, 1))]
    batch = Batch(RunRecords.open(folder, {}), problems, BatchOptions(CompatOptions(measure=False, correct_trials=1)), ["cuda:0", "cpu"],
                  store, lambda progress: None)
    if len(ill) == 2:
        with pytest.raises(InternalError, match="did not start"):
            batch.run(chosen)
    else:
        assert batch.run(chosen) is True
        assert list(batch.lost) == ["cuda:0"]
        assert sorted(outcomes(folder)) == [(1, 1), (2, 1)]


def test_minutes_end_a_run_that_goes_on_later(tmp_path, store):
    folder = fill(tmp_path / "run")
    records = RunRecords.open(folder, {})
    problems = {problem.problem_id: problem for problem in load_level(1, "embedded").problems}
    batch = Batch(records, problems, BatchOptions(CompatOptions(measure=False), minutes=1e-9), ["cpu"], store, lambda progress: None)
    assert batch.run(samples(folder, 1)[0]) is False
    assert records.results == {}


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["--backend", "tilelang", "--precision", "bf16"], 3, "tilelang"),
    (["--timing", "nope"], 2, "not supported"),
    (["--pass-at-k", "0"], 2, "no list of k"),
    (["--problems", "9"], 2, "holds no sample"),
])
def test_wrong_usage_is_said_before_anything_is_evaluated(tmp_path, arguments, code, words):
    from click.testing import CliRunner

    from autokernel.cli import cli

    folder = fill(tmp_path / "run")
    result = CliRunner().invoke(cli, ["kb", "eval-run", str(folder), "--level", "1", "--source", "embedded", "--device", "cpu", *arguments])
    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr
    assert not (folder / "eval_results.json").exists()
