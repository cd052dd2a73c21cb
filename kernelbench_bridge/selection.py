"""What people type to name problems: "1-10,23" and "L1/19"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernelbench_bridge.errors import BridgeError

LARGEST_ID = 100_000  # far above any level; a typing slip such as 1-1000000000 must not fill the memory
_PART = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_UID = re.compile(r"[Ll]([0-9]{1,4})/([0-9]{1,9})")


def parse_ids(text: str) -> tuple[int, ...]:
    """Problem ids of a range such as "1-10,23": sorted, each once, both ends of a range included.

    Raises BridgeError (exit 2) for an empty text, a part that is no id or range, a range that runs backwards, and an id
    outside 1 to 100000.
    """
    ids: set[int] = set()
    for part in (piece.strip() for piece in text.split(",")):
        match = _PART.fullmatch(part)
        if match is None:
            raise BridgeError(f"'{part}' in '{text}' is no problem id and no range; use ids and ranges without the level, such as 1-10,23.")
        first = int(match[1])
        last = int(match[2] or match[1])
        if last < first:
            raise BridgeError(f"the range '{part}' runs backwards; use {last}-{first}.")
        if first < 1 or last > LARGEST_ID:
            raise BridgeError(f"'{part}' is out of range: problem ids must lie between 1 and {LARGEST_ID}.")
        ids.update(range(first, last + 1))
    return tuple(sorted(ids))


def parse_uid(text: str) -> tuple[int, int] | None:
    """(level, problem id) of a uid such as "L1/19", or None if the text is no uid."""
    match = _UID.fullmatch(text.strip())
    return (int(match[1]), int(match[2])) if match else None


def format_ids(ids: Iterable[int]) -> str:
    """Ids in the form that `parse_ids` reads, runs joined: (1, 2, 3, 7) gives "1-3,7"; "none" where there are none."""
    runs: list[list[int]] = []
    for number in sorted(set(ids)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs) or "none"
