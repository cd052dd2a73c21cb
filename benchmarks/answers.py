"""Published answers to KernelBench problems under both presets: what the evaluators say, the true speedup, and what was claimed.

    python benchmarks/answers.py ANSWERS.json --out answers.jsonl [--minutes M] [--only 0-9] [--presets kernelbench,strict]
    python benchmarks/answers.py ANSWERS.json --out answers.jsonl --table

ANSWERS.json is a list of {level, problem_id, reference, candidate, claimed_speedup...}; each is judged against its own reference, not
against today's problem of that id. Compiles first and in parallel, then judges one after the other. Writes one JSON line for each answer
and preset as it goes, and passes over those that the file already holds. --table prints what the file holds, as Markdown.
Exit 3 where answers need a GPU and there is none.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import click

from autokernel.compat.single import CompatOptions, evaluate_compat, kernelbench_backend
from autokernel.errors import AutoKernelError
from autokernel.evaluate import evaluate
from autokernel.executor.broker import Executor
from autokernel.executor.compat_host import CompatHost
from autokernel.machine import cpu_name, default_device
from autokernel.records import Candidate
from autokernel.rules import KERNELBENCH, preset
from kernelbench_bridge import Problem, parse_ids

CUDA_WORDS = ("__global__", "load_inline", "cuda_sources", ".cuda(", "triton")
REASON = 300  # characters kept of a reason


@click.command()
@click.argument("answers", type=click.Path(path_type=Path, exists=True))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--presets", default="kernelbench,strict")
@click.option("--only", default=None, help="Positions in the list from 1, such as 1-10,23.")
@click.option("--minutes", type=float, default=None)
@click.option("--build-jobs", type=int, default=None, help="Compilers at once.  [default: a core each, less two]")
@click.option("--device", default=None)
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/store"))
@click.option("--table", is_flag=True, help="Print the table of what --out holds; judge nothing.")
def main(answers, out, presets, only, minutes, build_jobs, device, store, table):
    """Judge published answers under both presets."""
    listed = json.loads(answers.read_text())
    rows = read(out)
    if table:
        print("\n".join(as_table(rows)))
        return
    device = device or default_device()
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    numbers = [n for n in (parse_ids(only) if only else range(1, len(listed) + 1)) if n <= len(listed)]
    done = {(row["number"], row["preset"]) for row in rows}
    work = [(number, name) for number in numbers for name in presets.split(",") if (number, name) not in done]
    if device == "cpu":
        needing = [number for number, _ in work if any(word in listed[number - 1]["candidate"] for word in CUDA_WORDS)]
        if needing:
            print(f"{len(set(needing))} of the answers are CUDA or Triton code and need a GPU, and none is visible here.", file=sys.stderr)
            sys.exit(3)
    if work:
        judge_all(listed, work, out, device, store, end, build_jobs or max(1, len(os.sched_getaffinity(0)) - 2))
    rows = read(out)
    print(f"{len({row['number'] for row in rows})} of {len(listed)} answers have a verdict")


def read(out):
    """Rows written so far."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def problem_of(number, answer):
    """The answer's own reference as a problem."""
    return Problem(answer["level"], answer["problem_id"], f"{answer['problem_id']}_answer{number}", answer["reference"], "file")


def judge_all(listed, work, out, device, store, end, jobs):
    """Compile what is to be judged, in parallel, then judge in order."""
    with ExitStack() as stack:
        host = stack.enter_context(CompatHost(device, store))
        executor = stack.enter_context(Executor(device, store)) if any(name != "kernelbench" for _, name in work) else None
        start = time.monotonic()
        with ThreadPoolExecutor(jobs) as pool:
            built = list(pool.map(lambda number: build(host, listed[number - 1], end), dict.fromkeys(number for number, _ in work)))
        print(f"compiled {sum(map(bool, built))} of {len(built)} in {time.monotonic() - start:.0f} s", flush=True)
        with out.open("a") as lines:
            for number, name in work:
                if time.monotonic() > end:
                    print("out of time; run the same command again to go on")
                    return
                row = one(number, listed[number - 1], name, host, executor)
                lines.write(json.dumps(row) + "\n")
                lines.flush()
                where = f"L{row['level']}/{row['problem_id']}"
                print(f"{number:3} {where:7} {name:12} {row['verdict']:9} {shown(row):32} {row['reason'][:90]}", flush=True)


def build(host, answer, end):
    """Compile one answer ahead; False where it does not load, or the time is over."""
    if time.monotonic() > end:
        return False
    text = answer["candidate"]
    orders = CompatOptions(backend=kernelbench_backend(text)).orders(answer["reference"], text, host.device)
    made = host.build(orders, Candidate(text, "python").sha256, KERNELBENCH.build_s)
    return made is None or made.loaded


