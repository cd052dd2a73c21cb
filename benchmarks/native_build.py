"""Measures native builds and the binding: cold and repeated builds, bindings beside them, the cost of a call.

    python benchmarks/native_build.py [--rounds 3] [--load-inline] [FILE.py ...]

Files are native candidates, e.g. cuda/*.py; without any, the samples below are used. Prints Markdown; docs/results/ keeps what it printed.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import importlib.util
import os
import platform
import resource
import statistics
import subprocess
import sysconfig
import tempfile
import time
import timeit
from pathlib import Path

from autokernel import builders
from autokernel.builders.binding import native_module
from autokernel.builders.literals import read_literals
from autokernel.builders.toolchain import find_toolchain, missing_tool

HEAD = "import torch, native\n{kind}_SRC = r'''"
TAIL = "'''\nSIGNATURES = {{'run': '{signature}'}}\nclass ModelNew(torch.nn.Module):\n    pass\n"

ELEMENTWISE_CU = """
__global__ void k(const float* x, float* y, int64_t n) {
  int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / (1.f + expf(-x[i]));
}
extern "C" int run(const float* x, float* y, int64_t n, void* stream) {
  k<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, y, n);
  return (int)cudaGetLastError();
}
"""
SOFTMAX_CU = """
template <int N> __global__ void k(const float* x, float* y, int64_t cols) {
  __shared__ float part[32];
  const float* row = x + blockIdx.x * cols;
  float top = -INFINITY, sum = 0.f;
  for (int64_t i = threadIdx.x; i < cols; i += N) top = fmaxf(top, row[i]);
  for (int s = 16; s; s >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, s));
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top;
  __syncthreads();
  for (int w = 0; w < N / 32; ++w) top = fmaxf(top, part[w]);
  __syncthreads();
  for (int64_t i = threadIdx.x; i < cols; i += N) sum += __expf(row[i] - top);
  for (int s = 16; s; s >>= 1) sum += __shfl_xor_sync(~0u, sum, s);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0.f;
  for (int w = 0; w < N / 32; ++w) sum += part[w];
  for (int64_t i = threadIdx.x; i < cols; i += N) y[blockIdx.x * cols + i] = __expf(row[i] - top) / sum;
}
extern "C" int run(const float* x, float* y, int64_t rows, int64_t cols, void* stream) {
  if (cols < 1024) k<128><<<rows, 128, 0, (cudaStream_t)stream>>>(x, y, cols);
  else if (cols < 8192) k<512><<<rows, 512, 0, (cudaStream_t)stream>>>(x, y, cols);
  else k<1024><<<rows, 1024, 0, (cudaStream_t)stream>>>(x, y, cols);
  return (int)cudaGetLastError();
}
"""
MATMUL_CU = """
template <int T, int R> __global__ void k(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[T][T + 1], sb[T][T + 1];
  float acc[R][R] = {};
  const int tx = threadIdx.x * R, ty = threadIdx.y * R, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  for (int at = 0; at < n; at += T) {
    for (int i = 0; i < R; ++i)
      for (int j = 0; j < R; ++j) {
        sa[ty + i][tx + j] = a[(row + i) * (int64_t)n + at + tx + j];
        sb[ty + i][tx + j] = b[(at + ty + i) * (int64_t)n + col + j];
      }
    __syncthreads();
#pragma unroll
    for (int p = 0; p < T; ++p)
      for (int i = 0; i < R; ++i)
        for (int j = 0; j < R; ++j) acc[i][j] += sa[ty + i][p] * sb[p][tx + j];
    __syncthreads();
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < R; ++j) c[(row + i) * (int64_t)n + col + j] = acc[i][j];
}
extern "C" int run(const float* a, const float* b, float* c, int n, void* stream) {
  k<64, 4><<<dim3(n / 64, n / 64), dim3(16, 16), 0, (cudaStream_t)stream>>>(a, b, c, n);
  return (int)cudaGetLastError();
}
"""
SOFTMAX_CPP = """
#include <cmath>
extern "C" int run(const float* x, float* y, int64_t rows, int64_t cols) {
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * cols;
    float top = in[0], sum = 0;
    for (int64_t i = 1; i < cols; ++i) top = in[i] > top ? in[i] : top;
    for (int64_t i = 0; i < cols; ++i) sum += y[r * cols + i] = std::exp(in[i] - top);
    for (int64_t i = 0; i < cols; ++i) y[r * cols + i] /= sum;
  }
  return 0;
}
"""
EMPTY_CPP = 'extern "C" int run(const float* x, float* y, int64_t n, float a) { return 0; }\n'
PYBIND = """
#include <pybind11/pybind11.h>
extern "C" int run(const float* x, float* y, int64_t n, float a) { return 0; }
PYBIND11_MODULE(bound, m) {
  m.def("run", [](uintptr_t x, uintptr_t y, int64_t n, float a) { return run((const float*)x, (float*)y, n, a); });
}
"""


def candidate(kind: str, code: str, signature: str) -> str:
    """A candidate file around C++ text."""
    return HEAD.format(kind=kind) + code + TAIL.format(signature=signature)


SAMPLES = {
    "elementwise (sample).cu": candidate("CUDA", ELEMENTWISE_CU, "f32* x, f32* y, i64 n"),
    "softmax (sample).cu": candidate("CUDA", SOFTMAX_CU, "f32* x, f32* y, i64 rows, i64 cols"),
    "matmul (sample).cu": candidate("CUDA", MATMUL_CU, "f32* a, f32* b, f32* c, i32 n"),
    "softmax (sample).cpp": candidate("CPP", SOFTMAX_CPP, "f32* x, f32* y, i64 rows, i64 cols"),
}


def seconds(command: list[str], cwd: Path) -> float:
    """Wall time of one command that must succeed."""
    start = time.perf_counter()
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)
    return time.perf_counter() - start


def children_s() -> float:
    """CPU time of all ended children of this process: unlike wall time it says little about who else uses the machine."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def plain_compile_s(text: str, kind: str, folder: Path) -> float:
    """Wall time of the compiler alone (-c) on the candidate's own C++, with the builder's optimisation and target."""
    tools = find_toolchain(kind)
    code = "#include <cstdint>\n" + read_literals(text, kind).code
    if kind == "cuda":
        (folder / "plain.cu").write_text(code)
        return seconds([tools.nvcc or "nvcc", "-O3", "-std=c++17", "-lineinfo", "--expt-relaxed-constexpr", "-gencode",
                        "arch=compute_90a,code=sm_90a", "-Xcompiler", "-fPIC", "-c", "plain.cu", "-o", "plain.o"], folder)  # fmt: skip
    (folder / "plain.cpp").write_text(code)
    command = [tools.gxx, "-O3", "-march=native", "-std=c++17", "-fPIC", "-fopenmp", "-c", "plain.cpp", "-o", "plain.o"]
    return seconds(command, folder)


