"""Candidates whose launches are recorded once as a CUDA graph, for problems of many small kernels: a replay is a single launch.

A call copies its inputs to where the recording reads them, replays, and gives copies of what the recording wrote: so calls neither see
each other's inputs nor write over outputs that were given away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autokernel.proposers import starting_text
from autokernel.proposers.template import Template

MANY_LAUNCHES = 5  # fewer are hidden behind each other's work, and the copies cost more
IDEA = "the reference, its launches recorded as a CUDA graph"
TEXT = '''\
def copied(value):
    """The value with a copy of each tensor in it."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return type(value)(map(copied, value)) if isinstance(value, (list, tuple)) else value


class ModelNew(BASE):
    """The same with its launches recorded as a CUDA graph, one for each form of the inputs. Weights must stay where they are."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.recordings = {}

    def forward(self, *inputs):
        if not any(isinstance(x, torch.Tensor) and x.is_cuda for x in inputs):
            return super().forward(*inputs)
        form = tuple((x.shape, x.stride(), x.dtype, x.device) if isinstance(x, torch.Tensor) else x for x in inputs)
        if form not in self.recordings:
            self.recordings[form] = self.record(inputs)
        graph, own, outputs = self.recordings[form]
        for mine, x in zip(own, inputs):
            if isinstance(x, torch.Tensor):
                mine.copy_(x)
        graph.replay()
        return copied(outputs)

    def record(self, inputs):
        """The graph, where it reads its inputs, and where it leaves its outputs."""
        own = copied(inputs)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries choose their kernels, and kernels are compiled, before anything is recorded
            for _ in range(2):
                super().forward(*own)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outputs = super().forward(*own)
        return graph, own, outputs
'''


def recorded(text: str, base: str) -> str:
    """The module `text` with a ModelNew that records what its class `base` does; a ModelNew that is there already becomes `base`."""
    renamed = re.sub(r"\bModelNew\b", base, text).rstrip()
    needed = "" if re.search(r"^import torch$", text, re.MULTILINE) else "import torch\n\n\n"
    return f"{renamed}\n\n\n{needed}{TEXT.replace('BASE', base)}"


def reference_template(source: str, reason: str) -> Template:
    """The problem's own text, recorded first and then as it is; `reason`: why there is nothing better to start from, or empty."""
    def render(params: Mapping[str, Any]) -> str:
        return recorded(source, "Model") if params["recorded"] else starting_text(source)

    idea = f"no starter: {reason}; {IDEA}" if reason else IDEA
    return Template("reference", "python", idea, ({"recorded": True}, {"recorded": False}), {"recorded": [True, False]}, render)
