"""Run the first and last programs of every launch at the problems' own sizes, without a GPU and without the tensors' memory.

    python benchmarks/corners.py --level 2 [--problems 50,54-60] [--source PATH] [--seconds 30] [--json corners.json]

Each candidate's forward runs on tensors that have shapes and no memory ("meta"), and Triton's interpreter runs the corners of each grid.
What is looked at is where they read and write: an int32 that overflows, an address outside its tensor that no mask covers, a grid that no
GPU launches. Every load gives ones, so what is computed means nothing. Such a candidate is a defect: the script ends with 1. An
overflow in lanes that a mask covers is printed too, and is harmless where no address is.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"
import numpy as np
import torch
import triton.language as tl
import triton.runtime.interpreter as interpreter
from aot_check import MOST_PROGRAMS

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
SPAN = 1 << 44  # bytes of addresses that each storage is given, itself from the middle on
TYPES = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16, torch.bool: tl.int1, torch.int64: tl.int64,
         torch.int32: tl.int32}


@dataclass
class Launch:
    """The launch that is being run, and what was wrong so far."""

    kernel: str = ""
    grid: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    storages: list[int] = field(default_factory=list)  # bytes of each
    said: dict[str, None] = field(default_factory=dict)

    def note(self, what: str) -> None:
        """Keep one finding with the candidate's line that it was met at."""
        frames = [f for f in traceback.extract_stack() if Path(f.filename).name.startswith("candidate")]
        line = f", line {frames[-1].lineno}: {frames[-1].line}" if frames else ""
        self.said.setdefault(f"{self.kernel}{self.index} of {self.grid}: {what}{line}"[:300])


NOW = Launch()


def checked(old: Callable[..., Any], wide: Callable[..., Any]) -> Callable[..., Any]:
    """An operation of the interpreter's on integers that is done again in 64 bits."""
    def new(self: Any, left: Any, right: Any) -> Any:
        made = old(self, left, right)
        if made.data.dtype == np.int32:
            whole = wide(left.data.astype(np.int64), right.data.astype(np.int64))
            if whole.size and (whole.max() >= 2**31 or whole.min() < -(2**31)):
                NOW.note(f"an int32 would be {whole.max()}")
        return made
    return new


def inside(pointers: Any, mask: Any, what: str) -> Any:
    """Look at the addresses that the mask lets through; the element's numpy type."""
    kind = interpreter._get_np_dtype(pointers.get_element_ty())
    places = pointers.data.astype(np.int64)
    places = places[np.broadcast_to(mask.data.astype(bool), places.shape)]
    if places.size:
        low, high = int(places.min()), int(places.max()) + np.dtype(kind).itemsize
        number = low // SPAN
        begin = number * SPAN + SPAN // 2
        size = NOW.storages[number - 1] if 1 <= number <= len(NOW.storages) else -1
        if low < begin or high > begin + size:
            NOW.note(f"a {what} of bytes {low - begin} to {high - begin} of {size}")
    return kind


def load(self: Any, pointers: Any, mask: Any, *rest: Any) -> Any:
    """Ones."""
    kind = inside(pointers, mask, "load")
    return interpreter.TensorHandle(np.ones(pointers.data.shape, dtype=kind), pointers.get_element_ty())


def store(self: Any, pointers: Any, value: Any, mask: Any, *rest: Any) -> None:
    """Nothing is kept."""
    inside(pointers, mask, "store")


