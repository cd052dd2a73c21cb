from __future__ import annotations

import pytest

from autokernel.builders.ninja import LOG_BYTES, run_ninja, write_ninja
from autokernel.builders.toolchain import find_ninja

NINJA = find_ninja()
pytestmark = pytest.mark.skipif(NINJA is None, reason="needs ninja")


def run(folder, script, timeout_s=30.0):
    (folder / "source").write_text("")
    write_ninja(folder, "source", ["sh", "-c", script], ["cp", "$in", "$out"])
    return run_ninja(NINJA, folder, "cpp", timeout_s)


def test_words_reach_the_command_as_they_are(tmp_path):
    done = run(tmp_path, "echo \"it's $((1 + 1))\" '$in'; echo x > native.o")
    assert done.ok and not done.timed_out
    assert "it's 2 $in" in done.log.splitlines()
    assert (tmp_path / "native.so").read_text() == "x\n"


def test_a_long_log_keeps_both_ends(tmp_path):
    done = run(tmp_path, "echo first; yes line | head -c 1000000; echo last; exit 3")
    assert not done.ok and not done.timed_out
    assert "first" in done.log[:1000] and "last" in done.log[-1000:] and "bytes left out" in done.log
    assert LOG_BYTES <= (tmp_path / "log.txt").stat().st_size < LOG_BYTES + 100


def test_a_deadline_kills_the_whole_group(tmp_path, command_lines):
    done = run(tmp_path, "sleep 4321 & sleep 4321", timeout_s=0.5)
    assert done.timed_out and not done.ok and done.seconds < 5
    assert not [line for line in command_lines() if line.startswith("sleep 4321")]


def test_compilers_see_no_flags_of_the_users_and_have_limits(tmp_path, monkeypatch):
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-G")
    monkeypatch.setenv("CPATH", "/somewhere")
    done = run(tmp_path, "env; echo files $(ulimit -f) core $(ulimit -c); exit 1")
    assert "NVCC_APPEND_FLAGS" not in done.log and "CPATH" not in done.log
    assert f"TMPDIR={tmp_path}/tmp" in done.log and "files 2097152 core 0" in done.log
