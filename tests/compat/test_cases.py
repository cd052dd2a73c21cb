"""Every value that KernelBench's own code gave, one test id a case. docs/kernelbench.md says for each what it is to us."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from autokernel.compat.records import RunRecords
from kernelbench_bridge.run_directory import SampleFile
from scorer import ScorerError
from scorer.kernelbench import analyze

_spec = importlib.util.spec_from_file_location("compat_checks", Path(__file__).with_name("checks.py"))
checks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(checks)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "kernelbench.md"
ROW = re.compile(r"^\| `(?P<id>[^`]+)` \| (?P<mark>same|by rule|not ours) \| (?P<note>.*) \|$", re.MULTILINE)
ROWS = {match["id"]: (match["mark"], match["note"]) for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
NOT_OURS = ("prompt", "defaults", "static", "baseline", "analysis", "bugs")  # prompts, scripts' defaults, shipped files, its bugs


def of_mark(mark):
    return [name for name, (found, _) in ROWS.items() if found == mark]


def test_the_table_counts():
    assert len(ROWS) == 142
    assert len(of_mark("same")) >= 95
    assert len(of_mark("not ours")) <= 30


def test_the_table_has_every_case_once(cases):
    assert sorted(ROWS) == sorted(cases)
    assert len(ROW.findall(PAGE.read_text(encoding="utf-8"))) == len(cases)


@pytest.mark.parametrize("name", of_mark("same"))
def test_same(name, cases, request):
    case = cases[name]
    checks.CHECKS[case["group"]](case["input"], case["expected"], request.getfixturevalue)


@pytest.mark.parametrize("name", of_mark("not ours"))
def test_not_ours(name, cases):
    """A case that is not ours is of a kind that cannot be, and the page says why in a line of its own."""
    _, note = ROWS[name]
    assert cases[name]["group"] in NOT_OURS
    assert len(note) > 20


def by_rule_eval_init_type_error(case, use):
    found = use("evaluate")(case["input"]["ref"], case["input"]["candidate"], num_correct_trials=3)
    assert (found.compiled, found.correctness) == (True, False)
    assert found.metadata["runtime_error_name"] == case["expected"]["raises"]
    assert found.metadata["runtime_error"] == case["expected"]["message"]
    assert "leaves its evaluator" in found.metadata["autokernel_note"]


def by_rule_eval_exec_no_such_file(case, use):
    found = use("evaluate")(case["input"]["ref"], case["input"]["candidate"], num_correct_trials=3)
    assert case["expected"] == {"returns": None}
    assert (found.compiled, found.correctness) == (False, False)
    assert found.metadata["compilation_error_name"] == "builtins.FileNotFoundError"
    assert "returns None" in found.metadata["autokernel_note"]


def by_rule_analysis_baseline_entry_null(case, use):
    names = {number: f"{number}_Name.py" for number in range(1, 101)}
    baseline = {name: {"mean": 10.0} for name in names.values()} | {"1_Name.py": None}
    found = analyze(names, case["input"]["eval_results"], baseline, level=1)
    assert case["expected"]["raises"] == "builtins.TypeError"
    assert (found.aligned, found.correctness_rate, found.fast_p["0.0"]) == (99, 0.01, 0.0)
    assert any("null for 1" in note and "crashes" in note for note in found.notes)


def by_rule_analysis_entry_not_a_list(case, use):
    names = {number: f"{number}_Name.py" for number in range(1, 101)}
    assert case["expected"]["raises"] == "builtins.TypeError"
    with pytest.raises(ScorerError, match="problem 1 holds no list"):
        analyze(names, case["input"]["eval_results"], {}, level=1)


def by_rule_rundir_resume_check_ignores_sample(case, use):
    records = RunRecords(use("tmp_path"), {}, {"10": [{"sample_id": 0}]}, {})
    ours = [records.has(problem, sample) for problem, sample in case["input"]["asked"]]
    assert case["expected"]["exists"] == [True, True, False]
    assert ours == [True, False, False]
    assert SampleFile(1, 10, 5, Path("x")).sample_id == 5


@pytest.mark.parametrize("name", of_mark("by rule"))
def test_by_rule(name, cases, request):
    """KernelBench crashes, returns None or skips; what is answered here instead."""
    globals()["by_rule_" + re.sub(r"\W", "_", name)](cases[name], request.getfixturevalue)
