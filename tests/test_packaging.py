"""The starters and problems are found from a wheel, an editable install and a bare checkout, and no foreign name is taken."""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
STARTERS = {"autokernel.triton_kernels": "triton_kernels", "autokernel.cuda": "cuda", "autokernel.cpp_kernels": "autokernel/cpp_kernels"}
SHIPPED = ("setup.py", "pyproject.toml", "README.md", "LICENSE", "autokernel", "kernelbench_bridge", "scorer", "exporters", "cuda",
           "triton_kernels", "tests/exploits")

ASK = """
import importlib.resources, json
import autokernel
print(json.dumps({
    "autokernel": autokernel.__file__,
    **{name: sorted(f.name for f in importlib.resources.files(name).iterdir() if f.name.endswith(".py")) for name in %r},
}))
"""


def starters_here():
    return {name: sorted(p.name for p in (ROOT / folder).glob("*.py")) for name, folder in STARTERS.items()}


def ask(*flags, path=None, prelude="", cwd):
    """What a fresh interpreter in `cwd` finds."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run([sys.executable, *flags, "-c", prelude + ASK % (tuple(STARTERS),)],
                          capture_output=True, text=True, cwd=cwd, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return Path(found.pop("autokernel")), found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of the sources, without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    source.mkdir()
    for name in SHIPPED:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index",
                           "--wheel-dir", str(folder), str(source)], capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_our_packages_and_takes_no_foreign_name(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"autokernel", "exporters", "kernelbench_bridge", "scorer",
                                                      wheel.name.rpartition("-py3")[0] + ".dist-info"}
    assert wheel.name.startswith("autokernel_gpu-")
    assert "autokernel/py.typed" in names
    assert not [name for name in names if name.startswith(("autokernel/cuda/__init__", "autokernel/triton_kernels/__init__"))]


def test_the_wheel_holds_every_module_and_every_embedded_problem(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("autokernel", "exporters", "kernelbench_bridge", "scorer"):
        expected = {p.relative_to(ROOT).as_posix() for p in (ROOT / package).rglob("*") if p.suffix in (".py", ".h", ".j2")}
        assert expected - names == set(), "setup.py must list the package of each"
    attacks = {f"autokernel/exploits/{p.relative_to(ROOT / 'tests' / 'exploits').as_posix()}"
               for p in (ROOT / "tests" / "exploits").rglob("*.py") if not p.name.startswith("test_")}
    assert {name for name in names if name.startswith("autokernel/exploits/")} == attacks


def test_an_installed_wheel_finds_the_starters(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    where, found = ask(path=tmp_path / "site", cwd=tmp_path)
    assert where.is_relative_to(tmp_path)
    assert found == starters_here()


def test_the_install_that_runs_these_tests_finds_the_starters(tmp_path):
    _, found = ask(cwd=tmp_path)
    assert found == starters_here()


def test_a_bare_checkout_finds_the_starters(tmp_path):
    where, found = ask("-I", "-S", prelude=f"import sys; sys.path.insert(0, {str(ROOT)!r})\n", cwd=tmp_path)
    assert where.parent.parent == ROOT
    assert found == starters_here()


def test_the_checkout_leaves_nvidias_namespace_whole():
    assert not (ROOT / "cuda" / "__init__.py").exists()
    assert not (ROOT / "triton_kernels" / "__init__.py").exists()
    done = subprocess.run([sys.executable, "-c", "import cuda; print(cuda.__file__)"], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.strip() in ("None", ""), "an __init__.py hides NVIDIA's cuda namespace"


def test_importing_autokernel_imports_no_torch(tmp_path):
    done = subprocess.run([sys.executable, "-c", "import sys, autokernel, autokernel.cli; print([m for m in ('torch', 'triton', 'numpy', "
                           "'rich', 'optuna', 'pyarrow') if m in sys.modules])"], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stdout.strip() == "[]"


def test_metadata_names_the_distribution_and_python_3_10():
    metadata = importlib.metadata.metadata("autokernel-gpu")
    assert metadata["Requires-Python"] == ">=3.10"
    assert metadata["License"] == "MIT"
    assert 'target-version = "py310"' in (ROOT / "pyproject.toml").read_text()
    commands = [e.value for e in importlib.metadata.entry_points(group="console_scripts") if e.name == "autokernel"]
    assert commands == ["autokernel.cli:main"]


def test_every_core_dependency_applies_on_linux_and_triton_nowhere_else():
    needs = [Requirement(text) for text in importlib.metadata.requires("autokernel-gpu")]
    core = [r for r in needs if r.marker is None or "extra" not in str(r.marker)]
    linux = {"platform_system": "Linux", "python_version": "3.10"}
    mac = {"platform_system": "Darwin", "python_version": "3.10"}
    assert {"torch", "triton", "optuna", "click", "rich", "pyarrow", "datasets"} <= {
        r.name for r in core if r.marker is None or r.marker.evaluate(linux)}
    assert "triton" not in {r.name for r in core if r.marker is None or r.marker.evaluate(mac)}
    torch = next(r for r in core if r.name == "torch")
    assert torch.specifier.contains("2.9.0") and torch.specifier.contains("2.13.0") and not torch.specifier.contains("2.14.0")


def test_every_source_file_is_python_3_10_syntax():
    for package in ("autokernel", "kernelbench_bridge", "scorer", "exporters",
           "cuda", "triton_kernels"):
        for path in (ROOT / package).rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
