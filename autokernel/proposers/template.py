"""What the search proposes from: a text with launch parameters to choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Template:
    """One way to write a problem's kernel: the parameters it is first tried with, their choices, and the text for any choice."""

    name: str
    builder: str
    idea: str  # one line for the note
    firsts: tuple[Mapping[str, Any], ...]  # whole sets of parameters, the likeliest first
    space: Mapping[str, list[Any]]
    render: Callable[[Mapping[str, Any]], str]

    @property
    def params(self) -> Mapping[str, Any]:
        """The very first choice."""
        return self.firsts[0]
