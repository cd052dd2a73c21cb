"""What every origin hands back: one level's problems in order of id, and notes on what it left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kernelbench_bridge.problem import Problem


@dataclass(frozen=True)
class Listing:
    """One level as an origin holds it: every id once, ascending; `notes` tell people what was left out, a line each."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def unique(problems: Iterable[Problem], notes: Iterable[str] = ()) -> Listing:
    """Problems sorted by id, one for each id.

    Where several claim an id, the first by name is kept, whatever order they were listed in, and a note names all of them.
    (KernelBench keeps whichever its file system lists last.) The hash in every record shows which one was meant.
    """
    by_id: dict[int, list[Problem]] = {}
    for problem in sorted(problems, key=lambda each: (each.problem_id, each.name, each.source)):
        by_id.setdefault(problem.problem_id, []).append(problem)
    remarks = list(notes)
    for group in by_id.values():
        if len(group) > 1:
            same = "the same code" if len({each.hash for each in group}) == 1 else "different code"
            names = ", ".join(each.name for each in group)
            remarks.append(f"{group[0].uid} is there {len(group)} times with {same} ({names}); {group[0].name} is used")
    return Listing(tuple(group[0] for group in by_id.values()), tuple(remarks))
