"""benchmarks/benchmark.py by the Hub's convention: subclasses of `kernels.benchmark.Benchmark` that `kernels benchmark` finds."""

from __future__ import annotations

from collections.abc import Mapping

from exporters.operation import CLASS_ONLY, Operation
from exporters.package import Kernel

_HEAD = '''"""For `kernels benchmark PATH`, which times the reference once and compares loosely; the card's figures come otherwise."""

import functools
import types

import torch
from kernels.benchmark import Benchmark


def _problem(text):
    module = types.ModuleType("problem")
    exec(compile(text, "problem.py", "exec"), module.__dict__)
    return module


def _held(module, path):
    return functools.reduce(getattr, path.split("."), module)
'''


def benchmark_script(kernel: Kernel, problems: Mapping[str, str]) -> str:
    """The script's text; `problems` has the problem's text by operation, which draws the inputs and gives the reference."""
    return _HEAD + "".join(_benchmark(kernel, operation, problems[operation.name]) for operation in kernel.operations)


def _benchmark(kernel: Kernel, operation: Operation, problem: str) -> str:
    name = operation.name
    params = "".join(f', {p.name}=_held(self.reference, "{p.path}")' for p in operation.facts.parameters)
    call = "self.model(*self.inputs)" if operation.form == CLASS_ONLY else f"self.kernel.{name}(*self.inputs{params})"
    model = ([f"        torch.manual_seed(self.seed)\n        with torch.device(self.device):\n"
              f"            self.model = self.kernel.models.{operation.title}(*problem.get_init_inputs()).to(self.device)"]
             if operation.form == CLASS_ONLY else [])
    lines = ["", "", f"{name.upper()} = {problem!r}", "", "", f"class {operation.title}Benchmark(Benchmark):", "    seed = 42", "",
             f"    def setup_{name}(self):", f"        problem = _problem({name.upper()})",
             "        with torch.device(self.device):",
             "            self.inputs = [i.to(self.device) if isinstance(i, torch.Tensor) else i for i in problem.get_inputs()]",
             "        torch.manual_seed(self.seed)", "        with torch.device(self.device):",
             "            self.reference = problem.Model(*problem.get_init_inputs()).to(self.device)", *model, "",
             f"    def benchmark_{name}(self):", "        with torch.inference_mode():", f"            self.out = {call}", "",
             f"    def verify_{name}(self):", "        with torch.inference_mode():", "            return self.reference(*self.inputs)"]
    return "\n".join(lines) + "\n"
