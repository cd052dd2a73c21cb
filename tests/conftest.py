"""What all tests share: no network, the real problems where this machine has them, GPU tests only with a GPU."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from autokernel.doctor import visible_gpus

# before anything imports the Hub's client, which reads them once
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")

KERNELBENCH = "AUTOKERNEL_KERNELBENCH_DIR"
SLOW = "AUTOKERNEL_SLOW_TESTS"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("slow") and not os.environ.get(SLOW):
            item.add_marker(pytest.mark.skip(reason=f"takes long; `make test-all` runs it ({SLOW}=1)"))
    if visible_gpus():
        return
    for item in items:
        if item.get_closest_marker("gpu") or "gpu" in item.path.relative_to(Path(__file__).parent).parts[:-1]:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU is visible"))


@pytest.fixture(scope="session")
def root():
    """The source root."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def kernelbench_dir():
    """The folder with the real problems' parquet files."""
    named = os.environ.get(KERNELBENCH)
    if not named:
        pytest.skip(f"{KERNELBENCH} is not set: no copy of the real KernelBench problems here")
    folder = Path(named)
    folder = folder / "data" if (folder / "data").is_dir() else folder
    if not list(folder.glob("level_1*.parquet")):
        pytest.skip(f"{KERNELBENCH}={named} holds no level_1*.parquet")
    return folder


@pytest.fixture(scope="session")
def processor_seconds():
    """A function: the least processor time of five runs of this interpreter (the wall's would depend on what else the machine does)."""

    def least(*arguments):
        spent = []
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, check=True, timeout=60)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return min(spent)

    return least
