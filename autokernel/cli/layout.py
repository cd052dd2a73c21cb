"""Text that fits a terminal: cut between words, wrapped with an indent, problem ids in short."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Iterator

NARROWEST, WIDEST = 60, 120  # characters; wider lines are hard to read


def width() -> int:
    """Columns to write for: the terminal's (or COLUMNS), 80 where there is none."""
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((80, 24)).columns))


def short(text: str, most: int) -> str:
    """`text` on one line of at most `most` characters, cut after a word where it has one."""
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    kept = line[: most - 3]
    whole = kept if line[most - 3] == " " else kept.rpartition(" ")[0]
    return f"{(whole if len(whole) > most // 3 else kept).rstrip(' ,;:')}..."


def wrapped(text: str, indent: str, hanging: str | None = None) -> Iterator[str]:
    """`text` in lines of `width()`, the first after `indent`, the others after `hanging` (default: `indent` too)."""
    yield from textwrap.wrap(text, width(), initial_indent=indent, subsequent_indent=indent if hanging is None else hanging,
                             break_long_words=False, break_on_hyphens=False)


def printable(text: str) -> str:
    """The text on one line that no terminal obeys: for a candidate's own words."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def ids(uids: Iterable[str]) -> str:
    """Uids of one level in short: L1/1, L1/2, L1/3, L1/7 gives "L1/1-3, 7"."""
    from kernelbench_bridge import format_ids

    numbers: dict[str, list[int]] = {}
    for uid in uids:
        level, _, number = uid.partition("/")
        numbers.setdefault(level, []).append(int(number))
    return ", ".join(f"{level}/{format_ids(found).replace(',', ', ')}" for level, found in numbers.items())
