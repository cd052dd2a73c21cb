"""The C++ starters are what the emitter writes for their default problems. Run this file to write them again."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from autokernel.proposers.emit import reference
from autokernel.proposers.emit_cpp import emit
from autokernel.proposers.emit_native import cpp_candidate
from autokernel.proposers.graph import read
from autokernel.proposers.lower import row_program
from autokernel.proposers.templates import headline
from autokernel.proposers.trace import trace

FOLDER = Path(__file__).resolve().parents[1] / "autokernel" / "cpp_kernels"
HEAD = "import torch\nfrom torch import nn\n\n\nclass Model(nn.Module):\n"
TAIL = "\n\ndef get_inputs():\n    return [{inputs}]\n\n\ndef get_init_inputs():\n    return []\n"
PROBLEMS = {
    "elementwise": ("    def forward(self, x):\n        return x * torch.sigmoid(x)\n", "torch.randn(1024, 1024)"),
    "softmax": ("    def forward(self, x):\n        return torch.softmax(x, dim=-1)\n", "torch.randn(1024, 1536)"),
    "layernorm": ("    def __init__(self):\n        super().__init__()\n        self.norm = nn.LayerNorm(768)\n\n"
                  "    def forward(self, x):\n        return self.norm(x)\n", "torch.randn(1024, 768)"),
    "rmsnorm": ("    def __init__(self):\n        super().__init__()\n        self.weight = nn.Parameter(torch.ones(1024))\n\n"
                "    def forward(self, x):\n        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight\n",
                "torch.randn(1024, 1024)"),
    "reduce": ("    def forward(self, x):\n        return x.sum(-1)\n", "torch.randn(1024, 2048)"),
    "columns": ("    def forward(self, x):\n        return x.mean(1)\n", "torch.randn(16, 256, 1024)"),
}
SPACES = {"elementwise": {"chunk": [4096, 8192, 16384, 32768, 65536]}, "columns": {"block": [64, 128, 256, 512, 1024, 2048, 4096]}}
ROWS = {"chunk": [256, 512, 1024, 2048, 4096]}


def problem(name: str) -> str:
    """The default problem of a starter, in KernelBench's format."""
    body, inputs = PROBLEMS[name]
    return HEAD + body + TAIL.format(inputs=inputs)


def written(name: str) -> str:
    """The text of a starter as the emitter writes it, with the literals that the search reads."""
    graph = read(trace(problem(name)))
    program = row_program(graph)
    kernel = emit(program, graph)
    text = cpp_candidate(program, graph, kernel, reference(problem(name)), kernel.params, headline(program))
    shape = {"space": list(program.space), "reduced": list(program.reduced)}
    literals = f'OP = "{name}"\nSHAPE = {shape}\nSPACE = {SPACES.get(name, ROWS)}\n'.replace("'", '"')
    return text.replace("PARAMS =", literals + "PARAMS =", 1)


def literals(text: str) -> dict[str, Any]:
    """The upper-case literals of a starter."""
    return {n.targets[0].id: ast.literal_eval(n.value) for n in ast.parse(text).body
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)}


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_a_starter_is_what_the_emitter_writes(name: str) -> None:
    assert (FOLDER / f"{name}.py").read_text("utf-8") == written(name)


@pytest.mark.parametrize("name", sorted(p.stem for p in FOLDER.glob("*.py")))
def test_a_starter_declares_choices_that_hold_its_parameters(name: str) -> None:
    found = literals((FOLDER / f"{name}.py").read_text("utf-8"))
    assert found["OP"] == name
    assert found["PARAMS"].keys() == found["SPACE"].keys()
    assert all(found["PARAMS"][k] in choices for k, choices in found["SPACE"].items())


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for starter_name in PROBLEMS:
        (FOLDER / f"{starter_name}.py").write_text(written(starter_name), "utf-8")
        sys.stdout.write(f"wrote {starter_name}\n")
