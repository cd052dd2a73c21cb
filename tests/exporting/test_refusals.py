"""What may not leave, and that the message says which rule; the command's usage errors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from click.testing import CliRunner

from autokernel.cli import cli
from autokernel.durable import make_folder
from autokernel.errors import StorageError, UsageError
from autokernel.exporting.prepare import check_exportable
from autokernel.exporting.winners import Winner, check_gain, sift, winners_of_run
from autokernel.records import Candidate, Verdict
from autokernel.run_folder import RunFolder
from autokernel.trials import RunHeader, Trial
from exporters import ExportError, check_python
from kernelbench_bridge import load_problem

CLASS = "from torch import nn\n\n\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x + 1\n"


def winner(record, source, **more):
    problem = load_problem("L1/2", "embedded")
    candidate = Candidate(source=source, builder="python")
    return Winner(problem, candidate, record(problem, candidate, **more))


@pytest.mark.parametrize(("text", "rule", "words"), [
    ("import numpy\n" + CLASS, "hub-imports", "'numpy' (line 1)"),
    ("def late():\n    import einops\n" + CLASS, "hub-imports", "'einops' (line 2)"),
    ("from torch.utils.cpp_extension import load_inline\n" + CLASS, "compiles-on-import", "CUDA_SRC or CPP_SRC"),
    ("from . import other\n" + CLASS, "hub-imports", "relative import"),
    ("import importlib\nm = importlib.import_module('x')\n" + CLASS, "hub-imports", "'importlib' (line 1)"),
    ("m = __import__('x')\n" + CLASS, "hub-imports", "by name at run time"),
    ("import sys\nhere = 'pytest' in sys.modules\n" + CLASS, "hub-imports", "'sys' (line 1)"),
    ("import torch\nhere = 'pytest' in torch.sys.modules\n" + CLASS, "looks-around", "'sys' (line 2)"),
    ("import torch\nhere = getattr(torch, 's' + 'ys')\n" + CLASS, "looks-around", "(line 2)"),
    ("import torch\nhere = getattr(torch, 'sys')\n" + CLASS, "looks-around", "(line 2)"),
    ("here = eval('1')\n" + CLASS, "looks-around", "'eval' (line 1)"),
    ("import triton\n@triton.autotune(configs=[], key=[])\n@triton.jit\ndef k(x): pass\n" + CLASS, "baked-parameters", "'k' (line 4)"),
])
def test_what_the_hub_forbids(record, text, rule, words):
    with pytest.raises(ExportError) as failure:
        check_exportable(winner(record, text))
    assert failure.value.exit_code == 1
    assert f"rule {rule}" in failure.value.message
    assert words in failure.value.message


@pytest.mark.parametrize("text", ["import math\nimport torch.nn.functional as F\nfrom collections.abc import Sequence\n" + CLASS,
                                  "import torch\nlayer = torch.nn.ReLU().eval()\nn = getattr(layer, 'inplace')\n" + CLASS,
                                  "import native\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n" + CLASS])
def test_what_the_hub_allows(text):
    check_python(text, "it")


@pytest.mark.parametrize(("more", "rule", "words"), [
    ({"accepted": False, "refused_by": "smoke", "reason": "output 0 is off by 3", "verdicts": (Verdict("smoke", False, "off"),),
      "comparisons": ()}, "accepted", "smoke: output 0 is off by 3"),
    ({"rules": "quick/1"}, "verified", "quick/1"),
    ({"rules": "strict+timeout=5s/1"}, "verified", "strict+timeout"),
    ({"comparisons": (), "labels": ("interpreted: judged for correctness, not timed",)}, "verified", "interpreted"),
])
def test_what_no_card_may_rest_on(record, more, rule, words):
    with pytest.raises(ExportError) as failure:
        check_exportable(winner(record, CLASS, **more))
    assert f"rule {rule}" in failure.value.message
    assert words in failure.value.message


def test_an_evaluation_of_another_text_counts_for_nothing(record):
    made = winner(record, CLASS)
    with pytest.raises(ExportError, match="another candidate"):
        check_exportable(replace(made, candidate=replace(made.candidate, source=CLASS + "#")))


@pytest.fixture
def run(tmp_path, record):
    """A run's folder with a champion for L1/2 and a reverted final for L1/5."""
    folder = tmp_path / "run"
    header = RunHeader(rules="strict/1", torch="2.13.0", device="cpu", origin="embedded", version="0.1.0",
                       options={"level": 1, "ids": "1-13", "source": "embedded"})
    with RunFolder.open(folder, header) as opened:
        for uid, decision in (("L1/2", "kept"), ("L1/5", "reverted")):
            candidate = Candidate(source=CLASS, builder="python")
            make_folder(opened.store.folder)
            opened.store.put(candidate)
            evaluation = record(load_problem(uid, "embedded"), candidate)
            opened.record(Trial(iteration=1, phase="final", decision=decision, evaluation=evaluation))
    return folder


