"""Export a run's winners one by one, judge each again as `kernels` loads it, and print a table: does a winner keep its speed outside?

python benchmarks/export_gpu.py RUN --out DIR [--device cuda:0] [--source PATH] [--problems 1-10] [--minutes M] [--transformer]

Each winner goes to DIR/L1_19/, an exported kernel of its own, and to one line of DIR/results.jsonl; what is there already is not made
again, so the same command goes on after an interruption. Triton and CUDA winners are taken in turn. A winner whose kernel as loaded back
is 3 % slower than the winner itself, by the interval's upper end, is marked SLOWER. --transformer then runs one of them inside a small
transformer, before and after kernelize() (benchmarks/export_transformer.py).
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

from autokernel.cli.options import build_store, chosen_device
from autokernel.errors import AutoKernelError
from autokernel.executor.broker import Executor
from autokernel.exporting.flow import Request, export
from autokernel.exporting.prepare import check_exportable
from autokernel.exporting.winners import Winner, sift, winners_of_run
from autokernel.workspace import folder_name
from exporters import ExportError, names_for
from exporters.evidence import speedups
from kernelbench_bridge import load_problem, parse_ids

LOST = 0.97  # of the winner's speed: less than that, over the whole interval, is a loss


def in_turn(winners: list[Winner]) -> list[Winner]:
    """Kinds in turn, each in the run's order."""
    kinds: dict[str, list[Winner]] = {}
    for winner in winners:
        kinds.setdefault(winner.candidate.builder, []).append(winner)
    return [winner for row in itertools.zip_longest(*(kinds[kind] for kind in sorted(kinds))) for winner in row if winner is not None]


def row(winner: Winner, folder: Path, executor: Executor) -> dict:
    """Export one winner: the line of results.jsonl."""
    uid = winner.problem.uid
    began = time.monotonic()
    first = next(iter(speedups(winner.evaluation.to_json())), None)
    made = {"problem": uid, "name": winner.problem.name, "kind": winner.candidate.builder, "candidate": winner.candidate.sha256,
            "winner": None if first is None else [first.low, first.speedup, first.high], "machine": executor.machine()}
    try:
        name = names_for(winner.problem.name, ())[0].replace("_", "-")
        done = export([winner], Request(folder, name), executor, lambda text: print(f"  {text}", file=sys.stderr, flush=True))
    except (ExportError, AutoKernelError) as error:
        return {**made, "exported": False, "why": str(error), "seconds": round(time.monotonic() - began, 1)}
    (proof,) = done.proofs
    eager, beside = proof.evaluation.against("eager"), proof.against_winner
    return {**made, "exported": True, "variant": done.kernel.variant, "form": done.kernel.operations[0].form,
            "loaded": None if eager is None else [eager.low, eager.speedup, eager.high],
            "against_winner": None if beside is None else [beside.low, beside.speedup, beside.high],
            "seconds": round(time.monotonic() - began, 1)}


def table(rows: list[dict]) -> str:
    """Markdown."""
    lines = ["| problem | kind | form | winner / eager | loaded back / eager | loaded back / winner | |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for r in rows:
        if not r["exported"]:
            lines.append(f"| {r['problem']} {r['name']} | {r['kind']} | | {interval(r['winner'])} | | | not exported: {r['why'][:160]} |")
            continue
        beside = r["against_winner"]
        mark = "" if beside is None else "SLOWER" if beside[2] < LOST else "within 3 %" if beside[0] >= LOST else "not decided"
        lines.append(f"| {r['problem']} {r['name']} | {r['kind']} | {r['form']} | {interval(r['winner'])} | {interval(r['loaded'])} "
                     f"| {interval(beside)} | {mark} |")
    good = [r for r in rows if r["exported"]]
    kinds = ", ".join(f"{sum(r['kind'] == kind for r in good)} {kind}" for kind in sorted({r["kind"] for r in good}))
    return "\n".join([*lines, "", f"{len(good)} of {len(rows)} exported and accepted again as loaded back ({kinds or 'none'})."])


def interval(values: list[float] | None) -> str:
    return "not timed" if values is None else f"{values[1]:.3f} [{values[0]:.3f}, {values[2]:.3f}]"


def transformer(folders: list[Path], device: str) -> None:
    """The first exported kernel that fits into the small transformer."""
    script = Path(__file__).with_name("export_transformer.py")
    for folder in folders:
        done = subprocess.run([sys.executable, script, folder, "--device", device], check=False)
        if done.returncode == 0:
            return
    print("none of these kernels has a place in the transformer")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--source")
    parser.add_argument("--problems", type=parse_ids)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--transformer", action="store_true")
    asked = parser.parse_args()
    ends = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    device = chosen_device(asked.device)
    asked.out.mkdir(parents=True, exist_ok=True)
    log = asked.out / "results.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    winners, left = sift(winners_of_run(asked.run, load_problem, asked.problems, asked.source), check_exportable)
    for winner, why in left:
        print(f"left out: {winner.problem.uid}: {why}", file=sys.stderr)
    open_ones = [w for w in in_turn(winners) if w.candidate.sha256 not in {r["candidate"] for r in rows}]
    if open_ones:
        with Executor(device, build_store()) as executor, log.open("a") as out:
            for number, winner in enumerate(open_ones, start=1):
                spent = [r["seconds"] for r in rows] or [60.0]
                if ends is not None and time.monotonic() + max(spent[-5:]) > ends:
                    print(f"out of time with {len(open_ones) - number + 1} to go; the same command goes on", file=sys.stderr)
                    break
                print(f"[{number}/{len(open_ones)}] {winner.problem.uid} {winner.candidate.builder}", file=sys.stderr, flush=True)
                rows.append(row(winner, asked.out / folder_name(winner.problem.uid), executor))
                out.write(json.dumps(rows[-1]) + "\n")
                out.flush()
    if rows:
        print("; ".join(f"{name} {value}" for name, value in rows[-1]["machine"].items() if value not in (None, "")))
        print()
    print(table(rows))
    if asked.transformer:
        print()
        transformer([asked.out / folder_name(r["problem"]) for r in rows if r["exported"] and r["form"] == "op"], device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
