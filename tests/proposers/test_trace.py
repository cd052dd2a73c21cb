"""Tracing allocates nothing, keeps what matching needs, and never raises."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from autokernel.proposers.trace import trace
from kernelbench_bridge import load_level

LEVEL_1 = os.environ.get("AUTOKERNEL_KERNELBENCH_DIR")
HEAD = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n"


def text(forward: str, inputs: str, init: str = "") -> str:
    construct = f"    def __init__(self):\n        super().__init__()\n        {init}\n\n" if init else ""
    return f"{HEAD}{construct}    def forward(self, {forward.split(': ', 1)[0]}):\n        {forward.split(': ', 1)[1]}\n\n\n" \
           f"def get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"


def test_17_gigabytes_of_inputs_are_traced_without_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    traced = trace(text("x: return torch.relu(x)", "torch.rand(65536, 65536)"))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert [op["op"] for op in traced["ops"]] == ["aten.relu.default"]
    assert traced["nodes"][0]["shape"] == [65536, 65536]
    assert (after - before) / 2**20 < 1.0  # GiB


def test_parameters_keep_their_names_and_views_their_strides() -> None:
    traced = trace(text("x: return self.fc(x)", "torch.rand(4, 8)", "self.fc = nn.Linear(8, 3)"))
    assert [(p["name"], traced["nodes"][p["node"]]["shape"]) for p in traced["parameters"]] == [("fc.weight", [3, 8]), ("fc.bias", [3])]
    transposed = traced["nodes"][traced["ops"][0]["outs"][0]]
    assert (transposed["shape"], transposed["stride"], transposed["base"]) == ([8, 3], [1, 8], traced["parameters"][0]["node"])


def test_a_float_input_is_not_baked_in() -> None:
    traced = trace(text("x, s: return x * s + 3.14", "torch.rand(4), 3.14"))
    assert traced["ops"][0]["args"][1] == {"scalar": 1}
    assert traced["ops"][1]["args"][1] == 3.14
    assert traced["inputs"][1] == {"value": 3.14}


def test_operations_that_follow_a_float_input_are_an_error_with_a_reason() -> None:
    traced = trace(text("x, s: return torch.relu(x) if s > 3.14 else x * s", "torch.rand(4), 3.14"))
    assert "float input" in traced["error"]


def test_triangular_inputs_say_so() -> None:
    traced = trace(text("a, b: return a @ b", "torch.tril(torch.rand(4, 4)), torch.rand(4, 4)"))
    assert [i["structure"] for i in traced["inputs"]] == [["tril"], []]


def test_an_in_place_call_gives_its_target_a_new_node() -> None:
    traced = trace(text("x: y = x + 1; y.relu_(); return y * 2", "torch.rand(4)"))
    first, second, third = (op["outs"][0] for op in traced["ops"])
    assert len({first, second, third}) == 3
    assert traced["ops"][2]["args"][0] == {"node": second}


@pytest.mark.parametrize("source", ["def broken(:", "x = 1", text("x: raise ValueError('no')", "torch.rand(1)"),
                                    text("x: return x[x > 0]", "torch.rand(3)"), text("x: return [x, 3]", "torch.rand(3)")])
def test_what_cannot_be_traced_is_an_answer(source: str) -> None:
    assert trace(source)["error"]


def test_every_embedded_problem_of_levels_1_and_2_is_traced() -> None:
    problems = [p for level in (1, 2) for p in load_level(level, source="embedded").problems]
    assert len(problems) >= 14
    assert [p.uid for p in problems if "error" in trace(p.source)] == []


@pytest.mark.skipif(not LEVEL_1, reason="set AUTOKERNEL_KERNELBENCH_DIR to the folder of KernelBench's parquet files")
@pytest.mark.parametrize(("level", "floor"), [(1, 99), (2, 98)])
def test_nearly_every_real_problem_is_traced(level: int, floor: int) -> None:
    problems = load_level(level, source=str(Path(LEVEL_1 or ""))).problems
    traced = [p.uid for p in problems if "error" not in trace(p.source)]
    assert len(traced) >= floor
