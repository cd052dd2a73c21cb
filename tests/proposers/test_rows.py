"""What the text of a row program says where the interpreter cannot show it: tensors too large to be run here."""

from __future__ import annotations

import importlib.util
import re
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
