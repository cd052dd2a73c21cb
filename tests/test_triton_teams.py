"""Kernels whose programs wait for each other, without a GPU: interpreted with all programs of a launch alive, taking turns.

In a process of its own, for which this file is the script: TRITON_INTERPRET must be set before triton is imported.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROCESSORS = 5
ORDERS = 4 if os.environ.get("AUTOKERNEL_SLOW_TESTS") else 2  # of turns


class Together:
    """Runs a grid's programs as threads that change places at every atomic operation, in an order drawn from a seed."""

    def __init__(self, interpreter: Any) -> None:
        self.interpreter, self.builder, self.random = interpreter, interpreter.interpreter_builder, random.Random()
        self.ours, self.turn = threading.local(), threading.Semaphore(0)
        self.changes = 0
        plain = self.builder.create_atomic_rmw

        def atomic(*args: Any) -> Any:
            value = plain(*args)
            self.changes += 1
            self.turn.release()
            self.ours.may_go.acquire()
            return value

        self.builder.create_atomic_rmw = atomic
        interpreter.GridExecutor.__call__ = lambda executor, *args, **options: self.launch(executor, args, options)

    def launch(self, executor: Any, given: tuple[Any, ...], options: dict[str, Any]) -> None:
        """As the interpreter launches, but for the order of programs; grids have one dimension."""
        fn = executor.fn
        options = {name: value for name, value in options.items() if name in inspect.getfullargspec(fn).args}
        here, options_here = executor._init_args_hst(given, options)
        scope = self.interpreter._patch_lang(fn)
        try:
            args = {name: value if name in executor.constexprs else self.interpreter._implicit_cvt(value)
                    for name, value in inspect.getcallargs(fn, *here, **options_here).items()}
            self.builder.set_grid_dim(*executor.grid, 1, 1)
            self.run(functools.partial(fn, **args), executor.grid[0])
        finally:
            scope.restore()
        executor._restore_args_dev(given, here, options, options_here)

    def run(self, fn: Callable[[], None], programs: int) -> None:
        """All programs to their ends; what one raises is raised here."""
        failed: list[BaseException] = []
        alive: dict[int, threading.Semaphore] = {}

        def program(index: int, may_go: threading.Semaphore) -> None:
            self.ours.may_go = may_go
            may_go.acquire()
            try:
                fn()
            except BaseException as error:
                failed.append(error)
            del alive[index]
            self.turn.release()

        for index in range(programs):
            alive[index] = threading.Semaphore(0)
            threading.Thread(target=program, args=(index, alive[index]), daemon=True).start()
        while alive and not failed:
            index = self.random.choice(list(alive))
            self.builder.set_grid_idx(index, 0, 0)
            alive[index].release()
            self.turn.acquire()
        if failed:
            raise failed[0]


def load(path: Path, name: str) -> ModuleType:
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cases() -> dict[str, Callable[[Callable[..., Any]], tuple[Any, Any]]]:
    """By name: runs a starter on its inputs by the function that it gets, and gives answer and truth."""
    import torch
    import torch.nn.functional as F

    def given(starter: str, shape: dict[str, Any], sizes: list[tuple[int, ...]], truth: Callable[..., Any], dtype: Any = None) -> Any:
        inputs = [torch.randn(*size, dtype=dtype) for size in sizes]
        return lambda run: (run(starter, shape, inputs), truth(*(x.double() for x in inputs)))

    return {
        "softmax": given("softmax", {}, [(7, 150)], lambda x: x.softmax(1)),
        "log_softmax": given("softmax", {"log": True}, [(3, 129)], lambda x: x.log_softmax(1)),
        "softmax of the least": lambda run: (least := torch.full((3, 100), torch.finfo(torch.float32).min),
                                             (run("softmax", {}, [least]), least.double().softmax(1)))[1],
        "softmax, fp16": given("softmax", {}, [(5, 96)], lambda x: x.softmax(1), torch.float16),
        "layernorm": given("layernorm", {"ndim": 2}, [(7, 10, 15), (10, 15), (10, 15)], lambda x, w, b: F.layer_norm(x, [10, 15], w, b)),
        "layernorm, plain": given("layernorm", {"ndim": 1}, [(2, 97)], lambda x: F.layer_norm(x, [97])),
        "groupnorm": given("groupnorm", {"groups": 2}, [(4, 6, 5, 9), (6,), (6,)], lambda x, w, b: F.group_norm(x, 2, w, b)),
        "groupnorm, even planes": given("groupnorm", {"groups": 2}, [(2, 4, 8, 8), (4,), (4,)], lambda x, w, b: F.group_norm(x, 2, w, b)),
        "instance norm": given("groupnorm", {"kind": "instance"}, [(3, 2, 9, 11)], F.instance_norm),
        "l2": given("norm_scale", {}, [(6, 131)], lambda x: x / x.norm(2, 1, True)),
        "l1 mean": given("norm_scale", {"kind": "l1", "mean": True}, [(4, 64)], lambda x: x / x.abs().mean(1, True)),
    }


def main(out: Path) -> None:
    """Run every case with several orders of turns; says what came of each."""
    import torch
    import triton.runtime.interpreter as interpreter

    shown = SimpleNamespace(multi_processor_count=PROCESSORS, max_threads_per_multi_processor=2048)
    torch.cuda.get_device_properties = lambda device=None: shown  # type: ignore
    torch.manual_seed(0)
    together = Together(interpreter)
    bench = load(ROOT / "benchmarks" / "starters.py", "bench")

    def run(starter: str, shape: dict[str, Any], inputs: list[Any]) -> Any:
        module = bench.load("triton_kernels", starter, out.parent, shape, {"tile": 32, "team": 2, "num_warps": 4})
        # what the starters ask before they share rows
        module.triton = SimpleNamespace(knobs=SimpleNamespace(runtime=SimpleNamespace(interpret=False)))
        before, answers = together.changes, []
        for seed in range(ORDERS):
            together.random.seed(seed)
            answers.append(module.run(*inputs))
        assert together.changes > before, "no program waited for another"
        assert all(torch.equal(answers[0], other) for other in answers[1:]), "the order of turns changed the answer"
        return answers[0]

    said = {}
    for name, case in cases().items():
        try:
            answer, truth = case(run)
            error = float((answer.double() - truth).abs().max())
            allowed = (2e-3 if answer.dtype == torch.float16 else 2e-5) * max(1.0, float(truth.abs().max()))
            said[name] = "right" if error <= allowed else f"off by {error:.3g}"
        except Exception as error:  # the report carries it to the test of that name
            said[name] = f"{type(error).__name__}: {error}"
    out.write_text(json.dumps(said))


NAMES = ("softmax", "log_softmax", "softmax of the least",
         "softmax, fp16", "layernorm", "layernorm, plain", "groupnorm", "groupnorm, even planes",
         "instance norm", "l2", "l1 mean")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What this file said as a script."""
    out = tmp_path_factory.mktemp("teams") / "report.json"
    settings = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_CACHE_DIR": str(out.parent / "cache")}
    subprocess.run([sys.executable, __file__, str(out)], env=settings, check=True, timeout=300)
    said: dict[str, str] = json.loads(out.read_text())
    return said


@pytest.mark.parametrize("name", NAMES)
def test_rows_shared_by_programs_are_right_whatever_the_order_of_turns(report: dict[str, str], name: str) -> None:
    assert report[name] == "right" and set(report) == set(NAMES)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
