"""The text of one operation's module: its operator, function and ModelNew, and of its layer."""

from __future__ import annotations

from exporters.operation import CLASS_ONLY, OP, Argument, Operation, TensorSpec, check_dtype

DISPATCH = {"cpu": "CPU", "cuda": "CUDA"}


def op_module(operation: Operation, backend: str) -> str:
    """The module `_NAME.py` for `backend` "cpu" or "cuda"."""
    return _class_module(operation, backend) if operation.form == CLASS_ONLY else _operator_module(operation, backend)


def _operator_module(operation: Operation, backend: str) -> str:
    facts, name = operation.facts, operation.name
    inputs, params = [a.name for a in facts.arguments], [p.name for p in facts.parameters]
    everything = ", ".join([*inputs, *params])
    paths = tuple(p.path for p in facts.parameters)
    lines = [*_head(operation), f"from .{operation.winner} import ModelNew as _Winner"]
    if operation.fallback:
        lines.append(f"from ._reference_{name} import Model as _Model")
    lines += ["", f'__all__ = ["{name}", "ModelNew"]', "", *_verified(operation),
              f"_winner = _runtime.Skeleton(_Winner, _INIT, {paths!r})", ""]
    if operation.fallback:
        lines += [f"_reference = _runtime.Reference(_Model, _INIT, {paths!r})", ""]
    lines += ["", f"def _run({everything}):",
              f"    return _winner.call({_first(operation)}.device, {_tuple(inputs)}, {_tuple(params)})", "", "",
              f"def _fake({everything}):", f"    return {_fake(operation)}", "", "",
              f"_op = _runtime.register({operation.schema!r}, _run, _fake, {DISPATCH[backend]!r})", "", "",
              f"def {name}({_parameters(operation)}){_gives(operation)}:", *_docstring(operation)]
    lines += _guard(operation, backend, "    ", inputs, params)
    made = f"_op({everything})"
    lines += [f"    return {'list(' + made + ')' if facts.container == 'list' else made}", "", ""]
    passed = ", ".join([*inputs, *(f"{p.name}={_path(p.path)}" for p in facts.parameters)])
    lines += ["class ModelNew(_Winner):",
              f'    """The KernelBench form: problem {operation.uid}, constructed with {facts.init!r} alone."""', "",
              *_constructor(operation), f"    def forward({', '.join(['self', *inputs])}):",
              f'        """{name} with this module\'s own parameters."""',
              f"        return {name}({passed})"]
    return "\n".join(lines) + "\n"


def _class_module(operation: Operation, backend: str) -> str:
    facts = operation.facts
    inputs = [a.name for a in facts.arguments]
    lines = [*_head(operation), f"from .{operation.winner} import ModelNew as _Winner", "", '__all__ = ["ModelNew"]', "",
             *_verified(operation), "", "", "class ModelNew(_Winner):",
             f'    """The KernelBench form: problem {operation.uid}. No function or layer: {operation.why_form}."""', ""]
    if facts.init is not None:
        lines += _constructor(operation)
    lines += [f"    def forward({', '.join(['self', *inputs])}):", '        """What was verified, or an error that says what was."""',
              *_guard(operation, backend, "        ", inputs, []), *_parent_call(operation, inputs)]
    return "\n".join(lines) + "\n"


def _constructor(operation: Operation) -> list[str]:
    return ["    def __init__(self, *args, **kwargs) -> None:",
            f'        _runtime.check_init("{operation.title}", _Winner, _INIT, args, kwargs)',
            "        super().__init__(*args, **kwargs)", ""]


def layer_text(operation: Operation) -> str:
    """The layer class of an operation, for layers.py; "" where it has none."""
    if not operation.has_layer:
        return ""
    facts = operation.facts
    inputs = [a.name for a in facts.arguments]
    passed = ", ".join([*inputs, *(f"{p.name}={_path(operation.in_layer(p))}" for p in facts.parameters)])
    holds = [f"parameter {operation.in_layer(p)}" for p in facts.parameters]
    holds += [f"attribute {n} = {v!r}" for n, v in facts.constants.items()]
    what = f"; the module holds {', '.join(holds)}" if holds else ""
    lines = [f"class {operation.title}(nn.Module):",
             f'    """Stands in for a module\'s forward{what}."""', "",
             "    has_backward = False", "    can_torch_compile = True", "",
             f"    def forward({', '.join(['self', *(f'{a.name}: {_annotation(a)}' for a in facts.arguments)])}){_gives(operation)}:",
             f'        """{operation.name}, with the tensors of the module that it stands in for."""']
    lines += [f'        _runtime.constant(self, "{n}", {v!r}, "{operation.title}")' for n, v in facts.constants.items()]
    lines.append(f"        return _{operation.name}.{operation.name}({passed})")
    return "\n".join(lines) + "\n"


