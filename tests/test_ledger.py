from __future__ import annotations

import errno
import importlib.util
import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autokernel import ledger as ledger_module
from autokernel.errors import InternalError, StorageError, UsageError
from autokernel.ledger import Ledger, read
from autokernel.records import Candidate
from autokernel.results import COLUMNS, ResultsTable
from autokernel.trials import Outcome, Trial

_spec = importlib.util.spec_from_file_location("loop_script", Path(__file__).with_name("loop_script.py"))
script = importlib.util.module_from_spec(_spec)
sys.modules["loop_script"] = script
_spec.loader.exec_module(script)

PROBLEM = script.PROBLEMS[0]


def trial(iteration=1, phase="search", decision="reverted", speedup=1.2, **more):
    candidate = Candidate(script.text(iteration, speedup), "python")
    evaluation = script.evaluation(PROBLEM, candidate, comparisons=[script.comparison("eager", speedup)], **more)
    return Trial(iteration, phase, decision, evaluation, proposer="scripted", seconds=0.5)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "runs" / "one"


def with_lines(folder, count=2):
    with Ledger.open(folder, script.HEADER) as ledger:
        for number in range(1, count + 1):
            ledger.record(trial(number))
    return folder / "ledger.jsonl"


def test_what_was_recorded_is_read_back(folder):
    first, second = trial(1, decision="kept"), trial(1, "final", "kept")
    outcome = Outcome("L1/1", "champion", "reverts", 1, 1, first.evaluation.candidate, 1.2, 1.195, 1.205)
    with Ledger.open(folder, script.HEADER) as ledger:
        ledger.record(first)
        ledger.record(second)
        ledger.end(outcome)
    contents = read(folder)
    assert contents.header == script.HEADER
    assert contents.trials == [first, second]
    assert contents.outcomes == {"L1/1": outcome}
    assert contents.champions() == {"L1/1": second}
    kinds = [json.loads(line)["event"] for line in (folder / "ledger.jsonl").read_text().splitlines()]
    assert kinds == ["run", "evaluation", "evaluation", "outcome"]


def test_an_iteration_is_recorded_once(folder):
    with Ledger.open(folder, script.HEADER) as ledger:
        ledger.record(trial(1))
        with pytest.raises(InternalError, match=r"iteration 1 of L1/1 \(search\) must be there once"):
            ledger.record(trial(1))
        ledger.record(trial(1, "final"))
    assert [found.key for found in read(folder).trials] == [("L1/1", "search", 1), ("L1/1", "final", 1)]


def test_a_problem_ends_once_unless_it_failed(folder):
    with Ledger.open(folder, script.HEADER) as ledger:
        ledger.end(Outcome("L1/1", "error", "problem", reason="judge died"))
        ledger.end(Outcome("L1/1", "none", "reverts"))
        with pytest.raises(InternalError, match="ends twice"):
            ledger.end(Outcome("L1/1", "none", "reverts"))
    assert read(folder).outcomes["L1/1"].status == "none"


