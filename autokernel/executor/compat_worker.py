"""KernelBench's evaluator, inside the untrusted worker: reference and candidate in one namespace, compared and timed there.

The order of seeds, casts, calls and ways out is KernelBench's, faults included; it is the point of this file. Whatever it reports is
the candidate's process speaking. Draws of inputs may come from a cache: drawing them is most of an evaluation's time.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from autokernel.executor import compat_clock, compat_wire
from autokernel.executor.compat_wire import Report

FROM_A_FILE = ("triton", "tilelang", "cute")  # their decorators read the source back from a file
REASONS_TO_RETRY = ("lock", "No such file or directory")
TEXT_LIMIT = 200  # characters of a candidate's error that KernelBench keeps
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def set_seed(seed: int) -> None:
    """torch's CPU generator and the current CUDA device's; nothing else, as KernelBench has it."""
    torch.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(seed)


def trial_seeds(seed: int, trials: int) -> list[int]:
    """The seeds of the correctness trials."""
    torch.manual_seed(seed)
    return [int(torch.randint(0, 2**32 - 1, (1,)).item()) for _ in range(trials)]


def cast(value: Any, dtype: torch.dtype, device: torch.device) -> Any:
    """A tensor in the run's precision, integers and bools too, on the device; anything else, nested tensors included, untouched."""
    return value.to(dtype=dtype).to(device=device) if isinstance(value, torch.Tensor) else value


def error_name(error: BaseException) -> str:
    """`module.Class`."""
    return f"{type(error).__module__}.{type(error).__name__}"


def shortened(error: BaseException) -> str:
    """An error's text in at most 200 characters, the last three dots where it is cut."""
    text = str(error)
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT - 3] + "..."


_HELD = ("Model", "get_inputs", "get_init_inputs", "__builtins__")  # taken before the candidate is loaded; it cannot change them by name


class Done(Exception):
    """Ends the evaluation with the report as it stands."""


