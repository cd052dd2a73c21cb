"""`autokernel publish`: upload an exported kernel."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from autokernel.cli.export import repo_id
from autokernel.cli.options import json_option


@click.command("publish")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--repo", callback=repo_id, required=True, metavar="ORG/NAME", help="The kernel repository; created where it is missing.")
@click.option("--version", type=click.IntRange(min=0), metavar="N", help="The branch vN.  [default: the exported version]")
@click.option("--private", is_flag=True, help="Create the repository private.")
@click.option("--dry-run", is_flag=True, help="Say what would be uploaded and removed; change nothing, and need no login.")
@json_option
def publish_kernel(folder: Path, repo: str, version: int | None, private: bool, dry_run: bool, as_json: bool) -> int:
    """Upload the kernel in FOLDER, which `autokernel export` wrote. The login is HF_TOKEN or the one stored by `hf auth login`.

    Builds go to the branch vN, the card to main. Run it again after an interruption: it completes what is missing.
    """
    from exporters.publish import publish

    done = publish(folder, repo, version=version, private=private, dry_run=dry_run, tell=lambda text: click.echo(text, err=True))
    if as_json:
        click.echo(json.dumps({**asdict(done), "url": done.url}, indent=2))
        return 0
    verb = "would upload" if dry_run else "uploaded"
    new = f" ({'new repository' if done.created else 'new branch'})" if done.created or done.new_branch else ""
    stale = f"; {len(done.deleted)} stale ones {'to remove' if dry_run else 'removed'}"
    click.echo(f"{verb} {len(done.uploaded)} files to {done.repo_id}, branch v{done.version}{new}{stale}")
    if dry_run:
        click.echo("\n".join([*(f"  + {name}" for name in done.uploaded), *(f"  - {name}" for name in done.deleted)]))
        return 0
    click.echo(done.url)
    click.echo(f'Use it: kernels.get_kernel("{done.repo_id}", version={done.version}, trust_remote_code=["{done.repo_id}"])')
    return 0
