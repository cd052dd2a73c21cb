"""Files in KernelBench's layout: names, texts, what is refused. No process is started here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from autokernel.compat.records import RunRecords
from autokernel.compat.result import KernelExecResult
from autokernel.compat.single import Verified
from autokernel.errors import UsageError
from kernelbench_bridge import BridgeError
from kernelbench_bridge import run_directory as rd
from kernelbench_bridge.baselines import Baseline, baseline_text, read_baseline
from kernelbench_bridge.dataset import LocalKernelBenchDataset
from kernelbench_bridge.static_labels import static_labels
from kernelbench_bridge.static_rules import validate_kernel_static
from scorer.kernelbench import analyze, pass_at_k_results


def test_samples_are_found_by_their_exact_names(tmp_path):
    for name in ("level_1_problem_10_sample_0_kernel.py", "level_1_problem_2_sample_11_kernel.py", "level_1_problem_2_sample_3_kernel.py",
                 "level_2_problem_1_sample_0_kernel.py", "level_1_problem_02_sample_0_kernel.py", "mine_kernel.py", "notes.txt"):
        (tmp_path / name).write_text("K")
    found, notes = rd.samples(tmp_path, 1)
    assert [(sample.problem_id, sample.sample_id) for sample in found] == [(2, 3), (2, 11), (10, 0)]
    assert any("problem_02" in note for note in notes)
    assert any(note.startswith("mine_kernel.py is left alone") for note in notes)
    assert any(note.startswith("1 samples of other levels") for note in notes)


def test_results_are_written_as_kernelbench_writes_them():
    text = rd.eval_results_text({"10": [{"sample_id": 1}, {"sample_id": 0}], "9": [{"sample_id": 0}]})
    assert list(json.loads(text)) == ["9", "10"]
    assert text.startswith('{\n    "9": [\n        {\n            "sample_id": 0\n')
    assert [row["sample_id"] for row in json.loads(text)["10"]] == [0, 1]


def test_a_generation_config_is_read_and_written(tmp_path):
    assert rd.read_generation_config(tmp_path) == {}
    (tmp_path / rd.GENERATION_CONFIG).write_text(rd.generation_config_text({"level": 2, "precision": "bf16", "subset": [1, 5]}))
    assert rd.read_generation_config(tmp_path) == {"level": 2, "precision": "bf16", "subset": [1, 5]}
    (tmp_path / rd.GENERATION_CONFIG).write_text("a: [")
    with pytest.raises(BridgeError, match="left as it is"):
        rd.read_generation_config(tmp_path)


def test_a_baseline_keeps_kernelbenchs_layout_and_our_conditions(tmp_path):
    path = tmp_path / "b.json"
    made = Baseline({"level1": {"19_ReLU.py": {"mean": 1.0}, "20_LeakyReLU": {"mean": 2.0}, "21_X.py": None}}, {"precision": "bf16"})
    path.write_text(baseline_text(made))
    assert json.loads(path.read_text())["level1"]["19_ReLU.py"] == {"mean": 1.0}
    again = read_baseline(path)
    assert again.environment == {"precision": "bf16"}
    assert again.by_id(1) == {19: {"mean": 1.0}, 20: {"mean": 2.0}, 21: None}
    with pytest.raises(BridgeError, match="no level 2; it has level1"):
        again.level(2)


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', '{"level1": []}'])
def test_a_file_that_is_no_baseline_is_refused(tmp_path, text):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(BridgeError):
        read_baseline(tmp_path / "b.json")


def sample(tmp_path, problem, number):
    return rd.SampleFile(1, problem, number, tmp_path / rd.kernel_name(1, problem, number))


def test_records_are_kept_by_problem_and_sample(tmp_path):
    records = RunRecords.open(tmp_path, {"level": 1, "precision": "fp32"})
    records.add(sample(tmp_path, 10, 0), KernelExecResult(True, True, {"e": ValueError("x")}, 1.5), None)
    records.add(sample(tmp_path, 10, 2), KernelExecResult(True, False), None)
    records.add(sample(tmp_path, 9, 0), KernelExecResult(), None)
    again = RunRecords.open(tmp_path, {"level": 1, "precision": "fp32"})
    assert [again.has(*key) for key in ((10, 0), (10, 1), (10, 2), (9, 0), (3, 0))] == [True, False, True, True, False]
    rows = json.loads((tmp_path / "eval_results.json").read_text())
    assert list(rows) == ["9", "10"]
    assert list(rows["10"][0]) == list(rd.RESULT_KEYS)
    assert rows["10"][0]["metadata"] == {"e": "x"}
    assert [again.wants_ratio(sample(tmp_path, *key)) for key in ((10, 0), (10, 2), (9, 0), (8, 0))] == [True, False, False, False]
    again.add_ratio(sample(tmp_path, 10, 0), Verified(1.5, 1.4, 1.6, "quick/1", "accepted"))
    once_more = RunRecords.open(tmp_path, {"level": 1, "precision": "fp32"})
    assert once_more.ours["10/0"]["verified"]["interval"] == [1.4, 1.6]
    assert not once_more.wants_ratio(sample(tmp_path, 10, 0))
    with pytest.raises(UsageError, match="precision fp32, and now it is bf16"):
        RunRecords.open(tmp_path, {"level": 1, "precision": "bf16"})


def test_results_of_another_program_are_left_alone_unless_asked(tmp_path):
    foreign = {"1": [{"sample_id": 0, "compiled": True, "correctness": True, "metadata": {}, "runtime": 1.0, "runtime_stats": {}}]}
    text = json.dumps(foreign, indent=4)
    (tmp_path / "eval_results.json").write_text(text)
    with pytest.raises(UsageError, match="1 results that another program wrote"):
        RunRecords.open(tmp_path, {})
    assert (tmp_path / "eval_results.json").read_text() == text
    assert RunRecords.open(tmp_path, {}, append=True).has(1, 0)
    assert not RunRecords.open(tmp_path, {}, fresh=True).has(1, 0)
    assert [path.read_text() for path in tmp_path.glob("eval_results.*.json")] == [text]


def test_ids_are_what_int_takes(tmp_path):
    folder = tmp_path / "level7"
    folder.mkdir()
    for name in ("07_seven.py", "12.py", "abc.py", "-3_neg.py", "1_0_x.py", "1e3_x.py", " 8_x.py", "9_x.txt"):
        (folder / name).write_text("x = 1")
    found = LocalKernelBenchDataset(7, tmp_path)
    assert found.get_problem_ids() == [-3, 1, 7, 8]
    assert (found[0].name, found.get_problem_by_id(7).path) == ("-3_neg.py", str(folder / "07_seven.py"))
    with pytest.raises(ValueError, match="no representative"):
        found.get_representative_subset()
    with pytest.raises(FileNotFoundError):
        LocalKernelBenchDataset(8, tmp_path)
    with pytest.raises(IndexError):
        found[9]


def test_a_baseline_that_lacks_problems_shrinks_the_denominator():
    names = {number: f"{number}_N.py" for number in range(1, 101)}
    baseline = {name: {"mean": 10.0} for number, name in names.items() if number not in (1, 6)}
    rows = {"1": (True, 4.0), "2": (True, 20.0), "3": (False, -1.0), "4": (False, -1.0), "5": (True, 10.0)}
    entries = {key: [{"sample_id": 0, "compiled": key != "4", "correctness": right, "runtime": ms}] for key, (right, ms) in rows.items()}
    found = analyze(names, entries, baseline, level=1)
    assert found.fast_p["0.0"] == pytest.approx(2 / 98)
    assert found.geo_mean_speedup == pytest.approx(0.7071, abs=1e-4)
    assert (found.compilation_rate, found.correctness_rate, found.aligned) == (0.04, 0.03, 98)


def test_pass_at_k_needs_compiled_and_correct():
    rows = [{"sample_id": n, "compiled": n != 2, "correctness": n > 0, "runtime": 1.0} for n in range(4)]
    found = pass_at_k_results({"1": rows}, [1, 2])
    assert found["problems"]["1"] == {"total_samples": 4, "correct_samples": 2, "pass@1": 0.5, "pass@2": pytest.approx(5 / 6)}


def test_static_checks_can_be_named_and_unknown_ones_are_passed_over():
    code = "import threading\nx = torch.cuda.Stream()\n"
    assert validate_kernel_static(code, forbidden=["stream_injection", "nonsense"], warnings=[])[:1] == (False,)
    valid, errors, warnings = validate_kernel_static(code, forbidden=[], warnings=["thread_injection"])
    assert (valid, errors, warnings) == (True, [], ["thread_injection: uses threads"])


def test_labels_name_lines_and_are_not_fooled_by_text():
    code = ('import torch, threading\nimport torch.nn.functional as F\n"""try: pass"""\nclass ModelNew(Model):\n'
            "    def forward(self, x):\n        try:\n            return F.relu(x @ x)\n        except Exception:\n            return x\n"
            "torch.cuda.synchronize = print\nsetattr(torch.cuda, 'Event', None)\n")
    found = {(label.line, label.name) for label in static_labels(code)}
    assert found == {(1, "concurrency"), (4, "inherits the reference"), (7, "torch computes"), (8, "swallows"), (10, "patches"),
                     (11, "patches")}
    assert static_labels("x = (") == ()


def test_the_library_needs_neither_torch_nor_an_llm_package():
    code = ("import sys\nfrom autokernel.compat import kernelbench as kb\n"
            "assert kb.fastp([1], [2.0], [1.0], 1, 1.0) == 1.0\nassert kb.calc_pass_at_k(10, 3, 5) > 0.9\n"
            "print(sorted({'torch', 'openai', 'litellm', 'modal', 'transformers', 'numpy', 'pydantic'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