class Evaluator:
    """One evaluation. `orders` are the broker's: reference, candidate, backend, precision, seed, trials, tolerance and so on."""

    def __init__(self, orders: Mapping[str, Any], device: torch.device) -> None:
        self.orders, self.device = orders, device
        self.dtype = DTYPES[orders["precision"]]
        self.report = Report(trials=orders["trials"])
        self.namespace: dict[str, Any] = {}
        self.before: dict[str, Any] = {}
        self.file: Path | None = None

    def run(self) -> Report:
        """Everything, in KernelBench's order."""
        torch.set_printoptions(precision=4, threshold=10, edgeitems=3, linewidth=80)
        marks = [time.perf_counter()]
        try:
            self._load_reference()
            if self.orders["what"] == "baseline":
                return self._baseline()
            candidate = self._load_candidate()
            marks.append(time.perf_counter())
            if self.orders["what"] == "load":
                return self._end(compat_wire.LOADED)
            self._construct(candidate)
            marks.append(time.perf_counter())
            self._check()
            marks.append(time.perf_counter())
            self._time()
        except Done:
            pass
        finally:
            marks.append(time.perf_counter())
            spent = [after - before for before, after in itertools.pairwise(marks)] + [0.0] * 4
            self.report.seconds = (spent[0], spent[1], spent[2], spent[3])
            if self.file is not None:
                self.file.unlink(missing_ok=True)
        return self.report

    def _end(self, outcome: int, error: BaseException | None = None, *, text: str | None = None, trace: bool = False) -> Report:
        self.report.outcome = outcome
        if error is not None:
            self.report.error_name, self.report.error = error_name(error), str(error) if text is None else text
            if isinstance(error, ModuleNotFoundError):
                self.report.flags |= compat_wire.MISSING_PACKAGE
        elif text is not None:
            self.report.error = text
        if trace:
            self.report.trace = traceback.format_exc()
        return self.report

    def _load_reference(self) -> None:
        try:
            exec(compile(self.orders["reference"], "<string>", "exec"), self.namespace)
            self.model_class, self.get_inputs = self.namespace["Model"], self.namespace["get_inputs"]
            self.get_init_inputs = self.namespace["get_init_inputs"]
        except BaseException as error:
            self._end(compat_wire.REFERENCE_DOES_NOT_LOAD, error, trace=True)
            raise Done from error
        self.before = dict(self.namespace)
        if self.orders["what"] != "eval":
            return
        try:
            set_seed(self.orders["seed"])
            self.arguments = [cast(value, self.dtype, self.device) for value in self.get_init_inputs()]
            with torch.no_grad():
                set_seed(self.orders["seed"])
                self.model = self.model_class(*self.arguments)
        except BaseException as error:
            self._end(compat_wire.REFERENCE_NOT_BUILT, error, trace=True)
            raise Done from error

    def _load_candidate(self) -> Any:
        os.environ["TORCH_USE_CUDA_DSA"] = "1"
        try:
            found = self._from_file() if self.orders["backend"].lower() in FROM_A_FILE else self._from_text()
            compat_clock.synchronize(self.device)
        except Exception as error:
            retry = any(reason in str(error) for reason in REASONS_TO_RETRY)
            self._end(compat_wire.RETRY if retry else compat_wire.NOT_COMPILED, error)
            raise Done from error
        except BaseException as error:  # SystemExit and its kind leave KernelBench; here they are the candidate's failure
            self._end(compat_wire.NOT_COMPILED, error)
            raise Done from error
        if found is None:
            self._end(compat_wire.NO_MODEL_NEW)
            raise Done
        changed = [name for name, value in self.before.items() if name not in _HELD and not _same(self.namespace.get(name), value)]
        if changed:  # the problem's functions read them at each call, so that inputs drawn without this candidate are not its own
            self.report.flags |= compat_wire.REBOUND
        return found

    def _from_text(self) -> Any:
        source, folder = self.orders["candidate"], self.orders["build_dir"]
        if folder:
            self.namespace["BUILD_DIRECTORY"] = folder
            source = f"import os\nos.environ['TORCH_EXTENSIONS_DIR'] = {folder!r}\n{source}"
        try:
            exec(compile(source, "<string>", "exec"), self.namespace)
        except SyntaxError:
            return None
        return self.namespace.get("ModelNew")

    def _from_file(self) -> Any:
        descriptor, name = tempfile.mkstemp(suffix=".py")
        self.file = Path(name)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(self.orders["candidate"])
        spec = importlib.util.spec_from_file_location("temp_module", name)
        if spec is None or spec.loader is None:
            raise ImportError("a file that ends in .py must be importable, and this one is not.")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.ModelNew

    def _construct(self, candidate: Any) -> None:
        try:
            with torch.no_grad():
                set_seed(self.orders["seed"])
                self.candidate = candidate(*self.arguments)
                if not hasattr(self.candidate, "forward"):
                    raise AssertionError("ModelNew has no forward; define one.")
                self.model = self.model.to(device=self.device, dtype=self.dtype)
                self.candidate = self.candidate.to(device=self.device, dtype=self.dtype)
                compat_clock.synchronize(self.device)
        except RuntimeError as error:
            self._end(compat_wire.CONSTRUCTOR_FAILED, error)
            raise Done from error
        except BaseException as error:
            self._end(compat_wire.CONSTRUCTOR_ESCAPED, error)
            raise Done from error

    def _check(self) -> None:
        try:
            seeds = trial_seeds(self.orders["seed"], self.orders["trials"])
            with torch.no_grad():
                for seed in seeds:
                    inputs = self._inputs(seed)
                    set_seed(seed)
                    expected = self.model(*inputs)
                    compat_clock.synchronize(self.device)
                    self._trial(inputs, expected)
        except Done:
            raise
        except BaseException as error:  # the reference's own failure, filed as the candidate's
            self._end(compat_wire.CHECK_RAISED, error)

    def _trial(self, inputs: list[Any], expected: Any) -> None:
        try:
            answer = self.candidate(*inputs)
            compat_clock.synchronize(self.device)
            if expected.shape != answer.shape:
                self._end(compat_wire.SHAPE_DIFFERS, text=f"Output shape mismatch: Expected {expected.shape}, got {answer.shape}")
                raise Done
            if torch.allclose(expected, answer, atol=self.orders["tolerance"], rtol=self.orders["tolerance"]):
                self.report.passed += 1
                return
            difference = torch.abs(expected - answer)
            largest, average = float(torch.max(difference).item()), float(torch.mean(difference).item())
            self.report.max_differences.append(largest)
            self.report.average_differences.append(average)
        except Done:
            raise
        except BaseException as error:
            self._end(compat_wire.CANDIDATE_RAISED, error, text=shortened(error), trace=True)
            raise Done from error

    def _inputs(self, seed: int) -> list[Any]:
        """The inputs of a seed, cast and moved: from the cache if they are there and the candidate changed nothing they depend on."""
        set_seed(seed)
        return [cast(value, self.dtype, self.device) for value in self._drawn(seed)]

    def _drawn(self, seed: int) -> list[Any]:
        kept_as = self.orders["draws"].get(seed)
        if kept_as is not None and not self.report.flags & compat_wire.REBOUND:
            kept = torch.load(f"/proc/self/fd/{kept_as}", mmap=True, weights_only=True)  # mapped privately: writes stay in here
            torch.set_rng_state(kept["state"])
            return list(kept["inputs"])
        self.report.flags |= compat_wire.DREW
        return list(self.get_inputs())

    def _time(self) -> None:
        """Time the candidate if it is right, then the reference whatever it is, each on one set of inputs."""
        if not self.orders["measure"]:
            return
        clock, trials = compat_clock.CLOCKS[self.orders["timing_method"]], self.orders["perf_trials"]
        right = self.report.outcome == compat_wire.FINISHED and self.report.passed == self.report.trials
        if right:
            try:
                self.report.times_ms = self._timed(self.candidate, clock, trials)
                self.report.flags |= compat_wire.TIMED
            except BaseException as error:
                self.report.flags |= compat_wire.TIMING_FAILED
                self.report.second = f"{error_name(error)}: {error}"
        if not self.orders["check_speedup"]:
            return
        try:
            self.report.reference_ms = self._timed(self.model, clock, trials)
            self.report.flags |= compat_wire.REFERENCE_TIMED
        except BaseException as error:
            self.report.flags |= compat_wire.REFERENCE_TIMING_FAILED
            self.report.second = self.report.second or f"{error_name(error)}: {error}"

    def _baseline(self) -> Report:
        """Time the reference alone, eager or compiled, as KernelBench times its baselines: without gradients, warmed five times."""
        try:
            clock = compat_clock.CLOCKS[self.orders["timing_method"]]
            with torch.no_grad():
                inputs = self._inputs(self.orders["seed"])
                set_seed(self.orders["seed"])
                arguments = [cast(value, self.dtype, self.device) for value in self.get_init_inputs()]
                model = self.model_class(*arguments)
                if self.orders["compile"]:
                    model = torch.compile(model, **self.orders["compile"])
                model = model.to(device=self.device, dtype=self.dtype)
                compat_clock.synchronize(self.device)
                self.report.reference_ms = clock(model, inputs, self.orders["perf_trials"], self.device, compat_clock.BASELINE_WARMUPS)
            self.report.flags |= compat_wire.REFERENCE_TIMED
        except BaseException as error:
            self._end(compat_wire.REFERENCE_NOT_BUILT, error, trace=True)
        return self.report

    def _timed(self, model: Callable[..., Any], clock: compat_clock.Clock, trials: int) -> list[float]:
        compat_clock.synchronize(self.device)
        inputs = self._inputs(self.orders["seed"])
        compat_clock.synchronize(self.device)
        return clock(model, inputs, trials, self.device)


def _same(now: Any, before: Any) -> bool:
    """Whether a name still stands for what it stood for: the same object, or an equal plain value."""
    if now is before:
        return True
    plain = (bool, int, float, str, tuple, type(None))
    return isinstance(now, plain) and type(now) is type(before) and bool(now == before)


def answer(sock: socket.socket, orders: Mapping[str, Any], device: torch.device) -> Report:
    """The worker's answer to one order: an evaluation, or what the device and the software are. Kept draws follow as descriptors."""
    os.environ.update(orders["env"])
    seeds = orders["draws"]
    descriptors = socket.recv_fds(sock, 1, len(seeds))[1] if seeds else []
    if orders["what"] != "facts":
        return Evaluator({**orders, "draws": dict(zip(seeds, descriptors, strict=True))}, device).run()
    name, capability = "", ""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        capability = "{}.{}".format(*torch.cuda.get_device_capability(device))
    return Report(compat_wire.LOADED, error_name=torch.__version__, error=name, trace=torch.version.cuda or "", second=capability)
