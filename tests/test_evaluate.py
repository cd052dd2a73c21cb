"""Evaluation end to end on the CPU: right, wrong, broken and cheating candidates, each with its verdict, each followed by a right one."""
# ruff: noqa: E501  a candidate's body stands on one line

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autokernel import builders, rules
from autokernel.errors import BuilderUnavailable, InternalError
from autokernel.evaluate import _sessions, evaluate
from autokernel.executor import families, wire
from autokernel.executor.broker import Executor
from autokernel.executor.faults import IDLE, WorkerFault
from autokernel.executor.handle import WorkerHandle
from autokernel.records import INCUMBENT_FAILS, Candidate, Evaluation
from kernelbench_bridge import load_level

PROBLEM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, scale):
        return torch.relu(self.linear(x)) * scale

def get_inputs():
    return [torch.rand(64, 96), 1.5]

def get_init_inputs():
    return [96]
"""
HEAD = """
import torch, torch.nn as nn
class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.calls = 0
        self.kept = {}
    def forward(self, x, scale):
"""
RIGHT = HEAD + "        return torch.relu(self.linear(x)) * scale\n"
FAST = replace(rules.QUICK, looks=rules.Looks(pairs=(6,), alpha=(0.05,), budget_s=0.5, first_look_s=2.0),
               deadlines=rules.Deadlines(import_s=20, first_call_s=4, later_call_floor_s=3))
STRICT = replace(rules.STRICT, looks=FAST.looks, deadlines=FAST.deadlines)


@dataclass(frozen=True)
class Task:
    """What evaluate() needs of a problem."""

    uid: str
    hash: str
    source: str


TASK = Task("L1/1", "linear-relu", PROBLEM)


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with Executor("cpu", tmp_path_factory.mktemp("store"), seed=7) as made:
        yield made


def judge(executor: Executor, source: str, *, using: rules.Rules = FAST, builder: str = "python", task: Task = TASK) -> Evaluation:
    return evaluate(task, Candidate(source, builder), rules=using, executor=executor)


def body(text: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in text.strip().splitlines())


def test_a_right_candidate_is_accepted_by_strict_with_all_five_stages_and_a_speedup_near_one(executor: Executor) -> None:
    made = judge(executor, RIGHT, using=STRICT)
    assert made.accepted, made.reason
    assert [verdict.stage for verdict in made.verdicts] == ["smoke", "shape_sweep", "stability", "determinism", "edge_cases"]
    assert made.oracle == "fp64" and made.precision_class == "ieee-grade"
    pair = made.against("eager")
    assert pair is not None and pair.pairs >= 3 and pair.low <= pair.speedup <= pair.high
    assert made.flops == 2 * 64 * 96 * 96
    assert Evaluation.from_json(made.to_json()) == made


WRONG = {
    "wrong shape": ("return (torch.relu(self.linear(x)) * scale)[:1]", "smoke", "has shape (1, 96) and must have the reference's, (64, 96)"),
    "wrong dtype": ("return (torch.relu(self.linear(x)) * scale).double()", "smoke", "is float64 and must be float32"),
    "wrong structure": ("return (torch.relu(self.linear(x)) * scale,)", "smoke", "nested as [(T)]"),
    "no tensor": ("return 3.0", "smoke", "other containers"),
    "subclass": ("return nn.Parameter(x).as_subclass(type('Lazy', (torch.Tensor,), {}))", "smoke", "not a plain torch.Tensor"),
    "NaN": ("return torch.relu(self.linear(x)) * float('nan')", "smoke", "NaN or infinite"),
    "zeros": ("return torch.zeros(64, 96)", "smoke", "times the bound"),
    "half precision": ("return (torch.relu(self.linear(x.bfloat16().float())) * scale)", "smoke", "times the bound"),
    "one element": ("y = torch.relu(self.linear(x)) * scale\ny[63, 95] += 1e-3\nreturn y", "smoke", "element 6143"),
    "changes its input": ("y = torch.relu(self.linear(x)) * scale\nx.zero_()\nreturn y", "smoke", "input 0 changed"),
    "returns its input": ("x.copy_(torch.relu(self.linear(x)) * scale)\nreturn x", "smoke", "lies in an input's memory"),
    "raises": ("raise RuntimeError('as planned')", "smoke", "as planned"),
    "text that raises": ("class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad()", "smoke", "raised an exception"),
    "exits": ("raise SystemExit(0)", "smoke", "SystemExit"),
    "crashes": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "smoke", "crashed"),
    "never ends": ("while True: pass", "smoke", "too slow"),
    "100 GB": ("return torch.ones(25 * 10**9) * torch.ones(25 * 10**9)", "smoke", ""),
    "only without negatives": ("return self.linear(x).abs() * scale if (x < 0).any() else torch.relu(self.linear(x)) * scale", "stability", "range-specialised"),
    "memory by address": ("key = x.data_ptr()\nif key not in self.kept: self.kept[key] = torch.relu(self.linear(x)) * scale\nreturn self.kept[key].clone()",
                          "stability", "times the bound"),
    "right a few times, then replays": ("self.calls += 1\nif self.calls <= 8: self.kept[0] = torch.relu(self.linear(x)) * scale\nreturn self.kept[0].clone()",
                                       "performance", "a timed call"),
    "overwrites its earlier output": ("self.kept.setdefault(0, torch.empty(64, 96)).copy_(torch.relu(self.linear(x)) * scale)\nreturn self.kept[0]",
                                      "determinism", "clone it"),
    "random": ("return torch.relu(self.linear(x)) * scale * (1 + 1e-7 * torch.randint(0, 2, (64, 96)))", "determinism", "apart"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_candidate_is_refused_where_it_should_be_and_the_next_evaluation_works(executor: Executor, name: str) -> None:
    text, stage, reason = WRONG[name]
    made = judge(executor, body(text))
    assert not made.accepted and made.refused_by == stage, made.reason
    assert reason in made.reason
    again = judge(executor, RIGHT)
    assert again.accepted, again.reason


def late_until(second: float) -> str:
    """Right, but its third call takes longer than a call may, before this second of the clock."""
    return body(f"""
