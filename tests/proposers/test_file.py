from __future__ import annotations

import importlib.util
import json
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from autokernel.errors import UsageError
from autokernel.loop import LoopOptions, search_problem
from autokernel.moveon import MoveOn
from autokernel.proposers import starting_text
from autokernel.proposers.file import FileProposer
from autokernel.run_folder import RunFolder

_spec = importlib.util.spec_from_file_location("loop_script", Path(__file__).parents[1] / "loop_script.py")
script = importlib.util.module_from_spec(_spec)
sys.modules["loop_script"] = script
_spec.loader.exec_module(script)

PROBLEM = script.PROBLEMS[0]


def watcher(folder, **more):
    return FileProposer(**{"workspace": folder, "timeout_s": 0.15, "poll_s": 0.01, **more})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "L1_1" / "candidate.py"
    path.parent.mkdir()
    path.write_text(starting_text(PROBLEM.source))
    return path


def feedback(path):
    return json.loads((path.parent / "feedback.json").read_text())


def test_the_untouched_start_is_no_proposal(tmp_path, file):
    assert watcher(tmp_path).propose(PROBLEM, []) is None
    assert feedback(file)["state"] == "ended"


def test_an_edit_is_proposed_once_it_stands_still(tmp_path, file):
    file.write_text(script.text(1, 1.2))
    candidate = watcher(tmp_path).propose(PROBLEM, [])
    assert (candidate.source, candidate.builder, candidate.proposer) == (script.text(1, 1.2), "python", "file")
    assert feedback(file) == {"problem": "L1/1", "state": "judging", "iterations": 0, "file": str(file), "candidate": candidate.sha256,
                              "last": None}


def test_a_file_that_keeps_changing_is_not_taken_half_written(tmp_path, file):
    proposer = watcher(tmp_path, timeout_s=5.0, poll_s=0.05)
    whole = script.text(1, 1.2)

    def type_slowly():
        for end in range(10, len(whole), 10):
            file.write_text(whole[:end])
            time.sleep(0.02)
        file.write_text(whole)

    thread = threading.Thread(target=type_slowly)
    thread.start()
    candidate = proposer.propose(PROBLEM, [])
    thread.join()
    assert candidate.source == whole


def test_an_empty_or_missing_file_is_waited_for(tmp_path, file):
    file.write_text(" \n")
    assert watcher(tmp_path).propose(PROBLEM, []) is None
    file.unlink()
    assert watcher(tmp_path).propose(PROBLEM, []) is None


def test_a_file_named_stop_ends_the_wait(tmp_path, file):
    (file.parent / "STOP").touch()
    began = time.monotonic()
    assert watcher(tmp_path, timeout_s=None).propose(PROBLEM, []) is None
    assert time.monotonic() - began < 5.0


def test_a_text_judged_before_is_answered_and_not_judged_again(tmp_path, file):
    file.write_text(script.text(1, 0.9))
    proposer = watcher(tmp_path)
    candidate = proposer.propose(PROBLEM, [])
    history = [script.evaluation(PROBLEM, candidate)]
    stop = threading.Timer(0.1, lambda: (file.parent / "seen.json").write_bytes((file.parent / "feedback.json").read_bytes()))
    stop.start()
    assert proposer.propose(PROBLEM, history) is None
    stop.join()
    assert json.loads((file.parent / "seen.json").read_text())["seen_in_iteration"] == 1


def test_any_path_can_be_watched(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(script.text(1, 1.2))
    assert watcher(None, path=path).propose(PROBLEM, []).source == script.text(1, 1.2)


def test_an_agent_and_the_loop_work_together_over_the_file(tmp_path):
    edits = [script.text(1, 1.2), script.text(2, 1.1), script.text(3, 5.0, quick=False), script.text(4, 1.5)]
    told = []

    def agent(folder):
        path = folder / "workspace" / "L1_1" / "candidate.py"
        def is_waiting_after(number):
            if not (path.parent / "feedback.json").exists():
                return False
            return (feedback(path)["state"], feedback(path)["iterations"]) == ("waiting", number)

        for number, edit in enumerate(edits):
            while not is_waiting_after(number):
                time.sleep(0.005)
            told.append((feedback(path)["last"], path.read_text()))
            path.write_text(edit)

    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        thread = threading.Thread(target=agent, args=(run.folder,))
        thread.start()
        proposer = FileProposer(workspace=run.workspaces, timeout_s=10.0, poll_s=0.01)
        outcome = search_problem(PROBLEM, proposer, script.ScriptedEvaluate(), run,
                                 LoopOptions(iterations=4, move_on=MoveOn(reverts=None)))
        thread.join()
        last = feedback(run.workspaces / "L1_1" / "candidate.py")["last"]
    assert (outcome.iterations, outcome.kept, outcome.speedup) == (4, 2, 1.5)
    assert told[0] == (None, starting_text(PROBLEM.source))
    decisions = [(found["iteration"], found["decision"], text) for found, text in told[1:]]
    assert decisions == [(1, "kept", edits[0]), (2, "reverted", edits[0]), (3, "reverted", edits[0])]
    assert told[2][0]["against_incumbent"]["speedup"] == pytest.approx(1.1 / 1.2)
    assert (told[3][0]["refused_by"], told[3][0]["stages"][-1]["figures"]) == ("smoke", {"ratio": 7.5})
    assert (last["phase"], last["decision"], last["rules"]) == ("final", "kept", "strict/6")


def test_a_resumed_search_takes_the_edit_that_was_in_flight(tmp_path):
    first = replace(PROBLEM)
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        path = run.workspaces / "L1_1" / "candidate.py"

        class Interrupted(script.ScriptedEvaluate):
            def __call__(self, problem, candidate, **more):
                raise KeyboardInterrupt

        path.parent.mkdir(parents=True)
        path.write_text(script.text(1, 1.2))
        with pytest.raises(KeyboardInterrupt):
            search_problem(first, FileProposer(run.workspaces, timeout_s=5.0, poll_s=0.01), Interrupted(), run, LoopOptions())
    with RunFolder.open(tmp_path / "run", script.HEADER) as run:
        proposer = FileProposer(run.workspaces, timeout_s=0.2, poll_s=0.01)
        outcome = search_problem(first, proposer, script.ScriptedEvaluate(), run, LoopOptions())
        assert (outcome.iterations, outcome.speedup) == (1, 1.2)


def test_what_an_agent_links_to_is_not_read_for_it(tmp_path, file):
    (tmp_path / "secret.txt").write_text("token")
    for place in (lambda: file.symlink_to(tmp_path / "secret.txt"), lambda: os.mkfifo(file)):
        file.unlink()
        place()
        with pytest.raises(UsageError):
            watcher(tmp_path).propose(PROBLEM, [])
