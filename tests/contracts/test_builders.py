"""What every builder must do; a new backend is covered by being found."""

from __future__ import annotations

import time
from types import ModuleType

import pytest

from autokernel import builders
from autokernel.builders.toolchain import missing_tool

MODEL = """
class ModelNew:
    def forward(self, x):
        return x
"""
CANDIDATES = {
    "python": MODEL,
    "triton": "import triton\n@triton.jit\ndef kernel(x):\n    pass\n" + MODEL,
    "cpp": "import native\nCPP_SRC = r'''\nextern \"C\" int noop(int32_t n) { return 0; }\n'''\nSIGNATURES = {'noop': 'i32 n'}\n" + MODEL,
    "cuda": "import native\nCUDA_SRC = r'''\nextern \"C\" int noop(int32_t n, void* stream) { return 0; }\n'''\n"
    "SIGNATURES = {'noop': 'i32 n'}\n" + MODEL,
}  # fmt: skip


@pytest.fixture(params=builders.names())
def builder(request):
    return builders.get(request.param)


@pytest.fixture
def text(builder):
    """A candidate that this builder builds, on any machine that has its tools."""
    assert builder.name in CANDIDATES, "give CANDIDATES an example of the new builder's kind"
    if builder.name in ("cpp", "cuda") and missing_tool(builder.name):
        pytest.skip(str(missing_tool(builder.name)))
    return CANDIDATES[builder.name]


def test_its_name_is_its_key_and_its_kind_is_detected(builder, text):
    assert builders.get(builder.name) is builder
    assert builders.detect(text) == builder.name


def test_unavailable_is_none_or_says_what_to_do(builder):
    for device in ("cpu", "cuda:0"):
        reason = builder.unavailable(device)
        assert reason is None or (builder.name in reason and any(verb in reason.lower() for verb in ("install", "choose", "use", "pass")))


def test_every_kind_can_be_used_on_some_device(builder, text):
    if builder.name == "triton" and all(map(builder.unavailable, ("cpu", "cuda:0"))):
        pytest.skip(builder.unavailable("cpu"))
    assert None in (builder.unavailable("cpu"), builder.unavailable("cuda:0"))


def test_a_good_candidate_builds_and_a_second_build_is_quick(builder, text, tmp_path):
    first = builder.build(text, tmp_path, None, 120)
    assert first.ok and first.digest == "" and (first.artifact is None or first.artifact.is_file())
    start = time.monotonic()
    second = builder.build(text, tmp_path, None, 120)
    assert second.ok and second.artifact == first.artifact
    assert time.monotonic() - start < 1.0  # a compiler alone takes longer than that
    assert second.cached == (first.artifact is not None)


def test_it_loads_what_it_built(builder, text, tmp_path):
    pytest.importorskip("torch")
    if builder.name == "triton":
        pytest.importorskip("triton")
    path = tmp_path / "candidate.py"
    path.write_text(text)
    module = builder.load(path, builder.build(text, tmp_path / "store", None, 120).artifact)
    assert isinstance(module, ModuleType) and module.__file__ == str(path)
    assert module.ModelNew().forward(3) == 3


@pytest.mark.parametrize("junk", ["def broken(:", "x = '\0'", "\ud800", "(" * 5000, "x" + "." + "a" * 10 + "(" * 300])
def test_junk_is_an_answer_not_an_exception(builder, junk, tmp_path):
    built = builder.build(junk, tmp_path, None, 60)
    assert not built.ok and built.artifact is None
    assert "error:" in built.digest


def test_loading_junk_raises_and_leaves_no_module_behind(builder, text, tmp_path):
    import sys

    pytest.importorskip("torch")
    path = tmp_path / "candidate.py"
    path.write_text(text + "\nraise KeyError('at import')\n")
    with pytest.raises(KeyError, match="at import"):
        builder.load(path, builder.build(text, tmp_path / "store", None, 120).artifact)
    assert "candidate" not in sys.modules


def test_the_workers_environment_is_text(builder):
    for device in ("cpu", "cuda:0"):
        assert all(isinstance(part, str) for item in builder.worker_env(device).items() for part in item)
