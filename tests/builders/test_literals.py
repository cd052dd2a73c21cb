from __future__ import annotations

import pytest

from autokernel.builders.literals import read_literals
from autokernel.builders.signatures import Argument
from autokernel.builders.syntax import CandidateFault

GOOD = "CPP_SRC = r'''\nint x;\n'''\nSIGNATURES = {\n    'f': 'const f32* x, bf16 *y,i64 n',\n}\nCPP_FLAGS = ['-ffast-math']\n"


def test_literals_of_a_good_file():
    literals = read_literals(GOOD, "cpp")
    assert literals.code == "\nint x;\n"
    assert literals.first_line == 1
    assert literals.flags == ("-ffast-math",)
    assert literals.warning == ""
    (signature,) = literals.signatures
    assert (signature.name, signature.line) == ("f", 5)
    assert signature.arguments == (Argument("f32*", "x"), Argument("bf16*", "y"), Argument("i64", "n"))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("CPP_SRC = r'''\nint x;\n'''", "", r"CPP_SRC is missing; set it"),
        ("CPP_SRC = r'''\nint x;\n'''", "CPP_SRC = f'''{1}'''", r"candidate\.py:1: error: CPP_SRC must be one plain string literal"),
        ("CPP_SRC = r'''\nint x;\n'''", "CPP_SRC = open('x').read()", r"must be one plain string literal"),
        ("CPP_SRC = r'''\nint x;\n'''", "CPP_SRC = 'a'\nCPP_SRC = 'b'", r"candidate\.py:2: error: CPP_SRC is assigned 2 times"),
        ("CPP_SRC = r'''\nint x;\n'''", "CPP_SRC = '\\0'", r"holds a null"),
        ("CPP_SRC = r'''\nint x;\n'''", "CPP_SRC = '\\ud800'", r"lone surrogate"),
        ("SIGNATURES = {", "OTHER = {", r"SIGNATURES is missing; set it at module level, for example"),
        ("{\n    'f': 'const f32* x, bf16 *y,i64 n',\n}", "{}", r"must be a dict literal with one entry"),
        ("{\n    'f': 'const f32* x, bf16 *y,i64 n',\n}", "dict(f='f32* x')", r"must be a dict literal"),
        ("'f': ", "f: ", r"plain strings as keys"),
        ("'const f32* x, bf16 *y,i64 n'", "3", r"candidate\.py:5: error: SIGNATURES\['f'\] must be one plain string"),
        ("'f': ", "'f': '', 'f': ", r"given twice"),
        ("'f': ", "'class': ", r"choose a function name"),
        ("i64 n", "u32 n", r"candidate\.py:5: error: SIGNATURES\['f'\]: argument 3 has type 'u32'; use one of f32\*"),
        ("i64 n", "i64", r"argument 3 is 'i64', but must be TYPE NAME"),
        ("i64 n", "a" * 300_000 + "!", r"argument 3 is 'a{200}', but must be TYPE NAME"),  # said at once
        ("i64 n", "i64 x", r"two arguments are called 'x'"),
        ("i64 n", "void* stream", r"remove 'void\* stream'; the binding adds it"),
        (
            "['-ffast-math']",
            "['-fplugin=x.so']",
            r"candidate\.py:7: error: CPP_FLAGS: flag '-fplugin=x\.so' is not allowed; choose from -O1",
        ),
        ("['-ffast-math']", "['-O3 -include /etc/passwd']", r"is not allowed"),
        ("['-ffast-math']", "'-O3'", r"must be a list literal"),
        ("['-ffast-math']", "[1]", r"must be a list literal of strings"),
        ("int x;\n'''\n", "'''\nx = )\n", r"candidate\.py:3: error: unmatched"),
    ],
)
def test_a_fault_names_its_line_and_what_to_write(old, new, message):
    text = GOOD.replace(old, new, 1)
    assert text != GOOD
    with pytest.raises(CandidateFault, match=message):
        read_literals(text, "cpp")


def test_a_literal_out_of_step_with_its_lines_says_so():
    literals = read_literals(GOOD.replace("r'''\nint x;", "'''\nconst char* s = \"\\n\";"), "cpp")
    assert literals.first_line is None
    assert "CPP_SRC is not a raw string" in literals.warning


@pytest.mark.parametrize(
    ("flag", "kind", "allowed"),
    [
        ("--use_fast_math", "cuda", True),
        ("--use_fast_math", "cpp", False),
        ("--maxrregcount=64", "cuda", True),
        ("-Xcompiler=-fplugin=x", "cuda", False),
        ("-ffp-contract=fast", "cpp", True),
        ("-ffast-math\n", "cpp", False),
    ],
)
def test_flags_are_an_allow_list(flag, kind, allowed):
    name = {"cuda": "CUDA", "cpp": "CPP"}[kind]
    text = f"{name}_SRC = ''\nSIGNATURES = {{'f': ''}}\n{name}_FLAGS = [{flag!r}]"
    if allowed:
        assert read_literals(text, kind).flags == (flag,)
    else:
        with pytest.raises(CandidateFault, match="is not allowed; choose from"):
            read_literals(text, kind)
