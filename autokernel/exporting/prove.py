"""The proof: the written files, loaded by `kernels` in a fresh sandboxed process, judged again by the one path to a verdict."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autokernel.durable import storage_errors
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.executor.extensions import folder_of
from autokernel.exporting.winners import Winner
from autokernel.records import Candidate, Comparison, Evaluation
from autokernel.rules import Rules
from exporters import CLASS_ONLY, Operation

LOADED_BACK = '''"""An exported kernel, loaded back as its users load it."""

import os
from pathlib import Path

from kernels import get_local_kernel

FOLDER = Path(os.environ["TORCH_EXTENSIONS_DIR"]) / "{content}"
ModelNew = get_local_kernel(FOLDER, backend={backend!r}).models.{title}
'''


@dataclass(frozen=True)
class Proof:
    """One operation judged again from the written files, and timed against its winner."""

    operation: str
    evaluation: Evaluation

    @property
    def against_winner(self) -> Comparison | None:
        """The winner's time over the exported kernel's: 1.0 where loading through the Hub costs nothing."""
        return self.evaluation.against("incumbent")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"operation": self.operation, "evaluation": self.evaluation.to_json()}


def prove(operation: Operation, winner: Winner, folder: Path, backend: str, *, rules: Rules, executor: Executor) -> Proof:
    """Judge `operation` as loaded from the builds in `folder`, against eager and against the winner itself.

    The loading process is a worker like any candidate's: nothing of the kernel is imported here. Workers do not see the store; what they
    get of it is a private copy of their candidate's builds, and so the kernel is laid there. Raises what `evaluate` raises.
    """
    text = LOADED_BACK.format(content=_content(folder / "build"), backend=backend, title=operation.title)
    kind = "triton" if winner.candidate.builder == "triton" else "python"  # the worker's surroundings: interpreted on a CPU or not
    again = Candidate(source=text, builder=kind, parent=winner.candidate.sha256, proposer="export")
    place = folder_of(executor.store, again.sha256)
    try:
        with storage_errors("write", place):
            shutil.copytree(folder / "build", place / _content(folder / "build") / "build", dirs_exist_ok=True)
        # a function is called with the parameters of the moment; a class holds its own, which users load
        asked = replace(rules, loaded_weights=operation.form == CLASS_ONLY and bool(operation.facts.parameters))
        return Proof(operation.name, evaluate(winner.problem, again, rules=asked, executor=executor, incumbent=winner.candidate,
                                              against=("eager", "incumbent")))
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _content(folder: Path) -> str:
    """A name for what lies in `folder`: other files, another candidate."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            whole.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:24]


def changed(before: Mapping[str, bytes], folder: Path) -> list[str]:
    """Files under `folder` that are not what was written: a kernel that changes itself while it is judged is not exported."""
    now = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    odd = sorted(set(now) ^ set(before))
    return odd + [name for name, data in before.items() if name in now and now[name].read_bytes() != data]
