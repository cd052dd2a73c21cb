"""Stopping a family: honest ones stand still and go on, hostile ones stand still too or are found out. By group, by signals."""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from autokernel.executor import families
from autokernel.sandbox import cgroups

WINDOW_S = 0.05
HEAD = """
import ctypes, mmap, os, signal, struct, sys, threading, time
board = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
def beat():
    struct.pack_into("Q", board, 0, struct.unpack_from("Q", board, 0)[0] + 1)
"""
KEEPER = HEAD + """
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
for entry in sys.argv[2:]:
    open(entry, "w").write("0")
child = os.fork()
if child:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            os._exit(0)
"""
SPINS = KEEPER + """
for _ in range(3):
    threading.Thread(target=lambda: [time.sleep(0.001) for _ in iter(int, 1)], daemon=True).start()
while True:
    beat()
"""
CHILDREN = KEEPER + """
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        break
while True:
    beat()
    time.sleep(0.0005)
"""
SIBLINGS = KEEPER + """
for number in range(4):
    if os.fork() == 0:
        struct.pack_into("i", board, 64 + 4 * number, os.getpid())
        while True:
            beat()
            for other in struct.unpack_from("4i", board, 64):
                if other:
                    os.kill(other, signal.SIGCONT)
signal.pause()
"""
TIMER = KEEPER + """
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_char * 48)]
class Spec(ctypes.Structure):
    _fields_ = [("every_s", ctypes.c_long), ("every_ns", ctypes.c_long), ("first_s", ctypes.c_long), ("first_ns", ctypes.c_long)]
libc, timers = ctypes.CDLL(None), [ctypes.c_void_p() for _ in range(40)]
signal.signal(signal.SIGCONT, lambda number, frame: None)  # an ignored signal would stop the timer
for timer in timers:
    assert libc.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer)) == 0
while True:
    beat()
    for number, timer in enumerate(timers):  # a stop takes a signal that is pending with it, and the timer that sent it
        libc.timer_settime(timer, 0, ctypes.byref(Spec(0, 0, 0, 5000000 + 1000000 * number)), None)
"""
RELAY = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char** given) {
    prctl(36, 1, 0, 0, 0);
    for (int n = 2; n < count; ++n) { int entry = open(given[n], O_WRONLY); if (write(entry, "0", 1) < 0) return 1; close(entry); }
    uint64_t volatile* board = mmap(0, 4096, 3, MAP_SHARED, open(given[1], O_RDWR), 0);
    if (fork()) for (;;) if (wait(0) > 0) board[2] += 1;
    for (;;) {  // a keeper that is stopped reaps nobody: without an end to it the dead would take every number there is, other tests' too
        while (board[1] - board[2] > 500) usleep(200);
        board[1] += 1;
        if (fork()) _exit(0);
        setsid();
        *board += 1;
    }
}
"""


@pytest.fixture(params=["group", "signals"])
def way(request: pytest.FixtureRequest) -> Iterator[tuple[bool, list[str]]]:
    """Whether to freeze by signals, and the control group's entries."""
    if request.param == "signals":
        yield True, []
        return
    group = cgroups.make("test", sorted(os.sched_getaffinity(0)))
    try:
        if "freezer" not in group.folders:
            pytest.skip(f"no freezer on this machine: {group.without['freezer']}")
        yield False, [str(group.folders["freezer"] / "cgroup.procs")]
    finally:
        group.remove()


@pytest.fixture
def start(tmp_path: Path, way: tuple[bool, list[str]]) -> Iterator[Callable[[list[str]], tuple[int, Callable[[], int]]]]:
    """Starts a keeper with its family; its pid, and how often the family has done something so far."""
    started: list[subprocess.Popen[bytes]] = []

    def run(command: list[str]) -> tuple[int, Callable[[], int]]:
        (tmp_path / "board").write_bytes(bytes(4096))
        with (tmp_path / "board").open("r+b") as file:
            board = mmap.mmap(file.fileno(), 4096)
        process = subprocess.Popen([*command, str(tmp_path / "board"), *way[1]])
        started.append(process)

        def beats() -> int:
            return int(struct.unpack_from("Q", board, 0)[0])

        until = time.monotonic() + 20
        while beats() < 20:
            assert time.monotonic() < until and process.poll() is None
            time.sleep(0.005)
        return process.pid, beats

    yield run
    for process in started:
        process.send_signal(signal.SIGCONT)
        families.kill(process.pid)
        process.wait(10)


