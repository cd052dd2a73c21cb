"""The commands for people who come from KernelBench, on the embedded problems and the CPU."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from autokernel.cli import cli

RIGHT = ("import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n"
         "        return torch.nn.functional.gelu(x, approximate='tanh')\n")


WHOLE = pytest.mark.skipif(not os.environ.get("AUTOKERNEL_ALL_COMPAT"), reason="AUTOKERNEL_ALL_COMPAT=1 runs it: a whole evaluation")


@pytest.fixture
def run(store, monkeypatch, tmp_path):
    monkeypatch.setenv("AUTOKERNEL_CACHE_DIR", str(store))
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, device="cpu"):
        more = ["--device", device] if device else []
        return CliRunner().invoke(cli, ["kb", *map(str, arguments), *more], prog_name="autokernel")
    return invoke


PROBLEM = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x)))
def get_inputs(): return [torch.randn(64, 64)]
def get_init_inputs(): return []
"""


def evaluate(run, tmp_path, text, *more):
    (tmp_path / "c.py").write_text(text)
    (tmp_path / "p.py").write_text(PROBLEM)
    return run("eval", tmp_path / "p.py", tmp_path / "c.py", "--rules", "kernelbench", "--perf-trials", 3, *more)


@pytest.mark.parametrize("how", ["--no-verify", pytest.param("--verify", marks=WHOLE)])
def test_a_right_candidates_time_is_unverified_and_has_a_verified_ratio_beside_it(run, tmp_path, how):
    result = evaluate(run, tmp_path, RIGHT, "--json", how)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["accepted"], found["compiled"], found["rules"], found["times"]) == (True, True, "kernelbench/1", "unverified")
    assert found["metadata"]["correctness_trials"] == "(5 / 5)"
    assert found["runtime"] > 0 and found["ref_runtime_stats"]["num_trials"] == len(found["reference_samples_ms"]) == 3
    if how == "--no-verify":
        assert found["verified"] is None
    else:
        assert found["verified"]["verdict"] == "accepted"
        low, high = found["verified"]["interval"]
        assert low <= found["verified"]["speedup"] <= high
    assert found["static"]["valid"] is False  # no __global__: it is only said
    assert found["labels"] == [{"line": 4, "name": "torch computes", "text": "torch.nn.functional.gelu"}]


def test_a_wrong_candidate_is_exit_1_and_shows_no_control_characters(run, tmp_path):
    result = evaluate(run, tmp_path, RIGHT.replace("return", "raise ValueError('a\\x1b[31mb') ;"), "--no-verify")
    assert result.exit_code == 1
    assert "wrong" in result.stdout
    assert "runtime_error: a [31mb" in result.stdout


def test_a_native_candidate_is_sent_to_the_strict_rules(run, tmp_path):
    result = evaluate(run, tmp_path, "import torch, native\nCPP_SRC = ''\nclass ModelNew(torch.nn.Module): ...\n")
    assert result.exit_code == 2
    assert "--rules strict" in result.stderr


@pytest.mark.parametrize("rules", ["strict", "kernelbench"])
def test_a_package_that_is_missing_is_exit_3_and_named(run, tmp_path, rules):
    (tmp_path / "c.py").write_text("import tilelang\n" + RIGHT)
    result = run("eval", "L1/1", tmp_path / "c.py", "--source", "embedded", "--rules", rules)
    assert result.exit_code == 3
    assert "tilelang" in result.stderr


@pytest.mark.slow
def test_a_baseline_says_what_it_was_measured_under_and_is_not_mixed(run, tmp_path):
    made = run("baseline", "--level", 1, "--source", "embedded", "--problems", "1,2", "--trials", 2, "--out", "b.json")
    assert made.exit_code == 0, made.stderr
    whole = json.loads((tmp_path / "b.json").read_text())
    assert list(whole["level1"]) == ["1_TanhGELU.py", "2_RowSoftmax.py"]
    assert whole["level1"]["1_TanhGELU.py"]["num_trials"] == 2
    assert {name: whole["autokernel"][name] for name in ("precision", "config", "timing_method", "device")} == {
        "precision": "fp32", "config": "torch", "timing_method": "host_time", "device": "cpu"}
    arguments = ("baseline", "--level", 1, "--source", "embedded", "--trials", 2, "--out", "b.json")
    other = run(*arguments, "--problems", "1", "--precision", "bf16")
    assert other.exit_code == 2
    assert "precision fp32, and now it is bf16; it is left alone" in other.stderr
    assert json.loads((tmp_path / "b.json").read_text()) == whole
    again = run(*arguments, "--problems", "1-3", "--json")
    assert json.loads(again.stdout)["timed"] == 3
    assert json.loads((tmp_path / "b.json").read_text())["level1"]["1_TanhGELU.py"] == whole["level1"]["1_TanhGELU.py"]


def test_a_prompt_holds_the_task_the_rules_and_this_machine(run):
    result = run("prompt", "L1/1", "--source", "embedded", "--backend", "cpp", "--precision", "bf16")
    assert result.exit_code == 0
    for words in ("class Model(nn.Module)", "CPP_SRC", "torch.bfloat16", "cores:", "class ModelNew"):
        assert words in result.stdout
    assert "cores:" not in run("prompt", "L1/1", "--source", "embedded", "--no-hardware").stdout


@WHOLE
def test_the_prompts_example_is_a_right_answer_in_its_back_end(run, tmp_path):
    """What a model is shown must itself pass: the example doubles its input, and so does this problem."""
    text = run("prompt", "L1/1", "--source", "embedded", "--backend", "cpp").stdout
    (tmp_path / "example.py").write_text(text.split("```python\n")[1].split("```")[0])
    (tmp_path / "twice.py").write_text("import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x * 2\n"
                                       "def get_inputs(): return [torch.rand(32, 32)]\ndef get_init_inputs(): return []\n")
    result = run("eval", tmp_path / "twice.py", tmp_path / "example.py", "--rules", "quick", "--json")
    assert json.loads(result.stdout)["accepted"] is True, result.stdout


def test_an_unknown_back_end_of_a_prompt_is_wrong_usage(run):
    result = run("prompt", "L1/1", "--source", "embedded", "--backend", "opencl")
    assert result.exit_code == 2
    assert "choose one of triton" in result.stderr
