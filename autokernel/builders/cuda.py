"""CUDA C++ candidates: the literal `CUDA_SRC`, compiled by nvcc into a library free of torch and of a CUDA runtime's version."""

from __future__ import annotations

from autokernel.builders.literals import NativeLiterals
from autokernel.builders.native import NativeBuilder, Recipe, make_recipe
from autokernel.builders.toolchain import Toolchain, missing_tool

DEFAULT_ARCH = "sm_90a"  # an H200's; what is compiled for on a machine without a GPU


class CudaBuilder(NativeBuilder):
    """nvcc for device and host code, g++ to link."""

    name = "cuda"

    def unavailable(self, device: str) -> str | None:
        """Why candidates cannot be compiled here, or not run on `device`: on "cpu" `build` works and running does not."""
        reason = missing_tool(self.name)
        if reason is None and device == "cpu":
            reason = "builder 'cuda' compiles here, but running needs an NVIDIA GPU; use one, or choose --backend cpp or triton."
        return reason

    def recipe(self, literals: NativeLiterals, tools: Toolchain, arch: str | None) -> Recipe:
        """Machine code for one architecture and no PTX beside it: `-arch=sm_90a` would run the device compiler twice.

        Linked by g++ because `nvcc -shared` runs a device link that whole-program code does not need. The CUDA runtime is linked in
        (static): it shares the device's primary context and its streams with torch's, and the library then loads beside any torch.
        """
        target = arch or DEFAULT_ARCH
        gencode = f"arch={target.replace('sm_', 'compute_')},code={target}"
        compile_command = [tools.nvcc or "nvcc", "-O3", *_standard(literals.flags), "-lineinfo", "--expt-relaxed-constexpr", "-gencode",
                           gencode, "-Xcompiler", "-fPIC", "-ccbin", tools.gxx, *literals.flags, "-c", "$in", "-o", "$out"]  # fmt: skip
        link_command = [tools.gxx, "-shared", "-Wl,-z,defs", "$in", *(f"-L{folder}" for folder in tools.library_folders),
                        "-lcudart_static", "-ldl", "-lrt", "-lpthread", "-o", "$out"]  # fmt: skip
        return make_recipe(self.name, literals, compile_command, link_command, tools.stamp)


def _standard(flags: tuple[str, ...]) -> list[str]:
    """-std=c++17 unless the candidate chooses; nvcc refuses two."""
    return [] if any(flag.startswith("-std=") for flag in flags) else ["-std=c++17"]


BUILDER = CudaBuilder()
