"""Problem: uid and KernelBench's hash."""

from __future__ import annotations

import pytest

from kernelbench_bridge import Problem
from kernelbench_bridge.problem import code_hash


def test_comments_white_space_and_docstrings_do_not_change_the_hash():
    with_comment = "def f(x):  # c\n    return x + 1\n"
    assert code_hash(with_comment) == "3482c1a1751773e28d9abb8cdfcc1b62"  # from KernelBench's own code
    assert code_hash("def f(x):\n  return   x+1\n") == "3482c1a1751773e28d9abb8cdfcc1b62"
    assert code_hash('def f(x):\n    """What\n    # it does."""\n    return x + 1') == "3482c1a1751773e28d9abb8cdfcc1b62"
    assert code_hash("def f(x):\n  return x+2\n") != "3482c1a1751773e28d9abb8cdfcc1b62"


def test_the_hash_cuts_inside_strings_as_kernelbench_does():
    assert code_hash('a="#b"\nc=1') == code_hash('a="#z"\nc=1') == "7389f209114d14e6972d513b52e08300"


@pytest.mark.parametrize(("level", "uid"), [(1, "L1/19"), (4, "L4/19"), (0, "file/19_ReLU")])
def test_uid(level, uid):
    problem = Problem(level, 19, "19_ReLU", "pass", "embedded")
    assert problem.uid == uid
    assert problem.hash == code_hash("pass")
