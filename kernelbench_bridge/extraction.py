"""Code out of a model's answer, as KernelBench takes it: by fences, a language word cut as a mere prefix."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FENCED = re.compile(r"```(.*?)```", re.DOTALL)
_FENCED_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
_FENCED_BODY = re.compile(r"```.*?\n(.*?)```", re.DOTALL)


def extract_first_code(text: str, languages: Sequence[str]) -> str | None:
    """What the first closed fence holds, without a leading word of `languages`; None where no fence is closed.

    A prefix is cut whatever follows it: "pythonic" loses six letters, and "python3" leaves its 3. Source: KernelBench.
    """
    found = _FENCED.search(text.strip())
    return _without_language(found[1], languages) if found else None


def extract_last_code(text: str, languages: Sequence[str]) -> str | None:
    """The same of the last closed fence."""
    found = _FENCED.findall(text.strip())
    return _without_language(found[-1], languages) if found else None


def extract_python_code(text: str) -> str:
    """The bodies of all fences marked exactly `python`, on lines of their own, not stripped; "" where there are none."""
    return "\n".join(_FENCED_PYTHON.findall(text))


def extract_code_blocks(text: str, languages: Sequence[str]) -> str:
    """The bodies of all fences below their first line, stripped and joined by " \\n "; "" where there are none."""
    return " \n ".join(_without_language(body, languages) for body in _FENCED_BODY.findall(text))


def _without_language(body: str, languages: Sequence[str]) -> str:
    code = body.strip()
    for language in languages:
        if code.startswith(language):
            code = code[len(language):].strip()
    return code
