"""The proof: the written files, loaded by `kernels` in a fresh sandboxed process, judged again by the one path to a verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.exporting.winners import Winner
from autokernel.records import Candidate, Comparison, Evaluation
from autokernel.rules import Rules
from exporters import Operation

LOADED_BACK = '''"""An exported kernel, loaded back as its users load it."""

from pathlib import Path

from kernels import get_local_kernel

ModelNew = get_local_kernel(Path({folder!r}), backend={backend!r}).models.{title}
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
    """Judge `operation` as loaded from `folder`, against eager and against the winner itself.

    The loading process is a worker like any candidate's: nothing of the kernel is imported here. `folder` must lie in the executor's
    store, which is what workers can read. Raises what `evaluate` raises.
    """
    text = LOADED_BACK.format(folder=str(folder), backend=backend, title=operation.title)
    kind = "triton" if winner.candidate.builder == "triton" else "python"  # the worker's surroundings: interpreted on a CPU or not
    again = Candidate(source=text, builder=kind, parent=winner.candidate.sha256, proposer="export")
    return Proof(operation.name, evaluate(winner.problem, again, rules=rules, executor=executor, incumbent=winner.candidate,
                                          against=("eager", "incumbent")))


def changed(before: Mapping[str, bytes], folder: Path) -> list[str]:
    """Files under `folder` that are not what was written: a kernel that changes itself while it is judged is not exported."""
    now = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    odd = sorted(set(now) ^ set(before))
    return odd + [name for name, data in before.items() if name in now and now[name].read_bytes() != data]
