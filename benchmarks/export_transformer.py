"""One exported kernel inside a small transformer, put there by kernelize(): end-to-end time before and after.

python benchmarks/export_transformer.py FOLDER [--device cuda|cpu] [--calls 20]

FOLDER is what `autokernel export` wrote, with one operation that has a layer. Its place in the transformer follows from what it takes:
two square matrices (every projection), one matrix and no parameters (the activation of the feed-forward part). The shapes are the
kernel's own; other kernels have no place here, and the exit code is 2. Both models hold the same weights and see the same inputs, calls
alternate, and the outputs are compared.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from pathlib import Path

import torch
from kernels import LocalLayerRepository, Mode, get_local_kernel, kernelize, use_kernel_forward_from_hub, use_kernel_mapping
from torch import nn


class Attention(nn.Module):
    """Self-attention over (tokens, width), all projections through `product`."""

    def __init__(self, width, product):
        super().__init__()
        self.heads, self.product = max(width // 128, 1), product
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(width, width) / width ** 0.5) for _ in range(4))

    def forward(self, x):
        q, k, v = (self.product(x, w).view(x.shape[0], self.heads, -1).transpose(0, 1).contiguous() for w in self.weights[:3])
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.product(mixed.transpose(0, 1).reshape(x.shape).contiguous(), self.weights[3])


class Block(nn.Module):
    """Attention and a feed-forward part of `hidden` features, each behind a normalisation and with a shortcut around it."""

    def __init__(self, width, hidden, product, activation):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention, self.product, self.activation = Attention(width, product), product, activation
        self.up = nn.Parameter(torch.randn(width, hidden) / width ** 0.5)
        self.down = nn.Parameter(torch.randn(hidden, width) / hidden ** 0.5)

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.product(self.activation(self.product(self.norms[1](x), self.up)), self.down)


class Plain(nn.Module):
    """A matrix product as torch does it, where the kernel has no part in it."""

    def forward(self, a, b):
        return a @ b


def problem_of(folder):
    """The problem's own Model class and the kernel's schema: what the reference side of the transformer computes."""
    metadata = json.loads(next(folder.glob("build/*/metadata.json")).read_text())
    (schema,) = metadata["autokernel"]["api"]
    script = {}
    exec(compile((folder / "benchmarks" / "benchmark.py").read_text(), "benchmark.py", "exec"), script)
    name = schema.partition("(")[0]
    module = script["_problem"](script[name.upper()])
    return name, module, re.findall(r"Tensor (\w+)", schema.partition(")")[0])


def place(inputs, takes, given):
    """(tokens, width, hidden, kind) for the operation, or None where it has no place."""
    shapes = [tuple(i.shape) for i in inputs if isinstance(i, torch.Tensor)]
    if len(shapes) != len(inputs) or len(takes) != len(inputs) or any(i.dtype != torch.float32 for i in inputs):
        return None
    if len(shapes) == 2 and all(shape == (given[0], given[0]) for shape in (*shapes, given)):
        return given[0], given[0], given[0], "product"
    if len(shapes) == 1 and len(shapes[0]) == 2 and given == shapes[0]:
        return shapes[0][0], 512, shapes[0][1], "activation"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--layers", type=int, default=2)
    asked = parser.parse_args()
    backend = asked.device.partition(":")[0]
    name, problem, takes = problem_of(asked.folder)
    kernel = get_local_kernel(asked.folder, backend=backend if backend == "cpu" else None)
    layers = list(kernel.layers.__all__)
    with torch.device("meta"):
        inputs = problem.get_inputs()
        given = tuple(problem.Model(*problem.get_init_inputs())(*inputs).shape) if layers else ()
    where = place(inputs, takes, given) if layers else None
    if where is None:
        print(f"{name}: no place in the transformer", file=sys.stderr)
        return 2
    tokens, width, hidden, kind = where
    torch.manual_seed(0)
    reference = use_kernel_forward_from_hub(layers[0])(problem.Model)

    def built():
        torch.manual_seed(1)
        with torch.device(asked.device):
            own = reference(*problem.get_init_inputs())
            product, activation = (own, nn.GELU()) if kind == "product" else (Plain(), own)
            return nn.Sequential(*(Block(width, hidden, product, activation) for _ in range(asked.layers))).eval()

    before = built()
    with use_kernel_mapping({layers[0]: {backend: LocalLayerRepository(asked.folder, layer_name=layers[0])}}):
        after = kernelize(built(), mode=Mode.INFERENCE, device=backend, use_fallback=False)
    x = torch.randn(tokens, width, device=asked.device)
    times = {"before": [], "after": []}
    with torch.inference_mode():
        outputs = {"before": before(x), "after": after(x)}
        for call in range(asked.calls + 2):
            for side, model in (("before", before), ("after", after)) if call % 2 else (("after", after), ("before", before)):
                if backend == "cuda":
                    torch.cuda.synchronize()
                start = time.perf_counter()
                model(x)
                if backend == "cuda":
                    torch.cuda.synchronize()
                if call >= 2:
                    times[side].append(1e3 * (time.perf_counter() - start))
    medians = {side: statistics.median(values) for side, values in times.items()}
    apart = ((outputs["after"] - outputs["before"]).norm() / outputs["before"].norm()).item()
    print(f"transformer of {asked.layers} layers, {tokens} tokens, width {width}, feed-forward {hidden}, float32, {name} as its {kind}, "
          f"torch {torch.__version__}, {torch.cuda.get_device_name() if backend == 'cuda' else 'cpu'}")
    for side, values in times.items():
        print(f"  {side:<7}{medians[side]:.3f} ms a pass (median of {len(values)}, {min(values):.3f} to {max(values):.3f})")
    print(f"  {medians['before'] / medians['after']:.3f} times as fast; outputs differ by {apart:.2e} (relative, 2-norm)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
