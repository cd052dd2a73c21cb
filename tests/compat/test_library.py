"""The library as training code uses it: from pools of threads that come and go, and from forked processes."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

REFERENCE = """import torch
class Model(torch.nn.Module):
    def forward(self, x): return x * 2
def get_inputs(): return [torch.rand(4, 4)]
def get_init_inputs(): return []
"""
RIGHT = "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x): return x + x\n"


@pytest.mark.slow
def test_pools_of_threads_come_and_go(evaluate):
    for round_of in range(2):
        with ThreadPoolExecutor(2) as pool:
            sources = [RIGHT + f"# {round_of} {number}\n" for number in range(2)] + [RIGHT.replace("x + x", "x")]
            found = list(pool.map(lambda source: evaluate(REFERENCE, source, num_correct_trials=2), sources))
        assert [result.correctness for result in found] == [True, True, False]
        assert found[0].model_dump()["metadata"]["correctness_trials"] == "(2 / 2)"
        assert '"compiled": true' in found[0].model_dump_json()


@pytest.mark.slow
def test_a_fork_gets_processes_of_its_own(evaluate):
    assert evaluate(REFERENCE, RIGHT).correctness
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of a fork beside threads, which is the point here
        child = os.fork()
    if child == 0:
        try:
            from autokernel.compat import kernelbench

            right = kernelbench.eval_kernel_against_ref(REFERENCE, RIGHT, device="cpu").correctness
            kernelbench.close()
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert evaluate(REFERENCE, RIGHT).correctness
