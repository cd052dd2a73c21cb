"""What the exporter knows of one operation: plain values, taken from the problem's own code and from its evaluation."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OP, CLASS_ONLY = "op", "class"
"""Forms: `op` has a function, a layer and ModelNew, all through one registered operator; `class` has ModelNew alone."""
MOST_TENSORS = 24  # parameters a function can reasonably take by name
_TAKEN = ("layers", "models", "ops", "runtime", "binding", "modelnew")  # modules of the package itself
_DTYPES = re.compile(r"[a-z]+[0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True)
class TensorSpec:
    """One tensor as it was verified: shape and strides in elements, dtype by torch's name ("float32")."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...]

    @property
    def contiguous(self) -> bool:
        """Whether the strides are those of a fresh tensor; dimensions of one element may have any."""
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.stride), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    @property
    def text(self) -> str:
        """E.g. "float32 (1024, 768)"."""
        return f"{self.dtype} {self.shape}{'' if self.contiguous else f', strides {self.stride}'}"


@dataclass(frozen=True)
class Argument:
    """One argument of forward: a tensor, or a plain value that is then part of what was verified; `opaque` is anything else."""

    name: str
    tensor: TensorSpec | None = None
    value: bool | int | float | str | None = None
    opaque: bool = False


@dataclass(frozen=True)
class Parameter:
    """A parameter or buffer of the problem's Model, by its path ("linear.weight") and by the name that the function gives it."""

    path: str
    tensor: TensorSpec

    @property
    def name(self) -> str:
        """An identifier: dots become underscores."""
        return self.path.replace(".", "_")


@dataclass(frozen=True)
class Facts:
    """The problem's Model, run once: what goes in, what it holds, what comes out."""

    arguments: tuple[Argument, ...]
    outputs: tuple[TensorSpec, ...]
    container: str = "tensor"  # "tensor", "tuple" or "list": what forward gives back
    parameters: tuple[Parameter, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)  # plain attributes of the module that a layer stands in for, e.g. eps
    layer_prefix: str = ""  # that module's name inside Model, "" for Model itself
    why_no_layer: str = ""
    init: tuple[Any, ...] | None = ()  # what Model is constructed with; None where it is not plain values
    why_class_only: str = ""  # why no operator can stand for it (outputs that share memory with inputs, state that forward changes)


@dataclass(frozen=True)
class Launcher:
    """One `extern "C"` function of a library: its arguments as (type, name), e.g. ("f32*", "x"), and the text of its checked function."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    wrapper: str  # Python text: `def NAME(...)`, over the names that texts/native.py's scope() gives


@dataclass(frozen=True)
class Native:
    """A winner's compiled part."""

    library: bytes  # the shared library
    code: str  # its C++ or CUDA text
    launchers: tuple[Launcher, ...]
    needs: tuple[str, ...] = ()  # processor features that the library may use, by the system's names
    archs: tuple[str, ...] = ()  # GPU architectures as the Hub writes them, e.g. "9.0a"
    backend: str = "cpu"  # the variant's word: "cpu" or "cu130"
    flags: tuple[str, ...] = ()  # compiler flags of the winner's own
    processor: str = "x86_64"  # that the library was compiled for, as variants name it


