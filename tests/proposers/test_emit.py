"""A candidate's text: what it takes from the problem's, its imports and literals."""

from __future__ import annotations

from autokernel.proposers.emit import literal, module_head, module_text, reference

SOURCE = '''
import math
import torch
import torch.nn as nn

width = 5
scale = math.sqrt(2.0)

def doubled(width):
    return 2 * width * scale

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w = nn.Parameter(torch.ones(width)) if width < 9 else doubled(width)

    def forward(self, x):
        return x + self.w
'''


def test_only_what_the_constructor_reaches_is_taken_over_and_its_parameters_are_its_own() -> None:
    taken = reference(SOURCE).before.split("\n")
    assert "scale = math.sqrt(2.0)" in taken and "def doubled(width):" in taken and "import math" in taken
    assert "width = 5" not in taken  # the module's; in both functions the name is a parameter


def test_imports_stand_once_and_in_groups_and_the_problems_statements_after_them() -> None:
    head = module_head("What it is.", ["from torch import nn", "import triton", "from __future__ import annotations", "import torch"],
                       {"PARAMS": {"block": 4}}, ["import torch", "import torch.nn as nn", "import math", "scale = 2.0"])
    assert head == ('"""What it is."""\n\nfrom __future__ import annotations\n\nimport math\n\nimport torch\nimport triton\n'
                    "from torch import nn\n\nscale = 2.0\n\nPARAMS = {'block': 4}")


def test_long_literals_are_broken_and_mean_the_same() -> None:
    value = {"first": {f"name_{n}": "as it is" for n in range(12)}, "second": {"a": (1, 2)}, "third": [None, True]}
    text = literal(value)
    assert eval(text) == value and max(map(len, text.split("\n"))) <= 120
    assert text.split("\n")[0] == "{" and "    'second': {'a': (1, 2)}," in text.split("\n")
    assert literal({"a": 1}) == "{'a': 1}"


def test_assignments_of_one_line_stand_together() -> None:
    text = module_text(["import torch\n\nPARAMS = {\n    'a': 1,\n}", "X = 1\n", "Y = 2", "def f():\n    pass", "Z = (\n    3\n)"])
    assert text == "import torch\n\nPARAMS = {\n    'a': 1,\n}\nX = 1\nY = 2\n\n\ndef f():\n    pass\n\n\nZ = (\n    3\n)\n"
