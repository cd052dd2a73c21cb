"""Packages and dependencies of the distribution `autokernel-gpu`, whose import name and command are `autokernel`.

Packages are listed, not found: `cuda` and `triton_kernels` at the source root are import names of other projects, so their
files are shipped inside `autokernel` (docs/decisions/0001-names-and-packaging.md).
"""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent

PACKAGES = [
    "autokernel",
    "autokernel.builders",
    "autokernel.cli",
    "autokernel.compat",
    "autokernel.cpp_kernels",
    "autokernel.executor",
    "autokernel.exploits",
    "autokernel.exploits.attacks",
    "autokernel.exploits.honest",
    "autokernel.exporting",
    "autokernel.gate",
    "autokernel.proposers",
    "autokernel.report",
    "autokernel.sandbox",
    "autokernel.cuda",
    "autokernel.triton_kernels",
    "exporters",
    "kernelbench_bridge",
    "kernelbench_bridge.origins",
    "scorer",
]

REQUIRES = [
    "torch>=2.9,<2.14",
    "triton>=3.5,<3.8; platform_system == 'Linux'",
    "numpy>=1.26",
    "pyarrow>=16",
    "datasets>=3.0",
    "huggingface_hub>=2.3",  # the first that accepts uploads of repo_type="kernel"
    "kernels>=0.17",
    "ninja>=1.11",
    "pybind11>=2.13",
    "setuptools>=77",  # torch.utils.cpp_extension imports it when a KernelBench answer calls load_inline
    "optuna>=4.0",
    "pyyaml>=6",  # KernelBench's generation_config.yaml
    "click>=8.1",
    "rich>=13.7",
]

REPORT = ["matplotlib>=3.8", "jinja2>=3.1"]
TEST = [*REPORT, "packaging>=24", "pytest>=8.2", "pytest-timeout>=2.3", "pytest-xdist>=3.6", "ruff>=0.9", "mypy>=1.13", "wheel>=0.43"]
HUB = ["kernel-abi-check>=0.14"]  # its verdict on compiled kernels, beside our own reading of them
DEV = [*TEST, "build>=1.2"]


# what tests and the self-test share is shipped from where the tests have it, without the tests themselves
FOLDERS = {"autokernel.cuda": "cuda", "autokernel.triton_kernels": "triton_kernels", "autokernel.exploits": "tests/exploits",
           "autokernel.exploits.attacks": "tests/exploits/attacks", "autokernel.exploits.honest": "tests/exploits/honest"}


class BuildPy(build_py):
    """Leaves tests out."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """As setuptools finds them, but for test_*.py."""
        return [found for found in super().find_package_modules(package, package_dir) if not found[1].startswith("test_")]


def version() -> str:
    """The version that autokernel/__init__.py states, read as text: importing it here would need its dependencies."""
    text = (ROOT / "autokernel" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise RuntimeError('autokernel/__init__.py must set __version__ = "X.Y.Z" on a line of its own.')
    return found.group(1)


setup(
    name="autokernel-gpu",
    version=version(),
    description="Judge, search and score GPU kernels for KernelBench problems, with no false pass and no false speedup.",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    author="AutoKernel contributors",
    license="MIT",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=PACKAGES,
    package_dir=FOLDERS,
    cmdclass={"build_py": BuildPy},
    package_data={"autokernel": ["py.typed"], "kernelbench_bridge": ["py.typed", "embedded/**/*"], "scorer": ["py.typed"],
                  "autokernel.builders": ["light/*.h"],
                  "autokernel.report": ["*.j2"],
                  "exporters": ["py.typed", "texts/*"]},
    exclude_package_data={"": ["__pycache__/*", "*.pyc"]},
    install_requires=REQUIRES,
    extras_require={"test": TEST, "dev": DEV, "hub": HUB, "report": REPORT},
    entry_points={"console_scripts": ["autokernel = autokernel.cli:main"]},
    zip_safe=False,
    classifiers=[
        "Environment :: GPU :: NVIDIA CUDA",
        "Intended Audience :: Developers",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Software Development :: Code Generators",
    ],
)
