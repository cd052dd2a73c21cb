"""Options that several commands share, and the values they are turned into."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from autokernel.errors import MissingOnMachine, UsageError

Command = TypeVar("Command", bound=Callable[..., Any])

DEVICE = re.compile(r"cpu|cuda(:\d+)?")
LARGEST_CANDIDATE_BYTES = 16 << 20  # a source file of a person or a model is far below; a data file passed by mistake is not


class DeviceName(click.ParamType):
    """`cpu`, `cuda` or `cuda:N`; `cuda` means `cuda:0`."""

    name = "device"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The device in full, or a usage error."""
        text = str(value)
        if not DEVICE.fullmatch(text):
            self.fail(f"'{text}' is no device; pass cpu, cuda or cuda:N.", param, ctx)
        return "cuda:0" if text == "cuda" else text


class IdList(click.ParamType):
    """Problem ids as people write them: `3`, `1-10,23`."""

    name = "ids"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The ids in ascending order, each once. Raises BridgeError (exit 2) for text that names none."""
        from kernelbench_bridge import parse_ids

        return value if isinstance(value, tuple) else parse_ids(str(value))


class Opponents(click.ParamType):
    """Who a candidate is timed against: `eager`, `compile` or both, comma-separated."""

    name = "opponents"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The opponents in the order given, each once, or a usage error."""
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        wrong = [name for name in names if name not in ("eager", "compile")]
        if wrong:
            self.fail(f"'{wrong[0]}' is no opponent; pass eager, compile or eager,compile.", param, ctx)
        return names


class OffOr(click.ParamType):
    """A number, or `off` (also 0) where the rule is not to apply; gives a float or None."""

    name = "number|off"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:
        """The number, None for `off` and 0, or a usage error."""
        if str(value).lower() in ("off", "none"):
            return None
        try:
            number = float(value)
        except ValueError:
            self.fail(f"'{value}' is no number; pass a number, or off.", param, ctx)
        if not 0 <= number < float("inf"):
            self.fail(f"'{value}' must be 0 or more; pass a number, or off.", param, ctx)
        return number or None


def device_option(command: Command) -> Command:
    """--device, None where the machine decides."""
    return click.option("--device", type=DeviceName(), help="cpu, cuda or cuda:N.  [default: the first GPU, else cpu]")(command)


def source_option(command: Command) -> Command:
    """--source: where problems come from."""
    return click.option("--source", default="auto", show_default=True, metavar="auto|hub|embedded|PATH",
                        help="Where problems come from; PATH is a KernelBench checkout or a folder of its parquet files.")(command)


def json_option(command: Command) -> Command:
    """--json: one JSON value on stdout instead of text."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")(command)


def rules_option(command: Command) -> Command:
    """--rules: the preset that decides."""
    return click.option("--rules", type=click.Choice(["strict", "quick"]), default="strict", show_default=True,
                        help="What a candidate must pass.")(command)


def against_option(default: str) -> Callable[[Command], Command]:
    """--against: the opponents a candidate is timed against."""
    return click.option("--against", type=Opponents(), default=default, show_default=True, help="Time against these: eager, compile.")


def backend_option(command: Command) -> Command:
    """--backend: which builder takes the candidate; `auto` lets its syntax tree decide."""
    return click.option("--backend", default="auto", show_default=True, metavar="auto|triton|cuda|cpp|python",
                        help="What kind of candidate; auto reads it off the syntax tree.")(command)


def resource_options(command: Command) -> Command:
    """--seed, --timeout, --memory-gb."""
    command = click.option("--memory-gb", type=click.FloatRange(min=0, min_open=True), help="Memory the problems may take.")(command)
    command = click.option("--timeout", type=click.FloatRange(min=0, min_open=True),
                           metavar="SECONDS", help="Cut the candidate's deadlines (build, import, first call) to this.")(command)
    return click.option("--seed", type=click.IntRange(min=0), help="Makes drawn inputs repeatable; without it they are secret.")(command)


def chosen_backend(asked: str, source: str) -> str:
    """The builder for a candidate's text: `asked`, or what its syntax tree says. Raises UsageError for a name no builder has."""
    from autokernel import builders

    return builders.detect(source) if asked == "auto" else builders.get(asked).name


def cache_folder() -> Path:
    """Where builds are kept between commands: AUTOKERNEL_CACHE_DIR, else `autokernel` under XDG_CACHE_HOME or ~/.cache."""
    named = os.environ.get("AUTOKERNEL_CACHE_DIR")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autokernel"


def chosen_device(asked: str | None) -> str:
    """The device to work on: `asked`, or the first GPU, or the CPU.

    Decided by the driver's device files, without torch. Raises MissingOnMachine where a GPU is asked for that is not visible.
    """
    from autokernel.doctor import visible_gpus

    gpus = visible_gpus()
    if asked is None:
        return "cuda:0" if gpus else "cpu"
    if asked.startswith("cuda") and int(asked.partition(":")[2]) >= gpus:
        seen = f"{gpus} visible" if gpus else "none visible"
        raise MissingOnMachine(f"no GPU '{asked}' on this machine ({seen}).",
                               hint="Pass --device cpu, or check nvidia-smi and CUDA_VISIBLE_DEVICES.")
    return asked


def read_candidate(path: Path) -> str:
    """The text of a candidate file. Raises UsageError where it is no readable UTF-8 text file."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a directory.", hint="Pass one Python file that defines class ModelNew.")
    if not path.exists():
        raise UsageError(f"there is no candidate file '{path}'.", hint="Check the path; pass one Python file that defines class ModelNew.")
    if not path.is_file():
        raise UsageError(f"'{path}' is not a regular file.", hint="Pass one Python file that defines class ModelNew.")
    try:
        if path.stat().st_size > LARGEST_CANDIDATE_BYTES:
            raise UsageError(f"'{path}' is larger than {LARGEST_CANDIDATE_BYTES >> 20} MB.", hint="Pass one Python source file.")
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}.", hint="Check its permissions.") from error
    if b"\0" in raw:
        raise UsageError(f"'{path}' is a binary file, not Python text.", hint="Pass one Python file that defines class ModelNew.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"'{path}' is not UTF-8 text (byte {error.start}).", hint="Save it as UTF-8, or pass another file.") from error
