"""torch.compile's Triton for a whole problem, cut free: kernels with launch parameters of our own, and a forward that calls them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autokernel.proposers.emit import model_class, module_text, reference
from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.launches import with_direct_launches
from autokernel.proposers.match_conv import MEASURED
from autokernel.proposers.recorded import MANY_LAUNCHES, recorded
from autokernel.proposers.seed_products import NAME, SHAPE, Products, own_products
from autokernel.proposers.template import Template
from autokernel.proposers.tracer import TRACER

IDEA = "seed: torch.compile's own kernels, cut free"
HEAD = """\
import torch
import triton
import triton.language as tl
from torch import device, inf, nan, nn
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math"""
GIVEN = '''\
aten = torch.ops.aten


def reinterpret_tensor(x: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> torch.Tensor:
    """The same memory in another shape."""
    return x.as_strided(size, stride, x.storage_offset() + offset)


def laid(x: torch.Tensor, stride: tuple[int, ...]) -> torch.Tensor:
    """`x` with the strides that the kernels were written for; a copy only where the library gave others."""
    return x if x.stride() == stride else torch.empty_strided(x.shape, stride, dtype=x.dtype, device=x.device).copy_(x)


def tiles(grid: str, blocks: dict[str, int], x: int, y: int = 1, z: int = 1) -> tuple[int, int, int]:
    """The programs along each axis; where y needs more than an axis may have, z takes the rest."""
    counts = [-(-n // blocks.get(name, 1)) for n, name in ((x, "XBLOCK"), (y, "YBLOCK"), (z, "ZBLOCK"))]
    if grid == "Grid2DWithYZOverflow":
        rest = -(-counts[1] // 65535)
        counts[1:] = [-(-counts[1] // rest), rest]
    return tuple(counts)'''
MANY_WEIGHTS = 16  # looking up so many by name takes as long as a small kernel
EMPTY = r"empty_strided_cuda\(((?:\([^)]*\)), (?:\([^)]*\))), (torch\.\w+)\)"
GRIDS = ("Grid1D", "Grid2D", "Grid2DWithYZOverflow", "Grid3D")
SPACE: Mapping[str, list[int]] = {"XBLOCK": [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], "YBLOCK": [8, 16, 32, 64, 128],
                                  "ZBLOCK": [1, 2, 4, 8, 16], "R0_BLOCK": [4, 8, 16, 32, 64, 256, 512, 1024, 2048, 4096],
                                  "num_warps": [2, 4, 8, 16]}


@dataclass(frozen=True)
class Kernel:
    """One of the compiler's kernels: the text of its function, its arguments, and how it is launched."""

    name: str
    text: str
    arguments: tuple[str, ...]  # those that are not compile-time constants
    constants: tuple[str, ...]  # those that are, which come after them
    grid: str
    params: Mapping[str, int]


def seed_template(source: str, traced: Mapping[str, Any] | None = None) -> Template:
    """The seed of a problem. Raises Unmatchable where the compiler cannot be driven, or wrote something that has no words here.

    Products are left to the library, or with `traced`, the problem's operations, computed by our own kernel where they are worth it.
    """
    made = TRACER.seed(source)
    if "error" in made:
        raise Unmatchable(f"torch.compile gave no seed ({made['error']})")
    ref = reference(source)
    tree = ast.parse(made["code"])
    kernels = _kernels(tree)
    body, taken = _call(tree, kernels)
    values = [_value(kind, which, ref.arguments) for kind, which in made["arguments"]]
    if len(taken) != len(values):
        raise Unmatchable("torch.compile's kernels take other arguments than forward")
    state = [value for value, (kind, _) in zip(values, made["arguments"], strict=True) if kind != "input"]
    many = len(state) >= MANY_WEIGHTS
    first = [f"self.held = self.held or [{', '.join(state)}]"] if many else []
    launched = f"call({', '.join(['*self.held', *values[len(state):]] if many else values)})"
    doc = f"{IDEA[0].upper()}{IDEA[1:]}{'; running statistics are not updated' if made.get('untracked') else ''}."
    before = [line for line in ref.before.split("\n") if line and line not in HEAD]
    own = own_products(body, traced) if traced else None

    def render(params: Mapping[str, Any]) -> str:
        ours = own if params["products"] == "own" else None
        chosen = {k.name: {p: params[f"{k.name}.{p}"] for p in k.params} for k in kernels}
        if ours is not None:
            chosen[NAME] = {key: params[f"{NAME}.{key}"] for key in ours.space}
        head = "\n".join([f'"""{doc}"""\n', *(ours.imports if ours else ()), HEAD, *before, *([MEASURED] if params["measured"] else ()),
                          "", *([f"SHAPE = {{{NAME!r}: {SHAPE!r}}}"] if ours else ()),
                          "PARAMS = {", *(f"    {n!r}: {v!r}," for n, v in chosen.items()), "}"])
        lines = ours.lines if ours else body
        function = f"def call({', '.join(taken)}):\n" + "\n".join("    " + line for line in lines)
        model = model_class(ref, launched, doc, first=first, held=("held = None  # the weights, looked up once",) if many else ())
        functions = [*(k.text for k in kernels), *(ours.functions if ours else ()), function]
        text = with_direct_launches(module_text([head, GIVEN, *functions, model]))
        return recorded(text, "Direct") if params["recorded"] else text

    firsts, space = _choices(kernels, body, own)
    ast.parse(render(firsts[0]))
    return Template("triton seed", "triton", f"{IDEA}{', its products by our own kernel' if own else ''}", firsts, space, render)


