"""The library's own convolutions, better configured: its algorithms measured on the first call, inputs and weights laid channels last.

No kernel of our own, and labelled so: what a kernel must beat. Outputs are laid as the reference lays them, so that whoever calls
`view` on them can go on doing so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from autokernel.proposers import starting_text
from autokernel.proposers.match_conv import MEASURED
from autokernel.proposers.recorded import MANY_LAUNCHES, recorded
from autokernel.proposers.template import Template

IDEA = "no kernel of our own: the library's convolutions, its algorithms measured on the first call"
LAST = {2: "channels_last", 3: "channels_last_3d"}  # by a convolution's dimensions; one has no such layout
TEXT = '''\
def laid(value, layout):
    """The value with every tensor of that layout's dimensions in it."""
    if isinstance(value, torch.Tensor):
        return value.contiguous(memory_format=layout) if value.dim() == DIMENSIONS else value
    return type(value)(laid(item, layout) for item in value) if isinstance(value, (list, tuple)) else value


class ModelNew(Model):
    """The reference on inputs and weights laid channels last; its outputs are laid as the reference lays them."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.to(memory_format=torch.LAYOUT)

    def forward(self, *inputs):
        return laid(super().forward(*laid(inputs, torch.LAYOUT)), torch.contiguous_format)
'''


def library_template(source: str, traced: Mapping[str, Any]) -> Template | None:
    """The problem's own text with its convolutions configured; None where it has none. Many launches are recorded as a CUDA graph."""
    dims = {len(op["args"][3]) for op in traced.get("ops", ()) if op["op"].startswith("aten.convolution")}
    if not dims:
        return None
    layouts = ["as it is", *(["channels last"] if dims <= LAST.keys() and len(dims) == 1 else [])]
    many = len(traced["ops"]) >= MANY_LAUNCHES

    def render(params: Mapping[str, Any]) -> str:
        text = starting_text(source)
        if params["layout"] != "as it is":
            own = TEXT.replace("LAYOUT", LAST[min(dims)]).replace("DIMENSIONS", str(min(dims) + 2))
            text = f"{source.rstrip()}\n\n\n{own}"
        text = (recorded(text, "Configured") if params["recorded"] else text).rstrip()
        imports = "" if re.search(r"^import torch$", source, re.MULTILINE) else "import torch\n"
        return f"{text}\n\n\n{imports}{MEASURED}\n"

    firsts = tuple({"layout": layout, "recorded": many} for layout in layouts)
    return Template("library", "python", IDEA, firsts, {"layout": layouts, "recorded": [False, True]}, render)