def _head(operation: Operation) -> list[str]:
    what = f"problem {operation.uid} ({_plain(operation.problem_name)}), won by {operation.sha256[:12]}"
    return [f'"""{operation.name}: {what}."""', "",
            "from __future__ import annotations", "", "import torch", "from torch import Tensor", "", "from . import _runtime"]


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isalnum() or c in " ._-")


def _verified(operation: Operation) -> list[str]:
    """_INIT and _VERIFIED: what the module was constructed with, and each argument as it was verified."""
    rows = [f'    ("{a.name}", {_spec(a.tensor) if a.tensor else "..." if a.opaque else repr(a.value)}),'
            for a in operation.facts.arguments]
    rows += [f'    ("{p.name}", {_spec(p.tensor)}),' for p in operation.facts.parameters] if operation.form == OP else []
    return [f"_INIT = {operation.facts.init!r}", "_VERIFIED = (", *rows, ")"]


def _spec(spec: TensorSpec) -> str:
    return f"({spec.shape!r}, torch.{check_dtype(spec.dtype)}, {None if spec.contiguous else spec.stride!r})"


def _guard(operation: Operation, backend: str, indent: str, inputs: list[str], params: list[str]) -> list[str]:
    """The checks in straight lines: they stand before every call, and loops would cost more than the call itself."""
    conditions: list[str] = []
    first = ""
    specs = [(a.name, a.tensor, a.value) for a in operation.facts.arguments if not a.opaque]
    specs += [(p.name, p.tensor, None) for p in operation.facts.parameters if params]
    for name, spec, value in specs:
        if spec is None:
            conditions.append(f"type({name}) is {type(value).__name__} and {name} == {value!r}" if value is not None else f"{name} is None")
            continue
        strides = f"{name}.is_contiguous()" if spec.contiguous else f"{name}.stride() == {spec.stride!r}"
        place = f"{name}.device == {first}.device" if first else f'{name}.device.type == "{backend}"'
        conditions.append(f"isinstance({name}, Tensor) and {name}.shape == {spec.shape!r} "
                          f"and {name}.dtype == torch.{check_dtype(spec.dtype)} and {place} and {strides}")
        first = first or name
    grad = " or ".join(f"{name}.requires_grad" for name, spec, _ in specs if spec is not None)
    lines = [f"{indent}if not (", *(f"{indent}    {'and ' if i else ''}{c}" for i, c in enumerate(conditions)),
             f"{indent}    and not (torch.is_grad_enabled() and ({grad}))" if grad else "", f"{indent}):"]
    if operation.fallback and operation.form == OP:
        lines.append(f"{indent}    return _reference.call({_tuple(inputs)}, {_tuple(params)})")
    else:
        lines.append(f'{indent}    raise _runtime.refusal("{operation.name}", "{backend}", _VERIFIED, {_tuple([*inputs, *params])})')
    return [line for line in lines if line]


def _tuple(names: list[str]) -> str:
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _annotation(argument: Argument) -> str:
    return "Tensor" if argument.tensor is not None else type(argument.value).__name__


def _parameters(operation: Operation) -> str:
    takes = [f"{a.name}: {_annotation(a)}" for a in operation.facts.arguments]
    named = [f"{p.name}: Tensor" for p in operation.facts.parameters]
    return ", ".join([*takes, *(["*", *named] if named else [])])


def _gives(operation: Operation) -> str:
    return {"tensor": " -> Tensor", "tuple": f" -> tuple[{', '.join('Tensor' for _ in operation.facts.outputs)}]",
            "list": " -> list[Tensor]"}[operation.facts.container]


def _first(operation: Operation) -> str:
    return next((a.name for a in operation.facts.arguments if a.tensor is not None), "")


def _parent_call(operation: Operation, inputs: list[str]) -> list[str]:
    call, first = f"return super().forward({', '.join(inputs)})", _first(operation)
    return [f"        with _runtime.current({first}.device):", f"            {call}"] if first else [f"        {call}"]


def _fake(operation: Operation) -> str:
    source = _first(operation)
    made = [f"{source}.new_empty({o.shape!r}, dtype=torch.{check_dtype(o.dtype)})" for o in operation.facts.outputs]
    return made[0] if operation.facts.container == "tensor" else _tuple(made)


def _path(path: str) -> str:
    parts = path.split(".")
    return f"self.{path}" if all(part.isidentifier() for part in parts) else f'_runtime.tensor(self, "{path}")'


def _docstring(operation: Operation) -> list[str]:
    facts = operation.facts
    takes = [f"    {a.name}: {a.tensor.text if a.tensor else f'{a.value!r}'}" for a in facts.arguments]
    takes += [f"    {p.name}: {p.tensor.text}" for p in facts.parameters]
    gives = "; ".join(o.text for o in facts.outputs)
    outside = "goes to the problem's own torch code" if operation.fallback else "raises"
    return [f'    """{operation.title} of problem {operation.uid}, forward only.', "", *takes, "",
            f"    Gives {gives}. Constructed with {facts.init!r}. Anything else {outside}.", '    """']
