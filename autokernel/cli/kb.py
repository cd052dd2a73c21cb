"""The group `autokernel kb`: everything done with KernelBench problems."""

from __future__ import annotations

import click

from autokernel.cli.lazy import LazyGroup

COMMANDS = {
    "audit": "autokernel.cli.kb_audit:audit_level",
    "baseline": "autokernel.cli.kb_baseline:measure_baseline",
    "eval": "autokernel.cli.kb_eval:evaluate_one",
    "eval-run": "autokernel.cli.kb_eval_run:evaluate_run",
    "list": "autokernel.cli.kb_list:list_problems",
    "prompt": "autokernel.cli.kb_prompt:write_prompt",
    "run": "autokernel.cli.kb_run:run_level",
    "score": "autokernel.cli.kb_score:score_runs",
    "show": "autokernel.cli.kb_show:show_problem",
}


@click.group(cls=LazyGroup, lazy=COMMANDS)
def kb() -> None:
    """KernelBench problems: list, show, audit, prompt, run, eval, eval-run, baseline, score."""
