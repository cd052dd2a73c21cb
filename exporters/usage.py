"""The code that a card shows, complete programs that a test runs as they stand."""

from __future__ import annotations

from exporters.operation import OP, Argument, Operation, TensorSpec
from exporters.package import Kernel


def loading(kernel: Kernel, repo_id: str) -> list[str]:
    """The lines that load the kernel, by version and with the repository named as trusted."""
    backend = ', backend="cpu"' if kernel.backend == "cpu" else ""
    return [f'kernel = get_kernel("{repo_id}", version={kernel.version}, trust_remote_code=["{repo_id}"]{backend})']


def function_usage(kernel: Kernel, operation: Operation, repo_id: str) -> str:
    """A program that calls the function; "" where there is none."""
    if operation.form != OP:
        return ""
    facts = operation.facts
    lines = ["import torch", "from kernels import get_kernel", "", *loading(kernel, repo_id)]
    lines += [f"{a.name} = {_made(a, kernel.backend)}" for a in facts.arguments]
    lines += [f"{p.name} = {_tensor(p.tensor, kernel.backend)}" for p in facts.parameters]
    passed = ", ".join([*(a.name for a in facts.arguments), *(f"{p.name}={p.name}" for p in facts.parameters)])
    return "\n".join([*lines, "with torch.inference_mode():", f"    y = kernel.{operation.name}({passed})"])


def model_usage(kernel: Kernel, operation: Operation, repo_id: str) -> str:
    """A program that uses the class as KernelBench does; "" where its arguments cannot be written down (tensors among them)."""
    if operation.facts.init is None or any(a.opaque for a in operation.facts.arguments):
        return ""
    init = ", ".join(repr(value) for value in operation.facts.init)
    lines = ["import torch", "from kernels import get_kernel", "", *loading(kernel, repo_id)]
    lines += [f"{a.name} = {_made(a, kernel.backend)}" for a in operation.facts.arguments]
    lines.append(f'model = kernel.models.{operation.title}({init}).to("{kernel.backend}")')
    return "\n".join([*lines, "with torch.inference_mode():", f"    y = model({', '.join(a.name for a in operation.facts.arguments)})"])


def layer_usage(kernel: Kernel, operation: Operation, repo_id: str) -> str:
    """A program that has kernelize() put the layer in a module's place; "" where there is no layer."""
    if not operation.has_layer:
        return ""
    facts, title = operation.facts, operation.title
    inputs = ", ".join(a.name for a in facts.arguments)
    body = [f"        self.{name} = {value!r}" for name, value in facts.constants.items()]
    for parameter in facts.parameters:
        made = _tensor(parameter.tensor, kernel.backend)
        grad = "" if "float" in parameter.tensor.dtype else ", requires_grad=False"
        body.append(f"        self.{operation.in_layer(parameter)} = torch.nn.Parameter({made}{grad})")
    lines = ["import torch", "from kernels import LayerRepository, Mode, kernelize, use_kernel_forward_from_hub, use_kernel_mapping",
             "", "",
             f'@use_kernel_forward_from_hub("{title}")', f"class {title}(torch.nn.Module):"]
    if body:
        lines += ["    def __init__(self):", "        super().__init__()", *body, ""]
    lines += [f"    def forward(self, {inputs}):", '        raise NotImplementedError("your own forward; kernelize() replaces it")',
              "", "", "layer = LayerRepository(",
              f'    "{repo_id}", layer_name="{title}", version={kernel.version}, trust_remote_code=["{repo_id}"])',
              f'with use_kernel_mapping({{"{title}": {{"{kernel.backend}": layer}}}}):',
              f'    model = kernelize({title}(), mode=Mode.INFERENCE, device="{kernel.backend}")']
    lines += [f"{a.name} = {_made(a, kernel.backend)}" for a in facts.arguments]
    return "\n".join([*lines, "with torch.inference_mode():", f"    y = model({inputs})"])


def _made(argument: Argument, backend: str) -> str:
    return repr(argument.value) if argument.tensor is None else _tensor(argument.tensor, backend)


def _tensor(spec: TensorSpec, backend: str) -> str:
    shape = ", ".join(map(str, spec.shape)) if spec.shape else "()"
    if not spec.contiguous:
        return f'torch.empty_strided({spec.shape!r}, {spec.stride!r}, dtype=torch.{spec.dtype}, device="{backend}").normal_()'
    if spec.dtype in ("float32", "float64", "float16", "bfloat16"):
        kind = "" if spec.dtype == "float32" else f", dtype=torch.{spec.dtype}"
        return f'torch.randn({shape}{kind}, device="{backend}")'
    return f'torch.zeros({shape}, dtype=torch.{spec.dtype}, device="{backend}")'