def build_rows(files: dict[str, str], rounds: int) -> list[str]:
    """One Markdown row a file; plain compiler and cold build alternate, so that a busy machine slows both."""
    rows = []
    for name, text in files.items():
        kind = builders.detect(text)
        if missing_tool(kind):
            rows.append(f"| {name} | not measured: {missing_tool(kind)} |")
            continue
        builder, broken = builders.get(kind), text.replace("int64_t", "int65_t", 1)
        builder.build(text.replace("_SRC = r'''", "_SRC = r'''/* warm */ "), Path(tempfile.mkdtemp()), None, 300)
        plain, cold, repeated, failed, failed_again, plain_cpu, cold_cpu = [], [], [], [], [], [], []
        for _ in range(rounds):
            with tempfile.TemporaryDirectory() as name_of_folder:
                folder = Path(name_of_folder)
                before = children_s()
                plain.append(plain_compile_s(text, kind, folder))
                plain_cpu.append(children_s() - before)
                for source, first, second in ((text, cold, repeated), (broken, failed, failed_again)):
                    before = children_s()
                    result = builder.build(source, folder, None, 300)
                    if source is text:
                        cold_cpu.append(children_s() - before)
                    assert result.ok == (source is text) and not result.cached, result.digest
                    first.append(result.seconds)
                    second.append(builder.build(source, folder, None, 300).seconds)
        p, c, r, f, g, pc, cc = map(statistics.median, (plain, cold, repeated, failed, failed_again, plain_cpu, cold_cpu))
        walls, cpus = f"{p:.2f} | {c:.2f} | {c / p:.2f}x", f"{pc:.2f} | {cc:.2f} | {cc / pc:.2f}x"
        rows.append(f"| {name} | {walls} | {cpus} | {r * 1e3:.1f} | {f:.2f} | {g * 1e3:.1f} |")
    return rows


def bindings(rounds: int) -> tuple[list[str], Path]:
    """Markdown rows for what a binding adds to a build, and the pybind11 module that was built."""
    import pybind11

    folder = Path(tempfile.mkdtemp())
    gxx = find_toolchain("cpp").gxx
    includes = [f"-I{pybind11.get_include()}", f"-I{sysconfig.get_paths()['include']}"]
    flags = ["-O3", "-std=c++17", "-fPIC", "-shared", "-fvisibility=hidden", *includes]
    (folder / "bound.cpp").write_text(PYBIND)
    module = folder / f"bound{sysconfig.get_config_var('EXT_SUFFIX')}"
    plain = [seconds([gxx, *flags, "bound.cpp", "-o", module.name], folder) for _ in range(rounds)]
    (folder / "pybind11").mkdir()
    (folder / "pybind11" / "pybind11.h").write_text(f'#include "{pybind11.get_include()}/pybind11/pybind11.h"\n')
    header = seconds(
        [gxx, *(flag for flag in flags if flag != "-shared"), "-x", "c++-header", "pybind11/pybind11.h", "-o", "pybind11/pybind11.h.gch"],
        folder,
    )
    precompiled = [seconds([gxx, "-I.", "-Winvalid-pch", *flags, "bound.cpp", "-o", module.name], folder) for _ in range(rounds)]
    return [
        "| ctypes | 0 | - |",
        f"| pybind11 | {statistics.median(plain):.2f} | - |",
        f"| pybind11, header precompiled | {statistics.median(precompiled):.2f} | {header:.2f} once |",
    ], module