import time
self.calls += 1
if self.calls == 3 and time.time() < float('{second}'): time.sleep(30)
return torch.relu(self.linear(x)) * scale""")


def test_a_candidate_that_is_late_after_right_answers_is_judged_once_more(executor: Executor) -> None:
    assert judge(executor, RIGHT).accepted
    made = judge(executor, late_until(time.time() + FAST.deadlines.later_call_floor_s))
    assert made.accepted, made.reason
    assert made.labels == ("judged twice: it missed a deadline after it had answered rightly",)


def test_a_candidate_that_is_late_each_time_is_refused(executor: Executor) -> None:
    made = judge(executor, late_until(float("inf")))
    assert not made.accepted and made.refused_by != "smoke" and made.reason.startswith("too slow")
    assert judge(executor, RIGHT).labels == ()


SHIM = """
import gc, time
from autokernel.executor.worker import Worker
shim = next(held for held in gc.get_objects() if isinstance(held, Worker))
"""


def test_who_dawdles_off_the_clock_ends_no_comparison_early(executor: Executor) -> None:
    dawdling = SHIM + """
plain = Worker.prepare
def prepare(self, plan):
    plain(self, plan)
    time.sleep(0.12)
Worker.prepare = prepare
""" + RIGHT
    looks = replace(FAST.looks, pairs=(12,), first_look_s=2.0)  # less than its dawdling over 28 windows, more than all else takes
    for _ in range(2):  # all else takes longer where others use these cores
        made = judge(executor, dawdling, using=replace(FAST, looks=looks))
        pair = made.against("eager")
        if pair is not None and pair.pairs == 12:
            break
    assert made.accepted and pair is not None and pair.pairs == 12, (made.reason, pair)


def test_an_idle_incumbent_stands_still_while_others_are_timed_and_is_gone_where_it_is_not_asked_for(executor: Executor) -> None:
    watching = body("""
