from __future__ import annotations

import ctypes

import pytest

from autokernel import builders
from autokernel.builders.toolchain import missing_tool
from autokernel.errors import BuilderUnavailable

CUDA = builders.get("cuda")
needs_nvcc = pytest.mark.skipif(missing_tool("cuda") is not None, reason=str(missing_tool("cuda")))


def test_without_nvcc_the_reason_says_what_to_install(monkeypatch, candidates, tmp_path):
    monkeypatch.setattr("autokernel.builders.toolchain.find_nvcc", lambda: None)
    reason = CUDA.unavailable("cuda:0")
    assert reason.startswith("builder 'cuda' needs nvcc (on PATH, under CUDA_HOME or /usr/local/cuda)")
    assert "Install the CUDA toolkit" in reason
    with pytest.raises(BuilderUnavailable, match="Install the CUDA toolkit"):
        CUDA.build(candidates["cuda"], tmp_path, None, 60)


@needs_nvcc
def test_without_a_gpu_candidates_compile_and_only_running_is_unavailable(candidates, tmp_path):
    assert CUDA.unavailable("cuda:0") is None
    assert "running needs an NVIDIA GPU" in CUDA.unavailable("cpu")
    built = CUDA.build(candidates["cuda"], tmp_path, None, 120)
    assert built.ok, built.digest
    library = ctypes.CDLL(str(built.artifact))
    library.autokernel_error_name.restype = ctypes.c_char_p
    assert library.autokernel_error_name(1) == b"cudaErrorInvalidValue"
    assert b"libcudart" not in built.artifact.read_bytes()[:4096]
    assert CUDA.build(candidates["cuda"], tmp_path, "sm_90a", 120).cached
    pytest.importorskip("torch")
    path = tmp_path / "candidate.py"
    path.write_text(candidates["cuda"])
    module = CUDA.load(path, built.artifact)
    assert module.native.scale.__doc__ == "f32* x, f32* y, i64 n, f32 a"


@needs_nvcc
def test_a_compile_error_has_the_line_of_the_candidates_file(candidates, tmp_path):
    text = candidates["cuda"].replace("y[i] = a * x[i]", "y[i] = b * x[i]")
    first, second = (CUDA.build(text, tmp_path, "sm_90a", 120) for _ in range(2))
    assert first.digest == 'candidate.py:7: error: identifier "b" is undefined\n    7 | if (i < n) y[i] = b * x[i];'
    assert second.cached and second.digest == first.digest


@needs_nvcc
def test_a_launcher_without_a_stream_is_refused(candidates, tmp_path):
    text = candidates["cuda"].replace(", void* stream)", ")").replace("(cudaStream_t)stream", "0")
    built = CUDA.build(text, tmp_path, "sm_90a", 120)
    assert "candidate.py:14: error:" in built.digest
    assert "must take 5 arguments, the last one void* stream" in built.digest
