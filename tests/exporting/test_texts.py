"""The texts that make a kernel: winners as modules, names and forms, the source project, what a library asks of its system."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from autokernel.errors import UsageError
from autokernel.exporting import describe
from autokernel.exporting.binary import hub_arch, native_part
from autokernel.exporting.describe import facts_of
from autokernel.exporting.facts import facts
from autokernel.exporting.reference import reference_text
from autokernel.records import Candidate
from exporters import CLASS_ONLY, OP, Kernel, Operation, form_of, keeps_state, names_for
from exporters.abi import abi_report
from exporters.elf import needs
from exporters.op_module import op_module
from exporters.plot import Bar, speedup_plot
from exporters.repository import Sources, repository_files
from exporters.stable_binding import binding_source
from exporters.winner_module import winner_module
from kernelbench_bridge import load_problem


def operation(uid, source, builder, native=None, **more):
    problem = load_problem(uid, "embedded")
    known = facts_of(facts(problem.source))
    name, title = names_for(problem.name, ())
    form, why = form_of(known, keeps_state(source))
    fields = {"name": name, "title": title, "uid": uid, "problem_name": problem.name, "builder": builder, "source": source,
              "sha256": Candidate(source, builder).sha256, "facts": known, "form": form, "why_form": why, "native": native}
    return Operation(**{**fields, **more})


def kernel_files(record, made, backend):
    problem = load_problem(made.uid, "embedded")
    evaluation = record(problem, Candidate(made.source, made.builder), device="cuda:0" if backend == "cuda" else "cpu")
    kernel = Kernel("kernel", 1, "mit", backend, (made,))
    return kernel, repository_files(kernel, Sources({made.name: evaluation.to_json()}, {made.name: problem.source}, "strict/1"))


def test_a_winners_module_loses_what_only_builds_read_and_keeps_the_rest(texts):
    module = winner_module(texts.RMSNORM_CPP, "_native_x")
    tree = ast.parse(module)
    assert {t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets} == {"PARAMS"}
    assert "from . import _native_x as native\n" in module
    assert module.endswith("        return y\n")
    rest = "    é = '''\n\n\n'''\nOP = 'x'\nprint(OP)\n"
    odd = "import native, math; K = 1\nSPACE = 1; L = 2\ndef f():\n    from native import a as b, c\n" + rest
    assert winner_module(odd, "_n") == (
        "from . import _n as native; import math; K = 1\npass; L = 2\ndef f():\n    from ._n import a as b, c\n" + rest)


@pytest.mark.parametrize(("body", "keeps"), [
    ("return x * self.weight", False),
    ("y = torch.empty_like(x)\n        y[0] = x\n        return y", False),
    ("self.seen = x\n        return x", True),
    ("cache = self.cache\n        cache[0] = x\n        return x", True),
    ("self.all.append(x)\n        return x", True),
    ("global K\n        K = x\n        return x", True),
])
def test_state_between_calls_is_seen(body, keeps):
    head = "import torch\nclass ModelNew(torch.nn.Module):\n    def __init__(self):\n        self.a = 1\n"
    text = f"{head}    def forward(self, x):\n        {body}\n"
    assert keeps_state(text) is keeps


def test_names_come_from_the_problems():
    assert names_for("19_ReLU", ()) == ("relu", "ReLU")
    assert names_for("36_RMSNorm_", ("rmsnorm",)) == ("rmsnorm_2", "RMSNorm2")
    assert names_for("1_lambda", ()) == ("lambda_op", "LambdaOp")
    assert names_for("2_ops", ())[0] == "ops_op"
    assert names_for("3_3D_conv", ()) == ("op_3d_conv", "Op3DConv")


PROBLEM = """
import torch
from torch import nn
SIZE = 4
class Model(nn.Module):
    def __init__(self, n, more=None):
        super().__init__()
        self.{held}
    def forward(self, x, scale):
        {body}
def get_inputs():
    return [torch.rand(SIZE, 3), {scale}]
def get_init_inputs():
    return [(3,)]
