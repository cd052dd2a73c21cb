"""The compiled part of an exported winner: the judged library on the CPU, one without a CUDA runtime of its own on a GPU."""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autokernel.builders.binding import wrapper_source
from autokernel.builders.cpp import CppBuilder
from autokernel.builders.cuda import DEFAULT_ARCH, CudaBuilder
from autokernel.builders.literals import NativeLiterals, read_literals
from autokernel.builders.native import NativeBuilder, Recipe
from autokernel.builders.toolchain import Toolchain, find_toolchain
from autokernel.builders.translation_unit import plain_unit
from autokernel.errors import InternalError
from exporters import Launcher, Native

BUILD_S = 300.0
CPU_FEATURES = re.compile(
    r"pni|ssse3|sse4_1|sse4_2|popcnt|movbe|aes|pclmulqdq|f16c|fma|abm|bmi1|bmi2|adx|avx|avx2|avx_vnni|avx512\w+|vaes|vpclmulqdq|gfni|sha_ni|"
    r"asimd\w*|sve\w*|fphp|bf16|i8mm|atomics|fcma|jscvt|dit")
"""Processor features that code from -march=native may use, by the kernel's names."""


class SharedCudaBuilder(CudaBuilder):
    """As the judged builds, but with torch's own CUDA runtime: a runtime linked in needs a newer glibc than the Hub allows.

    Without line information and symbols of local names: both hold paths of this machine that change from build to build.
    """

    def recipe(self, literals: NativeLiterals, tools: Toolchain, arch: str | None) -> Recipe:
        """The judged recipe with the shared runtime in the static one's place; the static stays where the toolkit has no other."""
        made = super().recipe(literals, tools, arch)
        runtime = _shared_runtime(tools.library_folders)
        linked: dict[str, tuple[str, ...]] = {"-lcudart_static": ("-lcudart_static", "-s")}
        if runtime is not None:
            linked = {"-lcudart_static": (f"-l:{runtime}", "-s"), "-ldl": (), "-lrt": (), "-lpthread": ()}
        return replace(made, compile_command=tuple(word for word in made.compile_command if word != "-lineinfo"),
                       link_command=tuple(new for word in made.link_command for new in linked.get(word, (word,))))


def _shared_runtime(folders: Sequence[str]) -> str | None:
    """File name of the toolkit's shared CUDA runtime: packages from the index lack the name without a version."""
    found = [path.name for folder in folders for path in sorted(Path(folder).glob("libcudart.so*"))]
    return min(found, key=len) if found else None


def native_part(source: str, builder: str, store: Path, arch: str | None) -> Native | None:
    """Compile a winner's literal, or take it from the store; None for kinds that compile nothing ahead.

    `arch` is nvcc's name of the GPU, e.g. "sm_90a". Raises BuilderUnavailable where this machine lacks the compiler, InternalError where
    a text that was judged does not compile.
    """
    if builder not in ("cpp", "cuda"):
        return None
    maker: NativeBuilder = SharedCudaBuilder() if builder == "cuda" else CppBuilder()
    result = maker.build(source, store, arch, BUILD_S)
    if not result.ok or result.artifact is None:
        raise InternalError(f"the winner's {builder} text was judged and does not compile here: {result.digest}")
    literals = read_literals(source, builder)
    launchers = tuple(Launcher(s.name, tuple((a.type, a.name) for a in s.arguments), wrapper_source(s, builder))
                      for s in literals.signatures)
    made = Native(library=result.artifact.read_bytes(), code=plain_unit(literals, builder), launchers=launchers, flags=literals.flags,
                  processor=platform.machine())
    if builder == "cpp":
        return replace(made, needs=processor_features())
    return replace(made, archs=(hub_arch(arch or DEFAULT_ARCH),), backend=_cuda_word())


def hub_arch(arch: str) -> str:
    """The Hub's name of nvcc's architecture: "sm_90a" gives "9.0a", which loads on exactly that one."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    if match is None:
        raise InternalError(f"'{arch}' must be an architecture such as sm_90a; check the caller.")
    return f"{match[1]}.{match[2]}{match[3]}"


def processor_features() -> tuple[str, ...]:
    """What of this processor's features code compiled for it may rely on."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    lines = [line for line in text.splitlines() if line.partition(":")[0].strip() in ("flags", "Features")]
    return tuple(sorted({word for line in lines for word in line.partition(":")[2].split() if CPU_FEATURES.fullmatch(word)}))


def _cuda_word() -> str:
    """The variant's word for the compiler's CUDA version, e.g. "cu130"."""
    found = re.search(r"release (\d+)\.(\d+)", find_toolchain("cuda").stamp)
    if found is None:
        raise InternalError("nvcc must say its release; check `nvcc --version`.")
    return f"cu{found[1]}{found[2]}"
