"""Taking files out of a worker's folders: plain ones, up to a cap, and nothing by way of a link."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from autokernel.executor import harvest as module
from autokernel.executor.harvest import TooMuch, harvest
from autokernel.executor.prune import prune


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with plain files, and with what a hostile process could leave beside them."""
    made = tmp_path / "cache"
    (made / "kernel").mkdir(parents=True)
    (made / "kernel" / "a.so").write_bytes(b"machine code")
    (made / "kernel" / "a.so").chmod(0o755)
    os.utime(made / "kernel" / "a.so", ns=(10**18, 10**18 + 7))
    (made / "plain").write_text("text")
    (tmp_path / "secret").write_text("secret")
    (made / "link").symlink_to(tmp_path / "secret")
    (made / "folder").symlink_to(tmp_path)
    os.mkfifo(made / "pipe")
    return made


def names(target: Path) -> list[str]:
    return sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())


def test_plain_files_come_with_their_times_and_nothing_else_does(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    assert harvest(os.getpid(), folder, target) == len("machine code") + len("text")
    assert names(target) == ["kernel/a.so", "plain"]
    assert (target / "kernel" / "a.so").read_bytes() == b"machine code"
    facts = (target / "kernel" / "a.so").stat()
    assert facts.st_mtime_ns == 10**18 + 7 and facts.st_mode & 0o777 == 0o755


def test_what_is_there_already_stays_unless_it_is_to_be_replaced(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "plain").write_text("older")
    harvest(os.getpid(), folder, target)
    assert (target / "plain").read_text() == "older" and (target / "kernel" / "a.so").exists()
    harvest(os.getpid(), folder, target, replace=True)
    assert (target / "plain").read_text() == "text"


def test_a_cap_on_bytes_and_files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 8)
    with pytest.raises(TooMuch):
        harvest(os.getpid(), folder, tmp_path / "small")
    assert "kernel/a.so" not in names(tmp_path / "small")
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(module, "MOST_ENTRIES", 1)
    with pytest.raises(TooMuch):
        harvest(os.getpid(), folder, tmp_path / "few")


def test_folders_count_too_and_so_does_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (tmp_path / "many" / str(number)).mkdir(parents=True)
    (tmp_path / "many" / "9" / "file").write_text("x")
    assert harvest(os.getpid(), tmp_path / "many", tmp_path / "all") == 1
    monkeypatch.setattr(module, "MOST_ENTRIES", 9)
    with pytest.raises(TooMuch, match="9 files and folders"):
        harvest(os.getpid(), tmp_path / "many", tmp_path / "few")
    monkeypatch.setattr(module, "MOST_ENTRIES", 100)
    monkeypatch.setattr(module, "MOST_S", -1.0)
    with pytest.raises(TooMuch, match="must be still"):
        harvest(os.getpid(), tmp_path / "many", tmp_path / "late")


def test_a_folder_that_became_a_link_is_not_entered(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(folder)
    with pytest.raises(OSError):
        harvest(os.getpid(), tmp_path / "other", tmp_path / "target")


def test_a_process_that_is_gone_gives_an_error(folder: Path, tmp_path: Path) -> None:
    gone = os.fork()
    if gone == 0:
        os._exit(0)
    os.waitpid(gone, 0)
    with pytest.raises(OSError):
        harvest(gone, folder, tmp_path / "target")


def test_the_longest_untouched_go_first_until_the_rest_fits(tmp_path: Path) -> None:
    now = time.time()
    for name, size, age_s in (("old", 300, 5000), ("older", 200, 9000), ("new", 400, 10)):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "file").write_bytes(b"x" * size)
        os.utime(tmp_path / name, (now - age_s, now - age_s))
    before = sum(path.lstat().st_size for path in tmp_path.rglob("*/*"))
    assert prune(tmp_path, before, 3600.0) == 0 and prune(tmp_path / "missing") == 0
    assert prune(tmp_path, before - 100, 3600.0) >= 200
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    assert prune(tmp_path, 0, 3600.0) >= 300  # what was touched lately stays, however much it takes
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_what_was_taken_before_counts_for_the_cap(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    target = tmp_path / "target"
    target.mkdir()
    (target / "earlier").write_bytes(bytes(90))
    with pytest.raises(TooMuch, match="more than"):
        harvest(os.getpid(), folder, target)
    assert sum(path.stat().st_size for path in target.rglob("*") if path.is_file()) <= 100


@pytest.mark.parametrize(("depth", "taken"), [(32, True), (33, False), (1010, False)])
def test_folders_in_folders_are_too_much_before_anybody_runs_out_of_calls(tmp_path: Path, depth: int, taken: bool) -> None:
    at = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
        os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=at))
    os.close(at)
    target = tmp_path.with_name("target")
    try:
        if taken:
            assert harvest(os.getpid(), tmp_path, target) == 0
        else:
            with pytest.raises(TooMuch, match="more than 32 folders in each other"):
                harvest(os.getpid(), tmp_path, target)
        assert len(list(target.rglob("f"))) == 32
    finally:
        subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)
