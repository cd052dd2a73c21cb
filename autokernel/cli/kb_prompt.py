"""`autokernel kb prompt`: what to tell a model that is to write a kernel for a problem."""

from __future__ import annotations

import json

import click

from autokernel.cli.options import chosen_device, device_option, json_option, precision_option, source_option


@click.command("prompt")
@click.argument("problem")
@source_option
@device_option
@precision_option
@click.option("--backend", default="triton", show_default=True, metavar="NAME",
              help="What the kernel is to be written in: triton, cuda, cpp, inline, tilelang, cute, thunderkittens or hip.")
@click.option("--hardware/--no-hardware", default=True, show_default=True, help="Say what this machine's device is.")
@json_option
def write_prompt(problem: str, source: str, device: str | None, precision: str, backend: str, hardware: bool, as_json: bool) -> int:
    """Print a prompt for PROBLEM (L1/19 or a file): task, rules, form of the answer, and facts read from the present device."""
    from autokernel.compat.hardware import hardware_facts
    from kernelbench_bridge import load_problem
    from kernelbench_bridge.prompt import prompt

    task = load_problem(problem, source)
    facts = hardware_facts(chosen_device(device)) if hardware else {}
    text = prompt(task.source, backend=backend, precision=precision, hardware=facts)
    if as_json:
        whole = {"problem": task.uid, "backend": backend, "precision": precision, "hardware": facts, "prompt": text}
        click.echo(json.dumps(whole, indent=2))
    else:
        click.echo(text, nl=not text.endswith("\n"))
    return 0
