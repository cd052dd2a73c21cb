"""Seconds an evaluation, cold and warm, and evaluations an hour, for a fixed set of candidates.

    python benchmarks/throughput.py --source FOLDER --out throughput.jsonl [--minutes M] [--rules quick,strict] [--device cuda:0]

Rows: a candidate on a problem under a preset, `cold` (a command of its own: judge, zygote and baselines started, problem opened and
audited) and `warm` (all that there already, the candidate's text new); and `series`, quick evaluations one after the other over new texts
of all candidates while the next one is built. Writes one JSON line a row and goes on from those that the file holds.
"""

from __future__ import annotations

import json
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from autokernel import builders
from autokernel.builders.syntax import detect
from autokernel.building import gpu_arch
from autokernel.errors import AutoKernelError
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.machine import default_device
from autokernel.records import Candidate, Evaluation
from autokernel.rules import preset
from kernelbench_bridge import load_level

FOLDER = Path(__file__).parent / "candidates"
# (uid, candidate): large and small, row kernels, products and convolutions
SETS = {
    "cuda": (("L1/19", "relu_triton"), ("L1/19", "relu_cuda"), ("L1/19", "relu_inline"), ("L1/23", "softmax_triton"), ("L1/1", "library"),
             ("L1/10", "library"), ("L1/50", "library"), ("L1/76", "library")),
    "cpu": (("L1/1", "library"), ("L1/2", "library"), ("L1/3", "library")),
}
WARM = 3
SERIES = 40


def candidate(problem: Any, name: str, turn: str) -> Candidate:
    """The candidate's text, made new by a last comment."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    if name == "library":
        text = problem.source + "\n\n" + text
    text += f"\n# {turn}\n"
    return Candidate(text, detect(text))


def row_of(made: Evaluation, seconds: float) -> dict[str, Any]:
    """What is kept of one evaluation."""
    pair = made.against("eager")
    return {"accepted": made.accepted, "reason": made.reason[:200], "seconds": round(seconds, 3), "breakdown_s": dict(made.breakdown_s),
            "speedup": pair.speedup if pair else None, "pairs": pair.pairs if pair else 0, "rules": made.rules}


def timed(problem: Any, name: str, turn: str, rules: str, executor: Executor) -> dict[str, Any]:
    """One evaluation and its seconds."""
    start = time.monotonic()
    try:
        made = evaluate(problem, candidate(problem, name, turn), rules=preset(rules), executor=executor)
    except AutoKernelError as error:
        return {"accepted": False, "reason": str(error)[:200], "seconds": round(time.monotonic() - start, 3), "rules": rules}
    return row_of(made, time.monotonic() - start)


def build_ahead(executor: Executor, text: Candidate, seconds: float) -> None:
    """Build a candidate that comes next; what it gives is in the store when it is asked for."""
    capability = executor.machine().get("capability")
    builders.get(text.builder).build(text.source, executor.store / "builds", gpu_arch(str(capability)) if capability else None, seconds)


def series(problems: dict[str, Any], pairs: list[tuple[str, str]], executor: Executor, stamp: str, end: float) -> dict[str, Any]:
    """Quick evaluations one after the other; each problem's come together, as in a search."""
    rules = preset("quick")
    order = [(uid, name, f"{stamp}-{number}") for uid, name in pairs for number in range(SERIES // len(pairs))]
    made, start = 0, time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        for (uid, name, turn), following in zip(order, [*order[1:], None], strict=True):
            if following is not None:
                text = candidate(problems[following[0]], *following[1:])
                pool.submit(build_ahead, executor, text, rules.deadlines.build_s)
            made += timed(problems[uid], name, turn, "quick", executor)["accepted"]
            if time.monotonic() > end:
                break
    seconds = time.monotonic() - start
    return {"kind": "series", "evaluations": made, "seconds": round(seconds, 2), "an_hour": round(3600 * made / seconds)}


def report(rows: list[dict[str, Any]]) -> str:
    """The tables."""
    lines = []
    for key in dict.fromkeys((row["problem"], row["candidate"], row["rules"]) for row in rows if row["kind"] in ("cold", "warm")):
        some = [row for row in rows if row["kind"] in ("cold", "warm") and (row["problem"], row["candidate"], row["rules"]) == key]
        cold = [row["seconds"] for row in some if row["kind"] == "cold"]
        warm = [row["seconds"] for row in some if row["kind"] == "warm"]
        refused = next((f"  refused: {row['reason'][:80]}" for row in some if not row["accepted"]), "")
        lines.append(f"{key[0]:7} {key[1]:15} {key[2]:10} cold {cold[0] if cold else float('nan'):7.2f} s   warm "
                     f"{statistics.median(warm) if warm else float('nan'):7.2f} s{refused}")
    lines += [f"series  {row['evaluations']} quick evaluations in {row['seconds']} s: {row['an_hour']} an hour"
              for row in rows if row["kind"] == "series"]
    return "\n".join(lines)


@click.command()
@click.option("--source", default="auto")
@click.option("--rules", "presets", default="quick,strict")
@click.option("--device", default=None)
@click.option("--minutes", type=float, default=None)
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/store"))
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(source: str, presets: str, device: str | None, minutes: float | None, store: Path, out: Path) -> None:
    """Measure the pace."""
    chosen = device or default_device()
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    wanted = list(SETS[chosen.partition(":")[0]])
    loaded = load_level(1, source=source, problems=tuple(sorted({int(uid.partition("/")[2]) for uid, _ in wanted})))
    problems = {problem.uid: problem for problem in loaded.problems}
    pairs = [pair for pair in wanted if pair[0] in problems]
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["kind"], row.get("problem"), row.get("candidate"), row.get("preset")) for row in rows}
    stamp = str(time.time_ns())
    with out.open("a") as lines:

        def keep(row: dict[str, Any]) -> None:
            rows.append(row)
            lines.write(json.dumps(row) + "\n")
            lines.flush()

        for uid, name in pairs:
            for rules in presets.split(","):
                if ("warm", uid, name, rules) in done or time.monotonic() > end:
                    continue
                about = {"problem": uid, "candidate": name, "preset": rules}
                start = time.monotonic()
                with Executor(chosen, store) as executor:
                    first = timed(problems[uid], name, f"{stamp}-cold-{rules}", rules, executor)
                    keep({"kind": "cold", **about, **first, "seconds": round(time.monotonic() - start, 3), "machine": executor.machine()})
                    for number in range(WARM):
                        keep({"kind": "warm", **about, **timed(problems[uid], name, f"{stamp}-{rules}-{number}", rules, executor)})
        if ("series", None, None, None) not in done and time.monotonic() < end:
            with Executor(chosen, store) as executor:
                keep(series(problems, pairs, executor, stamp, end))
    print(report(rows))


if __name__ == "__main__":
    main()