if not self.kept.get('watched'):
    import threading, time
    self.kept['watched'] = True
    def watch():
        last = time.perf_counter()
        while True:
            time.sleep(0.002)
            now = time.perf_counter()
            if now - last > 0.03: print(f'still {now - last:.4f}', flush=True)
            last = now
    threading.Thread(target=watch, daemon=True).start()
return torch.relu(self.linear(x)) * scale""")
    incumbent = Candidate(watching, "python")
    looks = replace(FAST.looks, pairs=(12,), first_look_s=20.0)
    made = evaluate(TASK, Candidate(RIGHT, "python"), rules=replace(FAST, looks=looks), executor=executor, incumbent=incumbent,
                    against=("incumbent", "eager"))
    assert made.accepted and [pair.against for pair in made.comparisons] in (["incumbent", "eager"], ["incumbent"]), made.reason
    session = _sessions[executor]
    text = session.workers[incumbent.sha256].text
    before = len(text.text(0.2))
    asked = evaluate(TASK, Candidate(RIGHT, "python"), rules=replace(FAST, looks=looks), executor=executor, incumbent=incumbent)
    still = [float(line.split()[1]) for line in text.text(0.2)[before:].splitlines() if line.startswith("still")]
    timed = sum(asked.breakdown_s.get(name, 0.0) for name in ("pairs eager", "K=1 control"))
    assert asked.accepted and sum(still) > 0.6 * timed, (still, asked.breakdown_s)
    assert judge(executor, RIGHT).accepted and incumbent.sha256 not in session.workers


def test_a_candidate_is_built_ahead_only_where_something_else_is_waited_for(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(executor, RIGHT)
    session, ahead = _sessions[executor], []
    monkeypatch.setattr(session, "prepare", ahead.append)
    assert session.is_warm(FAST, ("eager",)) and not session.is_warm(FAST, ("eager", "compile"))
    assert judge(executor, RIGHT).accepted and ahead == []
    executor.stop(session.workers.pop("eager"))
    assert judge(executor, RIGHT).accepted and [candidate.source for candidate in ahead] == [RIGHT]


@pytest.mark.slow
def test_who_is_much_faster_is_timed_in_longer_windows(executor: Executor) -> None:
    slowly = "        time.sleep(0.012)\n        return torch.relu(x) * scale\n"  # however busy the machine is
    again = PROBLEM.replace("        return torch.relu(self.linear(x)) * scale\n", slowly).replace("import torch\n", "import time\nimport torch\n", 1)
    task = Task("L1/4", "takes its time", again.replace("torch.rand(64, 96)", "torch.rand(1024, 2048)"))
    fast = judge(executor, HEAD + "        return torch.relu(x) * scale\n", using=STRICT, task=task)
    session = _sessions[executor]
    pair = fast.against("eager")
    assert fast.accepted and pair is not None and pair.candidate.calls_per_window > session.calls == 1, fast.reason
    assert pair.candidate.calls_per_window * session.facts["eager_ms"] <= STRICT.window_most_ms
    slow = judge(executor, "import time\n" + HEAD + slowly, task=task)
    pair = slow.against("eager")
    assert slow.accepted and pair is not None and pair.candidate.calls_per_window == 1, slow.reason


def test_who_leaves_folders_without_end_in_its_cache_is_gone_afterwards(executor: Executor) -> None:
    judge(executor, RIGHT)
    before = set(executor.nursery.workers)
    deep = """
import os
os.makedirs(os.environ["TRITON_CACHE_DIR"], exist_ok=True)
os.chdir(os.environ["TRITON_CACHE_DIR"])
for _ in range(1500):
    os.mkdir("deep")
    os.chdir("deep")
