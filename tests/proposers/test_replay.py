from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

from autokernel.errors import UsageError
from autokernel.proposers import Setup, create
from autokernel.proposers.replay import ReplayProposer, require_files

PROBLEM = SimpleNamespace(uid="L1/19", source="", hash="", name="19_ReLU")


def fill(folder, *names):
    for name in names:
        (folder / name).write_text(f"# {name}\nclass ModelNew: pass\n")


def replayed(proposer, problem=PROBLEM):
    history, notes = [], []
    while (candidate := proposer.propose(problem, history)) is not None:
        history.append(SimpleNamespace(candidate=candidate.sha256))
        notes.append(candidate.note)
    return notes


def test_its_own_and_kernelbenchs_names_in_natural_order(tmp_path):
    fill(tmp_path, "L1_19.py", "L1_19_b.py", "L1_19_a.py", "L1_190.py", "L1_1.py", "L2_19.py", "level_1_problem_19_sample_10_kernel.py",
         "level_1_problem_19_sample_2_kernel.py", "level_1_problem_190_sample_0_kernel.py", "level_1_problem_19_sample_0_prompt.txt",
         "xL1_19.py")
    assert replayed(ReplayProposer(tmp_path)) == ["L1_19.py", "L1_19_a.py", "L1_19_b.py", "level_1_problem_19_sample_2_kernel.py",
                                                  "level_1_problem_19_sample_10_kernel.py"]


def test_a_resumed_run_goes_on_where_it_was(tmp_path):
    fill(tmp_path, "L1_19_a.py", "L1_19_b.py")
    first = ReplayProposer(tmp_path).propose(PROBLEM, [])
    again = ReplayProposer(tmp_path).propose(PROBLEM, [SimpleNamespace(candidate=first.sha256)])
    assert (first.note, again.note, again.proposer) == ("L1_19_a.py", "L1_19_b.py", "replay")


def test_it_foresees_the_text_after_the_pending_one(tmp_path):
    fill(tmp_path, "L1_19_a.py", "L1_19_b.py")
    proposer = ReplayProposer(tmp_path)
    first = proposer.propose(PROBLEM, [])
    (second,) = proposer.foresee(PROBLEM, [], first)
    assert second.note == "L1_19_b.py"
    assert proposer.foresee(PROBLEM, [SimpleNamespace(candidate=first.sha256)], second) == ()


def test_equal_texts_are_proposed_once(tmp_path):
    (tmp_path / "L1_19_a.py").write_text("same\n")
    (tmp_path / "L1_19_b.py").write_text("same\n")
    assert replayed(ReplayProposer(tmp_path)) == ["L1_19_a.py"]


def test_binary_junk_is_proposed_for_the_gate_to_refuse(tmp_path):
    (tmp_path / "L1_19.py").write_bytes(b"\xff\xfe\0junk")
    assert ReplayProposer(tmp_path).propose(PROBLEM, []).builder == "python"


def test_the_builder_is_read_from_the_text(tmp_path):
    (tmp_path / "L1_19.py").write_text("CPP_SRC = 'int f();'\nSIGNATURES = {}\nclass ModelNew: pass\n")
    assert ReplayProposer(tmp_path).propose(PROBLEM, []).builder == "cpp"


def test_a_problem_read_from_a_file(tmp_path):
    fill(tmp_path, "file_my_relu.py")
    assert replayed(ReplayProposer(tmp_path), SimpleNamespace(uid="file/my relu")) == ["file_my_relu.py"]


def test_a_missing_folder_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="is not a folder of candidates"):
        create("replay", Setup(folder=tmp_path / "none"))
    with pytest.raises(UsageError, match=r"needs a folder. Pass it with --candidates"):
        create("replay", Setup())


def test_a_link_out_of_the_folder_a_pipe_and_a_huge_file_are_wrong_usage(tmp_path):
    (tmp_path / "secret.txt").write_text("token")
    folder = tmp_path / "candidates"
    folder.mkdir()
    for place, word in (
        (lambda path: path.symlink_to(tmp_path / "secret.txt"), "link"), (os.mkfifo, "regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "link"), (lambda path: os.truncate(_touched(path), 17 << 20), "larger"),
    ):
        place(folder / "L1_19.py")
        with pytest.raises(UsageError, match=word):
            ReplayProposer(folder).propose(PROBLEM, [])
        (folder / "L1_19.py").unlink()
    fill(folder, "real.py")
    (folder / "L1_19.py").symlink_to("real.py")
    assert ReplayProposer(folder).propose(PROBLEM, []).source == (folder / "real.py").read_text()


def _touched(path):
    path.touch()
    return path


def test_a_folder_without_a_file_for_any_of_the_problems_is_wrong_usage(tmp_path):
    fill(tmp_path, "mine.py", "L1_2.py")
    with pytest.raises(UsageError, match="no candidate for any of these problems. Name the files as in L1_19.py"):
        require_files(tmp_path, ["L1/19", "L1/20"])
    require_files(tmp_path, ["L1/19", "L1/2"])
