"""How far the clock can be trusted: equal code against itself, known small gains, windows against events.

    python benchmarks/fidelity.py --out fidelity.jsonl [--only aa,gain,event] [--comparisons 300] [--minutes M] [--device cuda:0]

- `aa`: candidates that are the opponent's own text, compared under `quick`: how often one would be kept, and the spread of the ratio,
  in pairs against one side after the other;
- `gain`: candidates that do a known share less work (they spin for an exact time): in how many of 20 tries each gain is kept;
- `event`: net window time against the worker's own event time over sizes.

Writes one JSON line a row, goes on from those that the file holds, and prints the tables at the end.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from autokernel import measure, performance
from autokernel.executor.broker import Executor
from autokernel.machine import default_device
from autokernel.records import Candidate, Comparison
from autokernel.rules import QUICK
from autokernel.session import Session

# a forward that takes a set time: on a GPU by its own cycle counter, on the CPU by the clock
SPIN = """
import time
import torch
import torch.nn as nn


class {name}(nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        if x.is_cuda:
            torch.cuda._sleep(int({work_ms} * 1e-3 * {cycles_per_s}))
        else:
            end = time.perf_counter() + {work_ms} * 1e-3
            while time.perf_counter() < end:
                pass
        return y
"""
INPUTS = """

def get_inputs():
    return [torch.randn({size})]


def get_init_inputs():
    return []
"""
GAINS = ((0.1, 0.02), (0.1, 0.05), (0.3, 0.02), (1.0, 0.02), (3.0, 0.02))  # (ms of work, share left out by the candidate)
SIZES = tuple(4 ** power for power in range(6, 14))  # elements of float32
TRIES = 20
AA_WORK_MS = (0.1, 0.3, 1.0)


@dataclass(frozen=True)
class Task:
    """What a session needs of a problem."""

    uid: str
    source: str

    @property
    def hash(self) -> str:
        """Its text names it."""
        return self.source


def spin(work_ms: float, cycles_per_s: float, size: int = 4096, name: str = "Model") -> str:
    """A model that takes `work_ms` beside a small launch."""
    return SPIN.format(name=name, work_ms=repr(work_ms), cycles_per_s=repr(cycles_per_s)) + INPUTS.format(size=size)


def relu(size: int, name: str = "Model") -> str:
    """A memory-bound model of that many elements."""
    head = f"import torch\nimport torch.nn as nn\n\n\nclass {name}(nn.Module):\n"
    return head + "    def forward(self, x):\n        return torch.relu(x)\n" + INPUTS.format(size=size)


def compared(executor: Executor, problem: Task, text: str, count: int) -> Iterator[tuple[Comparison, Session]]:
    """That many quick comparisons of a candidate with eager, in one session and one process."""
    session = Session(executor, problem, QUICK)
    worker = None
    try:
        eager = session.opponent("eager")
        session.null(session.calls)
        worker = session.start(Candidate(text, "python"), None)
        session.ask("new_draws", session.deadline(1) + 60, {"worker": worker}, second=False, count=1, timeout_s=60)
        for _ in range(count):
            got = performance.compare(session, worker, "eager", eager, session.calls)
            if isinstance(got, str):
                raise RuntimeError(f"{problem.uid}: {got}")
            yield got, session
    finally:
        if worker is not None:
            executor.stop(worker)
        session.close()


def aa_rows(executor: Executor, cycles: float, wanted: int, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Equal code: one row a comparison that `rows` has not."""
    for work_ms in AA_WORK_MS:
        text = spin(work_ms, cycles)
        each = -(-wanted // len(AA_WORK_MS)) - sum(row["kind"] == "aa" and row["work_ms"] == work_ms for row in rows)
        if each <= 0:
            continue
        for made, session in compared(executor, Task(f"aa/{work_ms}", text), spin(work_ms, cycles, name="ModelNew"), each):
            ours, theirs = made.candidate.samples_ms, made.opponent.samples_ms
            yield {"kind": "aa", "work_ms": work_ms, "speedup": made.speedup, "low": made.low, "high": made.high, "pairs": made.pairs,
                   "calls": session.calls, "kept": made.low > QUICK.looks.keep_above, "eager_ms": made.opponent.median_ms,
                   # the same windows as if all of one side had come first: halves of the run against each other
                   "one_after_the_other": statistics.median(theirs[: len(theirs) // 2]) / statistics.median(ours[len(ours) // 2:]),
                   "null_slack_us": session.null(session.calls).slack_us(session.calls)}


def gain_rows(executor: Executor, cycles: float, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Known gains: one row a try that `rows` has not, each in a process of its own."""
    for work_ms, gain in GAINS:
        problem = Task(f"gain/{work_ms}/{gain}", spin(work_ms, cycles))
        done = sum(row["kind"] == "gain" and (row["work_ms"], row["gain"]) == (work_ms, gain) for row in rows)
        for _ in range(TRIES - done):
            for made, session in compared(executor, problem, spin(work_ms * (1 - gain), cycles, name="ModelNew"), 1):
                yield {"kind": "gain", "work_ms": work_ms, "gain": gain, "speedup": made.speedup, "low": made.low, "pairs": made.pairs,
                       "calls": session.calls, "kept": made.low > QUICK.looks.keep_above, "eager_ms": made.opponent.median_ms}


def event_rows(executor: Executor, rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Net window time and event time of one worker over the sizes that `rows` has not."""
    for size in [size for size in SIZES if not any(row["kind"] == "event" and row["elements"] == size for row in rows)]:
        session = Session(executor, Task(f"event/{size}", relu(size)), QUICK)
        worker = None
        try:
            eager = session.opponent("eager")
            null = session.null(session.calls)
            worker = session.start(Candidate(relu(size, "ModelNew"), "python"), None)
            got = session.ask("pairs", session.deadline(40), {"candidate": worker, "opponent": eager}, calls=session.calls, count=12,
                              first=0, fewest=12, limit_s=5.0, slower_below=0.0)
            nets = [measure.net(window, null.median_ms, session.calls, null.spread_ms) for window in got["candidate_ms"]]
            yield {"kind": "event", "elements": size, "calls": session.calls, "window_ms": statistics.median(nets),
                   "event_ms": statistics.median(got["candidate_event_ms"]) / session.calls, "null_ms": null.median_ms,
                   "null_slack_us": null.slack_us(session.calls)}
        finally:
            if worker is not None:
                executor.stop(worker)
            session.close()


def report(rows: list[dict[str, Any]]) -> str:
    """The tables."""
    lines = []
    for work_ms in sorted({row["work_ms"] for row in rows if row["kind"] == "aa"}):
        some = [row for row in rows if row["kind"] == "aa" and row["work_ms"] == work_ms]
        spread = [statistics.pstdev([row[key] for row in some]) * 100 for key in ("speedup", "one_after_the_other")]
        lines.append(f"A/A  {work_ms:5.2f} ms  {len(some):4} comparisons  {sum(row['kept'] for row in some)} false keeps  "
                     f"ratio's deviation {spread[0]:.2f} % in pairs, {spread[1]:.2f} % one after the other")
    for work_ms, gain in GAINS:
        some = [row for row in rows if row["kind"] == "gain" and (row["work_ms"], row["gain"]) == (work_ms, gain)]
        if some:
            lines.append(f"gain {work_ms:5.2f} ms  {gain:.0%} less work  kept {sum(row['kept'] for row in some)} of {len(some)}  "
                         f"median speedup {statistics.median(row['speedup'] for row in some):.4f}")
    lines += [f"event {row['elements']:>10} elements  window {row['window_ms'] * 1e3:9.1f} us  event {row['event_ms'] * 1e3:9.1f} us  "
              f"null {row['null_ms'] * 1e3:7.1f} us a window, slack {row['null_slack_us']:.1f} us a call" for row in rows
              if row["kind"] == "event"]
    return "\n".join(lines)


@click.command()
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--only", default="event,gain,aa")
@click.option("--comparisons", type=int, default=300)
@click.option("--minutes", type=float, default=None)
@click.option("--device", default=None)
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/store"))
def main(out: Path, only: str, comparisons: int, minutes: float | None, device: str | None, store: Path) -> None:
    """Measure the clock."""
    chosen = device or default_device()
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    with Executor(chosen, store) as executor, out.open("a") as lines:
        machine, cycles = executor.machine(), 1.755e9  # cycles a second, near enough: only ratios count
        known = tuple(rows)
        parts = {"event": event_rows(executor, known), "gain": gain_rows(executor, cycles, known),
                 "aa": aa_rows(executor, cycles, comparisons, known)}
        for row in (row for kind in only.split(",") for row in parts[kind]):
            rows.append({**row, "machine": machine})
            lines.write(json.dumps(rows[-1]) + "\n")
            lines.flush()
            if time.monotonic() > end:
                print("out of time; run the same command again to go on")
                break
    print(report(rows))


if __name__ == "__main__":
    main()
