"""Lighter torch headers for load_inline: of torch/extension.h's time most goes into the C++ frontend, which kernels do not use.

The headers go into a folder of the candidate's build that CPATH names, so the text stays as it is and the compilers find them first.
Where an error may come of what they leave out, the build is made again with torch's own: the result is the same in either case.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from autokernel.builders.syntax import CandidateFault, parse

HERE = Path(__file__).parent / "light"
LIGHT, STOCK = "light torch headers", "torch's own headers"  # as records call the two ways
FOLDER = "headers"  # in a candidate's build
FRONTEND = re.compile(r"\btorch::(nn|optim|data|jit|serialize|autograd|save|load|fft|linalg|special|sparse|nested|python|\w*Guard)\b"
                      r"|#\s*include\s*[<\"]torch/(?!extension\.h|types\.h)")
BINDINGS = re.compile(r"\b(PYBIND11_\w+|pybind11|py)\b")
TORCH = re.compile(r"\b(torch|at|c10|ATen|PYBIND11_MODULE)\b|\b(TORCH|AT|C10)_")
LACKING = re.compile(r"no member|not a member|not (been )?declared|undeclared|is undefined|does not name|incomplete|no matching"
                     r"|not a (type|class|template)|no instance|No such file", re.IGNORECASE)
LONG_LINE = 2000  # characters: what is longer is no compiler's


def place(build: Path, source: str) -> bool:
    """Put the headers that suit a candidate's text into its build's folder; False, and none, where the text names what they leave out."""
    texts = _strings(source)
    if any(FRONTEND.search(text) for text in texts):
        return False
    kernels = [text for text in texts if "__global__" in text]
    binds = any(BINDINGS.search(text) for text in kernels)
    folder = build / FOLDER / "torch"
    folder.mkdir(parents=True, exist_ok=True)
    header = (HERE / "extension.h").read_text(encoding="utf-8")
    if binds:
        header = header.replace("#pragma once", "#pragma once\n#define AUTOKERNEL_BINDS_IN_CUDA", 1)
    (folder / "extension.h").write_text(header, encoding="utf-8")
    if kernels and not any(TORCH.search(text) for text in kernels):
        (folder / "types.h").write_bytes((HERE / "types.h").read_bytes())
    return True


def search_path(build: Path) -> dict[str, str]:
    """The environment in which compilers find a build's headers before torch's own; empty where it has none."""
    folder = build.resolve() / FOLDER
    return {"CPATH": str(folder)} if folder.is_dir() else {}


def may_lack(log: str) -> bool:
    """Whether a compiler's errors may come of what the light headers leave out."""
    told = (line.partition("error: ")[2] for line in log.splitlines() if len(line) <= LONG_LINE)
    return any(LACKING.search(error) for error in told)


def _strings(source: str) -> list[str]:
    try:
        return [node.value for node in ast.walk(parse(source)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    except CandidateFault:
        return []