"""


@pytest.mark.parametrize(("held", "body", "scale", "form", "why", "layer"), [
    ("ln = nn.LayerNorm(n)", "return self.ln(x) * scale", "1.5", OP, "", False),
    ("pool = nn.Identity()", "return torch.relu(x), x + scale", "1.5", OP, "", False),
    ("n = n", "return x + scale", "torch.rand(3)", OP, "", True),
    ("n = n", "return x[:2]", "1.5", CLASS_ONLY, "shares memory", True),
    ("bn = nn.BatchNorm1d(3)", "return self.bn(x)", "1.5", CLASS_ONLY, "changes a buffer", False),
    ("n = n", "return {'y': x}", "1.5", CLASS_ONLY, "no tensor", True),
    ("n = n", "return x + 1", "None", CLASS_ONLY, "neither a tensor nor a number", True),
    ("n = n", "return x + scale[0]", "[torch.rand(3)]", CLASS_ONLY, "neither a tensor nor a number", True),
])
def test_the_form_follows_from_the_problems_own_code(held, body, scale, form, why, layer):
    known = facts_of(facts(PROBLEM.replace("{held}", held).replace("{body}", body).replace("{scale}", scale)))
    got, reason = form_of(known, keeps_state=False)
    assert (got, known.init) == (form, ((3,),))
    assert why in reason
    assert known.arguments[1].opaque is scale.startswith("[")
    assert (known.why_no_layer == "") is layer


def test_a_module_that_only_wraps_another_gives_a_layer_for_that_one():
    text = PROBLEM.replace("{held}", "ln = nn.LayerNorm(n, eps=1e-3)").replace("{body}", "return self.ln(x)").replace(
        "forward(self, x, scale)", "forward(self, x)").replace(", {scale}", "")
    known = facts_of(facts(text))
    assert (known.layer_prefix, known.why_no_layer) == ("ln", "")
    assert known.constants["eps"] == 1e-3
    assert known.constants["normalized_shape"] == (3,)
    assert [p.path for p in known.parameters] == ["ln.weight", "ln.bias"]


def test_the_reference_is_the_model_and_what_it_reaches():
    text = reference_text("import torch\nimport math\nA = 2\nB = 3\ndef helper(x):\n    return x * A\nclass Model(torch.nn.Module):\n"
                          "    def forward(self, x):\n        return helper(x)\ndef get_inputs():\n    return [torch.rand(B)]\n")
    assert "import torch" in text
    assert "A = 2" in text
    assert "def helper" in text
    assert not re.search("math|get_inputs|B = 3", text)


@pytest.mark.slow
def test_a_cuda_winner_has_a_library_archs_and_a_project_for_the_builder(texts, record, tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    made = [operation("L1/2", texts.RELU_CUDA, "cuda", native_part(texts.RELU_CUDA, "cuda", tmp_path / store, None))
            for store in ("one", "two")]
    assert made[0].native == made[1].native, "the same text must give the same bytes in any folder"
    assert str(tmp_path).encode() not in made[0].native.library
    kernel, files = kernel_files(record, made[0], "cuda")
    assert re.fullmatch(r"torch-stable-abi29-cu1\d\d-x86_64-linux", kernel.variant)
    metadata = json.loads(files[f"build/{kernel.variant}/metadata.json"])
    assert metadata["backend"] == {"type": "cuda", "archs": ["9.0a"]}
    report = metadata["autokernel"]["abi"]["rowsoftmax"]
    assert any(name.startswith("libcudart.so") for name in report["libraries"])
    assert (report["above_manylinux_2_28"], report["python_symbols"], report["torch_symbols"]) == ({}, [], [])
    assert "GPU architectures 9.0a" in files["README.md"].decode()
    write(tmp_path / "out", files)

    from kernels._rust import Backend, Build, Digest, DigestAlgorithm, Metadata
    from kernels.variants import parse_variant

    folder = tmp_path / "out" / "build" / kernel.variant
    assert parse_variant(kernel.variant).variant_str == kernel.variant
    assert Digest.hash_variant(DigestAlgorithm.SHA256, folder).files == metadata["digest"]["files"]
    build = Build.open(tmp_path / "out" / "source")
    assert build.general.backends == [Backend.CUDA]
    assert Metadata.read_from_file(folder / "metadata.json").name.python_name == "kernel"
    assert 'cuda-capabilities = ["9.0a"]' in files["source/build.toml"].decode()
    assert b"__global__ void relu_kernel" in files["source/kernels/rowsoftmax.cu"]
    assert b"aoti_torch_get_current_cuda_stream" in files["source/torch-ext/torch_binding.cpp"]


    done = subprocess.run([sys.executable, "-c", WITHOUT_A_GPU, folder, metadata["id"]], capture_output=True, text=True, timeout=100)
    if "libcudart" in done.stderr:
        return  # the toolkit's runtime is not where the loader looks; torch brings its own where there is a GPU
    assert done.stdout.splitlines() == ["rowsoftmax: argument 'x' is on cpu; this kernel runs on cuda. Move it there.",
                                        "cuda:0 torch.Size([1024, 1536]) torch.float32"], done.stderr


WITHOUT_A_GPU = """
import importlib.util, sys, torch
from torch._subclasses.fake_tensor import FakeTensorMode
spec = importlib.util.spec_from_file_location(sys.argv[2], sys.argv[1] + "/__init__.py")
module = sys.modules[sys.argv[2]] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
try:
    module.rowsoftmax(torch.randn(1024, 1536))
