"""The card: README.md of the kernel, from the operations and their evaluations' records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exporters.evidence import machine, speedups
from exporters.operation import OP, Operation
from exporters.package import KERNELS_MINVER, Kernel
from exporters.plot import Bar
from exporters.usage import function_usage, layer_usage, model_usage

PLACEHOLDER = "YOUR-ORG/{name}"
PLOT = "media/speedup.svg"
RECORDS = "evaluations"


def default_repo(kernel: Kernel) -> str:
    """The repository's name in a card that has not been published."""
    return PLACEHOLDER.format(name=kernel.name)


def card(kernel: Kernel, records: Mapping[str, Mapping[str, Any]], reports: Mapping[str, Mapping[str, Any]], repo_id: str,
         proof_rules: str) -> str:
    """The card's text. `records`: evaluation by operation; `reports`: ABI report by operation with a library; `proof_rules`: what the
    kernel was judged by as loaded back.
    """
    names = ", ".join(f"`{o.name}`" for o in kernel.operations)
    count = "An operation" if len(kernel.operations) == 1 else f"{len(kernel.operations)} operations"
    parts = ["---", "library_name: kernels", f"license: {kernel.license}", "tags:", "- kernel", "- autokernel", "---", "",
             f"# {kernel.name}", "",
             f"{count} for `{kernel.backend}`, forward only: {names}. Found and judged by AutoKernel on problems in KernelBench's form. "
             "Every operation was loaded back from these files with `kernels`, in a fresh process, and judged again under the full "
             f"rules ({proof_rules}) before they were written.",
             "", "## Use", ""]
    uses = (("As a function:", function_usage), ("As a layer in your own model:", layer_usage), ("In KernelBench's form:", model_usage))
    for said, use in uses:
        program = next((text for o in kernel.operations if (text := use(kernel, o, repo_id))), "")
        parts += [said, "", "```python", program, "```", ""] if program else []
    parts += [f"Needs `kernels` {KERNELS_MINVER} or newer. Shapes, dtypes, values and strides other than those below "
              f"{_outside(kernel.operations)}. There is no backward: call it under `torch.inference_mode()` or `torch.no_grad()`.", ""]
    parts += [*_overview(kernel.operations), *_speed(kernel, records), *_verified(kernel.operations), *_builds(kernel, reports),
              *_provenance(kernel, records)]
    return "\n".join(parts).rstrip("\n") + "\n"


def bars(kernel: Kernel, records: Mapping[str, Mapping[str, Any]]) -> list[Bar]:
    """The plot's bars, in the card's order."""
    return [Bar(f"{o.name} {_shape(o)}", s.against, s.speedup, s.low, s.high) for o in kernel.operations for s in speedups(records[o.name])]


def _outside(operations: Sequence[Operation]) -> str:
    falls = [o.name for o in operations if o.fallback]
    if not falls:
        return "are refused with an error that says what was verified"
    rest = "" if len(falls) == len(operations) else f" ({', '.join(falls)}; the others raise an error)"
    return f"go to the problem's own torch code{rest}"


def _shape(operation: Operation) -> str:
    return " x ".join(str(a.tensor.shape) for a in operation.facts.arguments if a.tensor is not None)


def _overview(operations: Sequence[Operation]) -> list[str]:
    if len(operations) == 1:
        return []
    lines = ["## Operations", "", "| function | layer | problem | kind |", "| --- | --- | --- | --- |"]
    lines += [f"| {f'`{o.schema}`' if o.form == OP else f'none ({o.why_form})'} | {f'`{o.title}`' if o.has_layer else 'none'} | {o.uid} "
              f"{o.problem_name} | {o.builder} |" for o in operations]
    return [*lines, "", "`kernel.models.NAME` has each winner as a class with the constructor of its problem's `Model`.", ""]


