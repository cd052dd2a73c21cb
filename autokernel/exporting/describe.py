"""The broker's end of the facts process: asks it about one problem, gives the exporters' `Facts`."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import autokernel
from autokernel.errors import UsageError
from exporters import Argument, Facts, Parameter, TensorSpec

TIMEOUT_S = 300.0


_answers: dict[str, Mapping[str, Any]] = {}  # by the problem's text


class _NoAnswer(Exception):
    """The process ended, or ran too long; the message says which."""


def ask_ahead(sources: Sequence[str]) -> None:
    """Have one process look at all these problems' texts: what it imports takes longer than any answer. Where it gives none, each problem
    is asked for alone, when its facts are."""
    with contextlib.suppress(_NoAnswer):
        _ask(sources)


def problem_facts(uid: str, source: str) -> Facts:
    """What the problem's own code says of itself. Raises UsageError where it does not run."""
    try:
        _ask([source])
    except _NoAnswer as error:
        raise UsageError(f"{uid}: {error}") from error
    answer = _answers[source]
    if "error" in answer:
        raise UsageError(f"{uid}: its code does not run without tensors in memory, so its shapes are not known: {answer['error']}. "
                         "Use another problem.")
    return facts_of(answer)


def _ask(sources: Sequence[str]) -> None:
    new = [source for source in dict.fromkeys(sources) if source not in _answers]
    if not new:
        return
    root = str(Path(autokernel.__path__[0]).parent)  # and no other: beside a source tree may lie files that shadow modules
    path = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    limit = TIMEOUT_S * len(new)
    try:
        done = subprocess.run([sys.executable, "-m", "autokernel.exporting.facts"], input=json.dumps(new).encode(), capture_output=True,
                              timeout=limit, check=False, env={**os.environ, "PYTHONPATH": path})
        answers = json.loads(done.stdout)
    except subprocess.TimeoutExpired as error:
        raise _NoAnswer(f"its code ran longer than {limit:.0f} s without tensors in memory. Use another problem.") from error
    except ValueError as error:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no text"])[-1][:300]
        raise _NoAnswer(f"the process that ran its code gave no answer (code {done.returncode}: {last}). "
                        "Check that the problem's code runs by itself.") from error
    _answers.update(zip(new, answers, strict=True))


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

