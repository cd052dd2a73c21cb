"""Control answers for a problem: what computes nothing and must not pass. In the judge, put in the place of a candidate's outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from autokernel.compare import as_real
from autokernel.executor.bench import Bench
from autokernel.executor.draws import tensors
from autokernel.executor.oracle import InputSet


def audit(bench: Bench, kinds: list[str]) -> dict[str, Any]:
    """Which controls pass on the problem's own inputs (`weak`), and which on every kind besides (`unscorable`).

    Kinds beyond the problem's range are tried only for controls that pass on its own inputs; `judged` names those that could be.
    `blind`: share of the outputs' elements that lie below their own bound, so that zeros would pass there.
    """
    blind, own = bench.blindness(), bench.judged("own", 0)
    seed = bench.next_seed()
    constants = [_middle(as_real(leaf)) for leaf in bench.oracle.eager(bench.oracle.given(bench.code.draw(seed)), seed)]
    passing = _passing(bench, own, controls(bench, own, constants))
    survivors, judged = set(passing), ["own"]
    for kind in kinds:
        if not survivors:
            break
        made = bench.judged(kind, 0, keep=False)
        if made.why_skipped:
            continue
        judged.append(kind)
        survivors &= _passing(bench, made, {name: c for name, c in controls(bench, made, constants).items() if name in survivors})
    return {"weak": sorted(passing), "unscorable": sorted(survivors), "judged": judged, "oracle": bench.oracle.why_eager or "fp64",
            "blind": blind}


def controls(bench: Bench, made: InputSet, constants: list[float]) -> dict[str, list[Tensor]]:
    """Answers that take no work: zeros, another input's answer, an input itself where one has the output's form, and one constant an
    output, the same on all kinds of inputs: it comes from none of the sets that it is tried on."""
    inputs = made.inputs if made.inputs is not None else bench.code.draw_kind(made.kind, made.seed)
    other_seed = bench.next_seed()
    answers = {
        "zeros": [torch.zeros_like(leaf) for leaf in made.outputs],
        "a constant": [torch.full_like(leaf, value) for leaf, value in zip(made.outputs, constants, strict=True)],
        "another input's answer": [as_real(o) for o in bench.oracle.eager(bench.code.draw_kind(made.kind, other_seed), other_seed)],
    }
    like = [leaf for leaf in tensors(inputs) if leaf.shape == made.outputs[0].shape and leaf.dtype == made.outputs[0].dtype]
    if len(made.outputs) == 1:
        answers |= {f"input {number}": [leaf.contiguous()] for number, leaf in enumerate(like)}
    return answers


def _middle(leaf: Tensor) -> float:
    if leaf.numel() == 0:
        return 0.0
    return float(leaf.double().mean()) if leaf.is_floating_point() else float(leaf.reshape(-1)[0])


def _passing(bench: Bench, made: InputSet, answers: dict[str, list[Tensor]]) -> set[str]:
    return {name for name, answer in answers.items() if all(bench.judge(made, n, leaf).within for n, leaf in enumerate(answer))}
