"""KernelBench's verdicts from us, with every field that a comparison with KernelBench's own output needs; and that comparison.

    python benchmarks/parity.py RUN_DIR --level 1 --out parity.jsonl [--source PATH] [--problems 1-10] [--minutes M] [--precision fp32]
    python benchmarks/parity.py RUN_DIR --level 1 --out parity.jsonl --theirs their/eval_results.json

RUN_DIR holds level_L_problem_P_sample_S_kernel.py files. Writes one JSON line a sample as it goes and passes over those that the file
already holds. With --theirs, which KernelBench made of the same files on a card of the same model, prints where the two differ.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import click

from autokernel.compat.single import CompatOptions, evaluate_compat, kernelbench_backend
from autokernel.errors import UsageError
from autokernel.executor.compat_host import CompatHost
from autokernel.machine import default_device, package_version
from autokernel.records import Candidate
from kernelbench_bridge import load_level, parse_ids
from kernelbench_bridge.run_directory import read_eval_results, samples, serializable

EXACT = ("compiled", "correctness")
WITHIN = 0.02  # two cards of one model differ by about this


@click.command()
@click.argument("run_dir", type=click.Path(path_type=Path))
@click.option("--level", type=int, required=True)
@click.option("--source", default="auto")
@click.option("--problems", default=None, help="Ids such as 1-10,23.")
@click.option("--precision", default="fp32")
@click.option("--timing", default="", help="cuda_event, do_bench, do_bench_impl or host_time.")
@click.option("--correct-trials", type=int, default=5)
@click.option("--perf-trials", type=int, default=100)
@click.option("--no-times", is_flag=True)
@click.option("--device", default=None)
@click.option("--minutes", type=float, default=None)
@click.option("--store", type=click.Path(path_type=Path), default=Path("runs/store"))
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--theirs", type=click.Path(path_type=Path), default=None, help="KernelBench's eval_results.json of the same files.")
def main(run_dir, level, source, problems, precision, timing, correct_trials, perf_trials, no_times, device, minutes, store, out, theirs):
    """Evaluate a folder of candidates under KernelBench's rules, and compare with KernelBench's own results."""
    device = device or default_device()
    options = CompatOptions(precision=precision, timing_method=timing, measure=not no_times, correct_trials=correct_trials,
                            perf_trials=perf_trials)
    loaded = load_level(level, source, parse_ids(problems) if problems else None)
    by_id = {problem.problem_id: problem for problem in loaded.problems}
    found, notes = samples(run_dir, level)
    for note in (loaded.why, *notes):
        print(note, flush=True)
    done = {(row["problem_id"], row["sample_id"]) for row in read(out)}
    left = [sample for sample in found if sample.problem_id in by_id and (sample.problem_id, sample.sample_id) not in done]
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    if left:
        with CompatHost(device, store) as host, out.open("a") as lines:
            for sample in left:
                if time.monotonic() > end:
                    print("out of time; run the same command again to go on")
                    break
                row = one(host, by_id[sample.problem_id], sample, options)
                lines.write(json.dumps(row) + "\n")
                lines.flush()
                print(f"L{level}/{sample.problem_id} sample {sample.sample_id}: compiled {row['compiled']}, correct {row['correctness']}, "
                      f"{row['runtime']:g} ms, {row['seconds']['total']:.1f} s", flush=True)
    if theirs:
        compare(read(out), read_eval_results(theirs))


def read(out):
    """Rows written so far."""
    return [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def one(host, problem, sample, options):
    """One sample's row: KernelBench's fields, raw times, and what they depend on."""
    text = sample.read()
    try:
        chosen = replace(options, backend=kernelbench_backend(text))
    except UsageError as error:
        return {"problem_id": sample.problem_id, "sample_id": sample.sample_id, "compiled": False, "correctness": False, "runtime": -1.0,
                "metadata": {"compilation_error": error.message}, "seconds": {"total": 0.0}}
    judged = evaluate_compat(host, problem.source, Candidate(text, "python"), chosen)
    return {
        "problem_id": sample.problem_id, "sample_id": sample.sample_id, "problem_hash": problem.hash,
        "candidate": Candidate(text, "python").sha256, **serializable(judged.batch.model_dump()), "backend": chosen.backend,
        "precision": chosen.precision, "timing_method": chosen.method(host.device), "note": judged.note, "outcome": judged.outcome,
        "draws": judged.draws, "times_ms": list(judged.times_ms), "reference_ms": list(judged.reference_ms),
        "seconds": dict(judged.seconds), "torch": host.facts.torch, "cuda": host.facts.cuda, "triton": package_version("triton"),
    }


def compare(ours, theirs):
    """Print where our rows and KernelBench's differ, and how far apart the times are."""
    both = differ = 0
    ratios = []
    for row in ours:
        entry = next((e for e in theirs.get(str(row["problem_id"]), []) if e["sample_id"] == row["sample_id"]), None)
        if entry is None:
            continue
        both += 1
        name = f"problem {row['problem_id']} sample {row['sample_id']}"
        wrong = [f"{key} {row[key]} for {entry[key]}" for key in EXACT if row[key] != entry[key]]
        mine, other = row["metadata"], entry.get("metadata", {})
        if sorted(mine) != sorted(other):
            wrong.append(f"metadata keys {sorted(set(mine) ^ set(other))}")
        wrong += [f"{key} {mine[key]} for {other[key]}" for key in ("max_difference", "avg_difference", "correctness_trials")
                  if key in mine and key in other and mine[key] != other[key]]
        if row["runtime"] > 0 and entry["runtime"] > 0:
            ratios.append(row["runtime"] / entry["runtime"])
        differ += bool(wrong)
        for line in wrong:
            print(f"{name}: {line}")
    print(f"{both} samples in both, {differ} differ")
    if ratios:
        ratios.sort()
        close = sum(1 for ratio in ratios if abs(ratio - 1) <= WITHIN)
        print(f"times: {len(ratios)} in both, {close} within {WITHIN:.0%}, ratio {ratios[0]:.3f} to {ratios[-1]:.3f}, "
              f"median {ratios[len(ratios) // 2]:.3f}")


if __name__ == "__main__":
    main()
