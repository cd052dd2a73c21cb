"""What a graph is matched to depends on operations and shapes alone, whether they come from the library or from a formula."""

from __future__ import annotations

import importlib.util
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from autokernel.proposers import match
from autokernel.proposers.graph import Graph, Unmatchable, read
from autokernel.proposers.lower import restride, row_program
from autokernel.proposers.templates import MATCHERS, starter_templates
from autokernel.proposers.trace import trace
from kernelbench_bridge import load_level

LEVEL_1 = os.environ.get("AUTOKERNEL_KERNELBENCH_DIR")
_spec = importlib.util.spec_from_file_location("search_problems", Path(__file__).with_name("problems.py"))
assert _spec is not None and _spec.loader is not None
problems: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)
EXPECTED = {
    "chain": "elementwise", "activations": "elementwise", "scalar": "elementwise", "softmax": "softmax", "log_softmax_middle": "softmax",
    "layer_norm": "layernorm", "layer_norm_formula": "layernorm", "rms_norm_channels": "rmsnorm", "batch_norm": "groupnorm",
    "batch_norm_inside": "groupnorm", "instance_norm": "groupnorm", "group_norm": "groupnorm", "frobenius": "norm_scale",
    "l1_mean": "norm_scale", "sum_middle": "reduce", "argmax_middle": "reduce", "argmin_last": "reduce", "hinge": "reduce",
    "huber": "reduce", "kl": "reduce", "cross_entropy": "cross_entropy", "triplet": "triplet_loss", "logsumexp": None,
    "turned_copy": None, "matmul": "matmul", "matrix_vector": "reduce", "vector_matrix": "reduce", "linear_relu": "matmul",
    "lower": "matmul", "einsum": "matmul", "diagonal": "diag_matmul", "diagonal_broadcast": "diag_matmul", "max_pool1d": "pooling",
    "avg_pool3d": "pooling", "depthwise": "depthwise_conv", "cumsum_reverse": "scan", "cumsum_exclusive": "scan", "masked_cumsum": "scan",
    "cumprod": "scan", "attention": "attention",
}


def graph_of(source: str) -> Graph:
    return read(trace(source))


def matched(source: str) -> match.Match | None:
    graph = graph_of(source)
    return match.first(MATCHERS, graph, graph.outputs[0])


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_kind_of_problem_finds_its_starter(name: str) -> None:
    found = matched({**problems.ROWS, **problems.OTHERS}[name])
    assert (found.op if found else None) == EXPECTED[name]


@pytest.mark.parametrize(("name", "shape"), [
    ("log_softmax_middle", {"dim": 1, "log": True}),
    ("layer_norm_formula", {"ndim": 1, "eps": 1e-5}),
    ("rms_norm_channels", {"dim": 1, "eps": 1e-5}),
    ("l1_mean", {"kind": "l1", "dim": 1, "mean": True, "eps": 0.0}),
    ("frobenius", {"kind": "l2", "dim": None, "mean": False, "eps": 0.0}),
    ("sum_middle", {"kind": "sum", "dim": 1, "keepdim": True, "divide": None}),
    ("matrix_vector", {"kind": "sum", "dim": 1, "keepdim": True, "divide": None}),
    ("lower", {"triangular": "lower", "triangular_inputs": True}),
    ("cumsum_reverse", {"kind": "sum", "dim": 1, "reverse": True, "exclusive": False}),
    ("cumsum_exclusive", {"kind": "sum", "dim": 1, "reverse": False, "exclusive": True}),
    ("max_pool1d", {"kind": "max", "kernel": [1, 4], "stride": [1, 2], "padding": [0, 1], "dilation": [1, 2], "ceil_mode": False,
                    "count_include_pad": True}),
])
def test_the_facts_of_a_problem_are_read_from_its_graph(name: str, shape: dict[str, Any]) -> None:
    found = matched({**problems.ROWS, **problems.OTHERS}[name])
    assert found is not None and dict(found.shape) == shape