def test_every_line_is_synced_before_record_returns(folder, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(ledger_module.os, "fsync", lambda descriptor: (synced.append(os.fstat(descriptor).st_size), real(descriptor)))
    with Ledger.open(folder, script.HEADER) as ledger:
        ledger.record(trial(1))
        assert synced[-1] == ledger.path.stat().st_size


def test_a_torn_last_line_is_set_aside_and_the_run_goes_on(folder):
    path = with_lines(folder)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event": "evaluation", "probl')
    assert len(read(folder).trials) == 2
    with Ledger.open(folder, script.HEADER) as ledger:
        assert "cut short (30 bytes, moved to ledger.torn)" in ledger.repaired
        ledger.record(trial(3))
    assert (folder / "ledger.torn").read_bytes() == b'{"event": "evaluation", "probl\n'
    assert path.read_bytes().startswith(whole)
    assert [found.iteration for found in read(folder).trials] == [1, 2, 3]


def test_a_whole_last_line_without_its_newline_is_kept(folder):
    path = with_lines(folder)
    path.write_bytes(path.read_bytes()[:-1])
    with Ledger.open(folder, script.HEADER) as ledger:
        assert "was closed" in ledger.repaired
        assert [found.iteration for found in ledger.contents.trials] == [1, 2]
    assert [found.iteration for found in read(folder).trials] == [1, 2]
    assert not (folder / "ledger.torn").exists()


def test_a_torn_tail_of_zeros_after_a_power_cut_is_set_aside(folder):
    path = with_lines(folder)
    path.write_bytes(path.read_bytes() + b"\0" * 64)
    with Ledger.open(folder, script.HEADER) as ledger:
        assert "64 bytes" in ledger.repaired
    assert len(read(folder).trials) == 2


@pytest.mark.parametrize("broken", [b"junk", b"[1, 2]", b'{"event": "evaluation"}', b'{"event": "comet"}', b"", b"\xff\xfe",
                                    b'{"no": "event"}'])
def test_a_broken_line_in_the_middle_is_named_and_nothing_changes(folder, broken):
    path = with_lines(folder)
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], broken, *lines[2:]]))
    before = path.read_bytes()
    with pytest.raises(StorageError, match="line 2 of .* is broken") as caught:
        Ledger.open(folder, script.HEADER)
    assert caught.value.exit_code == 2
    assert "--fresh" in str(caught.value)
    assert path.read_bytes() == before
    with pytest.raises(StorageError, match="line 2"):
        read(folder)


def test_a_doubled_line_is_a_broken_one(folder):
    path = with_lines(folder)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, lines[-1]]))
    with pytest.raises(StorageError, match="line 4 .*iteration 2 of L1/1"):
        Ledger.open(folder, script.HEADER)


@pytest.mark.parametrize(("change", "words"), [
    ({"rules": "strict/9"}, "rules 'strict/6', and this is 'strict/9'"), ({"torch": "2.11.0"}, "torch '2.13.0'"),
    ({"device": "cuda:0 NVIDIA H200"}, "device 'cpu'"),
])
def test_other_rules_torch_or_device_are_refused(folder, change, words):
    path = with_lines(folder)
    before = path.read_bytes()
    with pytest.raises(UsageError, match=words) as caught:
        Ledger.open(folder, replace(script.HEADER, **change))
    assert "--fresh" in str(caught.value)
    assert path.read_bytes() == before


def test_other_options_are_fine_and_noted(folder):
    with_lines(folder)
    with Ledger.open(folder, replace(script.HEADER, options={"iterations": 7})) as ledger:
        assert ledger.contents.sessions == 2
        assert ledger.contents.header.options == {}
    assert json.loads((folder / "ledger.jsonl").read_text().splitlines()[-1])["options"] == {"iterations": 7}


def test_fresh_sets_the_old_run_aside(folder):
    path = with_lines(folder)
    old = path.read_bytes()
    for number in (1, 2):
        with Ledger.open(folder, replace(script.HEADER, rules="strict/9"), fresh=True) as ledger:
            assert ledger.contents.trials == []
        assert (folder.parent / f"one.old-{number}" / "ledger.jsonl").exists()
    assert (folder.parent / "one.old-1" / "ledger.jsonl").read_bytes() == old


def test_fresh_gets_past_a_broken_ledger(folder):
    path = with_lines(folder)
    path.write_bytes(b"junk\n")
    with Ledger.open(folder, script.HEADER, fresh=True) as ledger:
        assert ledger.contents.header == script.HEADER


def test_a_second_process_is_told_to_wait(folder):
    with Ledger.open(folder, script.HEADER) as ledger:
        before = ledger.path.read_bytes()
        code = ("import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]); import loop_script\n"
                "from autokernel.ledger import Ledger\n"
                "from autokernel.errors import UsageError\n"
                "try: Ledger.open(Path(sys.argv[1]), loop_script.HEADER)\n"
                "except UsageError as error: print(error); sys.exit(error.exit_code)\n")
        other = subprocess.run([sys.executable, "-c", code, str(folder), str(Path(__file__).parent)], capture_output=True, text=True,
                               check=False)
        assert other.returncode == 2
        assert f"another process (pid {os.getpid()}) is working on the run" in other.stdout
        assert ledger.path.read_bytes() == before
    Ledger.open(folder, script.HEADER).close()


