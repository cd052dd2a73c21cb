"""Every reference as its own candidate: finds problems that the loader, the seeds or the bounds break.

    python benchmarks/references.py --level 1 --source FOLDER --out references_L1.jsonl [--minutes M] [--problems 1-50] [--rules strict]

Writes one JSON line a problem as it goes and passes over those that the file already holds; prints the exceptions at the end.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import click

from autokernel.errors import AutoKernelError
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.machine import default_device
from autokernel.records import Candidate
from autokernel.rules import preset
from kernelbench_bridge import load_level, parse_ids

AS_CANDIDATE = "\n\nclass ModelNew(Model):\n    pass\n"


@click.command()
@click.option("--level", type=int, required=True)
@click.option("--source", default="auto")
@click.option("--problems", default=None, help="Ids such as 1-10,23.")
@click.option("--rules", "rules_name", default="strict")
@click.option("--pairs", type=int, default=None, help="Take one look after this many pairs, where only about 1.0x is asked for.")
@click.option("--device", default=None)
@click.option("--minutes", type=float, default=None)
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/store"))
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(level: int, source: str, problems: str | None, rules_name: str, pairs: int | None, device: str | None, minutes: float | None,
         store: Path, out: Path) -> None:
    """Evaluate a level's references as their own candidates."""
    loaded = load_level(level, source=source, problems=parse_ids(problems) if problems else None)
    rules = preset(rules_name)
    if pairs:
        rules = replace(rules, looks=replace(rules.looks, pairs=(pairs,), alpha=(rules.looks.alpha[0],)))
    done = {json.loads(line)["problem"] for line in out.read_text().splitlines()} if out.exists() else set()
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    with Executor(device or default_device(), store) as executor, out.open("a") as lines:
        for problem in loaded.problems:
            if problem.uid in done:
                continue
            if time.monotonic() > end:
                print("out of time; run the same command again to go on")
                break
            row = one(problem, executor, rules)
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            verdict = "accepted" if row["accepted"] else f"REFUSED {row['refused_by']}"
            pair = f"{row['speedup'] or 0:.3f} [{row['low'] or 0:.3f}, {row['high'] or 0:.3f}]"
            print(f"{row['problem']:7} {verdict} {pair} {row['seconds']:.1f} s  {str(row['reason'])[:150]}", flush=True)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    right = [row for row in rows if row["accepted"]]
    print(f"{len(right)} of {len(rows)} accepted; {sum(abs(row['speedup'] - 1) < 0.05 for row in right)} within 5 % of 1.0x")


def one(problem: object, executor: Executor, rules: object) -> dict[str, object]:
    """One row: the verdict on a reference as its own candidate."""
    start = time.monotonic()
    source = problem.source + AS_CANDIDATE  # type: ignore[attr-defined]
    row: dict[str, object] = {"problem": problem.uid, "name": problem.name, "hash": problem.hash}  # type: ignore[attr-defined]
    try:
        made = evaluate(problem, Candidate(source, "python", proposer="reference"), rules=rules, executor=executor)  # type: ignore[arg-type]
    except AutoKernelError as error:
        return {**row, "accepted": False, "refused_by": "error", "reason": str(error), "speedup": None, "low": None, "high": None,
                "seconds": round(time.monotonic() - start, 2)}
    pair = made.against("eager")
    return {
        **row, "accepted": made.accepted, "refused_by": made.refused_by, "reason": made.reason, "oracle": made.oracle,
        "precision": made.precision_class, "speedup": round(pair.speedup, 4) if pair else None, "low": round(pair.low, 4) if pair else None,
        "high": round(pair.high, 4) if pair else None, "pairs": pair.pairs if pair else 0,
        "calls": pair.candidate.calls_per_window if pair else 0, "eager_ms": pair.opponent.median_ms if pair else None,
        "roofline": made.roofline, "verified": made.verified, "labels": list(made.labels), "rules": made.rules,
        "ratio": max((float(v.figures.get("ratio") or 0.0) for v in made.verdicts), default=None),
        "breakdown_s": dict(made.breakdown_s), "machine": dict(made.machine), "seconds": round(time.monotonic() - start, 2),
    }


if __name__ == "__main__":
    main()
