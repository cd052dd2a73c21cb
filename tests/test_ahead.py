"""Triton kernels compiled without a device: the forward runs on meta tensors, and the candidate's cache holds what comes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
from autokernel.executor import ahead  # noqa: E402  needs torch
from autokernel.executor.broker import Executor  # noqa: E402

ROOT = Path(__file__).parent.parent
SOFTMAX = (ROOT / "benchmarks" / "candidates" / "softmax_triton.py").read_text(encoding="utf-8")
H200 = {"capability": "9.0", "sm_count": 132, "device_name": "NVIDIA H200"}


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with Executor("cpu", tmp_path_factory.mktemp("store")) as made:
        yield made


def form(*inputs: object) -> dict[str, object]:
    return {"arguments": [], "inputs": ahead.form(tuple(inputs), torch.Tensor)}


def test_arguments_come_back_as_they_were_without_their_values() -> None:
    given = ([1, (2.5, None)], {"x": torch.empty(3, 4, dtype=torch.float16).t()}, "mode", True)
    back = ahead.rebuilt(ahead.form(given, torch.Tensor))
    assert back[0] == [1, (2.5, None)] and back[2:] == ("mode", True) and isinstance(back, tuple)
    x = back[1]["x"]
    assert (x.shape, x.stride(), x.dtype, x.device.type) == ((4, 3), (1, 4), torch.float16, "meta")
    with pytest.raises(ValueError, match="dtype"):
        ahead.form([torch.float32], torch.Tensor)


PROGRAM = """
import json, sys
from pathlib import Path
from autokernel.builders.loading import import_candidate
from autokernel.executor import ahead
ahead.compile_kernels(import_candidate(Path(sys.argv[1])).ModelNew, json.loads(sys.argv[2]))
"""


def test_a_candidates_kernels_lie_in_its_cache_before_it_has_a_device(tmp_path: Path) -> None:
    candidate, cache = tmp_path / "candidate.py", tmp_path / "cache"
    candidate.write_text(SOFTMAX)
    terms = json.dumps({**form(torch.empty(64, 70000)), "device": H200})
    env = {**os.environ, "TRITON_CACHE_DIR": str(cache), "TRITON_INTERPRET": "0", "PYTHONPATH": str(ROOT)}
    times: list[int] = []
    for _ in range(2):  # the second time all is found
        subprocess.run([sys.executable, "-c", PROGRAM, str(candidate), terms], env=env, check=True, timeout=120)
        built = list(cache.glob("*/softmax_kernel.cubin"))
        assert len(built) == 1 and b"sm_90" in next(cache.glob("*/softmax_kernel.ptx")).read_bytes()
        times.append(built[0].stat().st_mtime_ns)
    assert times[0] == times[1]


@pytest.mark.parametrize("line", ["x.cpu().sum().item()", "raise RuntimeError", "import os; os._exit(3)"])
def test_where_that_cannot_be_done_nothing_is_lost(executor: Executor, tmp_path: Path, line: str) -> None:
    text = SOFTMAX.replace("        x = x.contiguous()\n", f"        {line}\n", 1)
    assert not executor.compile_ahead(text, tmp_path / "kernels", form(torch.empty(8, 8)), H200, 60)
    assert not executor.compile_ahead("not python", tmp_path / "kernels", form(torch.empty(8, 8)), H200, 60)
    assert not executor.nursery.workers