def test_a_real_size_limit_cuts_no_line_in_half(folder):
    path = with_lines(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Ledger.open(folder, script.HEADER) as ledger:
        before = path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, hard))
        try:
            with pytest.raises(StorageError, match="cannot write to .*ledger.jsonl") as caught:
                ledger.record(trial(3))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert caught.value.exit_code == 2
        assert path.read_bytes() == before
        assert [found.iteration for found in ledger.contents.trials] == [1, 2]
        ledger.record(trial(3))
    assert [found.iteration for found in read(folder).trials] == [1, 2, 3]


def test_a_full_disk_after_half_a_line_leaves_the_ledger_as_it_was(folder, monkeypatch):
    path = with_lines(folder)
    real = os.write

    def full(descriptor, data):
        if len(data) > 200:
            return real(descriptor, bytes(data[:100]))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Ledger.open(folder, script.HEADER) as ledger:
        before = path.read_bytes()
        monkeypatch.setattr("autokernel.durable.os.write", lambda d, data: full(d, data) if len(data) > 200 else full(d, b""))
        with pytest.raises(StorageError, match="No space left") as caught:
            ledger.record(trial(3))
        monkeypatch.undo()
        assert "Free some space" in str(caught.value)
        assert path.read_bytes() == before


def test_ctrl_c_inside_a_write_leaves_no_half_line(folder, monkeypatch):
    path = with_lines(folder)

    def interrupted(descriptor, data):
        os.write(descriptor, data[:50])
        raise KeyboardInterrupt

    with Ledger.open(folder, script.HEADER) as ledger:
        before = path.read_bytes()
        monkeypatch.setattr(ledger_module, "write_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ledger.record(trial(3))
        assert path.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError, match="cannot create the folder") as caught:
        Ledger.open(tmp_path / "file" / "run", script.HEADER)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_a_read_only_disk_is_a_storage_error(folder, monkeypatch):
    path = with_lines(folder)
    before = path.read_bytes()

    def read_only(name, flags, mode=0o777, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(ledger_module.os, "open", read_only)
    with pytest.raises(StorageError, match="Read-only file system") as caught:
        Ledger.open(folder, script.HEADER)
    monkeypatch.undo()
    assert "--out" in str(caught.value)
    assert path.read_bytes() == before


def test_no_run_is_wrong_usage(tmp_path):
    with pytest.raises(UsageError, match="no run in"):
        read(tmp_path)


def test_the_table_has_the_ten_columns_and_escapes_what_would_break_them(tmp_path):
    table = ResultsTable(tmp_path / "results.tsv")
    first = trial(1, decision="kept")
    table.rewrite([replace(first, evaluation=replace(first.evaluation, flops=2 * 10 ** 9))])
    table.append(trial(2, accepted=False, reason="two\nlines\tand \\"))
    lines = (tmp_path / "results.tsv").read_text().split("\n")
    assert lines[0].split("\t") == list(COLUMNS)
    assert lines[0] == ("experiment\ttag\tkernel_type\tthroughput_tflops\tlatency_us\tpct_peak\tspeedup_vs_pytorch\tcorrectness\t"
                        "peak_vram_mb\tdescription")
    assert lines[1].split("\t") == ["1", "L1/1/search/1", "python", "2", "1000", "", "1.2", "PASS", "", "kept"]
    assert lines[2].split("\t") == ["2", "L1/1/search/2", "python", "", "1000", "", "1.2", "FAIL", "",
                                    "reverted; smoke; two\\nlines\\tand \\\\"]
    assert lines[3:] == [""]