@pytest.mark.parametrize("forward", [
    "x: return x / torch.sqrt(torch.sum(x, dim=1, keepdim=True) + 1e-5)",  # not squared
    "x: return x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) * 2 + 1e-5)",
    "x: return 2 * x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)",
    "x: return torch.exp(x - x.amax(1, keepdim=True)) / torch.exp(x - x.amax(1, keepdim=True)).mean(1, keepdim=True)",
])
def test_a_formula_that_is_nearly_a_norm_is_not_taken_for_one(forward: str) -> None:
    assert matched(problems.problem(forward, "torch.rand(5, 9)")) is None


@pytest.mark.parametrize("forward", [
    "x: return torch.cumsum(x, 0, dtype=torch.float64)", "x: return x.flip(1)", "x: return x[:, ::2] + 1.0",
])
def test_what_no_starter_does_is_no_match(forward: str) -> None:
    found = matched(problems.problem(forward, "torch.rand(6, 8)"))
    assert found is None or found.op == "elementwise"


@pytest.mark.parametrize(("forward", "inputs", "init"), [
    ("x: return 2 * x.view(2, 3, 4, 5).transpose(1, 2).contiguous().view(2, 12, 5)", "torch.rand(2, 12, 5)", ""),
    ("x: return x.t().contiguous().view(-1) + 1", "torch.rand(5, 7)", ""),
    ("x: return torch.relu(x[:, 2:].clone().view(25))", "torch.rand(5, 7)", ""),
    ("x: return self.g(self.f(x).t().contiguous().view(20, 9))", "torch.rand(20, 33)",
     "self.f = nn.Linear(33, 9); self.g = nn.Linear(9, 8)"),
    ("x: return self.d(torch.relu(self.c(x)).view(2, 3, 2, 20).transpose(1, 2).contiguous().view(2, 6, 5, 4))", "torch.rand(2, 4, 5, 4)",
     "self.c = nn.Conv2d(4, 6, 1); self.d = nn.Conv2d(6, 9, 1)"),
])
def test_a_view_of_a_copy_is_not_taken_for_one_of_what_was_copied(forward: str, inputs: str, init: str) -> None:
    source = problems.problem(forward, inputs, init)
    with pytest.raises(Unmatchable):  # no strides over what was copied say it
        starter_templates(source, graph_of(source), "triton")


def test_dead_operations_do_not_hinder() -> None:
    found = matched(problems.problem("x: y = torch.fft.fft(x); return torch.relu(x)", "torch.rand(6, 8)"))
    assert found is not None and found.op == "elementwise"


def test_a_row_program_says_what_it_cannot_do() -> None:
    with pytest.raises(Unmatchable, match="convolution"):
        row_program(graph_of(problems.problem("x: return self.c(x)", "torch.rand(1, 3, 8, 8)", "self.c = nn.Conv2d(3, 4, 3)")))


def test_cuda_starters_get_the_formula_and_the_parameters_as_c() -> None:
    source = problems.ROWS["huber"]
    template = starter_templates(source, graph_of(source), "cuda")[0]
    text = template.render({**template.params, "threads": 512})
    assert "constexpr int THREADS = 512;" in text and "'threads': 512" in text
    assert "fabsf(" in text.split("// chain begin")[1].split("// chain end")[0]
    assert f"'divide': {17 * 33}.0" in text


@pytest.mark.parametrize("name", ["chain", "linear_relu", "argmax_middle", "hinge", "cumprod"])
def test_what_a_cuda_starter_does_not_do_is_said(name: str) -> None:
    source = {**problems.ROWS, **problems.OTHERS}[name]
    with pytest.raises(Unmatchable, match="cuda starter"):
        starter_templates(source, graph_of(source), "cuda")