def _choices(kernels: Sequence[Kernel], body: Sequence[str],
             own: Products | None) -> tuple[tuple[dict[str, Any], ...], dict[str, list[Any]]]:
    """What a seed is tried with first, and all its choices."""
    launch = {f"{k.name}.{p}": v for k in kernels for p, v in k.params.items()}
    space: dict[str, list[Any]] = {name: sorted({*SPACE[name.partition(".")[2]], value}) for name, value in launch.items()}
    launches = sum(bool(re.search(r"\[tiles\(|\b(torch|aten)\.(?!empty_strided)", line)) for line in body)
    ways = [True, False] if launches >= MANY_LAUNCHES else [False]
    measured = [True, False] if any("torch.convolution(" in line for line in body) else [False]
    plain = {**launch, "recorded": ways[0], "measured": measured[0], "products": "library"}
    space |= {"recorded": ways, "measured": measured, "products": ["library"]}
    if own is None:
        return tuple({**plain, "recorded": way} for way in ways), space
    products = [{f"{NAME}.{key}": value for key, value in choice.items()} for choice in own.firsts]
    space |= {"products": ["own", "library"], **{f"{NAME}.{key}": list(dict.fromkeys([*choices, *(c[key] for c in own.firsts)]))
                                                 for key, choices in own.space.items()}}
    ours = [{**plain, **choice, "products": "own"} for choice in products]
    return (ours[0], {**plain, **products[0]}, *ours[1:]), space


def _value(kind: str, which: Any, arguments: Sequence[str]) -> str:
    """How forward names an argument of the compiler's call."""
    if kind == "input":
        return str(arguments[which])
    plain = all(part.isidentifier() for part in which.split("."))
    return f"self.{which}" if plain else f"self.get_{kind}({which!r})"


def _kernels(tree: ast.Module) -> list[Kernel]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "async_compile.triton":
            name, text = (ast.literal_eval(a) for a in node.value.args[:2])
            found.append(_kernel(name, text))
        elif isinstance(node, ast.Assign) and "async_compile." in ast.unparse(node.value):
            raise Unmatchable(f"torch.compile used {ast.unparse(node.value)[:60]}, which a seed does not carry")
    return found


def _kernel(name: str, text: str) -> Kernel:
    function = next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef))
    heuristic = next(d for d in function.decorator_list if isinstance(d, ast.Call))
    kind = ast.unparse(heuristic.func).split(".")[-1]
    facts = {k.arg: k.value for k in heuristic.keywords}
    sizes: dict[str, int] = ast.literal_eval(facts["size_hints"]) if "size_hints" in facts else {}
    grid = re.search(r"'grid_type': '(\w+)'", text)
    if kind not in ("pointwise", "reduction", "persistent_reduction") or grid is None or grid[1] not in GRIDS:
        raise Unmatchable(f"torch.compile wrote a kernel of kind {kind} ({grid[1] if grid else 'no grid'}), which a seed does not carry")
    constants = tuple(a.arg for a in function.args.args if a.annotation is not None)
    plain = tuple(a.arg for a in function.args.args if a.annotation is None)
    hint = ast.unparse(facts["reduction_hint"]).split(".")[-1] if "reduction_hint" in facts else ""
    lines = text.split("\n")
    start = next(n for n, line in enumerate(lines) if line.startswith("@triton.jit"))
    return Kernel(name, "\n".join(lines[start:]).rstrip(), plain, constants, grid[1], _params(kind, sizes, constants, hint))


