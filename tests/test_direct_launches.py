"""Launches without Triton's look-up: what reaches the launcher is the same, and whatever Triton would compile for is compiled for.

In a process of its own with a driver that launches nothing, for which this file is the script.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")
from autokernel.proposers.launches import with_direct_launches  # noqa: E402
from autokernel.proposers.starters import starters  # noqa: E402

ROOT = Path(__file__).parent.parent
OPTIONS = {"num_warps", "num_stages", "maxnreg", "launch_cooperative_grid"}
CANDIDATE = '''"""Three numbers for each element."""
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(v, s):
    return v * s


@triton.jit
def scale_kernel(x, y, s, n, N: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, scaled(tl.load(x + i, mask=i < N), s) + n, mask=i < N)


def run(x, s, n, block, warps=4):
    y = torch.empty_like(x)
    scale_kernel[(-(-x.numel() // block),)](x, y, s, n, x.numel(), block, num_warps=warps)
    return y
'''


def main(out: Path) -> None:
    """Run the candidate with and without direct launches; write what reached the launcher and how often Triton looked up."""
    import torch
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    from autokernel.executor import ahead

    launched: list[Any] = []

    class Launcher:
        def __init__(self, source: Any, metadata: Any) -> None:
            self.warps = metadata.num_warps
            self.aligned = sorted(str(place) for place, facts in source.attrs.items() if ["tt.divisibility", 16] in facts)

        def __call__(self, *arguments: Any, **options: Any) -> None:
            x, _, *values = arguments[-6:]
            launched.append([list(arguments[:3]), self.warps, self.aligned, [str(x.dtype), x.data_ptr(), *values]])

    ahead._Driver.launcher_cls = Launcher  # type: ignore[assignment]
    driver.set_active(ahead._Driver(90, {"capability": "9.0", "sm_count": 132}))
    torch.cuda.current_device = lambda: 0  # type: ignore[assignment]
    looked: list[str] = []
    look_up = JITFunction.run

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        looked.append(self.__name__)
        return look_up(self, *arguments, **options)

    JITFunction.run = counted
    x, half = torch.zeros(2048), torch.zeros(2048, dtype=torch.float16)
    calls: dict[str, tuple[Any, ...]] = {
        "first": (x, 2.0, 5, 1024), "again": (x, 2.0, 5, 1024), "another number": (x, 3.5, 5, 1024),
        "another integer": (x, 2.0, 16, 1024), "a pointer off 16 bytes": (x[1:1025], 2.0, 5, 1024), "half": (half, 2.0, 5, 1024),
        "another block": (x, 2.0, 5, 512), "other warps": (x, 2.0, 5, 1024, 8), "as at first": (x, 2.0, 5, 1024),
    }
    said: dict[str, dict[str, Any]] = {}
    for way, text in (("plain", CANDIDATE), ("direct", with_direct_launches(CANDIDATE))):
        path = out.parent / f"{way}.py"
        path.write_text(text)
        space: dict[str, Any] = {"__name__": way}
        exec(compile(text, str(path), "exec"), space)  # noqa: S102 (the file lies there for Triton, which reads its source)
        for name, given in calls.items():
            launched.clear()
            looked.clear()
            space["run"](*given)
            said.setdefault(name, {})[way] = [list(launched), len(looked)]
    out.write_text(json.dumps(said))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What this file said as a script."""
    out = tmp_path_factory.mktemp("direct") / "report.json"
    settings = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(out.parent / "cache"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, __file__, str(out)], env=settings, check=True, timeout=300)
    said: dict[str, dict[str, Any]] = json.loads(out.read_text())
    return said


@pytest.mark.parametrize(("name", "looks"), [
    ("first", 1), ("again", 0), ("another number", 0), ("another integer", 1), ("a pointer off 16 bytes", 1), ("half", 1),
    ("another block", 1), ("other warps", 1), ("as at first", 0),
])
def test_what_reaches_the_launcher_is_the_same(report: dict[str, dict[str, Any]], name: str, looks: int) -> None:
    plain, direct = report[name]["plain"], report[name]["direct"]
    assert plain[0] == direct[0] and len(plain[0]) == 1
    assert (plain[1], direct[1]) == (1, looks)


def test_a_pointer_off_16_bytes_gets_a_kernel_of_its_own(report: dict[str, dict[str, Any]]) -> None:
    _, _, aligned, _ = report["again"]["direct"][0][0]
    _, _, off, _ = report["a pointer off 16 bytes"]["direct"][0][0]
    assert "(0,)" in aligned and "(0,)" not in off


@pytest.mark.parametrize("name", sorted(starters("triton")))
def test_every_kernel_that_a_starter_launches_is_direct(name: str) -> None:
    tree = ast.parse(with_direct_launches(starters("triton")[name].text))
    kernels = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    launches = [(kernels[n.func.value.id], n) for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Subscript)
                and isinstance(n.func.value, ast.Name) and n.func.value.id in kernels]
    assert launches
    for kernel, launch in launches:
        assert [ast.unparse(d) for d in kernel.decorator_list] == ["direct", "triton.jit"]
        assert {k.arg for k in launch.keywords if k.arg} <= OPTIONS  # arguments by position, as DirectKernel wants them
        constants = [ast.unparse(a.annotation) if a.annotation else "" for a in kernel.args.args]
        assert "" in constants and constants.index("tl.constexpr") == constants.count("")  # constants last: taken as they are, all at once


def test_text_without_a_launched_kernel_stays_as_it_is() -> None:
    assert with_direct_launches("import torch\n\n\ndef f(x):\n    return x[0](1)\n") == "import torch\n\n\ndef f(x):\n    return x[0](1)\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
