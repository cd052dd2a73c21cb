"""What a candidate can reach from inside its sandbox, asked by candidates that try. Skipped where this machine allows no namespaces."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from autokernel import rules
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.executor.nursery import Nursery
from autokernel.executor.service import KEEP_FREED_MEMORY
from autokernel.executor.zygote import Filters
from autokernel.records import Candidate, Evaluation
from autokernel.sandbox import cgroups, environment, seccomp

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
    mounts = Path("/proc/self/mountinfo").read_text()
    with Executor("cpu", tmp_path_factory.mktemp("store"), seed=3) as made:
        if not made.sandboxed:
            pytest.skip(f"no sandbox on this machine: {made.why_no_sandbox}")
        yield made
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert not [group for one in cgroups.hierarchies() for group in one.folder.glob(f"{cgroups.PREFIX}{os.getpid()}-*")]
    assert not made.folder.exists()


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


def test_the_users_files_are_not_in_sight(executor: Executor) -> None:
    hidden = [Path.home() / ".profile", Path(__file__).parent.parent / "setup.py", executor.store / "builds", Path("/etc/shadow"),
              Path("/var/lib"), Path("pyproject.toml")]
    made = attack(executor, f"print('in sight', [path for path in {[str(path) for path in hidden]!r} if os.path.lexists(path)])")
    assert "in sight []" in made.log


def test_its_environment_is_a_short_list_for_every_process_that_it_sees(executor: Executor) -> None:
    made = attack(executor, "names = set(os.environ)\n"
                            "for pid in (1, 2):\n"
                            "    with open(f'/proc/{pid}/environ') as file:\n"
                            "        names |= {one.partition('=')[0] for one in file.read().split(chr(0)) if one}\n"
                            "print('names', sorted(names))\n"
                            "print('home', os.environ['HOME'] == os.getcwd())")
    names = set(ast.literal_eval(next(line for line in made.log.splitlines() if line.startswith("names"))[6:]))
    ours = {"HOME", "TMPDIR", "PYTHONDONTWRITEBYTECODE", "CUDA_MODULE_LOADING", "CUDA_VISIBLE_DEVICES", "TRITON_INTERPRET",
            "AUTOKERNEL_WARM_COMPILE", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "PATH",
            *KEEP_FREED_MEMORY}
    by_torch = {"KINETO_LOG_LEVEL", "LC_CTYPE", "KMP_INIT_AT_FORK", "KMP_DUPLICATE_LIB_OK", "TORCHINDUCTOR_COMPILE_THREADS"}
    assert names - ours - by_torch - set(environment.allowed(dict.fromkeys(names, ""))) == set()
    assert "home True" in made.log


@pytest.mark.parametrize(("name", "kept"), [
    ("PATH", True), ("LC_ALL", True), ("CUDA_VISIBLE_DEVICES", True), ("OMP_NUM_THREADS", True), ("TORCH_LOGS", True), ("HF_TOKEN", False),
    ("NVIDIA_API_KEY", False), ("TORCH_HUB_TOKEN", False), ("https_proxy", False), ("LD_PRELOAD", False), ("AWS_SECRET_ACCESS_KEY", False),
    ("PIP_INDEX_URL", False), ("HOME", False), ("SSH_AUTH_SOCK", False), ("PYTORCH_CUDA_ALLOC_CONF", False), ("PYTORCH_ALLOC_CONF", False),
])
def test_what_of_an_environment_is_allowed(name: str, kept: bool) -> None:
    assert (name in environment.allowed({name: "x"})) is kept


def test_it_cannot_leave_its_processors_and_layers_can_be_left_out(executor: Executor, tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    source = ("import os\ntry:\n    os.sched_setaffinity(0, range(64))\nexcept OSError:\n    pass\n"
              "print('on', os.sched_getaffinity(0), flush=True)\nclass ModelNew: pass\n")
    nursery = Nursery("cpu", tmp_path / "store", tmp_path, (min(os.sched_getaffinity(0)),), compiles=False)
    nursery.open()
    ways = [] if nursery.no_seccomp else [False]
    ways += [True] if "cpuset" not in cgroups.examine(nursery.cpus) else []
    try:
        for groups in ways:
            nursery.layers = replace(nursery.layers, groups=groups, seccomp=not nursery.no_seccomp)
            worker = nursery.spawn()
            nursery.load(worker, source, "python", deadline_s=60)
            folders = list(worker.group.folders.values())
            nursery.bury(worker)
            assert f"on {set(nursery.cpus)}" in worker.text.text()
            assert bool(folders) == groups and not [folder for folder in folders if folder.exists()]
        for hiding in (True, False):  # where a device needs a file that is hidden, the other layers stay
            nursery.layers = replace(nursery.layers, namespaces=True, hiding=hiding)
            worker = nursery.spawn()
            nursery.load(worker, "print('seen', __import__('os').path.exists('/etc/shadow'), flush=True)\nclass ModelNew: pass\n", "python",
                         deadline_s=60)
            nursery.bury(worker)
            assert f"seen {not hiding}" in worker.text.text()
    finally:
        nursery.close()


def test_its_folders_are_in_memory_under_one_quota(executor: Executor) -> None:
    made = attack(executor, "room = {}\n"
                            "for folder in (os.getcwd(), os.environ['HOME'], os.environ['TRITON_CACHE_DIR'], '/tmp', '/dev/shm'):\n"
                            "    had = os.statvfs(folder)\n"
                            "    room[os.stat(folder).st_dev] = had.f_blocks * had.f_frsize\n"
                            "print('rooms', sorted(room.values()))")
    assert f"rooms [{2 << 30}]" in made.log
    assert not any((executor.folder / "triton").rglob("*.so"))


def test_the_problems_answers_are_not_in_files_it_can_read(executor: Executor) -> None:
    made = attack(executor, f"print(sorted(os.listdir({str(executor.folder)!r})))\nprint(sorted(os.listdir('/tmp')))")
    assert "candidate.py" not in made.log
    assert made.log.count("w") <= made.log.count("'") + 4  # its own folder and its kernels' cache only


FALLS_BACK = """
import ctypes, json, sys, tempfile
from pathlib import Path
from autokernel import rules
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.records import Candidate
from autokernel.sandbox import command, seccomp
library = seccomp._library()
context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(seccomp.ALLOW)))
number = library.seccomp_syscall_resolve_name(b"unshare")
assert library.seccomp_rule_add_array(context, ctypes.c_uint32(seccomp.DENY), number, 0, None) == 0 and library.seccomp_load(context) == 0
sys.path.insert(0, str(Path(sys.argv[1]).parent))
import test_sandbox as here
with tempfile.TemporaryDirectory() as store, Executor("cpu", Path(store), seed=3) as executor:
    source = here.PROBLEM.replace("Model", "ModelNew")
    made = evaluate(here.Task(), Candidate(source, "python"), rules=here.FAST, executor=executor)
    print(json.dumps([made.accepted, made.reason, made.machine["sandbox"], executor.why_no_sandbox, command.why_not()]))
