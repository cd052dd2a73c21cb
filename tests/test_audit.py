"""The problem audit: degenerate problems are found, ordinary ones are not accused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from autokernel.audit import audit_problem
from autokernel.cli import cli
from autokernel.executor.broker import Executor

TEXT = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {body}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return []
"""


@dataclass(frozen=True)
class Task:
    """What an audit needs of a problem."""

    uid: str
    hash: str
    source: str


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with Executor("cpu", tmp_path_factory.mktemp("store"), seed=5) as made:
        yield made


@pytest.mark.parametrize(("body", "inputs", "status", "passing"), [
    ("torch.tanh(x)", "torch.randn(64, 32)", "scorable", set()),
    ("torch.softmax(x, dim=1)", "torch.rand(8, 20000)", "scorable", set()),  # small outputs: zeros are not within the bound
    ("torch.relu(x)", "torch.rand(64, 32)", "weak", {"input 0"}),  # never negative, unless asked beyond its range
    ("(lambda y: y - y.mean(1, keepdim=True))(x.amax(1, keepdim=True))", "torch.rand(64, 32)", "unscorable",
     {"zeros", "a constant", "another input's answer"}),  # a mean over one element
    ("x.argmax(1)", "torch.rand(64, 32)", "scorable", set()),
    ("(x * x).mean()", "torch.rand(64, 32)", "scorable", set()),  # one number: its own mean is no constant known beforehand
    ("(x * x).mean().mul(0) + 0.7", "torch.rand(64, 32)", "unscorable", {"a constant", "another input's answer"}),
    ("x @ x.no_such_attribute", "torch.rand(4, 4)", "reference fails", set()),
])
def test_what_passes_without_computing_decides(executor: Executor, body: str, inputs: str, status: str, passing: set[str]) -> None:
    found = audit_problem(Task("L1/1", body, TEXT.format(body=body, inputs=inputs)), executor)
    assert found.status == status, found
    assert set(found.unscorable or found.weak) == passing
    if status != "reference fails":
        assert found.output_bytes > 0 and found.oracle == "fp64"


def test_a_problem_that_does_not_fit_costs_only_itself(executor: Executor) -> None:
    large = audit_problem(Task("L1/1", "large", TEXT.format(body="x + 1", inputs="torch.rand(30000, 1000000)")), executor)
    assert large.status == "does not fit" and "120000000000 bytes" in large.reason, large
    assert executor.generation == 0  # nobody had to be killed
    assert audit_problem(Task("L1/3", "small", TEXT.format(body="x * 2", inputs="torch.randn(64, 32)")), executor).status == "scorable"


@pytest.mark.slow
def test_memory_asked_for_is_held_to_and_what_is_missing_said(tmp_path: Path) -> None:
    with Executor("cpu", tmp_path, memory_gb=2.5) as small:
        made = audit_problem(Task("L1/2", "middling", TEXT.format(body="x + 1", inputs="torch.rand(80, 1000000)")), small)
        assert made.status == "does not fit" and "inputs take 0.32 GB, its outputs 0.32 GB" in made.reason, made


@pytest.mark.slow
def test_the_command_writes_a_line_a_problem_and_does_none_twice(tmp_path: Path) -> None:
    out = tmp_path / "audit.jsonl"
    command = ["kb", "audit", "--level", "1", "--problems", "1", "--source", "embedded", "--device", "cpu", "--out", str(out), "--json"]
    for _ in range(2):
        done = CliRunner().invoke(cli, command)
        assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["problem"] for row in rows] == ["L1/1"] and rows[0]["status"] == "scorable"
