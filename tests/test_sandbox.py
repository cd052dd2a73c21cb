"""What a candidate can reach from inside its sandbox, asked by candidates that try. Skipped where this machine allows no namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autokernel import rules
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.records import Candidate, Evaluation

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)
def get_inputs():
    return [torch.randn(32, 64)]
def get_init_inputs():
    return []
"""
FAST = replace(rules.QUICK, looks=rules.Looks(pairs=(4,), alpha=(0.1,), budget_s=0.3, first_look_s=1.0),
               deadlines=rules.Deadlines(import_s=20, first_call_s=10, later_call_floor_s=5))


@dataclass(frozen=True)
class Task:
    """What evaluate() needs of a problem."""

    uid: str = "L1/1"
    hash: str = "tanh"
    source: str = PROBLEM


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with Executor("cpu", tmp_path_factory.mktemp("store"), seed=3) as made:
        if not made.sandboxed:
            pytest.skip(f"no sandbox on this machine: {made.why_no_sandbox}")
        yield made


def attack(executor: Executor, text: str) -> Evaluation:
    """Run `text` when the candidate is imported; what it prints is in the evaluation's log."""
    source = f"import os, sys\ntry:\n{''.join(f'    {line}' + chr(10) for line in text.splitlines())}except Exception as error:\n" \
             "    print('failed:', type(error).__name__, error)\nsys.stdout.flush()\n" \
             "import torch\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return torch.tanh(x)\n"
    made = evaluate(Task(), Candidate(source, "python"), rules=FAST, executor=executor)
    assert made.accepted, made.reason
    assert str(made.machine["sandbox"]).startswith("namespaces")
    return made


def test_no_process_but_its_own_family_is_to_be_seen(executor: Executor) -> None:
    made = attack(executor, "print('pids', sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))")
    assert "pids [1, 2]" in made.log


@pytest.mark.parametrize("where", ["repository", "home", "etc", "store", "python"])
def test_nothing_outside_can_be_written(executor: Executor, where: str) -> None:
    folder = {"repository": Path(__file__).parent, "home": Path.home(), "etc": Path("/etc"), "store": executor.store,
              "python": Path(pytest.__file__).parent}[where]
    target = folder / "planted-by-a-candidate"
    made = attack(executor, f"open({str(target)!r}, 'w').write('x')")
    assert "failed: OSError" in made.log or "failed: FileNotFoundError" in made.log
    assert not target.exists()


def test_temporary_files_are_its_own_and_gone_afterwards(executor: Executor) -> None:
    made = attack(executor, "open('/tmp/planted', 'w').write('x')\nopen('/dev/shm/planted', 'w').write('x')\nprint('wrote')")
    assert "wrote" in made.log
    assert not Path("/tmp/planted").exists() and not Path("/dev/shm/planted").exists()


def test_there_is_no_network(executor: Executor) -> None:
    made = attack(executor, "import socket\nprint(len(os.listdir('/sys/class/net')))\n"
                            "socket.create_connection(('127.0.0.1', 22), timeout=2)")
    assert "failed:" in made.log


@pytest.mark.parametrize("text", [
    "import ctypes\nprint('mount', ctypes.CDLL(None).mount(b'tmpfs', b'/mnt', b'tmpfs', 0, None))",
    "import ctypes\nprint('remount', ctypes.CDLL(None).mount(None, b'/', None, 32 | 4096, None))",
    "import ctypes\nprint('setns', ctypes.CDLL(None).unshare(0x00020000))",
    "os.mknod('/tmp/disk', 0o60600, os.makedev(254, 0))",
    "os.setuid(1)",
])
def test_it_has_no_privileges_to_leave_with(executor: Executor, text: str) -> None:
    made = attack(executor, text)
    assert "-1" in made.log or "failed: PermissionError" in made.log


def test_the_trusted_processes_cannot_be_signalled_or_traced(executor: Executor) -> None:
    assert executor._judge is not None
    judge = executor._judge.process
    made = attack(executor, f"import signal\nos.kill({judge.pid}, signal.SIGKILL)")
    assert "failed: ProcessLookupError" in made.log
    assert judge.poll() is None


def test_the_problems_answers_are_not_in_files_it_can_read(executor: Executor) -> None:
    made = attack(executor, f"print(sorted(os.listdir({str(executor.folder)!r})))\nprint(sorted(os.listdir('/tmp')))")
    assert "candidate.py" not in made.log
    assert made.log.count("w") <= made.log.count("'") + 4  # its own folder and its kernels' cache only
