"""The command `autokernel`: parse, call one function, render.

A command's module is imported when the command is asked for, and imports click alone; what it calls is imported when it is
called. So `--help` answers at once and without torch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from autokernel import __version__
from autokernel.cli.failures import DEBUG_VARIABLE, NOBODY_READS, as_json, explain, nobody_reads
from autokernel.cli.lazy import LazyGroup

COMMANDS = {
    "doctor": "autokernel.cli.doctor:doctor",
    "export": "autokernel.cli.export:export_kernel",
    "kb": "autokernel.cli.kb:kb",
    "publish": "autokernel.cli.publish:publish_kernel",
    "report": "autokernel.cli.report:report_runs",
}


class ExitCodeGroup(LazyGroup):
    """A group whose commands return their exit code, and whose failures leave through one door.

    Where --json was asked for, a failure is one JSON object on stdout too: {"error": {"message", "hint", "exit_code"}}.
    """

    wants_json = False

    def main(self, args: Sequence[str] | None = None, *arguments: Any, **options: Any) -> Any:
        """As click's, having seen whether JSON is wanted: a command line that does not parse must be answered so too."""
        given = list(sys.argv[1:] if args is None else args)
        self.wants_json = "--json" in given
        return super().main(given, *arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and end with its exit code: 0 done or right, 1 refused, 2 usage, 3 missing here, 4 internal."""
        try:
            code = super().invoke(ctx)
        except click.ClickException as error:
            if self.wants_json:
                click.echo(as_json(error.format_message(), "", error.exit_code))
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt:
            click.echo("Interrupted. What was recorded is kept; the same command goes on from there.", err=True)
            code = 130
        except Exception as error:  # noqa: BLE001  (the one place that turns any failure into a message and an exit code)
            gone = isinstance(error, BrokenPipeError) and nobody_reads()
            code = NOBODY_READS if gone else explain(error, debug=bool(ctx.params.get("debug")), json=self.wants_json)
        ctx.exit(code if isinstance(code, int) else 0)


@click.group(cls=ExitCodeGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.option("--debug", is_flag=True, envvar=DEBUG_VARIABLE, help="Show the traceback of a failure.")
@click.version_option(__version__, prog_name="autokernel")
def cli(debug: bool) -> None:
    """Judge, search and score GPU kernels for KernelBench problems.

    Exit codes: 0 done, or the candidate is right; 1 refused; 2 wrong usage or unreadable input; 3 something is missing on
    this machine; 4 internal.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line (default: this process's own) and leave the process with its exit code."""
    sys.exit(cli.main(arguments, prog_name="autokernel"))