def one(number, answer, name, host, executor):
    """One answer under one preset."""
    start = time.monotonic()
    claim = next((value for key, value in answer.items() if key.startswith("claimed_speedup")), None)
    row = {"number": number, "level": answer["level"], "problem_id": answer["problem_id"], "preset": name, "claim": claim,
           "candidate": Candidate(answer["candidate"], "python").sha256, "speedup": None, "low": None, "high": None, "verified": "",
           "verdict": "", "reason": "", "labels": [], "times_ms": {}}
    try:
        row |= as_kernelbench(answer, host) if name == "kernelbench" else as_ours(number, answer, name, executor)
    except AutoKernelError as error:
        row |= {"verdict": "not judged", "reason": str(error)[:REASON]}
    row["seconds"] = round(time.monotonic() - start, 2)
    return row


def as_kernelbench(answer, host):
    """KernelBench's verdict: the ratio of means that the candidate's own process reported."""
    text = answer["candidate"]
    judged = evaluate_compat(host, answer["reference"], Candidate(text, "python"), CompatOptions(backend=kernelbench_backend(text)))
    result = judged.result
    keys = ("correctness_issue", "runtime_error", "compilation_error", "error", "error_during_performance")
    reason = next((str(result.metadata[key]) for key in keys if key in result.metadata), "")
    if result.metadata.get("max_difference"):
        reason += f" (largest {result.metadata['max_difference'][0]})"
    timed = result.runtime > 0 and result.ref_runtime > 0
    return {"verdict": "accepted" if result.correctness else "refused", "reason": " ".join(reason.split())[:REASON],
            "speedup": result.ref_runtime / result.runtime if timed else None, "verified": "unverified" if timed else "",
            "labels": [key for key in ("excessive_speedup",) if key in result.metadata] + ([judged.note] if judged.note else []),
            "times_ms": {"candidate": result.runtime, "eager": result.ref_runtime} if timed else {},
            "machine": host.facts.device_name or cpu_name()}


def as_ours(number, answer, name, executor):
    """Our verdict: the paired ratio of windows with its interval."""
    found = evaluate(problem_of(number, answer), Candidate(answer["candidate"], "python", proposer="answers"), rules=preset(name),
                     executor=executor)
    made = found.against("eager")
    return {"verdict": "accepted" if found.accepted else "refused", "reason": f"{found.refused_by}: {found.reason}"[:REASON]
            if not found.accepted else "", "speedup": made.speedup if made else None, "low": made.low if made else None,
            "high": made.high if made else None, "verified": found.verified, "labels": list(found.labels),
            "precision": found.precision_class, "times_ms": dict(found.times_ms), "rules": found.rules,
            "machine": found.machine.get("device_name")}


def shown(row):
    """A row's speedup in words."""
    if row["speedup"] is None:
        return "-"
    interval = f" [{row['low']:.3f}, {row['high']:.3f}]" if row["low"] is not None else ""
    return f"{row['speedup']:.3f}{interval} {row['verified']}"


def as_table(rows):
    """Markdown: an answer a line, both presets beside each other."""
    yield "| | problem | claim | kernelbench | unverified | strict | verified | interval | reason |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    by_number = {}
    for row in rows:
        by_number.setdefault(row["number"], {})[row["preset"]] = row
    differ = []
    for number, found in sorted(by_number.items()):
        loose, strict = found.get("kernelbench"), found.get("strict")
        any_row = loose or strict
        reason = next((row["reason"] for row in (strict, loose) if row and row["reason"]), "").replace("|", "/")
        if loose and strict and loose["verdict"] != strict["verdict"]:
            differ.append(number)
        interval = f"{strict['low']:.3f} to {strict['high']:.3f}" if strict and strict["low"] is not None else ""
        cells = (number, f"L{any_row['level']}/{any_row['problem_id']}", any_row["claim"], loose["verdict"] if loose else "",
                 f"{loose['speedup']:.3f}" if loose and loose["speedup"] else "", strict["verdict"] if strict else "",
                 f"{strict['speedup']:.3f} ({strict['verified']})" if strict and strict["speedup"] else "", interval, reason[:160])
        yield "| " + " | ".join(map(str, cells)) + " |"
    for name in ("kernelbench", "strict"):
        mine = [found[name] for found in by_number.values() if name in found]
        yield f"\n{name}: {sum(row['verdict'] == 'accepted' for row in mine)} of {len(mine)} accepted"
    yield f"\nThe presets differ on {', '.join(map(str, differ)) or 'none'}."


if __name__ == "__main__":
    main()
