"""What the text of a row program says where the interpreter cannot show it: tensors too large to be run here."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autokernel.proposers.graph import read
from autokernel.proposers.templates import starter_templates
from autokernel.proposers.trace import trace

_spec = importlib.util.spec_from_file_location("search_problems", Path(__file__).with_name("problems.py"))
assert _spec is not None and _spec.loader is not None
problems: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)


@pytest.mark.parametrize(("shape", "dim", "across", "down"), [
    ("160, 1 << 24", 0, True, True),  # the last of 160 columns begins at 2.67e9 elements
    ("1 << 24, 160", 1, False, True),
    ("100, 1 << 20", 0, False, False),
])
@pytest.mark.parametrize("splits", [1, 4])
def test_offsets_beyond_2_to_the_31_are_counted_in_64_bits(shape: str, dim: int, across: bool, down: bool, splits: int) -> None:
    source = problems.problem(f"x: return torch.logsumexp(x, dim={dim})", f"torch.rand({shape})")
    template = starter_templates(source, read(trace(source)), "triton")[0]
    assert template.name == "triton rows"
    text = template.render({**template.params, "rows.tile": 1024, "rows.lanes": 64, "rows.splits": splits})
    columns = re.findall(r"^ +col = .*", text, re.MULTILINE)
    assert columns and all(("int64" in line) is across for line in columns)
    lanes = re.findall(r"^ +lane = .*", text, re.MULTILINE)
    assert lanes and all(("int64" in line) is down for line in lanes)


CORNERS = """
import sys
from pathlib import Path
from types import SimpleNamespace
sys.path[:0] = [{benchmarks!r}, {root!r}]
import corners
corners.pretend_to_have_the_memory()
from autokernel.proposers.triton_words import Words
problem = SimpleNamespace(source=Path({source!r}).read_text(), uid="X")
print(*corners.check(problem, 100, Path({scratch!r}))[0]["defects"])
Words.wide_across = False
print(*corners.check(problem, 100, Path({scratch!r}))[0]["defects"])
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_program_at_a_grids_corner_leaves_its_tensors(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    root = Path(__file__).resolve().parents[2]
    source = tmp_path / "source.py"
    source.write_text(problems.problem("x: return torch.logsumexp(x, dim=0)", "torch.rand(160, 1 << 24)"))
    script = CORNERS.format(benchmarks=str(root / "benchmarks"), root=str(root), source=str(source), scratch=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    right, wrong = done.stdout.split("\n")[:2]
    assert right == ""
    assert f"an int32 would be {159 << 24}" in wrong  # were columns counted in 32 bits
    assert f"of {160 << 26}" in wrong and "a load of bytes -8589934592" in wrong