def run(self: Any, *args: Any, grid: Any, warmup: bool = False, **options: Any) -> None:
    """A launch: its corners, on addresses that are nobody's."""
    function = self.rewrite()
    executor = interpreter.GridExecutor(function, self.arg_names, grid, [])
    options = {k: v for k, v in options.items() if k in inspect.getfullargspec(function).args}
    NOW.kernel, NOW.index, NOW.storages = self.__name__, (), []
    numbers: dict[int, int] = {}

    def lent(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return interpreter._implicit_cvt(value)
        storage = value.untyped_storage()
        if storage._cdata not in numbers:
            NOW.storages.append(storage.nbytes())
            numbers[storage._cdata] = len(NOW.storages)
        kind = tl.core.pointer_type(TYPES[value.dtype])
        at = numbers[storage._cdata] * SPAN + SPAN // 2 + value.storage_offset() * value.element_size()
        return tl.tensor(interpreter.TensorHandle(np.array([at], dtype=np.uint64), kind), kind)

    scope = interpreter._patch_lang(executor.fn)
    try:
        named = inspect.getcallargs(executor.fn, *args, **options)
        named = {n: a if n in executor.constexprs else lent(a) for n, a in named.items()}
        NOW.grid = (*(grid(named) if callable(grid) else grid), 1, 1)[:3]
        if any(a > b for a, b in zip(NOW.grid, MOST_PROGRAMS, strict=True)):
            NOW.note("a grid that no GPU launches")
        last = tuple(size - 1 for size in NOW.grid)
        interpreter.interpreter_builder.set_grid_dim(*NOW.grid)
        for NOW.index in dict.fromkeys([(0, 0, 0), (last[0], 0, 0), last]):
            interpreter.interpreter_builder.set_grid_idx(*NOW.index)
            executor.fn(**named)
    finally:
        scope.restore()


def pretend_to_have_the_memory() -> None:
    """From here on a launch is `run`."""
    builder = interpreter.InterpreterBuilder
    for name, wide in (("create_add", np.add), ("create_sub", np.subtract), ("create_mul", np.multiply)):
        setattr(builder, name, checked(getattr(builder, name), wide))
    builder.create_masked_load, builder.create_masked_store = load, store
    builder.create_dot = lambda self, a, b, d, *rest: interpreter.TensorHandle(d.data, d.dtype.scalar)
    precisions = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
    options = interpreter.interpreter_builder.options
    interpreter.interpreter_builder.options = replace(options, sanitize_overflow=False, allowed_dot_input_precisions=precisions)
    interpreter.InterpretedFunction.run = run


def check(problem: Any, seconds: int, scratch: Path) -> list[dict[str, Any]]:
    """One row for each template of a problem, as it is tried first."""
    from aot_check import on_meta

    from autokernel.proposers.graph import Unmatchable
    from autokernel.proposers.templates import templates

    def late(*_: Any) -> None:
        raise TimeoutError

    try:
        found = templates(problem.source, "triton", "cuda:0", False)
    except Unmatchable as met:
        return [{"uid": problem.uid, "template": "none", "reason": str(met)}]
    rows = []
    signal.signal(signal.SIGALRM, late)
    for template in found:
        row: dict[str, Any] = {"uid": problem.uid, "template": template.name}
        NOW.said, start = {}, time.monotonic()
        signal.alarm(seconds)
        try:
            on_meta(problem.source, template.render(template.params), scratch, [])
        except Exception as error:  # noqa: BLE001 (whatever one candidate raises is its row, and counted)
            late_one = "TimeoutError" in repr(error)
            row |= {"reason": f"over {seconds} s"} if late_one else {"defects": [f"{type(error).__name__}: {str(error)[-300:]}"]}
        finally:
            signal.alarm(0)
        row["defects"] = [*row.get("defects", []), *NOW.said]
        rows.append({**row, "seconds": round(time.monotonic() - start, 1)})
    return rows


def main() -> int:
    """Check a level; 1 if some candidate is defective."""
    from kernelbench_bridge import load_level

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, required=True)
    parser.add_argument("--problems", default="")
    parser.add_argument("--source", default="auto")
    parser.add_argument("--seconds", type=int, default=30, help="for one candidate")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    wanted = tuple(n for part in options.problems.split(",") if part
                   for n in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)) or None
    pretend_to_have_the_memory()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for problem in load_level(options.level, options.source, wanted).problems:
            for row in check(problem, options.seconds, Path(folder)):
                rows.append(row)
                print(f"{row['uid']:7} {row['template'][:60]:60} {row.get('reason') or len(row['defects']) or 'right'}", flush=True)
                for defect in row.get("defects", [])[:5]:
                    print(f"        {defect}")
    defective = sum(bool(row.get("defects")) for row in rows)
    print(f"level {options.level}: {len(rows)} candidates, {defective} defective")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if defective else 0


if __name__ == "__main__":
    sys.exit(main())
