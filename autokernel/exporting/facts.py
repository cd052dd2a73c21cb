"""A problem's facts for export, without allocating its tensors: what goes in, what Model holds, what comes out.

Run as a process of its own, `python -m autokernel.exporting.facts`: reads the problems' texts on stdin, a JSON list, and prints a list of
objects. It executes the problems' (trusted) code, as the judge does; never a candidate's.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import math
import sys
import types
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

PLAIN = (bool, int, float, str)


def facts(source: str) -> dict[str, Any]:
    """The facts as JSON values: arguments, outputs, container, parameters, layer_prefix,
    why_no_layer, constants, init, why_class_only; or {"error": why}."""
    try:
        return _facts(source)
    except Exception as error:  # noqa: BLE001 - the problem's code may raise anything; the reason is the answer
        return {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}


def _facts(source: str) -> dict[str, Any]:
    module = types.ModuleType("exported_problem")
    sys.modules[module.__name__] = module
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        exec(compile(source, "problem.py", "exec"), module.__dict__)
        init = list(module.__dict__["get_init_inputs"]())
        model = module.__dict__["Model"](*init)
        inputs = list(module.__dict__["get_inputs"]())
        held = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        watched = [*(t for _, t in held), *(i for i in inputs if isinstance(i, torch.Tensor))]
        versions = [tensor._version for tensor in watched]
        result = model(*inputs)
        flat = list(result) if isinstance(result, (tuple, list)) else [result]
        prefix, why_no_layer = _layer(source, model)
        module = model.get_submodule(prefix) if prefix else model
        why = _why_class_only(inputs, held, flat, mutates=versions != [tensor._version for tensor in watched])
        return {
            "arguments": _arguments(model, inputs),
            "container": "tuple" if isinstance(result, tuple) else "list" if isinstance(result, list) else "tensor",
            "outputs": [_tensor(r) for r in flat] if not why else [], "why_class_only": why,
            "parameters": [{"path": name, "tensor": _tensor(tensor)} for name, tensor in held],
            "constants": {} if why_no_layer else {
                name: repr(value) for name, value in vars(module).items()
                if value is not None and _plain(value) and not name.startswith("_") and name != "training"},
            "layer_prefix": prefix, "why_no_layer": why_no_layer,
            "init": repr(tuple(init)) if _plain(init) else None,  # JSON has no tuples
        }


def _layer(source: str, model: torch.nn.Module) -> tuple[str, str]:
    """Which module a layer would stand in for: Model itself ("") or the one module that its forward hands everything to; why none may.

    A layer is baked for one set of constants, so all of them must be there to be checked: attributes of that one module.
    """
    children = list(model.named_children())
    if not children:
        return "", ""
    forward = next((f for c in ast.parse(source).body if isinstance(c, ast.ClassDef) and c.name == "Model" for f in c.body
                    if isinstance(f, ast.FunctionDef) and f.name == "forward"), None)
    if forward is not None and len(children) == 1 and not list(children[0][1].children()):
        name, takes = children[0][0], [a.arg for a in forward.args.args[1:]]
        body = [s for s in forward.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if len(body) == 1 and isinstance(body[0], ast.Return) and body[0].value is not None:
            if ast.unparse(body[0].value) == f"self.{name}({', '.join(takes)})" and not list(model.parameters(recurse=False)):
                return name, ""
    return "", "the module is made of others, whose settings a layer could not check"


def _arguments(model: torch.nn.Module, inputs: list[Any]) -> list[dict[str, Any]]:
    code = type(model).forward.__code__
    names = code.co_varnames[1:code.co_argcount]
    if len(names) < len(inputs):
        names = tuple(f"x{number}" for number in range(len(inputs)))
    return [{"name": name, "tensor": _tensor(value)} if isinstance(value, torch.Tensor)
            else {"name": name, "value": value if _plain(value) and not isinstance(value, (list, tuple)) else None,
                  "opaque": not _plain(value) or isinstance(value, (list, tuple))} for name, value in zip(names, inputs, strict=False)]


def _tensor(value: torch.Tensor) -> dict[str, Any]:
    return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."), "stride": list(value.stride())}


def _why_class_only(inputs: list[Any], held: list[tuple[str, torch.Tensor]], outputs: list[Any], *, mutates: bool) -> str:
    if not all(isinstance(o, torch.Tensor) for o in outputs):
        return "its output is no tensor and no flat tuple of tensors"
    if mutates:
        return "its forward changes a buffer or an input"
    given = {t.untyped_storage()._cdata for t in (*(i for i in inputs if isinstance(i, torch.Tensor)), *(t for _, t in held))}
    storages = [o.untyped_storage()._cdata for o in outputs]
    if any(storage in given for storage in storages) or len(set(storages)) < len(storages):
        return "an output shares memory with an input or another output"
    return ""


def _plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_plain(item) for item in value)
    return value is None or (type(value) in PLAIN and not (isinstance(value, float) and not math.isfinite(value)))


def main() -> None:
    """A list of texts on stdin, a list of answers on stdout; what the problems print is dropped."""
    with contextlib.redirect_stdout(io.StringIO()):
        answers = [facts(source) for source in json.load(sys.stdin)]
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
