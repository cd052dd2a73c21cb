"""Threads of a timed worker: one processor each, the busiest first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from autokernel.executor.placement import Placement

TEAM = """
import threading, time
def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    print("spun", flush=True)
    time.sleep(600)
threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
threading.Thread(target=spin, args=(0.15,), daemon=True).start()
spin(0.3)
"""


@pytest.fixture
def team():
    with subprocess.Popen([sys.executable, "-c", TEAM], stdout=subprocess.PIPE) as process:
        for _ in range(2):
            process.stdout.readline()
        yield process.pid
        process.kill()


def threads(pid):
    """The team's threads by when they were made: the first, the sleeper, the one that spun for half as long."""
    return sorted(int(task) for task in os.listdir(f"/proc/{pid}/task"))


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_those_that_ran_longest_get_a_processor_each_and_sleepers_share(team):
    placement = Placement(team)
    placement.spread()
    first, sleeper, second = threads(team)
    given = {thread: os.sched_getaffinity(thread) for thread in (first, sleeper, second)}
    assert all(len(processors) == 1 for processors in given.values())
    assert given[first] == {placement.cpus[0]} and given[second] == {placement.cpus[1]}
    assert given[sleeper] == {placement.cpus[2 % len(placement.cpus)]}


def test_the_first_thread_is_let_go_and_placed_again(team):
    placement = Placement(team)
    placement.spread()
    placement.release_first()
    assert os.sched_getaffinity(team) == set(placement.cpus)
    placement.spread()
    assert os.sched_getaffinity(team) == {placement.cpus[0]}


def test_a_process_that_has_ended_is_nobodys_fault():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        placement = Placement(process.pid)
        process.kill()
    for late in (placement, Placement(process.pid)):  # found before it ended, and after
        late.spread()
        late.release_first()
