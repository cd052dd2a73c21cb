"""The import arrows of AGENTS.md: every import statement of the project, also those inside functions, is one of the allowed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEAVES = ("exporters", "kernelbench_bridge", "scorer")
OURS = {"autokernel", "kernelbench_bridge", "scorer", "exporters"}
READ_AS_TEXT = ("autokernel/cpp_kernels/", "exporters/texts/", "kernelbench_bridge/embedded/")

# Layers inside autokernel, top first: a module may import its own layer and those below it.
LAYERS = (
    {"cli", "__main__"},
    {"run", "audit", "doctor", "self_test", "compat", "exporting", "report"},
    {"loop"},
    {"evaluate", "judged_calls", "performance", "session", "building", "proposers", "workspace", "ledger", "run_folder", "store",
     "standing", "moveon", "results", "trials"},
    {"gate", "measure"},
    {"executor"},
    {"builders"},
    {"sandbox"},
    {"rules", "records", "machine", "errors", "durable", "compare", "compare_cuda", "untrusted_file", "__init__"},
)

# what lives in the candidate's process, or in the one it is forked from
UNTRUSTED = ("autokernel.executor.worker", "autokernel.executor.zygote", "autokernel.executor.wire", "autokernel.executor.cuda_driver",
             "autokernel.executor.families", "autokernel.executor.neutral", "autokernel.executor.settle", "autokernel.executor.ahead",
             "autokernel.sandbox", "autokernel.builders",
             "autokernel.errors", "autokernel.executor.precision", "autokernel.executor.seeding", "autokernel.executor.compat_worker",
             "autokernel.executor.compat_wire", "autokernel.executor.compat_clock")
UNTRUSTED_MAY = ("torch", "triton")  # beside the standard library and each other
NO_TORCH = ("autokernel.cli", "autokernel.doctor", "autokernel.loop", "autokernel.run", "autokernel.evaluate", "autokernel.gate",
            "autokernel.ledger", "autokernel.workspace", "autokernel.records", "autokernel.rules", "autokernel.errors",
            "autokernel.executor.broker", "autokernel.executor.nursery", "autokernel.executor.wire", "autokernel.executor.compat_host",
            "autokernel.executor.compat_wire", "autokernel.executor.compat_draws", "scorer", "exporters",
            "autokernel.exporting.flow", "autokernel.exporting.prepare", "autokernel.exporting.prove", "autokernel.exporting.winners",
            "autokernel.exporting.binary", "autokernel.exporting.describe", "autokernel.report")


def modules():
    for package in ("autokernel", *LEAVES):
        for path in sorted((ROOT / package).rglob("*.py")):
            relative = path.relative_to(ROOT).as_posix()
            if not relative.startswith(READ_AS_TEXT):
                yield relative.removesuffix(".py").replace("/", ".").removesuffix(".__init__"), path


def imports(name, path, *, at_load=False):
    """Dotted names that `path` imports; with `at_load` only those that run when the module is imported."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    stack = [ast.parse(path.read_text(encoding="utf-8"), str(path))]
    while stack:
        for node in ast.iter_child_nodes(stack.pop()):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                if node.level:
                    parts = package.split(".")
                    base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
                yield from (f"{base}.{alias.name}" for alias in node.names)
            elif not (at_load and isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))):
                stack.append(node)


def layer(dotted):
    parts = dotted.split(".")
    part = parts[1] if len(parts) > 1 else "__init__"
    for index, names in enumerate(LAYERS):
        if part in names:
            return index
    return None


def refusal(importer, imported):
    """Why this arrow is not allowed, or None."""
    top, target = importer.split(".")[0], imported.split(".")[0]
    if target not in OURS:
        return None
    if top in LEAVES:
        return None if target == top else f"{top} is a leaf and imports no sibling"
    if target != "autokernel":
        return None
    source, sink = layer(importer), layer(imported)
    if source is None:
        return f"{importer} has no layer; give it one in tests/test_imports.py and AGENTS.md"
    if sink is None:  # `from autokernel import __version__`, or a module without a layer
        return None if imported.count(".") == 1 and not (ROOT / "autokernel" / f"{imported.split('.')[1]}.py").exists() else (
            f"{imported} has no layer; give it one in tests/test_imports.py and AGENTS.md")
    return None if sink >= source else f"{importer} is below {imported}; imports run downwards only"


def test_every_import_is_an_allowed_arrow():
    found = [f"{name}: {why}" for name, path in modules() for target in imports(name, path) if (why := refusal(name, target))]
    assert found == []


def test_the_untrusted_side_imports_only_torch_the_standard_library_and_its_own():
    allowed = (*UNTRUSTED_MAY, *UNTRUSTED)
    found = []
    for name, path in modules():
        if name.startswith(UNTRUSTED):
            for target in imports(name, path):
                known = target.split(".")[0] in sys.stdlib_module_names or target.split(".")[0] == "__future__"
                if not known and not any(target == a or target.startswith(a + ".") for a in allowed):
                    found.append(f"{name} imports {target}")
    assert found == []


def test_builders_load_with_the_standard_library_alone():
    found = []
    for name, path in modules():
        if name.startswith("autokernel.builders"):
            for target in imports(name, path, at_load=True):
                top = target.split(".")[0]
                ours = target.startswith(("autokernel.builders", "autokernel.errors", "autokernel.sandbox"))
                if top not in sys.stdlib_module_names and not ours:
                    found.append(f"{name} imports {target} when it loads")
            found += [f"{name} imports {t}" for t in imports(name, path) if t.startswith("autokernel.") and layer(t) < layer(name)]
    assert found == []


def test_the_brokers_modules_never_import_torch():
    found = [f"{name} imports {target}" for name, path in modules() for target in imports(name, path)
             if name.startswith(NO_TORCH) and target.split(".")[0] in ("torch", "triton")]
    assert found == []


def test_the_wire_imports_nothing_of_ours():
    found = [t for name, path in modules() if name == "autokernel.executor.wire"
             for t in imports(name, path) if t.split(".")[0] in OURS and not t.startswith("autokernel.errors")]
    assert found == []


@pytest.mark.parametrize(("importer", "imported", "word"), [
    ("scorer.score", "autokernel.records", "leaf"),
    ("kernelbench_bridge.problem", "scorer", "leaf"),
    ("autokernel.gate.smoke", "autokernel.evaluate.evaluate", "downwards"),
    ("autokernel.builders.cpp", "autokernel.executor.broker", "downwards"),
    ("autokernel.records", "autokernel.cli", "downwards"),
    ("autokernel.newcomer", "autokernel.records", "no layer"),
])
def test_the_checker_refuses_a_wrong_arrow(importer, imported, word):
    assert word in refusal(importer, imported)


def test_the_checker_allows_a_right_arrow():
    assert refusal("autokernel.evaluate", "autokernel.gate.STAGES") is None
    assert refusal("autokernel.cli.kb", "kernelbench_bridge.load_level") is None
    assert refusal("autokernel.cli", "autokernel.__version__") is None
    assert refusal("scorer.score", "scorer.errors.ScorerError") is None
