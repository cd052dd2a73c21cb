"""The embedded problems run, agree with fp64, and none can be answered without doing the work."""

from __future__ import annotations

import pytest
import torch

from kernelbench_bridge import Problem, load_level, requirements

PROBLEMS = [problem for level in (1, 2, 3, 4) for problem in load_level(level, "embedded").problems]
each_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=[problem.uid for problem in PROBLEMS])


def names_of(problem: Problem) -> dict[str, object]:
    namespace: dict[str, object] = {}
    exec(compile(problem.source, problem.name, "exec"), namespace)
    return namespace


def difference(answer: torch.Tensor, expected: torch.Tensor) -> float:
    """Relative root mean square difference, in fp64."""
    error = answer.double() - expected.double()
    return float(error.square().mean().sqrt() / expected.double().square().mean().sqrt())


def test_there_are_as_many_as_promised():
    for level, least in ((1, 8), (2, 6), (3, 4), (4, 2)):
        loaded = load_level(level, "embedded")
        assert len(loaded.problems) >= least
        assert loaded.all_ids == tuple(range(1, len(loaded.problems) + 1))
        assert loaded.notes == () and loaded.origin == "embedded"
    assert len({problem.hash for problem in PROBLEMS}) == len(PROBLEMS)


@each_problem
def test_it_cannot_be_answered_without_the_work(problem):
    names = names_of(problem)
    assert requirements(problem) == ()
    torch.manual_seed(0)
    model = names["Model"](*names["get_init_inputs"]())
    inputs, others = names["get_inputs"](), names["get_inputs"]()
    with torch.no_grad():
        before = [tensor.clone() for tensor in inputs]
        answer, other_answer = model(*inputs), model(*others)
        assert all(torch.equal(tensor, kept) for tensor, kept in zip(inputs, before, strict=True))
        assert torch.isfinite(answer).all()
        controls = {"zeros": torch.zeros_like(answer), "a constant": answer.mean().expand_as(answer), "another's answer": other_answer}
        if answer.dim() > 1:
            controls["one value a column"] = answer.mean(dim=0, keepdim=True).expand_as(answer)
            controls["one value a row"] = answer.flatten(1).mean(dim=1).view(-1, *[1] * (answer.dim() - 1)).expand_as(answer)
        controls |= {f"input {index}": tensor for index, tensor in enumerate(inputs) if tensor.shape == answer.shape}
    close = {name: difference(control, answer) for name, control in controls.items() if difference(control, answer) <= 0.05}
    assert close == {}


@each_problem
def test_eager_is_near_fp64(problem):
    names = names_of(problem)
    torch.manual_seed(0)
    model = names["Model"](*names["get_init_inputs"]())
    inputs = names["get_inputs"]()
    with torch.no_grad():
        answer = model(*inputs)
        exact = model.double()(*[tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs])
    assert difference(answer, exact) < 2e-6


@each_problem
def test_inputs_are_drawn_on_the_device_asked_for(problem):
    names = names_of(problem)
    with torch.device("meta"):
        assert all(tensor.is_meta for tensor in names["get_inputs"]())
        assert all(parameter.is_meta for parameter in names["Model"](*names["get_init_inputs"]()).parameters())