except ValueError as error:
    print(error)
with FakeTensorMode():
    y = module.rowsoftmax(torch.empty(1024, 1536, device="cuda"))
    print(y.device, y.shape, y.dtype)
"""


def write(folder, files):
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


REGISTRATION = """
#pragma once
#include <Python.h>
#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define STRINGIFY_(a) #a
#define STRINGIFY(a) STRINGIFY_(a)
#define STABLE_TORCH_LIBRARY_EXPAND(NAME, MODULE) STABLE_TORCH_LIBRARY(NAME, MODULE)
#define STABLE_TORCH_LIBRARY_IMPL_EXPAND(NAME, KEY, MODULE) STABLE_TORCH_LIBRARY_IMPL(NAME, KEY, MODULE)
#define REGISTER_EXTENSION(NAME) PyMODINIT_FUNC CONCAT(PyInit_, NAME)(void) { \\
    static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, STRINGIFY(NAME), nullptr, 0, nullptr}; return PyModule_Create(&module); }
"""
LOAD = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("_ext", sys.argv[1])
spec.loader.exec_module(importlib.util.module_from_spec(spec))
x, w = torch.randn(4, 8), torch.rand(8)
y = torch.empty_like(x)
torch.ops._ext.launch_rmsnorm_rms_rows(x, w, y, 4, 8, 1e-6)
print(torch.allclose(y, torch.nn.functional.rms_norm(x, (8,), w, 1e-6)))
for bad in ((x.double(), w, y, 4), (x.t(), w, y, 4)):
    try:
        torch.ops._ext.launch_rmsnorm_rms_rows(*bad, 8, 1e-6)
    except RuntimeError as error:
        print(str(error).splitlines()[0])
"""


