"""What solved problems teach: where a template begins with a choice that another problem began with too, what won there is tried early."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping, Sequence
from typing import Any

from autokernel.proposers import Solved
from autokernel.proposers.template import Template

_Key = tuple[tuple[str, Any], ...]


class Lessons:
    """Choices that won, by the choice that the same template was tried with first there."""

    def __init__(self, solved: Sequence[Solved] = ()) -> None:
        self._won: dict[_Key, Mapping[str, Any]] = {}
        for problem in solved:
            won = params_of(problem.champion)
            first = next((p for p in map(params_of, problem.tried) if p.keys() == won.keys()), {})
            if won and won != first:
                self._won[_key(first)] = won

    def choice(self, template: Template) -> Mapping[str, Any] | None:
        """The template's first choice changed to what won where it began likewise; None where that is not known or one of its own."""
        first = template.firsts[0]
        for key, won in self._won.items():
            if won.keys() <= first.keys() and _key({name: first[name] for name in won}) == key:
                learned = {**first, **won}
                if learned not in template.firsts and all(learned[name] in choices for name, choices in template.space.items()):
                    return learned
        return None


def _key(params: Mapping[str, Any]) -> _Key:
    return tuple(sorted((name, repr(value)) for name, value in params.items()))


@functools.lru_cache(maxsize=4096)
def params_of(text: str) -> Mapping[str, Any]:
    """A candidate's PARAMS by name, those of stages as "stage.name"; empty where it has none that can be read."""
    try:
        found: Any = next((ast.literal_eval(node.value) for node in ast.parse(text).body
                      if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "PARAMS"), {})
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    if not isinstance(found, dict):
        return {}
    flat: dict[str, Any] = {}
    for name, value in found.items():
        flat.update({f"{name}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {str(name): value})
    return flat
