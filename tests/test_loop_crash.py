"""kill -9 at every kind of moment, then the same command: nothing recorded is lost or doubled, and the end is the same."""

from __future__ import annotations

import importlib.util
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autokernel.ledger import read

SCRIPT = Path(__file__).with_name("loop_script.py")
_spec = importlib.util.spec_from_file_location("loop_script", SCRIPT)
script = importlib.util.module_from_spec(_spec)
sys.modules["loop_script"] = script
_spec.loader.exec_module(script)

POINTS = ["propose:1", "propose:4", "stored:3", "evaluate:2", "evaluate:6", "recorded:1", "recorded:7", "commit:1", "commit:3",
          "committed:1", "committed:2", "revert:1", "half:1", "half:3", "half:9", "unsynced:2", "unsynced:5", "git:2", "git:9",
          "replace:2", "replace:6", "winner:1", "end:1", "ended:1"]


def tale(folder):
    """All that must not depend on where the process was killed: no clock, no sessions."""
    contents = read(folder)
    trials = [{**trial.to_json(), "seconds": 0} for trial in contents.trials]
    outcomes = {uid: {**outcome.to_json(), "seconds": 0} for uid, outcome in contents.outcomes.items()}
    table = (folder / "results.tsv").read_text()
    candidates = sorted(path.name for path in (folder / "candidates").glob("*.py"))
    winners = {path.name: path.read_text().replace(str(folder), "RUN") for path in (folder / "winners").iterdir()}
    places = {path.name: (path / "candidate.py").read_text() for path in (folder / "workspace").iterdir()}
    return trials, outcomes, table, candidates, winners, places


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    script.search(folder)
    return tale(folder), folder


def run_and_kill(folder, *arguments):
    return subprocess.run([sys.executable, str(SCRIPT), str(folder), *arguments], capture_output=True, check=False).returncode


def test_the_undisturbed_run_goes_through_every_phase(undisturbed):
    trials, outcomes, *_ = undisturbed[0]
    assert {(trial["phase"], trial["decision"]) for trial in trials} >= {
        ("search", "kept"), ("search", "reverted"), ("strict", "kept"), ("strict", "reverted"), ("final", "kept"), ("final", "reverted")}
    assert {uid: (outcome["status"], outcome["speedup"]) for uid, outcome in outcomes.items()} == {
        "L1/1": ("champion", 1.4), "L1/2": ("champion", 0.9)}


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_run_goes_on_to_the_same_end(undisturbed, tmp_path, point):
    folder = tmp_path / "run"
    assert run_and_kill(folder, point) == -signal.SIGKILL
    script.search(folder)
    assert tale(folder) == undisturbed[0]
    assert read(folder).sessions == (1 if point == "half:1" else 2)
    for uid in ("L1_1", "L1_2"):
        git = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=folder / "workspace" / uid, capture_output=True,
                             check=True)
        assert git.stdout == b""


def test_killed_again_and_again_at_any_time(undisturbed, tmp_path):
    folder = tmp_path / "run"
    moments = random.Random(7)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, str(SCRIPT), str(folder)])
        time.sleep(0.15 + 0.5 * moments.random())
        process.kill()
        process.wait()
    script.search(folder)
    assert tale(folder) == undisturbed[0]


def test_every_line_of_the_ledger_is_one_event(undisturbed):
    lines = (undisturbed[1] / "ledger.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["event"] for line in lines]
    assert kinds[0] == "run"
    assert kinds.count("run") == 1
    assert kinds.count("outcome") == 2
    assert set(kinds) == {"run", "evaluation", "outcome"}
