"""How each group of KernelBench's cases is checked against us: a function a group, from a case to an assertion."""

from __future__ import annotations

import inspect
import json
import math
import os

import pytest

from autokernel.compat import kernelbench as kb
from kernelbench_bridge import run_directory
from scorer import kernelbench as scores
from scorer.timing import timing_stats

KINDS = {"builtins.ValueError": ValueError, "builtins.AssertionError": AssertionError, "builtins.FileNotFoundError": FileNotFoundError,
         "builtins.AttributeError": AttributeError, "builtins.KeyError": KeyError, "builtins.TypeError": TypeError}
LANGUAGES = ["python", "cpp"]
THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)


def raises(expected):
    return pytest.raises(KINDS[expected["raises"]])


def number(value):
    return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}.get(value, value)


def equal(ours, theirs):
    assert ours == number(theirs) or (isinstance(ours, float) and math.isnan(ours) and theirs == "NaN"), (ours, theirs)


def level_one():
    names = {number: f"{number}_Name.py" for number in range(1, 101)}
    return names, {name: {"mean": 10.0} for name in names.values()}


def check_score(given, expected, use):
    rows = given["is_correct"], given["baseline_ms"], given["actual_ms"], given["n"]
    if "p" in given:
        assert kb.fastp(*rows, given["p"]) == expected["returns"]
        return
    for p in THRESHOLDS:
        assert kb.fastp(*rows, p) == expected[f"fast_{p}"]
    equal(kb.geometric_mean_speed_ratio_correct_only(*rows), expected["geomean_correct_only"]["returns"])
    equal(kb.geometric_mean_speed_ratio_correct_and_faster_only(*rows), expected["geomean_correct_and_faster_only"]["returns"])


def check_analysis(given, expected, use):
    names, baseline = level_one()
    found = scores.analyze(names, given["eval_results"], baseline, level=given["level"], run_name="r", hardware="HW")
    assert found.to_kernelbench() == expected["returns"]


def check_passk(given, expected, use):
    if "n" in given:
        assert kb.calc_pass_at_k(given["n"], given["c"], given["k"]) == expected["returns"]
    else:
        assert scores.pass_at_k_results(given["eval_results"], given["k_values"]) == expected["returns"]


def check_timing_stats(given, expected, use):
    if "raises" in expected:
        with raises(expected):
            timing_stats(given["elapsed_ms"])
    else:
        assert timing_stats(given["elapsed_ms"]) == expected["returns"]


def check_dataset(given, expected, use):
    base = use("checkout")
    level = given["level"]
    if "raises" in expected:
        with raises(expected):
            found = kb.construct_kernelbench_dataset(level, given.get("source", "local"), base_path=base)
            found.get_problem_by_id(given["problem_id"])
        return
    whole = kb.construct_kernelbench_dataset(level, base_path=base)
    if "hash" in expected:
        problem = whole.get_problem_by_id(given["problem_id"])
        assert (problem.name, problem.hash, len(problem.code)) == (expected["name"], expected["hash"], expected["code_chars"])
        assert problem.path.endswith(expected["path_suffix"])
    elif "contiguous" in expected:
        ids = whole.get_problem_ids()
        assert (len(whole), ids[0], ids[-1], whole.level) == tuple(expected[k] for k in ("len", "first_id", "last_id", "level_attr"))
        assert (ids == list(range(ids[0], ids[-1] + 1))) is expected["contiguous"]
    elif "n" in given:
        ids = whole.sample(given["n"], seed=given["seed"]).get_problem_ids()
        assert ids == (whole.get_problem_ids() if isinstance(expected["ids"], str) else expected["ids"])
    elif "id_range" in given or "problem_ids" in given:
        chosen = kb.construct_kernelbench_dataset(level, base_path=base, problem_ids=given.get("problem_ids"),
                                                  id_range=tuple(given["id_range"]) if "id_range" in given else None)
        assert chosen.get_problem_ids() == expected["ids"] if "ids" in expected else len(chosen) == expected["len"]
    else:
        assert whole.get_representative_subset().get_problem_ids() == expected["ids"]


def check_hash(given, expected, use):
    ours = [kb.get_code_hash(given[side]) for side in "ab"]
    assert ours == [expected["hash_a"], expected["hash_b"]]
    assert (ours[0] == ours[1]) is expected["equal"]


def check_tolerance(given, expected, use):
    if "raises" in expected:
        import torch

        with raises(expected):
            kb.get_tolerance_for_precision(getattr(torch, given["precision"].removeprefix("torch.")))
    else:
        assert kb.get_tolerance_for_precision(given["precision"]) == expected["atol"] == expected["rtol"]


def check_cast(given, expected, use):
    import torch

    from autokernel.executor.compat_worker import DTYPES, cast

    if "value" in given:
        inner = cast([torch.ones(2, dtype=torch.int64)], torch.float32, torch.device("cpu"))
        assert (type(inner).__name__, str(inner[0].dtype)) == (expected["type"], expected["inner_dtype"])
    else:
        made = cast(torch.ones(2, dtype=getattr(torch, given["dtype"])), DTYPES[given["precision"]], torch.device("cpu"))
        assert (type(made).__name__, str(made.dtype)) == (expected["type"], expected["dtype"])


