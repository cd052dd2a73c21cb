"""One evaluation in a worker: kept draws, rebound names, ways out that are KernelBench's, a candidate that lies to the wire."""

from __future__ import annotations

import pytest

from autokernel.compat import kernelbench
from autokernel.compat.single import CompatOptions, check_method, evaluate_compat, kernelbench_backend, require_backend
from autokernel.errors import MissingOnMachine, UsageError
from autokernel.executor.compat_draws import Draws
from autokernel.executor.compat_host import CompatHost
from autokernel.executor.extensions import folder_of, is_whole
from autokernel.records import Candidate
from kernelbench_bridge.architectures import BackendRefused

REFERENCE = """import torch
import torch.nn as nn
size = 8
class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def forward(self, x):
        return x * self.scale
def get_inputs():
    return [torch.rand(size, 4)]
def get_init_inputs():
    return [2.0]
"""
RIGHT = """import torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
    def forward(self, x):
        return self.scale * x
"""


@pytest.fixture(scope="module")
def host(evaluate):
    """The library's own warm host."""
    return kernelbench._host("cpu")


def judge(host, candidate=RIGHT, reference=REFERENCE, **options):
    options = {"measure": False, **options}
    return evaluate_compat(host, reference, Candidate(candidate, "python"), CompatOptions(**options))


def test_the_second_candidate_does_not_draw_again(host, tmp_path):
    marked = REFERENCE.replace("    return [torch.rand", "    print('DRAWN')\n    return [torch.rand")
    first, second = judge(host, reference=marked), judge(host, RIGHT + "# another\n", reference=marked)
    assert (first.draws, second.draws) == ("kept", "kept")
    assert "DRAWN" not in first.log + second.log
    assert first.result.correctness and second.result.correctness


def test_kept_draws_are_the_ones_that_kernelbench_makes(host):
    tell = RIGHT.replace("        return self.scale * x", "        raise ValueError(x.flatten()[:3].tolist())")
    kept = judge(host, tell)
    own = judge(host, "size = 9\n" + tell.replace("[:3]", "[:3]"), correct_trials=1)
    assert (kept.draws, own.draws) == ("kept", "drawn")
    assert kept.result.metadata["runtime_error"] == own.result.metadata["runtime_error"] != ""


def test_a_candidate_that_changes_what_the_problem_reads_gets_its_own_draws(host):
    """KernelBench's namespace is shared: get_inputs reads the candidate's `size`."""
    tell = "size = 3\n" + RIGHT.replace("        return self.scale * x", "        raise ValueError(tuple(x.shape))")
    found = judge(host, tell)
    assert found.draws == "drawn"
    assert found.result.metadata["runtime_error"] == "(3, 4)"


def test_draws_that_do_not_fit_are_made_by_the_evaluation(store, tmp_path):
    draws = Draws(tmp_path / "draws", budget_bytes=10)
    with CompatHost("cpu", store, draws) as small:
        found = judge(small)
        draws.close()
        assert (found.draws, found.result.correctness) == ("drawn", True)
        assert list((tmp_path / "draws").iterdir()) == []


def test_a_build_that_failed_leaves_nothing_that_is_believed(host):
    plants = ("import os, torch.utils.cpp_extension\nfolder = os.environ['TORCH_EXTENSIONS_DIR']\n"
              "if not os.path.exists(folder + '/imported'):\n    open(folder + '/imported', 'wb').write(b'\\xff')\n"
              "    open(folder + '/headers', 'w').write('x')\n    raise RuntimeError('no')\n" + RIGHT)
    place = folder_of(host.store, Candidate(plants, "python").sha256)
    for _ in range(2):
        assert not judge(host, plants).result.compiled
        assert not place.exists() and not is_whole(place)


def test_what_is_left_at_the_end_is_the_latest(tmp_path, monkeypatch):
    import os

    from autokernel.executor import compat_draws

    draws = Draws(tmp_path, budget_bytes=10_000)

    def draw(paths):
        for path in paths.values():
            path.write_bytes(bytes(1000))

    for number in range(4):
        assert len(draws.paths(f"problem {number}", "torch", [1, 2], draw)) == 2
        newest = max(tmp_path.iterdir(), key=lambda place: place.stat().st_ctime_ns)
        os.utime(newest, (number, number))
    monkeypatch.setattr(compat_draws, "LEFT_BYTES", 4500)
    draws.close()
    assert sorted(place.stat().st_mtime for place in tmp_path.iterdir()) == [2.0, 3.0]


def test_an_integer_input_is_cast_as_kernelbench_casts_it(host):
    reference = REFERENCE.replace("[torch.rand(size, 4)]", "[torch.randint(0, 4, (size,))]").replace(
        "return x * self.scale", "return torch.nn.functional.one_hot(x, 4)")
    found = judge(host, RIGHT, reference=reference)
    assert (found.result.compiled, found.result.correctness) == (True, False)
    assert found.result.metadata["runtime_error_name"] == "builtins.RuntimeError"
    assert "runtime_error_traceback" not in found.result.metadata


def test_times_come_with_statistics_and_a_reference(host):
    found = judge(host, measure=True, perf_trials=7)
    stats = found.result.runtime_stats
    assert len(found.times_ms) == len(found.reference_ms) == stats["num_trials"] == 7
    assert (found.result.runtime, stats["device"]) == (stats["mean"], "cpu")
    assert found.result.ref_runtime == found.result.ref_runtime_stats["mean"] > 0