"""


def test_a_machine_without_namespaces_is_said_to_be_one_and_judges_all_the_same(tmp_path: Path) -> None:
    """A real refusal: the whole session runs under a filter that forbids unshare."""
    try:
        seccomp.Filter()
    except seccomp.NoSeccomp as error:
        pytest.skip(str(error))
    done = subprocess.run([sys.executable, "-c", FALLS_BACK, __file__], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    accepted, reason, recorded, why, compilers = json.loads(done.stdout.splitlines()[-1])
    assert accepted, reason
    assert recorded.startswith("none") and "no namespaces" in recorded and "unshare: Operation not permitted" in recorded
    assert "seccomp" in recorded.partition(";")[0] and "unshare" in why
    assert compilers == {"namespaces": "unshare: Operation not permitted"}


def test_a_machine_without_libseccomp_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seccomp, "LIBRARY", "libseccomp-is-not-here.so")
    seccomp._library.cache_clear()
    try:
        assert Filters().why_not == "libseccomp-is-not-here.so is not installed"
    finally:
        seccomp._library.cache_clear()


def test_a_cache_outlives_its_process_and_reaches_the_next_one(executor: Executor) -> None:
    kernels = executor.folder / "triton" / "shared"
    source = ("import os\nhere = os.environ['TRITON_CACHE_DIR']\nprint('found', sorted(os.listdir(here)), flush=True)\n"
              "open(f'{here}/{os.getpid()}-{len(os.listdir(here))}', 'w').write('x')\nclass ModelNew: pass\n")
    said = []
    first = executor.spawn(caches=[kernels])
    executor.load(first, source, "python", kernels=kernels, deadline_s=60)
    second = executor.spawn(caches=[kernels])  # while the first one lives
    executor.load(second, source, "python", kernels=kernels, deadline_s=60)
    for worker in (first, second):
        executor.stop(worker)
        said.append(worker.text.text().strip())
    third = executor.spawn(caches=[kernels])
    executor.load(third, source, "python", kernels=kernels, deadline_s=60)
    executor.stop(third)
    assert said == ["found []", "found ['2-0']"] and "found ['2-0', '2-1']" in third.text.text()
    assert sorted(path.name for path in kernels.iterdir()) == ["2-0", "2-1", "2-2"]
