"""Triton starters without a GPU: interpreted on small odd shapes, and compiled for sm_90 at KernelBench's sizes.

Both happen in processes of their own, for which this file is the script: TRITON_INTERPRET must be set before triton is imported, and
a process that pretends to have a GPU must not disturb other tests.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "triton_kernels"
STARTERS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "direct")  # what candidates carry beside them
pytestmark = pytest.mark.timeout(450)  # the first test of a kind waits for its whole report, on a machine that may be busy
MOST_SHARED_BYTES = 232448  # of one block on sm_90
WHOLE = bool(os.environ.get("AUTOKERNEL_SLOW_TESTS"))
LONG_ROWS = ("softmax", "layernorm", "groupnorm", "norm_scale")  # whose first case can be shared by programs
TEAM = {"tile": 16384, "team": 2, "num_warps": 16}
SLOW_TO_INTERPRET = {"conv"}  # with WHOLE alone; so are all cases of a starter but the first one to compile


def module_at(path: Path) -> ModuleType:
    """Import a file that belongs to no package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def outcomes(checks: dict[str, Callable[[], str]]) -> dict[str, str]:
    """Each check's word, or its failure's text."""
    said = {}
    for name, check in checks.items():
        try:
            said[name] = check()
        except Exception as error:  # the report carries it to the test of that name
            said[name] = f"{type(error).__name__}: {error}"
    return said


def interpret(scratch: Path) -> dict[str, str]:
    """Run tests/starter_cases.py by Triton's interpreter."""
    bench, cases = module_at(ROOT / "benchmarks" / "starters.py"), module_at(ROOT / "tests" / "starter_cases.py")

    def checked(case: Any) -> str:
        cases.check(case, bench.load("triton_kernels", case.starter, scratch, case.shape, case.params, case.chain).run, "cpu")
        return "right"

    chosen = [case for case in cases.CASES if WHOLE or case.starter not in SLOW_TO_INTERPRET]
    return outcomes({case.label: lambda c=case: checked(c) for case in chosen})


def pretend_to_have_an_h200(launches: list[Any]) -> None:
    """From here on a launch compiles for sm_90 and is noted in `launches`, and nothing runs."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction

    class Driver:
        get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
        get_current_device = staticmethod(lambda: 0)
        get_current_stream = staticmethod(lambda device=None: 0)
        get_active_torch_device = staticmethod(lambda: torch.device("meta"))

    compiled = JITFunction.run

    def launch(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        launches.append(compiled(self, *args, grid=grid, warmup=True, **options))

    triton.runtime.driver.set_active(Driver())
    shown = SimpleNamespace(multi_processor_count=132, max_threads_per_multi_processor=2048)
    torch.cuda.get_device_properties = lambda device=None: shown  # type: ignore
    torch.cuda.current_device = lambda: 0
    JITFunction.run = launch


def compile_all(scratch: Path) -> dict[str, str]:
    """Compile what benchmarks/starters.py runs, on tensors that have a shape and no memory; says the matrix instructions found."""
    launches: list[Any] = []
    pretend_to_have_an_h200(launches)
    bench = module_at(ROOT / "benchmarks" / "starters.py")

    def compiled(case: Any) -> str:
        launches.clear()
        bench.load("triton_kernels", case.starter, scratch, case.shape, None, case.chain).run(*case.inputs(bench.drawer("meta")))
        assert launches
        for kernel in launches:
            assert kernel.asm["cubin"] and kernel.metadata.shared <= MOST_SHARED_BYTES, f"{kernel.metadata.shared} bytes of shared memory"
        return "compiled, wgmma" if any("wgmma.mma_async" in kernel.asm["ptx"] for kernel in launches) else "compiled"

    def shared(case: Any) -> str:
        launches.clear()
        bench.load("triton_kernels", case.starter, scratch, case.shape, TEAM, case.chain).run(*case.inputs(bench.drawer("meta")))
        (kernel,) = launches
        assert kernel.metadata.launch_cooperative_grid and kernel.metadata.maxnreg == 64, "programs that wait must all run at once"
        return "compiled"

    every = [case for case in bench.CASES if case.folder == "triton_kernels"]
    first = {case.starter: case for case in reversed(every)}.values()
    whole = {f"{case.starter}: {case.name}": lambda c=case: compiled(c) for case in (every if WHOLE else first)}
    long = [case for case in first if case.starter in LONG_ROWS]
    return outcomes(whole | {f"{case.starter}: {case.name}, shared": lambda c=case: shared(c) for case in long})


# ---------------------------------------------------------------- the tests


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], dict[str, str]]]:
    """A function from "interpret" or "compile" to what this file said as a script of that argument; both run beside each other."""
    tmp = tmp_path_factory.mktemp("starters")
    started = {}
    for what, flag in (("interpret", "1"), ("compile", "0")):
        settings = {**os.environ, "TRITON_CACHE_DIR": str(tmp / "cache"), "TRITON_INTERPRET": flag}
        with (tmp / f"{what}.log").open("wb") as log:
            command = [sys.executable, __file__, what, str(tmp / f"{what}.json")]
            started[what] = subprocess.Popen(command, stdout=log, stderr=log, env=settings)

    @functools.cache
    def answer(what: str) -> dict[str, str]:
        assert started[what].wait(timeout=420) == 0, (tmp / f"{what}.log").read_text(errors="replace")[-3000:]
        said: dict[str, str] = json.loads((tmp / f"{what}.json").read_text())
        return said

    yield answer
    for process in started.values():
        process.kill()
        process.wait()


def of(said: dict[str, str], starter: str, good: set[str]) -> dict[str, str]:
    """What was said of one starter and is not good; asserts that something was said at all."""
    own = {name: word for name, word in said.items() if name.startswith(f"{starter}: ")}
    assert own, f"no case for {starter}"
    return {name: word for name, word in own.items() if word not in good}


@pytest.mark.parametrize("starter", [pytest.param(s, marks=pytest.mark.slow) if s in SLOW_TO_INTERPRET else s for s in STARTERS])
def test_interpreted_starter_agrees_with_float64(reports: Callable[[str], dict[str, str]], starter: str) -> None:
    assert of(reports("interpret"), starter, {"right"}) == {}


@pytest.mark.parametrize("starter", STARTERS)
def test_starter_compiles_for_sm_90_at_real_sizes(reports: Callable[[str], dict[str, str]], starter: str) -> None:
    multiplies = starter in ("matmul", "fused_mlp", "flash_attention", "conv")
    assert of(reports("compile"), starter, {"compiled, wgmma"} if multiplies else {"compiled"}) == {}


def literals(path: Path) -> dict[str, Any]:
    """The module-level literal assignments of a file."""
    found = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = ast.literal_eval(node.value)
    return found


@pytest.mark.parametrize("starter", STARTERS)
def test_starter_is_a_candidate_with_literals_the_search_can_read(starter: str) -> None:
    path = FOLDER / f"{starter}.py"
    facts = literals(path)
    assert isinstance(facts["OP"], str) and isinstance(facts["SHAPE"], dict)
    assert facts["PARAMS"].keys() == facts["SPACE"].keys()
    assert {name: value for name, value in facts["PARAMS"].items() if value not in facts["SPACE"][name]} == {}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"run", "ModelNew"} <= defined.keys() and ast.get_docstring(defined["run"])
    imported = {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= {"functools", "math", "torch", "triton", "triton.language"}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(sys.argv[2]).write_text(json.dumps({"interpret": interpret, "compile": compile_all}[sys.argv[1]](Path(folder))))
