"""Headers for load_inline: which text gets which, and that torch's own are taken where they do not do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from autokernel import building, rules
from autokernel.builders import light_headers
from autokernel.building import BuildRefused, build, way_of_building
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.executor.extensions import folder_of
from autokernel.executor.faults import RAISED, WorkerFault
from autokernel.records import Candidate

KERNEL = "__global__ void k(float* y) { y[0] = 1.0f; }"
LAUNCH = "torch::Tensor f(torch::Tensor x) { auto y = torch::empty_like(x); return y; }"
BIND = "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"f\", &f); }"
INLINE = """
import torch, torch.nn as nn
from torch.utils.cpp_extension import load_inline
native = load_inline(name="half_relu", cpp_sources="torch::Tensor half_relu(torch::Tensor x) { BODY }", functions=["half_relu"])
class ModelNew(nn.Module):
    def forward(self, x):
        return native.half_relu(x)
"""


def text_of(*sources: str) -> str:
    return f"from torch.utils.cpp_extension import load_inline\nload_inline('f', {list(sources)!r})\nclass ModelNew: pass\n"


@pytest.mark.parametrize(("sources", "light", "bare", "binds"), [
    ((LAUNCH,), True, False, False),
    ((LAUNCH, "#include <torch/extension.h>\n" + KERNEL + LAUNCH), True, False, False),
    ((LAUNCH, KERNEL), True, True, False),  # load_inline puts torch/types.h above the kernel, which needs none of it
    ((LAUNCH, KERNEL + " // of torch"), True, False, False),
    ((KERNEL + LAUNCH + BIND,), True, False, True),
    ((LAUNCH.replace("auto y", "torch::NoGradGuard no; auto y"),), False, False, False),
    (("#include <torch/torch.h>\n" + LAUNCH,), False, False, False),
    (("torch::nn::Linear layer{nullptr};",), False, False, False),
])
def test_a_texts_words_choose_its_headers(tmp_path: Path, sources: tuple[str, ...], light: bool, bare: bool, binds: bool) -> None:
    assert light_headers.place(tmp_path, text_of(*sources)) is light
    folder = tmp_path / "headers" / "torch"
    assert light_headers.search_path(tmp_path) == ({"CPATH": str(tmp_path / "headers")} if light else {})
    assert (folder / "extension.h").exists() is light and (folder / "types.h").exists() is bare
    if light:
        assert ("#define AUTOKERNEL_BINDS_IN_CUDA" in (folder / "extension.h").read_text()) is binds


@pytest.mark.parametrize(("log", "may"), [
    ("main.cpp:2:9: error: 'nn' is not a member of 'torch'", True),
    ('cuda.cu(3): error: namespace "torch" has no member "fft"', True),
    ('cuda.cu(3): error: identifier "NoGradGuard" is undefined', True),
    ("a.cu:1: fatal error: torch/print.h: No such file or directory", True),
    ("main.cpp:2:70: error: expected ')' before ';' token", False), ("ValueError: on import", False),
    ("error: " * 100_000 + "is undefined", False),  # no compiler's line; looked through in no time
])
def test_errors_that_may_come_of_what_is_left_out_are_told_from_others(log: str, may: bool) -> None:
    assert light_headers.may_lack(log) is may


@dataclass(frozen=True)
class Task:
    """What evaluate() needs of a problem."""

    uid: str = "L1/1"
    hash: str = "half-relu"
    source: str = ("import torch, torch.nn as nn\nclass Model(nn.Module):\n    def forward(self, x): return torch.relu(x) * 0.5\n"
                   "def get_inputs(): return [torch.randn(64, 256)]\ndef get_init_inputs(): return []\n")


@pytest.mark.parametrize(("logs", "light", "reason"), [
    ([""], True, None), (["main.cpp:1:1: error: 'x' was not declared in this scope", ""], False, None),
    (["main.cpp:1:1: error: expected ';'"], True, "does not compile"),
    (["f.cu(1): error: class \"T\" has no member \"x\"", "f.cu(1): error: class \"T\" has no member \"x\""], False, "does not compile"),
])
def test_a_build_that_may_lack_something_is_made_again_with_torchs_own_headers(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logs: list[str], light: bool, reason: str | None) -> None:
    executor = Executor("cpu", tmp_path / "store")  # not entered: nothing is started
    monkeypatch.setattr(executor, "machine", dict)
    candidate = Candidate(INLINE.replace("BODY", "return x;") + f"# {logs}\n", "python")
    folder, had = folder_of(executor.store, candidate.sha256), []

    def imported(executor: Executor, candidate: Candidate, place: Path, limit_s: float) -> tuple[WorkerFault | None, str]:
        had.append(bool(light_headers.search_path(place)))
        log = logs[len(had) - 1]
        return (WorkerFault(RAISED, "importing it raised an exception"), f"{log}\nninja: build stopped.\n") if log else (None, "")

    monkeypatch.setattr(building, "_import", imported)
    if reason is None:
        build(executor, candidate, 60.0)
        build(executor, candidate, 60.0)  # costs nothing
        assert way_of_building(executor.store, candidate) == (f"load_inline: {light_headers.LIGHT if light else light_headers.STOCK}",)
    else:
        with pytest.raises(BuildRefused, match=reason) as refused:
            build(executor, candidate, 60.0)
        assert refused.value.telling == logs[-1] and not folder.exists() and way_of_building(executor.store, candidate) == ()
    assert had == [True, False][:len(logs)]


@pytest.mark.slow
def test_the_results_are_the_same_with_either_headers_and_a_compilers_error_is_the_reason(tmp_path: Path) -> None:
    bodies = {"return torch::relu(x) * 0.5;": "light torch headers",
              "namespace t = torch; return t::nn::functional::relu(x) * 0.5;": "torch's own headers"}
    with Executor("cpu", tmp_path, seed=7) as executor:
        for body, headers in bodies.items():
            made = evaluate(Task(), Candidate(INLINE.replace("BODY", body), "python"), rules=rules.QUICK, executor=executor)
            assert made.accepted and f"load_inline: {headers}" in made.labels, made.reason
        typo = Candidate(INLINE.replace("BODY", "return torch::rellu(x);"), "python")
        wrong = evaluate(Task(), typo, rules=rules.QUICK, executor=executor)
    assert wrong.refused_by == "build" and "rellu" in wrong.reason, wrong.reason
