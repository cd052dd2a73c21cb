"""Time what the search tries first on real problems against eager, on a GPU: every template, its first choices, error beside eager's.

    python benchmarks/plans.py --level 2 [--problems 1-10] [--only conv,rows] [--source PATH] [--minutes 8] [--compile] [--out plans.jsonl]

One line a choice: ms, eager's ms, their ratio, largest error against float64 over eager's own. `--only` takes templates with one of these
words in their name. Times are triton.testing.do_bench medians with a cold L2: they say where to look; verdicts are `kb eval`'s.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
TRUTH_BYTES = 8 << 30  # larger outputs are compared with eager alone: in float64 they would not fit beside the rest


def module_of(text: str, name: str, scratch: Path) -> ModuleType:
    """A text as a module."""
    path = scratch / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def built(module: ModuleType, what: str, arguments: list[Any]) -> torch.nn.Module:
    """The model on the GPU, after the same seed."""
    torch.manual_seed(0)
    with torch.device("cuda"):
        model: torch.nn.Module = getattr(module, what)(*arguments)
    return model


def off(actual: torch.Tensor, truth: torch.Tensor) -> float:
    """Largest |actual - truth|, in slices."""
    pairs = zip(actual.reshape(-1).split(1 << 27), truth.reshape(-1).split(1 << 27), strict=True)
    return max(float((a.double() - t.double()).abs().max()) for a, t in pairs)


def problem_rows(problem: Any, only: list[str], compiled: bool, scratch: Path) -> list[dict[str, Any]]:
    """Rows for one problem: eager (and compile) first, then every choice."""
    from triton.testing import do_bench

    from autokernel.proposers.templates import templates

    found = [t for t in templates(problem.source, "triton", "cuda:0") if not only or any(word in t.name for word in only)]
    if not found:
        return []
    number = f"{problem.level}_{problem.problem_id}"
    reference = module_of(problem.source, f"reference_{number}", scratch)
    arguments = list(reference.get_init_inputs()) if hasattr(reference, "get_init_inputs") else []
    with torch.device("cuda"):
        inputs = reference.get_inputs()
    model = built(reference, "Model", arguments)

    def timed(function: Any) -> float:
        return float(do_bench(lambda: function(*inputs), warmup=20, rep=100, return_mode="median"))

    torch.manual_seed(1)
    eager = model(*inputs)
    eager_ms = timed(model)
    rows: list[dict[str, Any]] = [{"uid": problem.uid, "template": "eager", "ms": eager_ms}]
    if compiled:
        rows.append({"uid": problem.uid, "template": "compile", "ms": timed(torch.compile(model)), "eager_ms": eager_ms})
    truth = None
    if eager.numel() * 8 < TRUTH_BYTES:
        torch.manual_seed(1)
        truth = model.double()(*[x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]).float()
    own = off(eager, truth) if truth is not None else None
    del model
    for template in found:
        for place, params in enumerate(template.firsts):
            row: dict[str, Any] = {"uid": problem.uid, "template": template.name, "choice": place, "params": dict(params)}
            row["eager_ms"] = eager_ms
            try:
                start = time.monotonic()
                name = f"candidate_{number}_{len(rows)}"
                candidate = built(module_of(template.render(params), name, scratch), "ModelNew", arguments)
                torch.manual_seed(1)
                ours = candidate(*inputs)
                torch.cuda.synchronize()
                row["first_call_s"] = round(time.monotonic() - start, 2)
                same = ours.shape == eager.shape and ours.dtype == eager.dtype
                assert same, f"{ours.shape} {ours.dtype} is not {eager.shape} {eager.dtype}"
                row |= {"error": off(ours, truth if truth is not None else eager), "eager_error": own, "ms": timed(candidate)}
                del ours, candidate
            except Exception as error:  # noqa: BLE001 (whatever one choice raises is its row)
                row["failure"] = f"{type(error).__name__}: {str(error)[:500]}"
            rows.append(row)
            torch.cuda.empty_cache()
    return rows


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    head = f"{row['uid']:7} {row['template'][:40]:40} {row.get('choice', ''):>2}"
    if "failure" in row:
        return f"{head} {row['failure'][:140]}".replace("\n", " ")
    ratio = f"{row['eager_ms'] / row['ms']:6.2f}" if "eager_ms" in row else ""
    errors = f"{row['error']:.2e} / {row['eager_error'] or 0.0:.2e}" if "error" in row else ""
    return f"{head} {row['ms']:9.3f} {ratio:>6}  {errors}"


def main() -> int:
    """Time a level's problems until the minutes are spent; 1 if some choice failed."""
    from kernelbench_bridge import load_level

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, required=True)
    parser.add_argument("--problems", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--source", default="auto")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("plans.jsonl"))
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("No GPU here: nothing to measure. benchmarks/aot_check.py compiles the same candidates without one.")
        return 0
    from autokernel.proposers.graph import Unmatchable

    wanted = tuple(n for part in options.problems.split(",") if part
                   for n in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)) or None
    only = [word for word in options.only.split(",") if word]
    end, failed = time.monotonic() + 60 * options.minutes, 0
    print(f"{torch.cuda.get_device_name()}  torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder, options.out.open("a", encoding="utf-8") as lines, torch.no_grad():
        for problem in load_level(options.level, options.source, wanted).problems:
            if time.monotonic() > end:
                print(f"--minutes {options.minutes} spent; the rest was not run")
                break
            try:
                rows = problem_rows(problem, only, options.compile, Path(folder))
            except Unmatchable as met:
                rows = [{"uid": problem.uid, "template": "none", "failure": f"no plan: {met}"}]
            except torch.cuda.OutOfMemoryError as error:
                rows = [{"uid": problem.uid, "template": "none", "failure": str(error)[:200]}]
            for row in rows:
                failed += "failure" in row
                print(line(row), flush=True)
                lines.write(json.dumps(row) + "\n")
            lines.flush()
            torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
