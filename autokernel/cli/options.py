"""Options that several commands share, and the values they are turned into."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autokernel.errors import MissingOnMachine, UsageError

if TYPE_CHECKING:
    from autokernel.rules import Rules

Command = TypeVar("Command", bound=Callable[..., Any])

DEVICE = re.compile(r"cpu|cuda(:\d+)?")


def device_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """`cpu` or `cuda:N` of what was typed; `cuda` means `cuda:0`. Raises BadParameter."""
    if value is not None and not DEVICE.fullmatch(value):
        raise click.BadParameter(f"'{value}' is no device; pass cpu, cuda or cuda:N.", ctx, param)
    return "cuda:0" if value == "cuda" else value


def id_list(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Problem ids of `3` or `1-10,23`, ascending, each once. Raises BridgeError (exit 2) for text that names none."""
    from kernelbench_bridge import parse_ids

    return None if value is None else parse_ids(value)


def opponents(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """The opponents in `eager,compile`, in the order given, each once. Raises BadParameter."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    wrong = [name for name in names if name not in ("eager", "compile")]
    if wrong:
        raise click.BadParameter(f"'{wrong[0]}' is no opponent; pass eager, compile or eager,compile.", ctx, param)
    return names


def number_or_off(ctx: click.Context, param: click.Parameter, value: str) -> float | None:
    """The number, or None for `off` and 0, which switch a rule off. Raises BadParameter."""
    if value.lower() in ("off", "none"):
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"'{value}' is no number from 0 up; pass a number, or off.", ctx, param)
    return number or None


def device_option(command: Command) -> Command:
    """--device, None where the machine decides."""
    return click.option("--device", callback=device_name, metavar="cpu|cuda:N", help="[default: the first GPU, else cpu]")(command)


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


def all_rules_option(command: Command) -> Command:
    """--rules with KernelBench's own evaluator among them."""
    return click.option("--rules", type=click.Choice(["strict", "quick", "kernelbench"]), default="strict", show_default=True,
                        help="What a candidate must pass; kernelbench is KernelBench's evaluator, its times unverified.")(command)


def precision_option(command: Command) -> Command:
    """--precision: what weights and floating inputs are cast to."""
    return click.option("--precision", type=click.Choice(["fp32", "fp16", "bf16"]), default="fp32", show_default=True,
                        help="What weights and floating inputs are cast to.")(command)


def timing_option(command: Command) -> Command:
    """--timing: KernelBench's method of timing, "" where the device decides."""
    return click.option("--timing", "timing_method", default="", metavar="METHOD",
                        help="cuda_event, do_bench, do_bench_impl or host_time. [default: cuda_event, on the CPU host_time]")(command)


def kernelbench_options(command: Command) -> Command:
    """--precision, --timing, --correct-trials, --perf-trials, --times/--no-times: how KernelBench's evaluator is called."""
    command = click.option("--times/--no-times", "measure", default=True, help="Time candidates that are right. [default: times]")(command)
    command = click.option("--perf-trials", type=click.IntRange(min=1), default=100, show_default=True, help="Timed calls.")(command)
    command = click.option("--correct-trials", type=click.IntRange(min=0), default=5, show_default=True,
                           help="Inputs that outputs are compared on.")(command)
    return precision_option(timing_option(command))


def against_option(default: str) -> Callable[[Command], Command]:
    """--against: the opponents a candidate is timed against."""
    return click.option("--against", callback=opponents, default=default, show_default=True, metavar="NAMES",
                        help="Time against these: eager, compile or eager,compile.")


def backend_option(command: Command) -> Command:
    """--backend: which builder takes the candidate; `auto` lets its syntax tree decide."""
    return click.option("--backend", default="auto", show_default=True, metavar="auto|triton|cuda|cpp|python",
                        help="What kind of candidate; auto reads it off the syntax tree.")(command)


def resource_options(command: Command) -> Command:
    """--seed, --timeout, --memory-gb."""
    command = click.option("--memory-gb", type=click.FloatRange(min=0, min_open=True),
                           help="Judge as if the device had this much memory.")(command)
    command = click.option("--timeout", type=click.FloatRange(min=0, min_open=True),
                           metavar="SECONDS", help="Cut the candidate's deadlines (build, import, first call) to this.")(command)
    return click.option("--seed", type=click.IntRange(min=0), help="Makes drawn inputs repeatable; without it they are secret.")(command)


def require_packages(source: str) -> None:
    """MissingOnMachine where a candidate imports a package that is not installed here; imports whose failure it handles are its own."""
    from kernelbench_bridge import Problem, requirements

    found = requirements(Problem(0, 0, "candidate", source, "file"))
    lacking = [name for name in found if name != "native" and not name.startswith("model ")]
    if lacking:
        raise MissingOnMachine(f"the candidate imports {', '.join(lacking)}, missing here. Install it (pip install NAME), and try again.")


def chosen_backend(asked: str, source: str) -> str:
    """The builder for a candidate's text: `asked`, or what its syntax tree says. Raises UsageError for a name no builder has."""
    from autokernel import builders

    return builders.detect(source) if asked == "auto" else builders.get(asked).name


def with_timeout(rules: Rules, timeout_s: float | None) -> Rules:
    """The rules with every deadline of the candidate's cut to `timeout_s` seconds; their name then says so, as verdicts may differ."""
    if timeout_s is None:
        return rules
    old = rules.deadlines
    deadlines = replace(old, build_s=min(old.build_s, timeout_s), import_s=min(old.import_s, timeout_s),
                        first_call_s=min(old.first_call_s, timeout_s), later_call_floor_s=min(old.later_call_floor_s, timeout_s))
    return replace(rules, name=f"{rules.name}+timeout={timeout_s:g}s", deadlines=deadlines)


def build_store() -> Path:
    """The folder that keeps builds between commands: `store` in AUTOKERNEL_CACHE_DIR, else in the user's cache folder.

    Created where it is missing. Raises StorageError where that cannot be done.
    """
    from autokernel.durable import make_folder
    from autokernel.machine import cache_folder

    cache = cache_folder()
    make_folder(cache / "store")
    return cache / "store"


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
        raise MissingOnMachine(f"no GPU '{asked}' on this machine ({seen}). "
                               "Pass --device cpu, or check nvidia-smi and CUDA_VISIBLE_DEVICES.")
    return asked


def chosen_devices(asked: str | None) -> list[str]:
    """The devices to spread work over: `asked` alone, or every visible GPU, or the CPU."""
    from autokernel.doctor import visible_gpus

    return [asked] if asked else [f"cuda:{index}" for index in range(visible_gpus())] or ["cpu"]


def read_candidate(path: Path) -> str:
    """The text of a candidate file. Raises UsageError where it is no readable UTF-8 text file."""
    if path.is_dir():
        raise UsageError(f"'{path}' is a directory. Pass one Python file that defines class ModelNew.")
    if not path.exists():
        raise UsageError(f"there is no candidate file '{path}'. Check the path; pass one Python file that defines class ModelNew.")
    if not path.is_file():
        raise UsageError(f"'{path}' is not a regular file. Pass one Python file that defines class ModelNew.")
    from autokernel.untrusted_file import LARGEST_CANDIDATE_BYTES

    try:
        if path.stat().st_size > LARGEST_CANDIDATE_BYTES:
            raise UsageError(f"'{path}' is larger than {LARGEST_CANDIDATE_BYTES >> 20} MB. Pass one Python source file.")
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {error.strerror}. Check its permissions.") from error
    if b"\0" in raw:
        raise UsageError(f"'{path}' is a binary file, not Python text. Pass one Python file that defines class ModelNew.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"'{path}' is not UTF-8 text (byte {error.start}). Save it as UTF-8, or pass another file.") from error
