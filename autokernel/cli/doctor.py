"""`autokernel doctor`."""

from __future__ import annotations

import json

import click

from autokernel.cli.options import chosen_device, device_option, json_option


@click.command()
@device_option
@json_option
def doctor(device: str | None, as_json: bool) -> int:
    """Say what works on this machine, and why not where it does not."""
    from autokernel.doctor import examine

    report = examine(chosen_device(device))
    if as_json:
        click.echo(json.dumps(report.to_json(), indent=2))
    else:
        click.echo("\n".join(report.lines()))
    return 0