def test_a_runs_champions_are_its_winners(run):
    (found,) = winners_of_run(run, load_problem, None, None)
    assert (found.problem.uid, found.candidate.source, found.evaluation.rules) == ("L1/2", CLASS, "strict/1")
    with pytest.raises(ExportError, match="problem 5 has no champion"):
        winners_of_run(run, load_problem, [2, 5], None)
    with pytest.raises(UsageError, match="not the problem that the run judged"):
        winners_of_run(run, lambda uid, source: replace(load_problem(uid, source), source="x = 1\n"), None, None)
    next((run / "candidates").iterdir()).write_text("changed")
    with pytest.raises(StorageError, match="changed after it was judged"):
        winners_of_run(run, load_problem, None, None)


def test_one_winner_that_may_not_leave_does_not_keep_the_others(record):
    good, bad = winner(record, CLASS), winner(record, "import numpy\n" + CLASS)
    kept, left = sift([bad, good], check_exportable)
    assert kept == [good]
    assert [(w, "hub-imports" in why) for w, why in left] == [(bad, True)]


def test_a_champion_that_is_no_gain_stays_unless_it_is_named(record):
    good, slow = winner(record, CLASS), winner(record, CLASS, speedup=1.05)  # 0.945 to 1.155
    kept, left = sift([slow, good], check_gain)
    assert kept == [good] and [(w, "rule gain" in why and "0.95 to 1.16" in why) for w, why in left] == [(slow, True)]


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["nowhere", "--out", "o"], 2, "there is no 'nowhere'"),
    (["candidate.py", "--out", "o"], 2, "needs --problem"),
    ([".", "--problem", "L1/2", "--out", "o"], 2, "TARGET is a folder"),
    ([".", "--out", "o"], 2, "no run in '.'"),
    (["numpy.py", "--problem", "L1/2", "--source", "embedded", "--out", "o"], 1, "rule hub-imports"),
    (["broken.py", "--problem", "L1/2", "--source", "embedded", "--out", "o"], 2, "no Python text (line 1"),
    (["candidate.py", "--problem", "L1/2", "--source", "embedded", "--out", "theirs"], 2, "no export of ours"),
    (["candidate.py", "--problem", "L1/2", "--out", "o", "--name", "Not_A_Name"], 2, "lower-case letters"),
    (["candidate.py", "--problem", "L1/2", "--out", "o", "--repo", "noslash"], 2, "ORG/NAME"),
    (["candidate.py", "--problem", "L1/2", "--out", "o", "--license", "my own: \n"], 2, "no license as the Hub"),
    (["run", "--out", "o", "--device", "cpu", "--problems", "5"], 1, "problem 5 has no champion"),
])
def test_the_command_says_what_is_wrong(run, monkeypatch, arguments, code, words):
    monkeypatch.chdir(run.parent)
    for name, text in (("candidate.py", CLASS), ("numpy.py", "import numpy\n" + CLASS), ("broken.py", "def (")):
        (run.parent / name).write_text(text)
    (run.parent / "theirs").mkdir()
    (run.parent / "theirs" / "thesis.txt").write_text("precious")
    result = CliRunner().invoke(cli, ["export", *arguments])
    assert result.exit_code == code, result.output
    assert words in result.output
    assert not (run.parent / "o").exists()
    assert (run.parent / "theirs" / "thesis.txt").read_text() == "precious"


def test_winners_of_a_gpu_are_proven_on_a_gpu(tmp_path, record, monkeypatch):
    folder = tmp_path / "run"
    header = RunHeader(rules="strict/1", torch="2.13.0", device="cuda:0 NVIDIA H200", origin="embedded", version="0.1.0",
                       options={"source": "embedded"})
    candidate = Candidate(source=CLASS, builder="python")
    with RunFolder.open(folder, header) as opened:
        make_folder(opened.store.folder)
        opened.store.put(candidate)
        evaluation = record(load_problem("L1/2", "embedded"), candidate, device="cuda:0")
        opened.record(Trial(iteration=1, phase="final", decision="kept", evaluation=evaluation))
    result = CliRunner().invoke(cli, ["export", str(folder), "--out", str(tmp_path / "o"), "--device", "cpu"])
    assert result.exit_code == 3, result.output
    assert "were judged on cuda and must be proven there" in result.output