@pytest.mark.skipif(not LEVEL_1, reason="set AUTOKERNEL_KERNELBENCH_DIR to the folder of KernelBench's parquet files")
@pytest.mark.timeout(400)
@pytest.mark.filterwarnings("ignore")  # what a problem's own code warns of
@pytest.mark.slow
def test_nearly_every_problem_of_levels_1_and_2_finds_a_triton_plan_and_a_third_of_level_1_a_row_program() -> None:
    found: Counter[int] = Counter()
    rows = 0
    for level in (1, 2):
        for problem in load_level(level, source=str(Path(LEVEL_1 or ""))).problems:
            graph = graph_of(problem.source)
            try:
                starter_templates(problem.source, graph, "triton")
                found[level] += 1
            except Unmatchable:
                pass
            if level == 1:
                try:
                    row_program(graph)
                    rows += 1
                except Unmatchable:
                    pass
    assert found[1] >= 99 and found[2] >= 99, found
    assert rows >= 37


def test_a_plan_cuts_where_least_is_moved() -> None:
    def ops(name: str) -> list[list[str]]:
        source = problems.STAGED[name]
        return [t.name.removeprefix("triton ").split("+") for t in starter_templates(source, graph_of(source), "triton")]

    assert ops("conv_pool_chain") == [["conv"], ["library", "rows", "pooling", "rows2"]]
    assert ops("turned_softmax") == [["conv"], ["library", "rows"]]
    assert ops("linear_group_norm") == [["matmul", "rows"]]
    assert ops("linear_extras") == [["matmul"]]
    assert ops("two_linears") == [["matmul", "matmul2", "rows"]]
    assert ops("separable") == [["depthwise_conv", "conv"], ["depthwise_conv", "library"]]


def test_stages_that_do_the_same_share_their_kernels() -> None:
    source = problems.STAGED["same_linears"]
    template = starter_templates(source, graph_of(source), "triton")[0]
    text = template.render(template.params)
    functions = re.findall(r"^def (matmul\d*)\(", text, re.MULTILINE)
    assert len(functions) == 2, functions  # with relu behind the product, and without
    assert {f'"{name}"' for name in functions} <= set(re.findall(r'"matmul\d*"', text.replace("'", '"')))
    assert len(re.findall(r" = matmul\d*\(", text)) == 4
    other = template.render({**template.params, "matmul2.num_stages": 5})
    assert len(re.findall(r"^def matmul\d*\(", other, re.MULTILINE)) == 3  # what is launched otherwise is compiled otherwise


def test_a_rewrite_is_tried_first_and_says_that_it_is_one() -> None:
    source = problems.STAGED["summed_product"]
    rewrite, plain = starter_templates(source, graph_of(source), "triton")
    assert "rewrite: the sum over a product's columns is taken before the product" in rewrite.idea
    assert "rewrite" not in plain.idea and plain.name == "triton matmul+rows"
    assert "Rewrite: the sum" in rewrite.render(rewrite.params).split('"""')[1]
    assert "self.w" in rewrite.render(rewrite.params).split("def forward")[1]  # from the weights as they are at each call


@pytest.mark.parametrize("forward", [
    "x: return torch.sum(torch.relu(self.fc(x)), dim=1)",  # not linear in the product
    "x: return torch.sum(self.fc(x), dim=0)",
    "x: return torch.sum(self.fc(x) * self.fc(x), dim=1)",
])
def test_only_sums_that_commute_are_rewritten(forward: str) -> None:
    source = problems.problem(forward, "torch.rand(5, 9)", "self.fc = nn.Linear(9, 7)")
    assert all("rewrite" not in t.idea for t in starter_templates(source, graph_of(source), "triton"))


@pytest.mark.parametrize(("old", "strides", "new", "expected"), [
    ((2, 6), (6, 1), (2, 2, 3), (6, 3, 1)), ((2, 6), (0, 1), (2, 2, 3), (0, 3, 1)), ((2, 2, 3), (6, 3, 1), (12,), (1,)),
    ((1, 4, 5), (0, 5, 1), (4, 1, 5), (5, 0, 1)), ((4, 5), (1, 4), (20,), None), ((4, 6), (1, 4), (4, 2, 3), (1, 12, 4)),
    ((2, 3, 4), (0, 1, 0), (6, 4), None), ((6, 4), (4, 1), (4, 6), (6, 1)),
])
def test_a_strided_tensor_is_seen_in_another_shape_where_no_copy_is_needed(old: Any, strides: Any, new: Any, expected: Any) -> None:
    assert restride(old, strides, new) == expected
