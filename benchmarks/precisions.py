"""Which problems work in which precision, found by running each reference as its own candidate.

    python benchmarks/precisions.py --level 1 --out precisions_L1.jsonl [--source PATH] [--problems 1-50] [--minutes M] [--device cuda:0]
    python benchmarks/precisions.py --out precisions_L1.jsonl --table

Under KernelBench's rules, whose casts break some problems, and under our own, which mend them. Writes one JSON line for each problem and
precision as it goes and passes over those that the file already holds.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from autokernel.compat.single import CompatOptions, evaluate_compat
from autokernel.errors import AutoKernelError
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.executor.compat_host import CompatHost
from autokernel.machine import default_device
from autokernel.records import Candidate
from autokernel.rules import PRECISIONS, QUICK, in_precision
from kernelbench_bridge import load_level, parse_ids

SHARED = "class ModelNew(Model):\n    pass\n"  # KernelBench's namespace has Model in it


@click.command()
@click.option("--level", type=int, default=None)
@click.option("--source", default="auto")
@click.option("--problems", default=None, help="Ids such as 1-10,23.")
@click.option("--device", default=None)
@click.option("--minutes", type=float, default=None)
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/store"))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--table", is_flag=True, help="Print the table of what --out holds; run nothing.")
def main(level, source, problems, device, minutes, store, out, table):
    """Run a level's references in fp32, fp16 and bf16."""
    if table:
        print("\n".join(as_table(read(out))))
        return
    if level is None:
        raise click.UsageError("pass --level, or --table.")
    loaded = load_level(level, source, parse_ids(problems) if problems else None)
    device = device or default_device()
    done = {(row["problem"], row["precision"]) for row in read(out)}
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    with CompatHost(device, store) as host, Executor(device, store) as executor, out.open("a") as lines:
        for problem in loaded.problems:
            for precision in PRECISIONS:
                if (problem.uid, precision) in done:
                    continue
                if time.monotonic() > end:
                    print("out of time; run the same command again to go on")
                    return
                row = one(problem, precision, host, executor)
                lines.write(json.dumps(row) + "\n")
                lines.flush()
                print(f"{problem.uid:7} {precision}  kernelbench: {row['kernelbench']}  ours: {row['ours']}"[:180], flush=True)


def read(out):
    """Rows written so far."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def one(problem, precision, host, executor):
    """One problem in one precision: "works", or why not."""
    judged = evaluate_compat(host, problem.source, Candidate(SHARED, "python"), CompatOptions(precision=precision, measure=False,
                                                                                             correct_trials=1))
    metadata = judged.result.metadata
    why = next((str(metadata[key]) for key in ("runtime_error", "correctness_issue", "compilation_error", "error") if key in metadata), "")
    try:
        found = evaluate(problem, Candidate(f"{problem.source}\n\n{SHARED}", "python"), rules=in_precision(QUICK, precision),
                         executor=executor, against=())
        ours = "works" if found.accepted else f"{found.refused_by}: {found.reason}"
    except AutoKernelError as error:
        ours = str(error)
    return {"problem": problem.uid, "name": problem.name, "hash": problem.hash, "precision": precision,
            "kernelbench": "works" if judged.result.correctness else short(why), "ours": short(ours),
            "machine": host.facts.device_name or "CPU", "torch": host.facts.torch}


def short(text):
    """On one line, in 160 characters."""
    return " ".join(text.split()).replace("|", "/")[:160]


def as_table(rows):
    """Markdown: a problem a line; what works is left blank, what does not is named below."""
    yield "| problem | fp32 | fp16 | bf16 | fp32, KernelBench's rules | fp16 | bf16 |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    by_problem = {}
    for row in rows:
        by_problem.setdefault(row["problem"], {})[row["precision"]] = row
    notes = []
    for uid, found in by_problem.items():
        cells = []
        for side in ("ours", "kernelbench"):
            for precision in PRECISIONS:
                word = found.get(precision, {}).get(side, "not run")
                cells.append("yes" if word == "works" else "no" if word != "not run" else "")
                if word not in ("works", "not run"):
                    notes.append(f"- {uid} {precision}, {'our' if side == 'ours' else 'KernelBench'} rules: {word}")
        yield f"| {uid} | {' | '.join(cells)} |"
    yield ""
    yield from notes


if __name__ == "__main__":
    main()
