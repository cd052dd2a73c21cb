from __future__ import annotations

import os
import time

import pytest

from autokernel import builders
from autokernel.builders.toolchain import missing_tool
from autokernel.errors import StorageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(missing_tool("cpp") is not None, reason=str(missing_tool("cpp")))
CPP = builders.get("cpp")


def load(text, tmp_path, store):
    built = CPP.build(text, store, None, 60)
    assert built.ok, built.digest
    path = tmp_path / "candidate.py"
    path.write_text(text)
    return CPP.load(path, built.artifact)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def module(candidates, store, tmp_path_factory):
    return load(candidates["cpp"], tmp_path_factory.mktemp("candidate"), store)


def test_a_candidate_is_built_loaded_and_right(module):
    x = torch.randn(3, 1000)
    assert torch.equal(module.ModelNew()(x), 2 * x)
    assert not list(os.scandir(os.path.dirname(module.__file__)))[1:]  # no __pycache__ beside the candidate


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (lambda x: (x, x, 3, 1.0), RuntimeError, r"^native\.scale returned 7; a launcher must return 0\.$"),
        (lambda x: (1.0, x, 2, 1.0), TypeError, r"argument 1 'x' is a float; pass a torch tensor"),
        (
            lambda x: (x, x.double(), 2, 1.0),
            TypeError,
            r"argument 2 'y' is torch\.float64, but SIGNATURES says f32\*; pass a torch\.float32",
        ),
        (
            lambda x: (x[::2], x, 2, 1.0),
            ValueError,
            r"argument 1 'x' is not contiguous \(shape \(4,\), strides \(2,\)\); pass x\.contiguous",
        ),
        (lambda x: (x.to("meta"), x, 2, 1.0), ValueError, r"argument 1 'x' is on meta; pass a tensor on the CPU"),
        (lambda x: (x, x, x.sum(), 1.0), TypeError, r"argument 3 'n' is a tensor, but SIGNATURES says i64; pass a number"),
        (lambda x: (x, x, 2.5, 1.0), TypeError, r"argument 3 'n' is a float, but SIGNATURES says i64; pass an int"),
        (lambda x: (x, x, 1 << 63, 1.0), ValueError, r"argument 3 'n' is 9223372036854775808, which i64 cannot hold"),
        (lambda x: (x, x, 2, "a"), TypeError, r"argument 4 'a' is a str, but SIGNATURES says f32"),
        (lambda x: (x, x, 2), TypeError, r"missing 1 required positional argument: 'a'"),
    ],
)
def test_a_wrong_call_names_the_argument(module, arguments, error, message):
    with pytest.raises(error, match=message):
        module.native.scale(*arguments(torch.ones(8)))


