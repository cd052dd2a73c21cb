"""What compilers can reach: they run in the sandbox, on a private copy, and only plain results come out of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from autokernel import builders
from autokernel.builders.ninja import LIBRARY, NinjaRun, run_ninja, write_ninja
from autokernel.builders.toolchain import find_ninja, missing_tool
from autokernel.sandbox import command

NINJA = find_ninja()
pytestmark = pytest.mark.skipif(NINJA is None, reason="needs ninja")
shut_in = pytest.mark.skipif("namespaces" in command.why_not(), reason=f"no namespaces here: {command.why_not().get('namespaces')}")


def run(folder: Path, script: str, timeout_s: float = 30.0) -> NinjaRun:
    """Run a script in the compiler's place; what it writes to native.o becomes the library."""
    (folder / "source").write_text("")
    write_ninja(folder, "source", ["sh", "-c", script], ["cp", "-P", "$in", "$out"])
    return run_ninja(str(NINJA), folder, "cpp", timeout_s)


@shut_in
def test_files_of_the_user_are_not_in_sight(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    other = tmp_path_factory.mktemp("other") / "secret"
    other.write_text("a secret")
    script = f"cat {other} {Path.home()}/.profile {Path(__file__)} /etc/shadow; ls -A {Path.home()} /var /run; env"
    done = run(tmp_path, script)
    assert "a secret" not in done.log and done.log.count("No such file") >= 3
    assert ":0:99999:" not in done.log and "def test_files" not in done.log


@shut_in
def test_nothing_outside_can_be_written_and_no_process_or_network_be_seen(tmp_path: Path) -> None:
    planted = Path.home() / "planted-by-a-compiler"
    done = run(tmp_path, f"touch {planted} /usr/planted-by-a-compiler; echo pids $(ls -d /proc/[0-9]* | wc -l); "
                         "echo links $(ls /sys/class/net); ls /dev; exit 1")
    assert not planted.exists() and not Path("/usr/planted-by-a-compiler").exists()
    pids = next(int(line.split()[1]) for line in done.log.splitlines() if line.startswith("pids"))
    assert pids <= 8
    assert "nvidia" not in done.log and "kmsg" not in done.log


@shut_in
def test_only_the_library_comes_out_and_never_what_a_link_leads_to(tmp_path: Path) -> None:
    done = run(tmp_path, "ln -s /usr/bin/env native.o; touch left-behind")
    assert not done.ok and not (tmp_path / LIBRARY).exists() and not (tmp_path / "left-behind").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["build.ninja", "log.txt", "source"]


@shut_in
def test_a_disk_cannot_be_filled(tmp_path: Path) -> None:
    done = run(tmp_path, "head -c 1500000000 /dev/zero > native.o; echo wrote $?; stat -c %s native.o")
    assert "wrote 0" not in done.log and not done.ok
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_000_000


@pytest.mark.parametrize("missing", [{}, {"namespaces": "tried"}, {"namespaces": "tried", "seccomp": "tried"}],
                         ids=["whole", "filter", "bare"])
def test_it_builds_with_the_layers_that_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: dict[str, str]) -> None:
    monkeypatch.setattr(command, "why_not", lambda: {**missing})
    done = run(tmp_path, "echo hello > native.o")
    assert done.ok and (tmp_path / LIBRARY).read_text() == "hello\n"


@pytest.mark.parametrize("missing", [{}, {"namespaces": "tried", "seccomp": "tried"}], ids=["whole", "bare"])
def test_a_deadline_kills_whoever_moved_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_lines, missing) -> None:
    monkeypatch.setattr(command, "why_not", lambda: {**missing})
    done = run(tmp_path, "setsid sleep 5432 & (setsid sleep 5432 &) ; sleep 5432", timeout_s=0.5)
    assert done.timed_out and done.seconds < 6
    assert not [line for line in command_lines() if line.startswith("sleep 5432")]


def test_what_it_leaves_running_dies_when_it_ends(tmp_path: Path, command_lines) -> None:
    done = run(tmp_path, "(setsid sleep 6543 > /dev/null 2>&1 &) ; echo x > native.o")
    assert done.ok
    assert not [line for line in command_lines() if line.startswith("sleep 6543")]


@pytest.mark.skipif(missing_tool("cpp") is not None, reason=str(missing_tool("cpp")))
def test_a_bomb_of_templates_ends_at_its_deadline(tmp_path: Path) -> None:
    bomb = """
import native
CPP_SRC = r'''
template <int A, unsigned B> struct Grow { static constexpr unsigned value = Grow<A - 1, 2 * B>::value + Grow<A - 1, 2 * B + 1>::value; };
template <unsigned B> struct Grow<0, B> { static constexpr unsigned value = B; };
extern "C" int grow(float* x) { x[0] = Grow<26, 1>::value; return 0; }
'''
SIGNATURES = {"grow": "f32* x"}
class ModelNew: pass
"""
    start = time.monotonic()
    built = builders.get("cpp").build(bomb, tmp_path, None, 2.0)
    assert not built.ok and "ran past its deadline of 2 s" in built.digest, built.digest
    assert time.monotonic() - start < 30
    assert not [path for path in tmp_path.rglob("*") if "building" in path.name]
    assert len([entry for entry in os.scandir("/proc") if entry.name.isdigit() and _is_compiler(entry)]) == 0


def _is_compiler(entry: os.DirEntry[str]) -> bool:
    try:
        return b"native.o" in Path(entry.path, "cmdline").read_bytes() and b"cc1plus" in Path(entry.path, "cmdline").read_bytes()
    except OSError:
        return False