@pytest.mark.slow
def test_the_projects_binding_compiles_and_computes(texts, record, tmp_path):
    """As kernel-builder would compile it, with the macros that it generates, against the headers that are here."""
    import torch

    native = native_part(texts.RMSNORM_CPP, "cpp", tmp_path / "store", None)
    made = operation("L1/3", texts.RMSNORM_CPP, "cpp", native)
    _, files = kernel_files(record, made, "cpu")
    write(tmp_path, {name.removeprefix("source/"): data for name, data in files.items() if name.startswith("source/")})
    assert files["source/torch-ext/torch_binding.cpp"].decode() == binding_source([("rmsnorm", native)], "cpu")
    (tmp_path / "registration.h").write_text(REGISTRATION)
    headers = Path(torch.__file__).parent / "include"
    done = subprocess.run(
        ["g++", "-shared", "-fPIC", "-O1", "-std=c++17", "-fopenmp", "-DTORCH_EXTENSION_NAME=_ext",
         "-DTORCH_TARGET_VERSION=0x020a000000000000", f"-I{tmp_path}", f"-I{headers}", f"-I{sysconfig.get_path('include')}",
         "torch-ext/torch_binding.cpp", "kernels/rmsnorm.cpp", "-o", "_ext.so", f"-L{headers.parent / 'lib'}", "-ltorch_cpu"],
        capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded = subprocess.run([sys.executable, "-c", LOAD, tmp_path / "_ext.so"], capture_output=True, text=True, timeout=100)
    name = "launch_rmsnorm_rms_rows"
    said = loaded.stdout.splitlines()
    assert (len(said), said[0]) == (3, "True"), loaded.stderr
    assert said[1].endswith(f"{name}: x must be f32")
    assert said[2].endswith(f"{name}: x must be a contiguous cpu tensor")


def test_a_librarys_needs_are_read_as_readelf_reads_them(texts, tmp_path):
    native = native_part(texts.RMSNORM_CPP, "cpp", tmp_path / "store", None)
    found = needs(native.library)
    (tmp_path / "library.so").write_bytes(native.library)
    said = subprocess.run(["readelf", "-dVW", tmp_path / "library.so"], capture_output=True, text=True, check=True).stdout
    assert set(found.libraries) == set(re.findall(r"\(NEEDED\).*\[(.+)\]", said))
    assert set(found.versions) == set(re.findall(r"Name: (\S+)\s+Flags", said))
    assert "sqrtf" not in found.symbols or "libm.so.6" in found.libraries
    report = abi_report(native.library)
    assert report["newest"]["GLIBC"] == found.newest("GLIBC")
    assert report["kernel_abi_check"] in (None, {"python_3.9": "pass", "manylinux_2_28": "pass"})
    for cut in (10, 300, len(native.library) // 2):
        with pytest.raises(ValueError, match="ELF"):
            needs(native.library[:cut])


def test_archs_are_written_as_the_hub_reads_them():
    assert [hub_arch(name) for name in ("sm_90a", "sm_80", "sm_100f", "sm_120")] == ["9.0a", "8.0", "10.0f", "12.0"]


def test_the_modules_for_other_arguments_and_classes(texts):
    falls = op_module(operation("L1/2", texts.SOFTMAX_PYTHON, "python", reference="class Model: pass\n", fallback=True), "cpu")
    assert "return _reference.call((x,), ())" in falls
    assert "_runtime.refusal" not in falls
    alone = op_module(operation("L1/2", texts.SOFTMAX_PYTHON, "python", form=CLASS_ONLY, why_form="why"), "cuda")
    assert "_runtime.register" not in alone
    assert 'raise _runtime.refusal("rowsoftmax", "cuda", _VERIFIED, (x,))' in alone
    list_taker = facts_of(facts(PROBLEM.replace("{held}", "n = n").replace("{body}", "return x").replace("{scale}", "[x0]").replace(
        "SIZE = 4", "SIZE, x0 = 4, 1")))
    unchecked = op_module(operation("L1/2", texts.SOFTMAX_PYTHON, "python", form=CLASS_ONLY, why_form="why", facts=list_taker), "cpu")
    assert '("scale", ...),' in unchecked
    assert "scale is None" not in unchecked
    ast.parse(falls)
    ast.parse(alone)


def test_the_plot_is_drawn_from_its_figures():
    drawn = speedup_plot([Bar("relu (4,) <&>", "eager", 2.0, 1.5, 3.0)], "title")
    assert drawn == speedup_plot([Bar("relu (4,) <&>", "eager", 2.0, 1.5, 3.0)], "title")
    assert "relu (4,) &lt;&amp;&gt;" in drawn
    left, right = (float(re.search(rf'{end}="([\d.]+)" [^>]*stroke="black" stroke-width', drawn)[1]) for end in ("x1", "x2"))
    assert right - left == pytest.approx(1.5 / 4.0 * (760 - 300 - 70), abs=0.2)


def test_files_beside_the_source_tree_are_not_imported(root, tmp_path):
    for name in ("autokernel", "exporters", "kernelbench_bridge", "scorer", "cuda", "triton_kernels"):
        shutil.copytree(root / name, tmp_path / "tree" / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "setup.py", tmp_path / "tree")  # by which a source tree is known
    (tmp_path / "re.py").write_text("raise SystemExit(7)\n")
    source = "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n" \
             "def get_inputs():\n    return [torch.rand(3, 5)]\ndef get_init_inputs():\n    return []\n"
    script = ("import sys; from autokernel.exporting.describe import problem_facts; "
              "print(problem_facts('L1/1', sys.argv[1]).outputs[0].shape)")
    done = subprocess.run([sys.executable, "-c", script, source], capture_output=True, text=True, timeout=120, cwd=tmp_path / "tree",
                          env={**os.environ, "PYTHONPATH": str(tmp_path / "tree")})
    assert done.stdout == "(3, 5)\n", done.stderr


def test_problems_are_described_by_one_process_and_alone_where_that_gives_no_answer(monkeypatch):
    asked, known = [], facts(PROBLEM.replace("{held}", "n = n").replace("{body}", "return x").replace("{scale}", "1.5"))

    def run(command, *, input, **more):
        sources = json.loads(input)
        asked.append(sources)
        if "os._exit(3)" in sources:
            return subprocess.CompletedProcess(command, 3, b"", b"killed\n")
        answers = [{"error": "E: bad"} if source == "raise" else known for source in sources]
        return subprocess.CompletedProcess(command, 0, json.dumps(answers).encode(), b"")

    monkeypatch.setattr(describe.subprocess, "run", run)
    monkeypatch.setattr(describe, "_answers", {})
    describe.ask_ahead(["good", "raise", "good"])
    assert describe.problem_facts("L1/1", "good") == facts_of(known) and asked == [["good", "raise"]]
    with pytest.raises(UsageError, match="L1/2: its code does not run without tensors in memory.*E: bad"):
        describe.problem_facts("L1/2", "raise")
    describe.ask_ahead(["good", "os._exit(3)", "other"])
    assert describe.problem_facts("L1/4", "other") == facts_of(known)
    with pytest.raises(UsageError, match=r"L1/3: .*gave no answer \(code 3: killed\)"):
        describe.problem_facts("L1/3", "os._exit(3)")
    assert asked[1:] == [["os._exit(3)", "other"], ["other"], ["os._exit(3)"]]
