from __future__ import annotations

import subprocess

import pytest

from autokernel import workspace as workspace_module
from autokernel.errors import MissingOnMachine, StorageError
from autokernel.records import Candidate
from autokernel.store import CandidateStore
from autokernel.workspace import Workspace, folder_name


def opened(folder, expected="start\n", why="back to the start"):
    return Workspace.open(folder, problem="class Model: pass\n", start="start\n", expected=expected, why=why)


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "L1_19"


def test_kept_ones_are_commits_and_others_are_reset(folder):
    workspace = opened(folder)
    workspace.write("faster\n")
    workspace.commit("faster\n", "iteration 1: 1.32x eager (1.3 to 1.35)")
    workspace.write("wrong\n")
    workspace.revert("wrong\n")
    assert workspace.read() == workspace.committed() == "faster\n"
    assert workspace.log() == ["iteration 1: 1.32x eager (1.3 to 1.35)", "start: the problem as it is"]
    assert git(folder, "log", "-1", "--format=%an <%ae>") == "AutoKernel <autokernel@localhost>\n"
    assert git(folder, "show", "HEAD:problem.py") == "class Model: pass\n"
    assert git(folder, "status", "--porcelain") == ""


def test_the_users_own_git_settings_and_hooks_do_not_matter(folder, tmp_path, monkeypatch):
    config = tmp_path / "gitconfig"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    config.write_text(f"[commit]\n gpgsign = true\n[core]\n hooksPath = {hooks}\n autocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    workspace = opened(folder)
    workspace.commit("a\r\nb\n", "kept")
    workspace.revert("a\r\nb\n")
    assert workspace.log()[0] == "kept"
    assert (folder / "candidate.py").read_bytes() == b"a\r\nb\n"
    assert not (tmp_path / "elsewhere").exists()


def test_an_edit_made_while_another_text_was_judged_is_not_lost(folder):
    workspace = opened(folder)
    workspace.write("judged\n")
    workspace.write("newer\n")
    workspace.revert("judged\n")
    assert workspace.read() == "newer\n"
    assert workspace.committed() == "start\n"


def test_a_missing_commit_is_made_up_for_when_opened(folder):
    opened(folder)
    workspace = opened(folder, expected="kept\n", why="iteration 4: kept")
    assert workspace.log() == ["iteration 4: kept", "start: the problem as it is"]
    assert workspace.read() == "kept\n"
    opened(folder, expected="kept\n", why="iteration 4: kept")
    assert len(workspace.log()) == 2


def test_an_uncommitted_edit_outlives_a_crash(folder):
    opened(folder).write("in flight\n")
    assert opened(folder).read() == "in flight\n"
    assert opened(folder, expected="kept\n", why="kept").read() == "in flight\n"


@pytest.mark.parametrize("damage", ["lock", "no HEAD", "empty .git", "no candidate"])
def test_a_damaged_repository_is_mended(folder, damage):
    opened(folder).commit("kept\n", "iteration 1: kept")
    if damage == "lock":
        (folder / ".git" / "index.lock").touch()
    elif damage == "no HEAD":
        (folder / ".git" / "HEAD").write_bytes(b"\0\0")
    elif damage == "empty .git":
        subprocess.run(["rm", "-rf", str(folder / ".git")], check=True)
        (folder / ".git").mkdir()
    else:
        (folder / "candidate.py").unlink()
    workspace = opened(folder, expected="kept\n", why="iteration 1: kept")
    assert workspace.committed() == workspace.read() == "kept\n"
    assert workspace.log() == ["iteration 1: kept", "start: the problem as it is"]


def test_without_git_the_message_says_to_install_it(folder, monkeypatch):
    monkeypatch.setattr(workspace_module.shutil, "which", lambda name: None)
    with pytest.raises(MissingOnMachine, match="no git is on PATH") as caught:
        opened(folder)
    assert caught.value.exit_code == 3
    assert "Install git" in str(caught.value)


def test_a_failing_git_says_what_it_said(folder):
    workspace = opened(folder)
    (folder / ".git" / "objects").rename(folder / ".git" / "gone")
    with pytest.raises(StorageError, match="git .* failed in"):
        workspace.commit("more\n", "kept")


def test_odd_names_become_folders_without_tricks():
    assert folder_name("L1/19") == "L1_19"
    assert folder_name("file/../../my kernel") == "file_.._.._my_kernel"


def test_the_store_keeps_each_text_once_under_its_hash(tmp_path):
    store = CandidateStore(tmp_path / "candidates")
    candidate = Candidate("x = 'é \ud800'\n", "python")
    path = store.put(candidate)
    assert path.name == f"{candidate.sha256}.py"
    time = path.stat().st_mtime_ns
    assert store.put(candidate) == path
    assert path.stat().st_mtime_ns == time
    assert store.text(candidate.sha256) == candidate.source
    assert [found.name for found in store.folder.iterdir()] == [path.name]


def test_the_store_notices_a_changed_or_missing_text(tmp_path):
    store = CandidateStore(tmp_path / "candidates")
    candidate = Candidate("a = 1\n", "python")
    store.put(candidate).write_text("a = 2\n")
    with pytest.raises(StorageError, match="was changed after it was judged"):
        store.text(candidate.sha256)
    with pytest.raises(StorageError, match="cannot read the candidate"):
        store.text("0" * 64)