def _speed(kernel: Kernel, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["## Speed", "", f"![speedup by operation and shape]({PLOT})", "",
             "| operation | shapes | against | speedup | interval | at least | this, ms | other, ms | precision |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for operation in kernel.operations:
        record = records[operation.name]
        precision = record["precision_class"] or "not classed"
        lines += [f"| {operation.name} | {_shape(operation)} | {s.against} | {s.speedup:.3f} | {s.low:.3f} to {s.high:.3f} "
                  f"| {'-' if s.least is None else f'{s.least:.3f}'} | {s.candidate_ms:.4g} | {s.opponent_ms:.4g} | {precision} |"
                  for s in speedups(record)]
    made = [s for record in records.values() for s in speedups(record)]
    first = records[kernel.operations[0].name]
    levels = sorted({f"{100 * s.confidence:.4g} %" for s in made})
    protocols = ", ".join(sorted({s.protocol for s in made}))
    lines += ["", "Speedup is the median of paired windows (other / this), with a distribution-free interval "
              f"({', '.join(levels)}), protocol {protocols}: windows timed by a process that the kernel "
              "cannot reach, fresh inputs in each, the empty window taken off; `at least` is what would be left of the lower end had the "
              "kernel's process skipped everything else that a window holds. `benchmarks/benchmark.py` follows `kernels benchmark`, "
              "whose method is a simpler one; its figures are not these.", "",
              "Measured on: " + ", ".join(f"{name} {value}" for name, value in machine(first).items()) + ".", ""]
    return lines


def _verified(operations: Sequence[Operation]) -> list[str]:
    lines = ["## Verified with", ""]
    for operation in operations:
        takes = [f"`{a.name}` {a.tensor.text if a.tensor else 'as the problem has it' if a.opaque else repr(a.value)}"
                 for a in operation.facts.arguments]
        takes += [f"`{p.name}` {p.tensor.text}" for p in operation.facts.parameters]
        constants = f"; constructed with {operation.facts.init!r}"
        gives = "; ".join(o.text for o in operation.facts.outputs) or "what the problem gives"
        lines.append(f"- {operation.name}: {'; '.join(takes)}{constants}; gives {gives}")
    return [*lines, ""]


def _builds(kernel: Kernel, reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["## Builds", "", f"- `{kernel.variant}`" + (f", GPU architectures {', '.join(kernel.archs)}" if kernel.archs else "")]
    if not reports:
        return [*lines, "", "Pure Python: Triton compiles the kernels at their first call. Launch parameters are the judged ones.", ""]
    flags = {flag for o in kernel.native if o.native is not None for flag in o.native.flags}
    compiler = "nvcc and g++" if kernel.backend == "cuda" else "g++ -O3 -march=native"
    extra = f" with {', '.join(sorted(flags))}" if flags else ""
    lines += ["", f"The libraries were made by {compiler}{extra}, without Nix and kernel-builder, from the text under `source/` on the "
              "version's branch. They are called through ctypes and hold no torch or Python symbol, so one serves every torch from 2.9 on.",
              "", "| library | needs at least | beyond manylinux_2_28 | kernel-abi-check |", "| --- | --- | --- | --- |"]
    for name, report in reports.items():
        newest = ", ".join(f"{family} {version}" for family, version in report["newest"].items()) or "no versioned symbol"
        above = ", ".join(f"{family} {version}" for family, version in report["above_manylinux_2_28"].items()) or "nothing"
        checked = report["kernel_abi_check"]
        said = "not installed where this was exported" if checked is None else ", ".join(f"{k}: {v}" for k, v in checked.items())
        lines.append(f"| {name} | {newest}; {', '.join(report['libraries'])} | {above} | {said} |")
    glibc = [tuple(map(int, r["newest"]["GLIBC"].split("."))) for r in reports.values() if "GLIBC" in r["newest"]]
    if glibc:
        lines += ["", f"Minimum glibc: {'.'.join(map(str, max(glibc)))}."]
    if kernel.backend == "cpu":
        lines += ["", "Compiled for the processor that they were judged on; on one that lacks any of its vector extensions the import "
                  "fails with a message that names them."]
    return [*lines, ""]


def _provenance(kernel: Kernel, records: Mapping[str, Mapping[str, Any]]) -> list[str]:
    lines = ["## Provenance", "", "| operation | problem | problem's hash | winner (sha256) | rules | judged |",
             "| --- | --- | --- | --- | --- | --- |"]
    for operation in kernel.operations:
        record = records[operation.name]
        lines.append(f"| {operation.name} | {operation.uid} {operation.problem_name} | {record['problem_hash']} "
                     f"| {operation.sha256} | {record['rules']} | {record['created']} |")
    return [*lines, "", f"`{RECORDS}/` on the version's branch has each evaluation's record with all samples. License of the kernel: "
            f"{kernel.license}. `benchmarks/benchmark.py` quotes the problems, which stay under their authors' license (KernelBench: MIT)."]
