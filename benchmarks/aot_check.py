"""Compile the search's first candidates for sm_90 without a GPU, at the problems' own sizes: what they need of a multiprocessor.

    python benchmarks/aot_check.py --level 1 [--problems 50,54-60] [--source PATH] [--firsts] [--seeds] [--json aot.json] [--minutes 30]

Each candidate's forward runs on tensors that have shapes and no memory ("meta"); every kernel that it launches is compiled by Triton and
its PTX assembled by Triton's own ptxas, which says registers and spills. A candidate that does not compile, needs more shared memory
than a block may have, or more programs than a grid may have, is a defect: the script ends with 1. Spills are printed and are not one.
`--firsts` compiles every choice that a template is tried with first, not only the very first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
MOST_SHARED_BYTES = 232448  # of one block on sm_90
MOST_PROGRAMS = (2**31 - 1, 65535, 65535)  # of a grid along x, y and z
ARCHITECTURE = 90
PROCESSORS, REGISTERS, WARPS = 132, 65536, 64  # of an H200, and of each processor


def pretend_to_have_an_h200(launches: list[Any]) -> None:
    """From here on a launch compiles for sm_90 and is noted in `launches` with its grid, and nothing runs."""
    import torch
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.runtime.jit import JITFunction

    class Driver:
        get_current_target = staticmethod(lambda: GPUTarget("cuda", ARCHITECTURE, 32))
        get_current_device = staticmethod(lambda: 0)
        get_current_stream = staticmethod(lambda device=None: 0)
        get_active_torch_device = staticmethod(lambda: torch.device("meta"))

    compiled = JITFunction.run

    def launch(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        made = compiled(self, *args, grid=grid, warmup=True, **options)
        launches.append((made, grid))
        return Again(made, launches)

    triton.runtime.driver.set_active(Driver())
    shown = SimpleNamespace(multi_processor_count=PROCESSORS, max_threads_per_multi_processor=32 * WARPS)
    torch.cuda.get_device_properties = lambda device=None: shown  # type: ignore
    torch.cuda.current_device = lambda: 0
    JITFunction.run = launch


class Again:
    """A compiled kernel for a starter that keeps it and launches it again by itself."""

    def __init__(self, made: Any, launches: list[Any]) -> None:
        self.made, self.launches = made, launches

    def __getitem__(self, grid: Any) -> Any:
        return lambda *arguments: self.launches.append((self.made, grid))


def resources(made: Any, scratch: Path) -> dict[str, Any]:
    """Registers a thread, spilled bytes, shared bytes, and the matrix instructions, of one compiled kernel."""
    import triton

    ptx = scratch / "kernel.ptx"
    ptx.write_text(made.asm["ptx"])
    ptxas = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    most = getattr(made.metadata, "maxnreg", None)
    limit = [f"--maxrregcount={most}"] if most else []
    done = subprocess.run([str(ptxas), "-v", f"--gpu-name=sm_{ARCHITECTURE}a", *limit, str(ptx), "-o", os.devnull], capture_output=True,
                          text=True, check=False)
    said = done.stdout + done.stderr
    registers, stores = re.search(r"Used (\d+) registers", said), re.search(r"(\d+) bytes spill stores", said)
    kind = "wgmma" if "wgmma.mma_async" in made.asm["ptx"] else "mma" if "mma.sync" in made.asm["ptx"] else ""
    return {"kernel": made.metadata.name, "warps": made.metadata.num_warps, "shared": made.metadata.shared, "tensor_cores": kind,
            "registers": int(registers[1]) if registers else None, "spilled": int(stores[1]) if stores else None}


def on_meta(source: str, text: str, scratch: Path, launches: list[Any]) -> list[Any]:
    """What a candidate launches for the problem's inputs."""
    import torch

    modules = []
    for name, content in (("reference", source), ("candidate", text)):
        path = scratch / f"{name}_{abs(hash(content))}.py"
        path.write_text(content, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        modules.append(importlib.util.module_from_spec(spec))
        sys.modules[path.stem] = modules[-1]
    launches.clear()
    with torch.no_grad(), torch.device("meta"):
        for module in modules:
            module.__spec__.loader.exec_module(module)
        problem, candidate = modules
        model = candidate.ModelNew(*(problem.get_init_inputs() if hasattr(problem, "get_init_inputs") else []))
        inputs = [x.to("meta") if isinstance(x, torch.Tensor) else x for x in problem.get_inputs()]
        model(*inputs)
    return list(launches)


def fits_at_once(made: Any, needs: dict[str, Any], grid: Any) -> bool:
    """Whether a kernel whose programs wait for each other can have them all at once; true of every other kernel."""
    if not getattr(made.metadata, "launch_cooperative_grid", False):
        return True
    registers = -(-(needs["registers"] or 255) // 8) * 8 * 32 * needs["warps"]
    held = min(REGISTERS // registers, WARPS // needs["warps"], MOST_SHARED_BYTES // max(needs["shared"], 1))
    return bool(math.prod(grid) <= held * PROCESSORS)


def check(problem: Any, firsts: bool, seeds: bool, scratch: Path, launches: list[Any]) -> list[dict[str, Any]]:
    """One row for each template (or each of its first choices) of a problem."""
    from autokernel.proposers.graph import Unmatchable
    from autokernel.proposers.templates import templates

    try:
        found = templates(problem.source, "triton", "cuda:0", seeds)
    except Unmatchable as met:
        return [{"uid": problem.uid, "template": "none", "reason": str(met)}]
    rows = []
    for template in found:
        for place, params in enumerate(template.firsts if firsts else template.firsts[:1]):
            row: dict[str, Any] = {"uid": problem.uid, "template": template.name, "choice": place, "params": dict(params)}
            start = time.monotonic()
            try:
                made = on_meta(problem.source, template.render(params), scratch, launches)
                unique = {id(kernel): kernel for kernel, _ in made}
                row["kernels"] = [resources(kernel, scratch) for kernel in unique.values()]
                row["launches"] = len(made)
                over = [k for k in row["kernels"] if k["shared"] > MOST_SHARED_BYTES]
                large = [(k, grid) for k, grid in made if any(a > b for a, b in zip(grid, MOST_PROGRAMS, strict=False))]
                if over:
                    row["defect"] = f"{over[0]['kernel']} needs {over[0]['shared']} bytes of shared memory"
                elif large:
                    row["defect"] = f"{large[0][0].metadata.name} needs a grid of {large[0][1]} programs"
                elif crowded := [k for k, grid in made if not fits_at_once(k, resources(k, scratch), grid)]:
                    row["defect"] = f"the programs of {crowded[0].metadata.name} wait for each other and do not all find room at once"
            except Exception as error:  # noqa: BLE001 (whatever one candidate raises is its row, and counted)
                row["defect"] = f"{type(error).__name__}: {str(error)[-300:]}"
            row["seconds"] = round(time.monotonic() - start, 1)
            rows.append(row)
    return rows


def line(row: dict[str, Any]) -> str:
    """A row as text: the kernel that needs most stands for all."""
    head = f"{row['uid']:7} {row['template'][:46]:46}"
    if "reason" in row:
        return f"{head} no plan: {row['reason'][:90]}"
    if "defect" in row:
        return f"{head} DEFECT {row['defect'][:160]}".replace("\n", " ")
    kernels = row["kernels"]
    shared, registers = max((k["shared"] for k in kernels), default=0), max((k["registers"] or 0 for k in kernels), default=0)
    spilled = sum(k["spilled"] or 0 for k in kernels)
    cores = "/".join(sorted({k["tensor_cores"] for k in kernels} - {""}))
    return f"{head} {len(kernels):3} {shared / 1024:7.1f} {registers:5} {spilled:7} {cores:9} {row['seconds']:6.1f}"


def main() -> int:
    """Check a level; 1 if some candidate is defective."""
    from kernelbench_bridge import load_level

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, required=True)
    parser.add_argument("--problems", default="")
    parser.add_argument("--source", default="auto")
    parser.add_argument("--firsts", action="store_true")
    parser.add_argument("--seeds", action="store_true", help="also what torch.compile writes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0)
    options = parser.parse_args()
    wanted = tuple(n for part in options.problems.split(",") if part
                   for n in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)) or None
    launches: list[Any] = []
    pretend_to_have_an_h200(launches)
    rows: list[dict[str, Any]] = []
    end = time.monotonic() + 60 * options.minutes
    print(f"{'problem':7} {'template':46} {'k':>3} {'shared K':>7} {'regs':>5} {'spilled':>7} {'cores':9} {'s':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for problem in load_level(options.level, options.source, wanted).problems:
            if time.monotonic() > end:
                print(f"--minutes {options.minutes} spent; the rest was not compiled")
                break
            for row in check(problem, options.firsts, options.seeds, Path(folder), launches):
                rows.append(row)
                print(line(row), flush=True)
    defects = sum("defect" in row for row in rows)
    spilling = sum(any(k["spilled"] for k in row.get("kernels", ())) for row in rows)
    print(f"level {options.level}: {len(rows)} candidates, {defects} defective, {spilling} with spills")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