def python(text: str) -> list[str]:
    """A command that runs this text in a small interpreter."""
    return [sys.executable, "-I", "-S", "-c", text]


def held(keeper: int, beats: Callable[[], int], by_signals: bool) -> int:
    """Freeze, wait a window, thaw; how often the family did something meanwhile. Raises Restless."""
    still = families.freeze(keeper, by_signals=by_signals)
    before = beats()
    time.sleep(WINDOW_S)
    grew = beats() - before
    families.thaw(keeper, still)
    return grew


@pytest.mark.parametrize("text", [SPINS, CHILDREN], ids=["threads", "children"])
def test_an_honest_family_stands_still_and_goes_on(start, way, text: str) -> None:
    keeper, beats = start(python(text))
    for _ in range(5):
        assert held(keeper, beats, way[0]) == 0
        before = beats()
        until = time.monotonic() + 10
        while beats() == before:
            assert time.monotonic() < until, "it was not let go"
            time.sleep(0.001)


def found_out(keeper: int, beats: Callable[[], int], by_signals: bool) -> bool:
    """Whether the family is named; one that is not must have stood still."""
    try:
        grew = held(keeper, beats, by_signals)
    except families.Restless:
        return True
    assert grew == 0, f"it did something {grew} times and nobody said so"
    return False


def test_a_process_that_wakes_itself_by_a_timer_stands_still_or_is_found_out(start, way) -> None:
    keeper, beats = start(python(TIMER))
    named = [found_out(keeper, beats, way[0]) for _ in range(8)]
    assert any(named) == way[0]  # signals do not hold it, a group does


def test_siblings_that_wake_each_other_stand_still_or_are_found_out(start, way) -> None:
    keeper, beats = start(python(SIBLINGS))
    named = [found_out(keeper, beats, way[0]) for _ in range(4)]
    assert way[0] or not any(named)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_chain_of_forks_stands_still_or_is_found_out(start, way, tmp_path: Path) -> None:
    (tmp_path / "relay.c").write_text(RELAY)
    subprocess.run(["gcc", "-O1", "-o", tmp_path / "relay", tmp_path / "relay.c"], check=True)
    keeper, beats = start([str(tmp_path / "relay")])
    named = [found_out(keeper, beats, way[0]) for _ in range(4)]
    assert way[0] or not any(named)


def test_a_frozen_family_can_be_killed(start, way) -> None:
    keeper, _ = start(python(CHILDREN))
    still = families.freeze(keeper, by_signals=way[0])
    assert families.kill(keeper)
    assert families.members(keeper) == set()
    if way[1]:
        until = time.monotonic() + 5
        while Path(way[1][0]).parent.exists() and time.monotonic() < until:
            try:
                Path(way[1][0]).parent.rmdir()
            except OSError:
                time.sleep(0.01)
        assert not Path(way[1][0]).parent.exists()
    families.thaw(keeper, still)  # nobody is there to be woken, and nobody ran


def test_a_group_of_a_broker_that_is_gone_is_swept_away(way) -> None:
    if way[0]:
        pytest.skip("groups only")
    gone = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    gone.wait()
    ours = Path(way[1][0]).parent
    left = ours.with_name(f"{cgroups.PREFIX}{gone.pid}-left")
    left.mkdir()
    stuck = subprocess.Popen([sys.executable, "-I", "-S", "-c", "import sys\nopen(sys.argv[1], 'w').write('0')\nwhile True: pass",
                              str(left / "cgroup.procs")])
    while not (freezer := cgroups.freezer_of(stuck.pid)):
        time.sleep(0.005)
    assert freezer.freeze(5)
    cgroups.sweep()
    assert stuck.wait(5) == -signal.SIGKILL
    assert not left.exists() and ours.exists()