def _params(kind: str, sizes: Mapping[str, int], constants: Sequence[str], hint: str) -> dict[str, int]:
    """Launch parameters to begin with, by the rules of thumb that torch has for each kind."""
    x, r = sizes.get("x", 1), sizes.get("r0_", 1)
    if kind == "pointwise":
        blocks = {"XBLOCK": min(x, 1024)} if len(sizes) == 1 else {"XBLOCK": min(x, 32), "YBLOCK": min(sizes["y"], 32)}
        if "z" in sizes:
            blocks |= {"XBLOCK": min(x, 16), "YBLOCK": min(sizes["y"], 16), "ZBLOCK": min(sizes["z"], 4)}
        warps = 4
    elif kind == "persistent_reduction":
        blocks = {"XBLOCK": max(1, min(x, 1024 // r))}
        warps = 8 if r * blocks["XBLOCK"] >= 2048 else 4
    elif hint == "INNER" or r >= 2048:
        blocks, warps = {"XBLOCK": 1, "R0_BLOCK": min(r, 2048)}, 8
    else:
        blocks, warps = {"XBLOCK": min(x, 64), "R0_BLOCK": min(r, 16)}, 8
    return {**{name: size for name, size in blocks.items() if name in constants}, "num_warps": warps}


def _call(tree: ast.Module, kernels: Sequence[Kernel]) -> tuple[list[str], list[str]]:
    """The compiler's call, with our launches, as lines; and the names of its arguments."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"]
    if len(functions) != 1:
        raise Unmatchable("torch.compile wrote more than one graph")
    known = {k.name: k for k in kernels}
    taken: list[str] = []
    lines: list[str] = []

    def visit(statements: Sequence[ast.stmt]) -> None:
        for node in statements:
            text = ast.unparse(node)
            if isinstance(node, ast.With):
                visit(node.body)
            elif text.endswith(" = args"):
                targets = node.targets[0] if isinstance(node, ast.Assign) else node
                taken.extend(n.id for n in ast.walk(targets) if isinstance(n, ast.Name))
            elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                values = [ast.unparse(v) for v in node.value.elts]
                lines.append(f"return {values[0] if len(values) == 1 else '(' + ', '.join(values) + ')'}")
            elif text.startswith("assert_size_stride("):
                lines.extend(_strides(node))
            elif not text.startswith(("args.clear", "torch.cuda.set_device", "assert_", "start_graph", "end_graph")) \
                    and "copy_if_misaligned(" not in text and "get_raw_stream(" not in text:
                lines.extend(_statement(node, text, known))

    visit(functions[0].body)
    if not taken:
        raise Unmatchable("torch.compile's kernels take no arguments")
    return [f"where = {taken[0]}.device", *lines], taken


def _strides(node: ast.stmt) -> list[str]:
    """A library's result is laid as the compiler expects; an input is what it was traced as."""
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or len(call.args) < 3:
        return []
    name, stride = ast.unparse(call.args[0]), ast.unparse(call.args[2])
    return [] if name.startswith(("arg", "primals")) else [f"{name} = laid({name}, {stride})"]


def _statement(node: ast.stmt, text: str, known: Mapping[str, Kernel]) -> list[str]:
    launch = re.match(r"(\w+)\.run\(", text)
    if launch and launch[1] in known and isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        kernel = known[launch[1]]
        given = [ast.unparse(a) for a in node.value.args]
        by_name = dict(zip(kernel.arguments, given, strict=True))
        numbers = ", ".join(f"{axis}={by_name[axis + 'numel']}" for axis in "xyz" if axis + "numel" in by_name)
        own = f'PARAMS["{kernel.name}"]'
        constants = [f'{own}["{name}"]' for name in kernel.constants]
        return [f'{kernel.name}[tiles("{kernel.grid}", {own}, {numbers})]({", ".join([*given, *constants])}, num_warps={own}["num_warps"])']
    text = re.sub(EMPTY, r"torch.empty_strided(\1, dtype=\2, device=where)", text)
    text = text.replace("extern_kernels.", "torch.")
    unknown = re.search(r"\b(empty_strided_\w+|async_compile|inductor_ops|alloc_from_pool|run_intermediate_hooks)\b", text)
    if unknown:
        raise Unmatchable(f"torch.compile's text uses {unknown[1]}, which a seed does not carry")
    return text.split("\n")
