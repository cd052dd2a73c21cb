"""A command group that imports a command's module when the command is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group whose members are named in `lazy` as `package.module:attribute` and imported on first use.

    What is never asked for is never imported: `autokernel --help` need not load the commands of `autokernel kb`.
    """

    def __init__(self, *arguments: Any, lazy: dict[str, str], **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, sorted, without importing any."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now if it has not been; None where the group has none."""
        if cmd_name in self.lazy and cmd_name not in self.commands:
            module, _, attribute = self.lazy[cmd_name].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            self.add_command(command, cmd_name)
        return super().get_command(ctx, cmd_name)
