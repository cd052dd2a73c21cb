"""C++ candidates for the CPU: the literal `CPP_SRC`, compiled by g++ for this processor, OpenMP included."""

from __future__ import annotations

from autokernel.builders.literals import NativeLiterals
from autokernel.builders.native import NativeBuilder, Recipe, make_recipe
from autokernel.builders.toolchain import Toolchain, missing_tool


class CppBuilder(NativeBuilder):
    """g++ to compile and to link."""

    name = "cpp"

    def unavailable(self, device: str) -> str | None:
        """Why candidates cannot be compiled here, or not run on `device`: their tensors live on the CPU."""
        if device != "cpu":
            return f"builder 'cpp' makes code for the CPU, not for {device}; pass --device cpu, or choose --backend cuda or triton."
        return missing_tool(self.name)

    def recipe(self, literals: NativeLiterals, tools: Toolchain, arch: str | None) -> Recipe:
        """Machine code for this processor; `arch` is a GPU's and plays no part."""
        compile_command = [tools.gxx, "-O3", "-march=native", "-std=c++17", "-fPIC", "-fopenmp", "-fmax-errors=20", "-w", *literals.flags,
                           "-c", "$in", "-o", "$out"]  # fmt: skip
        # The candidate's flags are not the linker's: -ffast-math there adds start-up code that makes the whole process flush
        # denormals, torch's arithmetic too.
        link_command = [tools.gxx, "-shared", "-fopenmp", "-Wl,-z,defs", "$in", "-o", "$out"]
        return make_recipe(self.name, literals, compile_command, link_command, tools.stamp)


BUILDER = CppBuilder()
