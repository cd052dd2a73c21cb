from __future__ import annotations

import subprocess
import sys

import pytest

from autokernel import builders
from autokernel.builders.syntax import NO_MODEL, CandidateFault, compiles_on_import, parse, unreadable
from autokernel.errors import UsageError
from autokernel.executor import wire


def test_each_candidate_is_detected(candidates):
    assert {kind: builders.detect(text) for kind, text in candidates.items()} == {kind: kind for kind in candidates}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("CPP_SRC: str = 'x'", "cpp"),
        ("# CUDA_SRC = 'x'\ns = 'CUDA_SRC = 1'", "python"),
        ("def f():\n    CUDA_SRC = 'x'", "python"),
        ("import triton as tr\n@tr.jit\ndef k(): pass", "triton"),
        ("from triton import jit as compiled\n@compiled\ndef k(): pass", "triton"),
        ("import triton\n@triton.heuristics({})\n@triton.jit(noinline=True)\ndef k(): pass", "triton"),
        ("import triton.language as tl\n@numba.jit\ndef k(): pass", "python"),
        ("from torch import jit\n@jit.script\ndef k(): pass", "python"),
        ("from torch.utils.cpp_extension import load_inline\nCUDA_SRC = 'x'\nm = load_inline(cuda_sources=CUDA_SRC)", "python"),
        ("def broken(:", "python"),
        ("x = '\0'", "python"),
        ("(" * 5000, "python"),
        ("", "python"),
    ],
)
def test_detect_reads_the_syntax_tree(text, kind):
    assert builders.detect(text) == kind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from torch.utils.cpp_extension import load_inline", True),
        ("import torch.utils.cpp_extension as e", True),
        ("import torch\ntorch.utils.cpp_extension.load(name='x')", True),
        ("text = 'load_inline'  # load_inline", False),
        ("def broken(:", False),
    ],
)
def test_files_that_compile_on_import_are_named(text, expected):
    assert compiles_on_import(text) is expected
    assert builders.get("python").needs_import_build(text) is expected


def test_a_syntax_error_comes_with_its_line():
    with pytest.raises(CandidateFault, match=r"^candidate\.py:2: error: .*\n    2 \| y = \)$"):
        parse("x = 1\ny = )\n")


def test_a_null_byte_is_a_fault_of_the_candidate():
    with pytest.raises(CandidateFault, match="null bytes"):
        parse("x = 1\0")


def test_builders_are_found_by_scanning():
    assert builders.names() == ("cpp", "cuda", "python", "triton")
    with pytest.raises(UsageError, match=r"no builder 'rust'; choose one of cpp, cuda, python, triton"):
        builders.get("rust")


def test_load_inline_finds_ninja_in_a_venv_that_is_not_activated(monkeypatch, tmp_path):
    monkeypatch.setattr("autokernel.builders.python.find_ninja", lambda: "/venv/bin/ninja")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert builders.get("python").worker_env("cpu") == {"PATH": f"{tmp_path}:/venv/bin"}


def test_builders_import_without_torch():
    code = "import sys; from autokernel import builders; builders.names(); sys.exit('torch' in sys.modules or 'triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("cookie", ["utf-7", "unicode_escape", "latin-1", "no-such-thing"])
def test_a_coding_line_that_python_would_obey_and_readers_would_not_is_refused(cookie):
    with pytest.raises(CandidateFault, match="UTF-8|unknown encoding"):
        parse(f"# coding: {cookie}\n# x+AAo-import numpy\nclass ModelNew: pass\n")
    assert parse("# -*- coding: utf-8 -*-\nclass ModelNew: pass\n").body


def test_no_nesting_ends_the_process_that_reads_it():
    for text in ("@" + "a." * 3000 + "jit\ndef f(): pass\n", "import triton as " + "b\n@b" + ".c" * 3000 + ".jit\ndef f(): pass\n",
                 "x = " + "-" * 20000 + "1\n", "x = " + "(" * 5000 + ")" * 5000 + "\n"):
        assert builders.detect(text) == "python"


@pytest.mark.parametrize(("text", "why"), [
    ("class ModelNew: pass", None), ("from somewhere import *", None), ("ModelNew = type('ModelNew', (), {})", None),
    ("class Model: pass", NO_MODEL), ("", NO_MODEL), ("import somewhere", NO_MODEL),
    ("\nclass ModelNew(", "it does not compile (candidate.py:2: "),
])
def test_what_a_text_alone_shows(text, why):
    said = unreadable(text)
    assert said == why or (why is not None and said.startswith(why) and why != NO_MODEL)
    assert wire.CODE_TEXT[wire.NO_CLASS] == NO_MODEL
