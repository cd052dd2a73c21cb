"""The broker's end of the facts process: asks it about one problem, gives the exporters' `Facts`."""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import autokernel
from autokernel.errors import UsageError
from exporters import Argument, Facts, Parameter, TensorSpec

TIMEOUT_S = 300.0


@functools.lru_cache(maxsize=128)
def problem_facts(uid: str, source: str) -> Facts:
    """What the problem's own code says of itself. Raises UsageError where it does not run."""
    root = str(Path(autokernel.__path__[0]).parent)  # and no other: beside a source tree may lie files that shadow modules
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    try:
        done = subprocess.run([sys.executable, "-m", "autokernel.exporting.facts"], input=source.encode("utf-8", "surrogatepass"),
                              capture_output=True, timeout=TIMEOUT_S, check=False, env={**os.environ, "PYTHONPATH": path})
        answer = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{uid}: its code ran longer than {TIMEOUT_S:.0f} s without tensors in memory. Use another problem.") from error
    except ValueError as error:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no text"])[-1][:300]
        raise UsageError(f"{uid}: the process that ran its code gave no answer (code {done.returncode}: {last}). "
                         "Check that the problem's code runs by itself.") from error
    if "error" in answer:
        raise UsageError(f"{uid}: its code does not run without tensors in memory, so its shapes are not known: {answer['error']}. "
                         "Use another problem.")
    return facts_of(answer)


def facts_of(data: Mapping[str, Any]) -> Facts:
    """The record of the process's JSON."""
    return Facts(
        arguments=tuple(Argument(a["name"], _spec(a["tensor"]) if "tensor" in a else None, a.get("value"),
                                 a.get("opaque", False)) for a in data["arguments"]),
        outputs=tuple(_spec(o) for o in data["outputs"]), container=data["container"],
        parameters=tuple(Parameter(p["path"], _spec(p["tensor"])) for p in data["parameters"]),
        constants={name: ast.literal_eval(value) for name, value in data["constants"].items()},
        layer_prefix=data["layer_prefix"], why_no_layer=data["why_no_layer"],
        init=None if data["init"] is None else ast.literal_eval(data["init"]),
        why_class_only=data["why_class_only"],
    )


def _spec(data: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(tuple(data["shape"]), data["dtype"], tuple(data["stride"]))

