"""KernelBench's own values, where this machine has them; a warm host on the CPU."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

CASES = "AUTOKERNEL_KERNELBENCH_CASES"


@pytest.fixture(scope="session")
def cases():
    """Each case by id. They are not in this repository."""
    named = os.environ.get(CASES)
    if not named:
        pytest.skip(f"{CASES} is not set: no copy of KernelBench's values here")
    path = Path(named)
    path = path / "kernelbench_cases.json" if path.is_dir() else path
    if not path.is_file():
        pytest.skip(f"{CASES}={named} is no file")
    return {case["id"]: case for case in json.loads(path.read_text())["cases"]}


@pytest.fixture(scope="session")
def checkout(kernelbench_dir, tmp_path_factory):
    """The real problems as a KernelBench checkout's files."""
    from kernelbench_bridge import load_level

    base = tmp_path_factory.mktemp("checkout")
    for level in (1, 2, 3):
        folder = base / f"level{level}"
        folder.mkdir()
        for problem in load_level(level, str(kernelbench_dir)).problems:
            (folder / f"{problem.name}.py").write_text(problem.source)
    return base


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def evaluate(store):
    """`eval_kernel_against_ref` on the CPU, with a store of the tests' own and one host for all."""
    from autokernel.compat import kernelbench

    before = os.environ.get("AUTOKERNEL_CACHE_DIR")
    os.environ["AUTOKERNEL_CACHE_DIR"] = str(store)

    def run(reference, candidate, **more):
        return kernelbench.eval_kernel_against_ref(reference, candidate, device="cpu", **more)

    yield run
    kernelbench.close()
    if before is None:
        os.environ.pop("AUTOKERNEL_CACHE_DIR")
    else:
        os.environ["AUTOKERNEL_CACHE_DIR"] = before