def check_seeds(given, expected, use):
    from autokernel.executor.compat_worker import trial_seeds

    assert trial_seeds(given["seed"], given["num_correct_trials"]) == expected["trial_seeds"]


def check_loader(given, expected, use):
    reference = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x): return x\n" \
                "def get_inputs(): return [torch.ones(2)]\ndef get_init_inputs(): return []\n"
    if "code" in given:
        found = use("evaluate")(reference, given["code"], backend="triton")
        assert (found.compiled, found.metadata["compilation_error_name"]) == (False, expected["raises"])
        return
    use("monkeypatch").chdir(use("tmp_path"))
    found = use("evaluate")(reference, "import os\nraise RuntimeError(os.environ['TORCH_EXTENSIONS_DIR'] + '|' + BUILD_DIRECTORY)",
                            build_dir=given["build_directory"])
    folder, name = found.metadata["compilation_error"].split("|")
    assert folder == expected["TORCH_EXTENSIONS_DIR_during_exec"]
    assert name == expected["BUILD_DIRECTORY_in_namespace"]


def check_static(given, expected, use):
    valid, errors, warnings = kb.validate_kernel_static(given["code"], backend=given["backend"], precision=given["precision"])
    assert valid is expected["valid"]
    assert (len(errors), len(warnings)) == (len(expected["errors"]), len(expected["warnings"]))


def check_extract(given, expected, use):
    text = given["text"]
    assert {"first": kb.extract_first_code(text, LANGUAGES), "last": kb.extract_last_code(text, LANGUAGES),
            "python_only": kb.extract_python_code(text), "all": kb.extract_code_blocks(text, LANGUAGES)} == expected


def check_rundir(given, expected, use):
    folder = use("tmp_path")
    if "raises" in expected:
        with raises(expected):
            run_directory.eval_results_text({given["problem_id"]: [{"sample_id": 0}]})
        return
    level, problem, sample = given["level"], given["problem_id"], given["sample_id"]
    assert run_directory.kernel_name(level, problem, sample) == given["file"]
    (folder / given["file"]).write_text(expected["content"])
    assert run_directory.fetch_kernel(folder, level, problem, sample) == expected["content"]
    assert (folder / given["file"]).exists() is expected["exists"]
    assert run_directory.fetch_kernel(folder, level, problem, sample + 1) == expected["missing_sample"]
    assert run_directory.parse_kernel_name(f"level_{level}_problem_0{problem}_sample_{sample}_kernel.py") == expected["zero_padded_id"]


def check_baseline(given, expected, use):
    if "raises" in expected:
        with raises(expected):
            kb.fetch_baseline_time("level1", 1, kb.construct_kernelbench_dataset(1, base_path=use("checkout")), given["file"])
        return
    path = use("tmp_path") / "baseline.json"
    path.write_text(json.dumps({given["level"]: {"1_Square_matrix_multiplication_.py": expected["returns"], "2_Other.py": {"mean": 1.0}}}))
    dataset = kb.construct_kernelbench_dataset(1, base_path=use("checkout"))
    assert kb.fetch_baseline_time(given["level"], given["problem_id"], dataset, path) == expected["returns"]


def check_timing_method(given, expected, use):
    for method, answer in expected.items():
        if "raises" in answer:
            with raises(answer):
                kb.timing_method_name(method)
        else:
            assert kb.timing_method_name(method) == answer["returns"]


def check_arch(given, expected, use):
    patch = use("monkeypatch")
    for name in expected["env"]:
        patch.setenv(name, "")
        patch.delenv(name)
    if "raises" in expected:
        with raises(expected):
            kb.set_gpu_arch(given["arch_list"])
    else:
        assert kb.set_gpu_arch(given["arch_list"]) == expected["returns"]
    assert {name: os.environ.get(name) for name in expected["env"]} == expected["env"]


def check_metadata(given, expected, use):
    import torch

    found = kb.check_metadata_serializable_all_types({"a": ValueError("x"), "b": (1, 2), "c": {"d": torch.float32}})
    assert found == expected["returns"]


def check_defaults(given, expected, use):
    parameters = inspect.signature(kb.measure_ref_program_time).parameters
    assert {name: str(parameters[name].default) for name in expected} == expected


def check_prompt(given, expected, use):
    from kernelbench_bridge.prompt import prompt

    with raises(expected):
        prompt("class Model: ...", backend="cuda", precision=given["precision"], hardware={})


def check_eval(given, expected, use):
    options = dict(given["kwargs"])
    more = {"num_correct_trials": int(options.pop("n", 3))}
    for name, kind in (("num_perf_trials", int), ("measure_performance", lambda text: text == "True")):
        if name in options:
            more[name] = kind(options.pop(name))
    if "raises" in expected:
        with raises(expected):
            use("evaluate")(given["ref"], given["candidate"], **more, **options)
        return
    found = use("evaluate")(given["ref"], given["candidate"], **more, **options)
    for name in ("compiled", "correctness", "runtime", "ref_runtime"):
        assert getattr(found, name) == expected[name], name
    assert sorted(found.metadata) == expected["metadata_keys"]
    for name, value in expected["metadata"].items():
        if name != "runtime_error" or "primitive descriptor" not in value:  # what oneDNN cannot do depends on the CPU, and so its words
            assert found.metadata[name] == value, name


CHECKS = {name.removeprefix("check_"): function for name, function in globals().items() if name.startswith("check_")}