os._exit = lambda code: None
""" + RIGHT
    for _ in range(2):
        assert judge(executor, deep).accepted
    assert set(executor.nursery.workers) == before and judge(executor, RIGHT).accepted


def test_weights_copied_in_construction_may_be_judged_and_not_exported(executor: Executor) -> None:
    packed = HEAD.replace("        self.calls = 0\n", "        self.packed = self.linear.weight.detach().t().contiguous()\n") \
        + "        return torch.relu(torch.addmm(self.linear.bias, x, self.packed)) * scale\n"
    accepted_on_a_busy_machine(executor, packed, STRICT)
    asked = replace(STRICT, loaded_weights=True)  # as a proof before an export asks
    made = judge(executor, packed, using=asked)
    assert made.refused_by == "determinism" and made.reason.startswith("stale-weights"), made.reason
    accepted_on_a_busy_machine(executor, RIGHT, asked)


def accepted_on_a_busy_machine(executor: Executor, text: str, using: rules.Rules) -> None:
    """Judged again, once, where something else slowed eager beside the candidate; accepted in the end."""
    made = judge(executor, text, using=using)
    made = judge(executor, text, using=using) if "interference" in made.reason else made
    assert made.accepted, made.reason


def test_who_does_not_stand_idle_is_the_incumbent_or_a_fault_of_ours_and_the_next_is_right(
        executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = executor.judge

    def restless(order: str, *arguments: Any, **more: Any) -> dict[str, Any]:
        if order == "pairs":
            raise WorkerFault(IDLE, "it ran")
        return plain(order, *arguments, **more)

    incumbent = Candidate(RIGHT + "# once\n", "python")
    with monkeypatch.context() as patch:
        patch.setattr(executor, "judge", restless)
        made = evaluate(TASK, Candidate(RIGHT, "python"), rules=FAST, executor=executor, incumbent=incumbent, against=("incumbent", "eager"))
        assert made.refused_by == "problem" and made.reason == f"{INCUMBENT_FAILS}: it ran"
        assert incumbent.sha256 not in _sessions[executor].workers
        with pytest.raises(InternalError, match="stood idle"):
            judge(executor, RIGHT)
    assert judge(executor, RIGHT).accepted


@pytest.mark.parametrize(("free", "who", "reason"), [
    (64 << 20, "second", "must leave room for a further process, which did not start in 67 MB"),
    (64 << 20, "beside an incumbent", f"{INCUMBENT_FAILS}: it must leave room"),
    (8 << 30, "second", None), (64 << 20, "alone", None),
])
def test_who_leaves_no_room_for_a_further_process_is_refused_and_a_machine_that_starts_none_is_not_blamed_on_it(
        executor: Executor, monkeypatch: pytest.MonkeyPatch, free: int, who: str, reason: str | None) -> None:
    started: list[WorkerHandle] = []
    right = executor.load
    fails = 2 if who != "alone" else 1

    def load(worker: WorkerHandle, *given: Any, **more: Any) -> None:
        started.append(worker)
        if len(started) % fails == 0:
            executor.nursery.bury(worker)
            raise InternalError("a worker process did not start")
        right(worker, *given, **more)

    beside = who == "beside an incumbent"
    assert executor.free_bytes() is None  # on the CPU
    accepted_on_a_busy_machine(executor, RIGHT, FAST)  # the baselines are up
    with monkeypatch.context() as patch:
        patch.setattr(executor, "load", load)
        patch.setattr(executor, "free_bytes", lambda: free)
        asked = {"incumbent": Candidate(RIGHT + "# before\n", "python"), "against": ("incumbent", "eager")} if beside else {}
        if reason is None:
            with pytest.raises(InternalError, match="did not start"):
                evaluate(TASK, Candidate(RIGHT, "python"), rules=STRICT, executor=executor, **asked)
        else:
            made = evaluate(TASK, Candidate(RIGHT, "python"), rules=STRICT, executor=executor, **asked)
            assert made.refused_by == ("problem" if beside else "determinism") and reason in made.reason
    assert not [name for name in _sessions[executor].workers if name != "eager"]


UNBUILDABLE = {
    "syntax error": ("def forward(:\n", "does not compile (candidate.py:1: error: invalid syntax)"),
    "no ModelNew": ("x = 1\n", "defines no class ModelNew"),
    "raises when imported": ("raise ValueError('on import')  # no ModelNew\n", "on import"),
    "exits when imported": ("import os\nos._exit(0)  # no ModelNew\n", "ended while it was imported"),
    "hangs when imported": ("while True: pass  # no ModelNew\n", "took longer"),
    "a package that is missing": ("from no_such_package_here import *\n", "not installed"),
}


@pytest.mark.parametrize("name", UNBUILDABLE)
def test_a_file_that_cannot_be_imported_is_refused_by_build(executor: Executor, name: str) -> None:
    text, reason = UNBUILDABLE[name]
    made = judge(executor, text, using=replace(FAST, deadlines=replace(FAST.deadlines, import_s=3)))
    assert made.refused_by == "build" and reason in made.reason


def test_the_readmes_candidate_answers_the_problem_it_names(executor: Executor) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    source = text.partition("```python\n")[2].partition("```")[0]
    name = text.partition("kb eval --source embedded ")[2].split()[0]
    problem = next(p for p in load_level(1, source="embedded").problems if p.uid == name)
    made = evaluate(problem, Candidate(source, builders.detect(source)), rules=FAST, executor=executor)
    assert made.accepted and made.builder == "cpp", made.reason


def test_what_its_text_alone_shows_is_said_before_a_problem_is_opened(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "open_problem", lambda *_, **__: pytest.fail("the text was enough"))
    for text, reason in (UNBUILDABLE["syntax error"], UNBUILDABLE["no ModelNew"], ("", "defines no class ModelNew")):
        made = evaluate(Task("L1/9", "unopened", PROBLEM), Candidate(text, "python"), rules=FAST, executor=executor)
        assert made.refused_by == "build" and reason in made.reason and made.machine


def test_what_a_candidate_raises_is_told_from_its_own_first_frame_on(executor: Executor) -> None:
    wrong = judge(executor, RIGHT.replace("(self, width)", "(self)").replace("width, width", "96, 96"))
    assert "TypeError" in wrong.log and "Traceback" not in wrong.log  # raised by the call of the constructor, which is ours
    raising = judge(executor, body("return torch.nn.functional.layer_norm(x, [5])"))
    assert "candidate.py" in raising.log and "worker.py" not in raising.log and "functional.py" in raising.log
    greedy = judge(executor, body("return torch.ones(10 ** 13)"))
    assert "out of memory" in greedy.reason, greedy.reason


def test_a_wrong_constructor_is_refused_by_smoke(executor: Executor) -> None:
    made = judge(executor, RIGHT.replace("(self, width)", "(self)").replace("width, width", "96, 96"))
    assert made.refused_by == "smoke" and "TypeError" in made.reason


def test_a_million_lines_are_drained_and_capped(executor: Executor) -> None:
    made = judge(executor, body("print('spam ' * 20 + '\\n' * 1, end='')\nfor i in range(200000): print('a line of text')\nreturn torch.relu(self.linear(x)) * scale")
                 .replace("for i in range(200000)", "for i in range(200000 if not self.kept.setdefault('said', 0) else 0)"),
                 using=replace(FAST, deadlines=replace(FAST.deadlines, first_call_s=30)))
    assert len(made.log) <= 8000


def test_children_of_a_candidate_do_not_outlive_it(executor: Executor) -> None:
    made = judge(executor, body("""