def test_scalars_and_dtypes_arrive_whole(tmp_path, store):
    text = """
import native
CPP_SRC = r'''
extern "C" int echo(double* out, const uint16_t* h, const bool* b, const void* any, int32_t i, int64_t l, float f, double d) noexcept {
    out[0] = i; out[1] = (double)l; out[2] = f; out[3] = d; out[4] = h[1]; out[5] = b[1]; out[6] = ((const signed char*)any)[1];
    return 0;
}
'''
SIGNATURES = {"echo": "f64* out, f16* h, bool* b, void* any, i32 in, i64 l, f32 f, f64 d"}
"""
    native = load(text, tmp_path, store).native
    out = torch.zeros(7, dtype=torch.float64)
    halves, flags, some = torch.ones(2, dtype=torch.float16), torch.tensor([False, True]), torch.tensor([1, -3], dtype=torch.int8)
    native.echo(out, halves, flags, some, -(1 << 31), l=(1 << 62), f=0.1, d=True)
    assert out.tolist() == [-(2.0**31), 2.0**62, float(torch.tensor(0.1)), 1.0, 0x3C00, 1.0, -3.0]
    assert native.echo.__doc__.endswith("i32 in, i64 l, f32 f, f64 d")
    with pytest.raises(ValueError, match="argument 5 'in_' is 2147483648, which i32 cannot hold"):
        native.echo(out, halves, flags, some, 1 << 31, 0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("y[i] = a * x[i]", "y[i] = b * x[i]", "candidate.py:7: error: 'b' was not declared in this scope\n    7 | for (int64_t i = 0;"),
        ("int64_t n, float", "int n, float", "candidate.py:11: error: static assertion failed: SIGNATURES['scale']: argument 3 in C++"),
        ("float a)", "double a)", "argument 4 in C++ is not what 'f32 a' says"),
        ("const float* x", "const double* x", "argument 1 in C++ is not what 'f32* x' says"),
        (", float a)", ")", "candidate.py:11: error: static assertion failed: SIGNATURES['scale']: the C++ function must take 4 arguments"),
        ('extern "C" int', "int", "(declare it extern \"C\" where it is defined)"),
        ('extern "C" int', 'extern "C" long', "the C++ function must return int"),
        ('{"scale"', '{"scales"', "candidate.py:11: error: 'scales' was not declared"),
        ("y[i] = a * x[i]", "y[i] = elsewhere(x[i])", "undefined reference to `elsewhere"),
    ],
)  # fmt: skip
def test_a_compile_error_is_a_short_digest_and_is_remembered(candidates, store, old, new, expected):
    text = candidates["cpp"].replace(old, new)
    if "elsewhere" in new:
        text = text.replace("r'''\n", "r'''\nfloat elsewhere(float);\n")
    first, second = (CPP.build(text, store, None, 60) for _ in range(2))
    assert not first.ok and not first.cached and first.artifact is None
    assert expected in first.digest
    assert len(first.digest.splitlines()) <= 8
    assert first.log_path.stat().st_size > 0
    assert second.cached and second.digest == first.digest and second.log_path == first.log_path


def test_a_repeated_build_runs_no_compiler(candidates, store, monkeypatch):
    first = CPP.build(candidates["cpp"], store, None, 60)
    monkeypatch.setattr("autokernel.builders.native.run_ninja", None)
    again = CPP.build(candidates["cpp"], store, None, 60)
    assert again.ok and again.cached and again.artifact == first.artifact
    assert again.artifact.stat().st_mode & 0o222 == 0


def test_a_candidates_own_flags_reach_the_compiler_alone(candidates, store):
    built = CPP.build(candidates["cpp"] + "\nCPP_FLAGS = ['-ffast-math']\n", store, None, 60)
    assert built.ok and not built.cached
    compiling, linking = [line for line in (built.artifact.parent / "build.ninja").read_text().splitlines() if "command =" in line]
    assert "-ffast-math" in compiling and "-ffast-math" not in linking


def test_a_slow_build_is_killed_with_its_children_and_retried_only_under_a_longer_deadline(candidates, tmp_path, command_lines):
    slow = """template <int A, int B> struct S { enum { v = (S<A - 1, B>::v + S<A - 1, B + A>::v) % 7 }; };
template <int B> struct S<0, B> { enum { v = B % 7 }; };
int waste = S<400, 0>::v;
"""
    text = candidates["cpp"].replace("r'''\n", "r'''\n" + slow)
    start = time.monotonic()
    first = CPP.build(text, tmp_path, None, 0.5)
    assert time.monotonic() - start < 5
    assert not first.ok and "ran past its deadline of 0.5 s" in first.digest
    assert not [line for line in command_lines() if str(tmp_path) in line]
    again = CPP.build(text, tmp_path, None, 0.4)
    assert again.cached and again.digest == first.digest
    longer = CPP.build(text, tmp_path, None, 0.7)
    assert not longer.cached and "deadline of 0.7 s" in longer.digest


def test_an_endless_include_is_the_candidates_failure(candidates, tmp_path):
    built = CPP.build(candidates["cpp"].replace("r'''\n", "r'''\n#include \"nowhere.h\"\n"), tmp_path, None, 60)
    assert "candidate.py:5: error: nowhere.h: No such file or directory" in built.digest


def test_a_store_that_cannot_be_written_is_a_clear_error(candidates, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(StorageError, match=r"the build store .*file/native cannot be used: .*Free disk space, or choose a folder"):
        CPP.build(candidates["cpp"], blocked, None, 60)
