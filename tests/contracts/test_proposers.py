"""What every proposer must do, run over all that are in the folder."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from autokernel import builders, proposers
from autokernel.errors import UsageError
from autokernel.proposers import Setup, create, names, starting_text
from autokernel.records import Candidate

SOURCE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super(Model, self).__init__()

    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.rand(64, 256)]


def get_init_inputs():
    return []
"""


class Problem:
    uid, name, source, hash = "L1/23", "23_Softmax", SOURCE, "0" * 32


def setup_in(folder):
    (folder / "L1_23.py").write_text(starting_text(Problem().source))
    path = folder / "edited.py"
    path.write_text(starting_text(Problem().source) + "# edited\n")
    return Setup(backend="cpp", device="cpu", seed=1, folder=folder, workspace=folder / "workspace", path=path, timeout_s=5.0)


@pytest.fixture(scope="module")
def proposed(tmp_path_factory):
    """By name: the proposer's first candidate. A search traces the problem in a process of its own, so each is asked once."""
    asked = {}

    def first(name):
        if name not in asked:
            asked[name] = create(name, setup_in(tmp_path_factory.mktemp(name))).propose(Problem(), [])
        return asked[name]

    return first


def test_the_folder_is_found_by_scanning():
    assert {"file", "replay"} <= set(names())
    assert "graph" not in names()


def test_listing_them_imports_none_and_no_torch():
    code = ("import sys; from autokernel import proposers; proposers.names()\n"
            "print([m for m in sys.modules if m.startswith('autokernel.proposers.') or m in ('torch', 'optuna')])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("name", names())
def test_it_says_its_name_and_has_the_protocols_signature(name, tmp_path):
    proposer = create(name, setup_in(tmp_path))
    assert proposer.name == name
    assert list(inspect.signature(proposer.propose).parameters) == ["problem", "history"]


@pytest.mark.parametrize("name", names())
def test_it_proposes_a_candidate_that_a_builder_takes(name, proposed):
    candidate = proposed(name)
    assert isinstance(candidate, Candidate)
    assert candidate.builder in builders.names()
    assert candidate.builder == builders.detect(candidate.source)
    assert candidate.proposer == name
    assert "class ModelNew" in candidate.source
    assert "\n" not in candidate.note


@pytest.mark.parametrize("name", names())
def test_the_same_seed_and_history_give_the_same_candidate(name, proposed, tmp_path):
    assert create(name, setup_in(tmp_path)).propose(Problem(), []) == proposed(name)


def test_an_unknown_one_is_wrong_usage():
    with pytest.raises(UsageError, match="no proposer named 'oracle'; choose one of .*replay"):
        create("oracle", Setup())


def test_the_starting_text_works_where_the_class_calls_super_by_its_own_name():
    import torch

    namespace = {}
    exec(compile(starting_text(Problem().source), "start", "exec"), namespace)
    assert torch.equal(namespace["ModelNew"]()(torch.zeros(1, 4)), torch.full((1, 4), 0.25))


def test_setup_names_are_those_the_factories_ask_for():
    assert {"backend", "device", "seed", "folder"} <= set(inspect.signature(Setup).parameters)
    assert proposers.Proposer.__doc__