import ctypes, os, time
if not self.kept:
    self.kept[0] = 1
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b"straggler")
            print('straggling', open('/proc/self/comm').read(), flush=True)
            time.sleep(600)
        os._exit(0)
    time.sleep(0.3)
return torch.relu(self.linear(x)) * scale"""))
    assert made.accepted, made.reason
    assert "straggling straggler" in made.log
    left = [comm for comm in Path("/proc").glob("[0-9]*/comm") if comm.exists() and comm.read_text().strip() == "straggler"]
    assert left == []


def test_a_reference_that_fails_is_the_problems_fault(executor: Executor) -> None:
    broken = Task("L1/2", "broken", PROBLEM.replace("torch.relu(", "torch.no_such_function("))
    made = judge(executor, RIGHT, task=broken)
    assert made.refused_by == "problem" and "no_such_function" in made.reason
    dies = Task("L1/3", "dies", PROBLEM.replace("    return [torch.rand(64, 96), 1.5]", "    import os; os._exit(9)"))
    made = judge(executor, RIGHT, task=dies)
    assert made.refused_by == "problem" and "died" in made.reason
    again = judge(executor, RIGHT)
    assert again.accepted, again.reason


def test_a_forward_that_draws_is_reseeded_alike_on_both_sides(executor: Executor) -> None:
    dropout = Task("L1/4", "dropout", PROBLEM.replace("torch.relu(self.linear(x))", "nn.functional.dropout(self.linear(x), 0.3)"))
    right = RIGHT.replace("torch.relu(self.linear(x))", "nn.functional.dropout(self.linear(x), 0.3)")
    made = judge(executor, right, task=dropout)
    assert made.accepted, made.reason
    assert made.oracle == "eager fp32: forward draws random numbers"
    assert judge(executor, RIGHT, task=dropout).refused_by == "smoke"


def test_a_cuda_candidate_cannot_run_here_and_says_what_is_missing(executor: Executor) -> None:
    source = 'import native\nCUDA_SRC = r"""extern "C" int f(float* y, void* s) { return 0; }"""\nSIGNATURES = {"f": "f32* y"}\n' + RIGHT
    with pytest.raises(BuilderUnavailable) as caught:
        judge(executor, source, builder="cuda")
    assert caught.value.exit_code == 3


def test_a_family_is_listed_frozen_and_killed_wherever_its_members_went(executor: Executor) -> None:
    worker = executor.spawn()
    executor.nursery.await_start(worker)
    assert worker.pid in families.members(worker.keeper)
    still = families.freeze(worker.keeper, by_signals=True)
    assert "T" in Path(f"/proc/{worker.pid}/stat").read_text().split(")")[1].split()[0]
    families.thaw(worker.keeper, still)
    executor.stop(worker)
    assert not Path(f"/proc/{worker.pid}").exists()


def test_spelling_a_nest_keeps_nothing_alive() -> None:
    class Leaf:
        pass

    leaf = Leaf()
    seen = weakref.ref(leaf)
    leaves, spelling = wire.flatten([(leaf, None), {"a": leaf}], Leaf)
    assert spelling == b"[(TN){a:T}]" and leaves == [leaf, leaf]
    gc.disable()
    try:
        del leaf, leaves
        assert seen() is None  # a cycle would hold gigabytes of outputs until the collector runs
    finally:
        gc.enable()



def test_a_triton_candidate_is_interpreted_judged_and_not_timed(executor: Executor) -> None:
    pytest.importorskip("triton")
    source = """
import torch, torch.nn as nn, triton, triton.language as tl

@triton.jit
def scaled_relu(x, y, scale, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.maximum(tl.load(x + i, mask=i < n), 0.0) * scale, mask=i < n)

class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
    def forward(self, x, scale):
        z = self.linear(x)
        y = torch.empty_like(z)
        scaled_relu[(triton.cdiv(z.numel(), 1024),)](z, y, scale, z.numel(), BLOCK=1024)
        return y
"""
    made = judge(executor, source, builder="triton", using=replace(FAST, deadlines=replace(FAST.deadlines, first_call_s=30)))
    assert made.accepted, made.reason
    assert made.comparisons == () and made.labels == ("interpreted: judged for correctness, not timed",)
    assert judge(executor, source.replace("* scale, mask", "* scale * 1.001, mask"), builder="triton").refused_by == "smoke"


def test_an_interrupted_request_is_not_answered_by_its_late_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with Executor("cpu", tmp_path) as executor:
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("autokernel.executor.control.receive", interrupted)
            executor.open_problem("import torch", "L1/1", {}, 10)
        generation = executor.generation
        assert executor.ceilings().keys() >= {"copy", "products"} and executor.generation == generation + 1
