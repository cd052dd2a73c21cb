"""Export as a whole: prepare, write aside, prove, and only then put the result where it was asked for."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from autokernel.building import gpu_arch
from autokernel.durable import make_folder, storage_errors
from autokernel.errors import MissingOnMachine, UsageError
from autokernel.executor.broker import Executor
from autokernel.exporting.describe import ask_ahead
from autokernel.exporting.prepare import as_class, operation_of
from autokernel.exporting.prove import Proof, changed, prove
from autokernel.exporting.winners import Winner
from autokernel.rules import STRICT, Rules
from exporters import OP, ExportError, Kernel, Operation, refused
from exporters.repository import PROOF, Sources, repository_files

LOG_CHARACTERS = 2000  # of a failed kernel's own words, shown to a person
LOADING = ("build", "smoke")  # stages that a function over changed weights would fail in


@dataclass(frozen=True)
class Request:
    """What the result is called and where it goes."""

    out: Path
    name: str  # the kernel's, as the Hub has it
    version: int = 1
    license: str = "mit"
    repo_id: str | None = None  # ORG/NAME for the card; filled in by publish where it is left out
    fallback: bool = False
    rules: Rules = STRICT


@dataclass(frozen=True)
class Exported:
    """What was written, what proves it, and what stayed behind."""

    folder: Path
    kernel: Kernel
    proofs: tuple[Proof, ...]
    left_out: tuple[tuple[str, str], ...]  # problem, why


def export(winners: Sequence[Winner], request: Request, executor: Executor, tell: Callable[[str], None] = lambda text: None, *,
           strictly: bool = True) -> Exported:
    """Write a kernel of these winners and prove it. `strictly`: one that fails its proof stops all; else it is left out and named.

    Raises ExportError naming the rule, UsageError where `out` is something else's, and what preparing and judging raise.
    """
    check_out(request.out)
    if importlib.util.find_spec("kernels") is None:
        raise MissingOnMachine("export loads its result back with the package kernels, which is not installed. Run: pip install kernels")
    operations, kept, left = _prepared(winners, request, executor, tell, strictly)
    proofs: dict[str, Proof] = {}
    with _staging(executor) as folder:
        while True:
            if not operations:
                raise refused(f"none of the winners can leave; the first: {left[0][1]}" if left else "there is no winner.", rule="proven")
            kernel = Kernel(request.name, request.version, request.license, executor.device.partition(":")[0], tuple(operations))
            files = _written(kernel, kept, request, folder)
            failed = _proven(kernel, kept, folder, request, executor, proofs, tell)
            odd = changed(files, folder)
            if odd:
                raise refused(f"'{odd[0]}' was changed while the kernel was judged. "
                              "Do not run this candidate again.", rule="unchanged")
            if not failed:
                break
            operations = _next(failed, operations, left, proofs, strictly=strictly)
        _deliver(folder, request.out, [proofs[o.name] for o in kernel.operations])
    return Exported(request.out, kernel, tuple(proofs[o.name] for o in kernel.operations), tuple(left))


def _prepared(winners: Sequence[Winner], request: Request, executor: Executor, tell: Callable[[str], None],
              strictly: bool) -> tuple[list[Operation], dict[str, Winner], list[tuple[str, str]]]:
    capability = executor.machine().get("capability")
    arch = gpu_arch(str(capability)) if capability else None
    operations: list[Operation] = []
    kept: dict[str, Winner] = {}
    left: list[tuple[str, str]] = []
    ask_ahead([winner.problem.source for winner in winners])
    for winner in winners:
        tell(f"preparing {winner.problem.uid}")
        try:
            made = operation_of(winner, [o.name for o in operations], fallback=request.fallback, store=executor.store, arch=arch)
        except (ExportError, UsageError) as error:
            if strictly:
                raise
            left.append((winner.problem.uid, str(error)))
            continue
        operations.append(made)
        kept[made.name] = winner
    return operations, kept, left


def _written(kernel: Kernel, kept: dict[str, Winner], request: Request, folder: Path) -> dict[str, bytes]:
    sources = Sources({o.name: kept[o.name].evaluation.to_json() for o in kernel.operations},
                      {o.name: kept[o.name].problem.source for o in kernel.operations}, request.rules.label)
    files = repository_files(kernel, sources, request.repo_id)
    with storage_errors("write", folder):
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, data in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return files


def _proven(kernel: Kernel, kept: dict[str, Winner], folder: Path, request: Request, executor: Executor, proofs: dict[str, Proof],
            tell: Callable[[str], None]) -> list[Operation]:
    """Judge each operation that has no proof yet, in any case one from the files as they are now; those that fail.

    A proof holds while the operation's own modules stay as they are: only the package's lists of names change around them.
    """
    open_ones = [o for o in kernel.operations if o.name not in proofs] or list(kernel.operations[:1])
    failed = []
    for operation in open_ones:
        tell(f"judging {operation.name} ({operation.uid}) as loaded back")
        proofs[operation.name] = prove(operation, kept[operation.name], folder, kernel.backend, rules=request.rules, executor=executor)
        if not proofs[operation.name].evaluation.accepted:
            failed.append(operation)
            tell("".join(c if c.isprintable() or c == "\n" else " " for c in proofs[operation.name].evaluation.log[-LOG_CHARACTERS:]))
    return failed


def _next(failed: Sequence[Operation], operations: Sequence[Operation], left: list[tuple[str, str]], proofs: dict[str, Proof], *,
          strictly: bool) -> list[Operation]:
    """The operations to try next: a failed one as a class alone where its function may be at fault, else without it."""
    tried: list[Operation] = []
    for operation in operations:
        if operation not in failed:
            tried.append(operation)
            continue
        evaluation = proofs.pop(operation.name).evaluation
        said = f"{evaluation.refused_by}: {evaluation.reason}"
        if evaluation.refused_by == "problem":
            said = f"{said} (the winner stood beside it as its opponent, and may be what failed)"
        if operation.form == OP and operation.facts.parameters and evaluation.refused_by in LOADING:
            tried.append(as_class(operation, "its module does not work as a function of its parameters"))
        elif strictly:
            raise refused(f"{operation.name} ({operation.uid}), loaded back by `kernels`, was refused by {said}. Judge the candidate again "
                          "(autokernel kb eval); where it passes, report this as a fault of the exporter.", rule="proven")
        else:
            left.append((operation.uid, f"loaded back, it was refused by {said}"))
    return tried


@contextmanager
def _staging(executor: Executor) -> Iterator[Path]:
    """A folder in the store; gone at the end."""
    parent = executor.store / "exports"
    make_folder(parent)
    folder = Path(tempfile.mkdtemp(dir=parent))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_out(out: Path) -> None:
    """Raise UsageError where `out` holds anything but an earlier export."""
    if not out.exists():
        return
    if not out.is_dir() or (any(out.iterdir()) and not (out / PROOF).is_file()):
        raise UsageError(f"'{out}' is there already and is no export of ours. Pass --out with a new folder.")


def _deliver(folder: Path, out: Path, proofs: Sequence[Proof]) -> None:
    """Copy beside `out`, then rename: what lies there is whole or not there."""
    make_folder(out.resolve().parent)
    with storage_errors("write", out):
        aside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.resolve().parent))
        try:
            shutil.copytree(folder, aside, dirs_exist_ok=True)
            aside.chmod(0o755)
            (aside / PROOF).write_text(json.dumps([proof.to_json() for proof in proofs], indent=1) + "\n", encoding="utf-8")
            if out.exists():
                shutil.rmtree(out)
            aside.rename(out)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
