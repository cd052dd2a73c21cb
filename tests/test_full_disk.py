"""A disk that is really full, and one that is really read-only: a small tmpfs of the test's own. Needs the right to mount."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autokernel.errors import StorageError
from autokernel.ledger import Ledger, read
from autokernel.records import Candidate
from autokernel.trials import Trial

_spec = importlib.util.spec_from_file_location("loop_script", Path(__file__).with_name("loop_script.py"))
script = importlib.util.module_from_spec(_spec)
sys.modules["loop_script"] = script
_spec.loader.exec_module(script)

PROBLEM = script.PROBLEMS[0]
SIZE = 2 << 20


class Disk:
    """A file system of SIZE bytes at `root`."""

    def __init__(self, root):
        self.root = root
        self._ballast = root / "ballast"

    def leave(self, free):
        """Fill it until at most `free` bytes are left."""
        self.free_all()
        state = os.statvfs(self.root)
        with open(self._ballast, "wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, state.f_bavail * state.f_frsize - free)

    def free_all(self):
        self._ballast.unlink(missing_ok=True)

    def remount(self, mode):
        subprocess.run(["mount", "-o", f"remount,{mode}", self.root], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path):
    root = tmp_path / "disk"
    root.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "autokernel-test", root], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        pytest.skip(f"mounting a tmpfs is not allowed here: {said.strip()}")
    try:
        yield Disk(root)
    finally:
        subprocess.run(["umount", "--lazy", root], check=True)


def trial(iteration):
    candidate = Candidate(script.text(iteration, 1.2), "python")
    evaluation = script.evaluation(PROBLEM, candidate, comparisons=[script.comparison("eager", 1.2)], log="x" * 1000)
    return Trial(iteration, "search", "reverted", evaluation, proposer="scripted", seconds=0.5)


def record_until_refused(ledger):
    """How many trials were taken, and the error that the next one met."""
    for iteration in range(len(ledger.contents.trials) + 1, 1000):
        try:
            ledger.record(trial(iteration))
        except StorageError as error:
            return iteration - 1, error
    raise AssertionError("the disk never filled")


def test_a_full_disk_leaves_the_ledger_whole_and_the_same_one_goes_on(disk):
    folder = disk.root / "run"
    with Ledger.open(folder, script.HEADER) as ledger:
        disk.leave(16 << 10)
        taken, error = record_until_refused(ledger)
        assert error.exit_code == 2
        assert "No space left" in error.message and "ledger.jsonl" in error.message
        assert "Free some space" in str(error)
        assert 2 <= taken < 20
        assert [found.iteration for found in ledger.contents.trials] == list(range(1, taken + 1))
        assert (folder / "ledger.jsonl").read_bytes().endswith(b"\n")
        disk.free_all()
        ledger.record(trial(taken + 1))
    with Ledger.open(folder, script.HEADER) as ledger:
        assert ledger.repaired == ""
        assert [found.iteration for found in ledger.contents.trials] == list(range(1, taken + 2))


def test_a_run_cannot_be_gone_on_with_on_a_full_disk_until_space_is_free(disk):
    folder = disk.root / "run"
    with Ledger.open(folder, script.HEADER) as ledger:
        disk.leave(8 << 10)
        taken, _ = record_until_refused(ledger)
    before = (folder / "ledger.jsonl").read_bytes()
    for _ in range(50):  # each opening notes itself in the ledger, until not even that fits
        try:
            Ledger.open(folder, script.HEADER).close()
        except StorageError as error:
            assert "No space left" in error.message
            break
    else:
        raise AssertionError("the disk never filled")
    assert (folder / "ledger.jsonl").read_bytes().startswith(before)
    disk.free_all()
    with Ledger.open(folder, script.HEADER) as ledger:
        assert len(ledger.contents.trials) == taken


@pytest.mark.parametrize("free", [0, 8 << 10, 64 << 10, 192 << 10, 320 << 10])
def test_a_search_that_meets_a_full_disk_anywhere_goes_on_to_the_same_end(disk, tmp_path, free):
    disk.leave(free)
    with pytest.raises(StorageError) as caught:
        script.search(disk.root / "run")
    assert caught.value.exit_code == 2
    disk.free_all()
    found = script.search(disk.root / "run")
    script.search(tmp_path / "undisturbed")
    for outcomes in (found.outcomes, read(disk.root / "run").outcomes.values()):
        assert [(outcome.problem, outcome.status, outcome.speedup) for outcome in outcomes] == [
            ("L1/1", "champion", 1.4), ("L1/2", "champion", 0.9)]
    keys = [[kept.key for kept in read(folder).trials] for folder in (disk.root / "run", tmp_path / "undisturbed")]
    assert keys[0] == keys[1]
    assert not list((disk.root / "run").rglob("*.tmp"))


def test_a_read_only_disk_is_a_storage_error_and_nothing_changes(disk):
    folder = disk.root / "run"
    with Ledger.open(folder, script.HEADER) as ledger:
        ledger.record(trial(1))
    before = (folder / "ledger.jsonl").read_bytes()
    disk.remount("ro")
    for attempt in (lambda: Ledger.open(folder, script.HEADER), lambda: Ledger.open(folder, script.HEADER, fresh=True),
                    lambda: script.search(disk.root / "another")):
        with pytest.raises(StorageError, match="Read-only file system") as caught:
            attempt()
        assert "--out" in str(caught.value)
    assert (folder / "ledger.jsonl").read_bytes() == before
    assert [found.iteration for found in read(folder).trials] == [1]  # reading and scoring need no writing
    disk.remount("rw")
    with Ledger.open(folder, script.HEADER) as ledger:
        ledger.record(trial(2))
    assert [found.iteration for found in read(folder).trials] == [1, 2]
