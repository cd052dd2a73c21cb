"""A scripted search for the loop's tests: what each candidate is worth stands in its own text. Run as a program it can kill itself.

    python loop_script.py FOLDER [POINT:N]     SIGKILL at the Nth time it comes by POINT
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from autokernel import durable, ledger, run_folder, store, workspace
from autokernel.loop import LoopOptions
from autokernel.moveon import MoveOn
from autokernel.records import STAGES, Candidate, Comparison, Evaluation, Measurement, Verdict
from autokernel.rules import QUICK, STRICT
from autokernel.run import run_level
from autokernel.run_folder import RunFolder
from autokernel.trials import RunHeader

HEADER = RunHeader(rules=STRICT.label, torch="2.13.0", device="cpu", origin="script", version="0.1.0", machine={"cpus": 2})


@dataclass(frozen=True)
class ScriptedProblem:
    uid: str
    source: str = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"
    name: str = "scripted"

    @property
    def hash(self):
        return hashlib.md5(self.source.encode()).hexdigest()


def text(number, speed, quick=True, strict=True):
    return f"# {number} speed={speed} quick={int(quick)} strict={int(strict)}\nclass ModelNew: pass\n"


class ScriptedProposer:
    """Proposes the texts of a list, in order; which one is next it reads from the history."""

    name = "scripted"

    def __init__(self, texts):
        self.texts = texts

    def propose(self, problem, history):
        texts = self.texts[problem.uid] if isinstance(self.texts, dict) else self.texts
        if len(history) == len(texts):
            return None
        return Candidate(texts[len(history)], "python", proposer=self.name, note=f"number {len(history) + 1}")


def worth(source):
    return {word.split("=")[0]: float(word.split("=")[1]) for word in source.splitlines()[0].split() if "=" in word}


def comparison(against, speedup, margin=0.005):
    return Comparison(against, speedup, speedup - margin, speedup + margin, 0.99, 2, Measurement((1.0, 1.0), 1, "window/1", 0.1),
                      Measurement((speedup, speedup), 1, "window/1", 0.1), speedup - margin)


def evaluation(problem, candidate, rules=QUICK.label, accepted=True, comparisons=(), **more):
    stages = STAGES[:6] if accepted else STAGES[:2]
    verdicts = [Verdict(stage, True) for stage in stages]
    if not accepted and more.get("refused_by", "smoke") in STAGES:
        verdicts[-1] = Verdict(more.get("refused_by", "smoke"), False, "wrong at (0, 0)", {"ratio": 7.5})
    fields = {"refused_by": None if accepted else "smoke", "reason": "" if accepted else "wrong at (0, 0)", **more}
    return Evaluation(problem=problem.uid, problem_hash=problem.hash, candidate=candidate.sha256, builder=candidate.builder, rules=rules,
                      accepted=accepted, verdicts=tuple(verdicts), comparisons=tuple(comparisons), machine={}, **fields)


class ScriptedEvaluate:
    """Judges by the words in the candidate's first line and remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, problem, candidate, *, rules, incumbent=None, against=("eager",)):
        self.asked.append((problem.uid, rules.name, against))
        own = worth(candidate.source)
        if own.get("unjudged"):
            return evaluation(problem, candidate, rules.label, False, refused_by="problem", reason="unscorable: zeros pass")
        if not own[rules.name]:
            return evaluation(problem, candidate, rules.label, False)
        speeds = {"eager": own["speed"], "compile": own["speed"] / 2}
        if incumbent is not None:
            speeds["incumbent"] = own["speed"] / worth(incumbent.source)["speed"]
        return evaluation(problem, candidate, rules.label, comparisons=[comparison(name, speeds[name]) for name in against],
                          roofline=own.get("roofline"))


PROBLEMS = (ScriptedProblem("L1/1"), ScriptedProblem("L1/2"))
TEXTS = {
    "L1/1": [text(1, 0.9), text(2, 1.2), text(3, 1.5, strict=False), text(4, 1.21), text(5, 3.0, quick=False), text(6, 1.4),
             text(7, 1.401), text(8, 1.1), text(9, 1.1)],
    "L1/2": [text(1, 0.8), text(2, 0.7, quick=False), text(3, 2.5, strict=False), text(4, 0.9)],
}
OPTIONS = LoopOptions(iterations=9, strict_within=2, move_on=MoveOn(reverts=4))


def search(folder):
    with RunFolder.open(Path(folder), HEADER) as run:
        return run_level(PROBLEMS, ScriptedProposer(TEXTS), ScriptedEvaluate(), run, OPTIONS)


class _Killer:
    def __init__(self, point, times):
        self.point, self.left = point, times

    def passes(self, point):
        """Whether the process is to be killed now."""
        self.left -= point == self.point
        return point == self.point and self.left == 0

    def at(self, point):
        if self.passes(point):
            os.kill(os.getpid(), signal.SIGKILL)

    def before(self, owner, name, point):
        original = getattr(owner, name)

        def wrapped(*arguments, **keywords):
            self.at(point)
            return original(*arguments, **keywords)

        setattr(owner, name, wrapped)

    def after(self, owner, name, point):
        original = getattr(owner, name)

        def wrapped(*arguments, **keywords):
            result = original(*arguments, **keywords)
            self.at(point)
            return result

        setattr(owner, name, wrapped)


def _arm(killer):
    killer.before(ScriptedProposer, "propose", "propose")
    killer.after(store.CandidateStore, "put", "stored")
    killer.before(ScriptedEvaluate, "__call__", "evaluate")
    killer.before(run_folder.ResultsTable, "append", "recorded")
    killer.after(workspace.Workspace, "commit", "committed")
    killer.before(workspace.Workspace, "commit", "commit")
    killer.before(workspace.Workspace, "revert", "revert")
    killer.before(run_folder.RunFolder, "write_winner", "winner")
    killer.before(ledger.Ledger, "end", "end")
    killer.after(ledger.Ledger, "end", "ended")
    killer.after(ledger, "write_all", "unsynced")
    write_all = ledger.write_all

    def half(descriptor, data):
        if killer.passes("half"):
            write_all(descriptor, data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        write_all(descriptor, data)

    ledger.write_all = half
    git = workspace.Workspace._git

    def in_git(self, *arguments):
        if killer.passes("git"):
            (self.folder / ".git" / "index.lock").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return git(self, *arguments)

    workspace.Workspace._git = in_git
    replace = os.replace

    def in_replace(source, target):
        killer.at("replace")
        replace(source, target)

    durable.os.replace = in_replace


if __name__ == "__main__":
    if len(sys.argv) > 2:
        where, _, count = sys.argv[2].partition(":")
        _arm(_Killer(where, int(count)))
    search(sys.argv[1])