def test_a_wrong_candidate_is_not_timed_and_its_reference_is(host):
    found = judge(host, RIGHT.replace("self.scale * x", "self.scale + x"), measure=True, perf_trials=2)
    assert (found.result.runtime, found.result.runtime_stats) == (-1.0, {})
    assert found.result.ref_runtime > 0
    assert len(found.result.metadata["max_difference"]) == 5


def test_a_time_that_is_too_good_is_flagged_and_nothing_more(host):
    slow = REFERENCE.replace("        return x * self.scale", "        import time; time.sleep(0.02); return x * self.scale")
    found = judge(host, reference=slow, measure=True, perf_trials=3)
    assert found.result.metadata["excessive_speedup"] is True
    assert found.result.correctness


def test_what_leaves_kernelbenchs_evaluator_is_filed_as_its_batch_files_it(host):
    found = judge(host, "import torch.nn as nn\nclass ModelNew(nn.Module):\n    def __init__(self): super().__init__()\n")
    assert (found.result.compiled, found.result.metadata["runtime_error_name"]) == (True, "builtins.TypeError")
    assert (found.batch.compiled, found.batch.metadata["other_error_name"]) == (False, "builtins.TypeError")
    assert found.batch.metadata["other_error"].startswith("error: ModelNew.__init__()")
    poisoned = judge(host, "class ModelNew:\n    def __init__(self, s): raise ValueError('CUDA error: an illegal memory access')\n")
    assert poisoned.batch.metadata["cuda_error"] == "CUDA Error: CUDA error: an illegal memory access"


@pytest.mark.parametrize(("candidate", "outcome", "error"), [
    ("import os\nos._exit(0)\n", "died", "Evaluation process failed"),
    ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "died", "Evaluation process failed"),
    ("import time\ntime.sleep(600)\n", "deadline", "Evaluation timed out"),
])
def test_a_candidate_that_crashes_or_hangs_costs_no_more_than_itself(host, candidate, outcome, error):
    from dataclasses import replace

    from autokernel.rules import KERNELBENCH

    found = judge(host, candidate, rules=replace(KERNELBENCH, timeout_s=6.0))
    assert (found.outcome, found.result.compiled) == (outcome, False)
    assert found.result.metadata["error"].startswith(error)
    assert judge(host).result.correctness


LIAR = """
import gc, os, socket, struct
from autokernel.executor import compat_wire
for thing in gc.get_objects():
    if isinstance(thing, socket.socket):
        {body}
        break
os._exit(0)
"""

@pytest.mark.parametrize(("body", "outcome"), [
    ("thing.sendall(b'x' * 4096)", "protocol"),
    ("thing.sendall(compat_wire.HEADER.pack(compat_wire.MAGIC, 0, 0, 5, 5, 4000000000, 0, 0, 0, 0, 0, 0, 0, 0., 0., 0., 0.))", "protocol"),
    ("thing.sendall(compat_wire.HEADER.pack(compat_wire.MAGIC, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0., 0., 0., 0.))", "protocol"),
    ("thing.sendall(compat_wire.HEADER.pack(compat_wire.MAGIC, 0, 1, 5, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0., 0., 0., 0.)"
     " + struct.pack('<d', float('nan')))", "protocol"),
    ("thing.sendall(compat_wire.HEADER.pack(compat_wire.MAGIC, 0, 0, 5, 5, 0, 0, 9, 0, 0, 0, 0, 0, 0., 0., 0., 0.))", "died"),
])
def test_a_frame_that_is_none_is_refused(host, body, outcome):
    found = judge(host, LIAR.format(body=body))
    assert (found.outcome, found.result.correctness) == (outcome, False)


def test_triton_files_are_imported_from_a_file(host):
    pytest.importorskip("triton")
    source = """import torch
import triton
import triton.language as tl
@triton.jit
def twice(source, target, n, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(target + place, 2.0 * tl.load(source + place, mask=place < n), mask=place < n)
class ModelNew(torch.nn.Module):
    def __init__(self, scale): super().__init__()
    def forward(self, x):
        y = torch.empty_like(x)
        twice[(1,)](x, y, x.numel(), BLOCK=64)
        return y
"""
    assert kernelbench_backend(source) == "triton"
    assert judge(host, source, backend="triton").result.correctness


def test_what_this_machine_lacks_is_named():
    with pytest.raises(MissingOnMachine, match="tilelang"):
        require_backend("tilelang")
    with pytest.raises(MissingOnMachine, match="THUNDERKITTENS_ROOT"):
        require_backend("thunderkittens")
    with pytest.raises(MissingOnMachine, match="nsight"):
        check_method("nsight_python_time", "cuda:0")
    with pytest.raises(UsageError, match="host_time"):
        check_method("cuda_event", "cpu")


def test_back_ends_and_precisions_that_kernelbench_refuses(host):
    with pytest.raises(BackendRefused) as refusal:
        judge(host, backend="hip")
    assert refusal.value.exit_code == 3
    with pytest.raises(ValueError, match="fp16 or bf16"):
        judge(host, backend="tilelang")
    with pytest.raises(UsageError, match="--rules strict"):
        kernelbench_backend('import native\nCPP_SRC = ""\n')


def test_a_reference_that_does_not_load_is_no_candidates_fault(host):
    found = judge(host, reference="raise KeyError('no')")
    assert found.problem_fails.startswith("builtins.KeyError")
    assert "reference itself" in found.note