def call_rows(pybind_module: Path) -> list[str]:
    """Markdown rows for the time of one call of a C function that does nothing, with two tensors and two numbers."""
    import torch

    store = Path(tempfile.mkdtemp())
    text = candidate("CPP", EMPTY_CPP, "f32* x, f32* y, i64 n, f32 a")
    built = builders.get("cpp").build(text, store, None, 60)
    assert built.artifact is not None, built.digest
    run = native_module(built.artifact, read_literals(text, "cpp").signatures, "cpp").run
    raw = ctypes.CDLL(str(built.artifact)).run
    raw.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_float]
    spec = importlib.util.spec_from_file_location("bound", pybind_module)
    assert spec and spec.loader
    bound = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bound)

    x, y = torch.ones(8), torch.ones(8)

    def looped(*values):
        passed = []
        for value, want in zip(values, (torch.float32, torch.float32, int, float), strict=True):
            if isinstance(want, torch.dtype):
                if not isinstance(value, torch.Tensor) or not value.is_cpu or not value.is_contiguous() or value.dtype is not want:
                    raise TypeError
                value = value.data_ptr()
            elif type(value) is not want:
                raise TypeError
            passed.append(value)
        if raw(*passed):
            raise RuntimeError

    cases = {
        "native.run: generated checks, ctypes": lambda: run(x, y, 8, 1.0),
        "the same checks in a loop, ctypes": lambda: looped(x, y, 8, 1.0),
        "no checks, ctypes": lambda: raw(x.data_ptr(), y.data_ptr(), 8, 1.0),
        "no checks, pybind11": lambda: bound.run(x.data_ptr(), y.data_ptr(), 8, 1.0),
        "for scale: torch.relu(x, 8 elements)": lambda: torch.relu(x),
    }
    if torch.cuda.is_available() and not missing_tool("cuda"):
        text = candidate("CUDA", EMPTY_CPP.replace("float a)", "float a, void* stream)"), "f32* x, f32* y, i64 n, f32 a")
        built = builders.get("cuda").build(text, store, None, 120)
        assert built.artifact is not None, built.digest
        launch = native_module(built.artifact, read_literals(text, "cuda").signatures, "cuda").run
        on_gpu = torch.ones(8, device="cuda")
        cases["native.run on CUDA tensors, torch's stream included"] = lambda: launch(on_gpu, on_gpu, 8, 1.0)
    times = {name: min(timeit.repeat(call, number=20000, repeat=7)) / 20000 * 1e6 for name, call in cases.items()}
    return [f"| {name} | {time_us:.2f} |" for name, time_us in times.items()]


def load_inline_s() -> float:
    """Wall time of torch.utils.cpp_extension.load_inline on a C++ text as small as the empty sample."""
    from torch.utils.cpp_extension import load_inline

    os.environ["TORCH_EXTENSIONS_DIR"] = tempfile.mkdtemp()
    start = time.perf_counter()
    load_inline("inline_sample", "torch::Tensor run(torch::Tensor x) { return x; }", functions=["run"])
    return time.perf_counter() - start


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load-inline", action="store_true", help="measure torch's load_inline too (slow)")
    options = parser.parse_args()
    import torch

    files = {path.name: path.read_text() for path in options.files} or SAMPLES
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    gxx = find_toolchain("cpp").stamp.split()[0]
    print(f"Date {datetime.date.today()}; {os.cpu_count()} CPUs ({platform.machine()}), load {os.getloadavg()[0]:.1f}, {device}; ", end="")
    print(f"Python {platform.python_version()}, torch {torch.__version__}, g++ {gxx}", end="")
    if not missing_tool("cuda"):
        print(", nvcc " + find_toolchain("cuda").stamp.partition("release ")[2].partition(",")[0], end="")
    print(f"; median of {options.rounds} rounds.\n\n## Builds\n\n| file | compiler alone, -c (s) | cold build (s) | ratio "
          "| alone, CPU s | cold, CPU s | ratio | repeated (ms) | failing build (s) | repeated (ms) |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join(build_rows(files, options.rounds)))
    rows, module = bindings(options.rounds)
    print("\n## What a binding adds to each build\n\n| binding | seconds | besides |\n|---|---|---|\n" + "\n".join(rows))
    print("\n## One call: two tensors, an int, a float\n\n| way | us |\n|---|---|\n" + "\n".join(call_rows(module)))
    if options.load_inline:
        print(f"\nload_inline of a C++ text of one line: {load_inline_s():.1f} s.")


if __name__ == "__main__":
    main()
