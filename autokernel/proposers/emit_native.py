"""A candidate file around a C++ kernel: CPP_SRC, SIGNATURES, PARAMS and ModelNew."""

from __future__ import annotations

import json
from collections.abc import Mapping

from autokernel.proposers.emit import Reference, argument_types, model_class, module_text, operand_text
from autokernel.proposers.emit_cpp import ENTRY, CppKernel
from autokernel.proposers.graph import Graph, Unmatchable
from autokernel.proposers.program import Program


def cpp_candidate(program: Program, graph: Graph, kernel: CppKernel, ref: Reference, params: Mapping[str, int], doc: str) -> str:
    """The candidate's text. Raises Unmatchable where an operand is not contiguous (the native binding takes none)."""
    for number in kernel.operands:
        if not graph.operands[number].contiguous:
            raise Unmatchable("every input must be contiguous")
    names = [f"x{i}" for i in range(len(kernel.operands))]
    scalars = [f"a{s}" for s in kernel.scalars]
    first = names[0]
    checks = "".join(f"    assert {n}.shape == {_tuple(graph.operands[o].shape)}\n" for n, o in zip(names, kernel.operands, strict=True))
    launch = [*names, *scalars, "y", *(f'PARAMS["{p}"]' for p in kernel.params)]
    takes = [*(f"{n}: torch.Tensor" for n in names), *(f"{s}: float" for s in scalars)]
    run = (f"def run({', '.join(takes)}) -> torch.Tensor:\n"
           f"    \"\"\"Launch the kernel; gives {program.out_dtype} of shape {_tuple(program.out_shape)}.\"\"\"\n{checks}"
           f"    y = torch.empty({_tuple(program.out_shape)}, dtype=torch.{program.out_dtype}, device={first}.device)\n"
           f"    native.{ENTRY}({', '.join(launch)})\n    return y\n")
    texts = [operand_text(graph, o, ref.arguments) for o in kernel.operands] + [ref.arguments[s] for s in kernel.scalars]
    imports = "from __future__ import annotations\n\nimport native\nimport torch\nfrom torch import nn"
    before = "\n".join(line for line in ref.before.split("\n") if line not in imports.split("\n"))
    literals = (f"PARAMS = {json.dumps(dict(params))}\n\nCPP_SRC = r'''\n{kernel.source}'''\n"
                f"CPP_FLAGS = [\"-fopenmp\"]\nSIGNATURES = {{\"{ENTRY}\": \"{kernel.signature}\"}}")
    head = f'"""{doc}"""\n\n{imports}' + (f"\n{before}" if before else "")
    return module_text([f"{head}\n\n{literals}", run, model_class(ref, f"run({', '.join(texts)})", doc, argument_types(graph, ref))])


def _tuple(shape: tuple[int, ...]) -> str:
    return repr(tuple(shape))