@dataclass(frozen=True)
class Operation:
    """One winner, ready to be written out."""

    name: str  # the function's, e.g. "rmsnorm"
    title: str  # the class's, e.g. "RMSNorm"
    uid: str  # the problem's, e.g. "L1/19"
    problem_name: str
    builder: str  # "triton", "cuda", "cpp" or "python"
    source: str  # the winner's text
    sha256: str
    facts: Facts
    form: str  # OP or CLASS_ONLY
    why_form: str = ""  # why it is CLASS_ONLY
    reference: str = ""  # text of the problem's Model and what it needs, "" where none is shipped
    fallback: bool = False  # arguments outside what was verified go to the reference, else they are refused
    native: Native | None = None

    def __post_init__(self) -> None:
        check_identifier(self.name)
        check_identifier(self.title)

    @property
    def module(self) -> str:
        """Name of the module that holds the function."""
        return f"_{self.name}"

    @property
    def winner(self) -> str:
        """Name of the module that holds the winner's text."""
        return f"_winner_{self.name}"

    @property
    def has_layer(self) -> bool:
        """Whether a layer can stand in for a module, with everything that it was verified with checked."""
        return self.form == OP and not self.facts.why_no_layer

    def in_layer(self, parameter: Parameter) -> str:
        """A parameter's path in the module that the layer stands in for."""
        prefix = self.facts.layer_prefix
        return parameter.path.removeprefix(f"{prefix}.") if prefix else parameter.path

    @property
    def schema(self) -> str:
        """The operator's schema, e.g. "rmsnorm(Tensor x, Tensor weight) -> Tensor"."""
        takes = [f"{_schema_type(a)} {a.name}" for a in self.facts.arguments] + [f"Tensor {p.name}" for p in self.facts.parameters]
        gives = "Tensor" if self.facts.container == "tensor" else f"({', '.join('Tensor' for _ in self.facts.outputs)})"
        return f"{self.name}({', '.join(takes)}) -> {gives}"

    @property
    def api(self) -> str:
        """What users rely on between versions: the schema, or the class."""
        return self.schema if self.form == OP else f"{self.title}(*init) -> Module"


def _schema_type(argument: Argument) -> str:
    if argument.tensor is not None:
        return "Tensor"
    return {bool: "bool", int: "int", float: "float", str: "str"}[type(argument.value)]


def form_of(facts: Facts, keeps_state: bool) -> tuple[str, str]:
    """The form an operation can take, and why where that is CLASS_ONLY. `keeps_state`: its forward stores things on the module."""
    names = [a.name for a in facts.arguments] + [p.name for p in facts.parameters]
    if facts.why_class_only:
        return CLASS_ONLY, facts.why_class_only
    if facts.init is None:
        return CLASS_ONLY, "its constructor takes more than plain values"
    if any(a.tensor is None and not isinstance(a.value, (bool, int, float, str)) for a in facts.arguments):
        return CLASS_ONLY, "an argument is neither a tensor nor a number"
    if not any(a.tensor for a in facts.arguments) or (facts.container != "tensor" and len(facts.outputs) < 2):
        return CLASS_ONLY, "it takes no tensor, or gives a tuple of one"
    if len(set(names)) < len(names) or any(keyword.iskeyword(n) or not n.isidentifier() for n in names):
        return CLASS_ONLY, "its parameters' names are no distinct argument names"
    if len(facts.parameters) > MOST_TENSORS:
        return CLASS_ONLY, f"it holds {len(facts.parameters)} parameters, more than a function should take"
    if facts.parameters and keeps_state:
        return CLASS_ONLY, "its forward keeps state between calls, which would outlive a change of weights"
    return OP, ""


def check_identifier(name: str) -> None:
    """Raises ValueError for a name that could not stand in Python text as it is; names come from files of others."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(f"'{name}' must be a plain identifier")


def check_dtype(name: str) -> str:
    """The name of a torch dtype, given back. Raises ValueError for other text."""
    if not _DTYPES.fullmatch(name):
        raise ValueError(f"'{name}' must be a dtype's name")
    return name


def names_for(problem_name: str, taken: Sequence[str]) -> tuple[str, str]:
    """A function's and a class's name for a problem's ("19_ReLU" gives "relu", "ReLU"), numbered where the first is taken."""
    words = re.findall(r"[A-Za-z0-9]+", re.sub(r"^\d+_", "", problem_name)) or ["kernel"]
    title = "".join(word[0].upper() + word[1:] for word in words)
    name = "_".join(words).lower()
    if not name[0].isalpha():
        name, title = f"op_{name}", f"Op{title}"
    if keyword.iskeyword(name) or name in _TAKEN:
        name, title = f"{name}_op", f"{title}Op"
    number = 2
    base, base_title = name, title
    while name in taken:
        name, title, number = f"{base}_{number}", f"{base_title}{number}", number + 1
    return name, title
