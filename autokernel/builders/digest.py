"""Turns a compiler's log into the few lines that its author needs."""

from __future__ import annotations

import re

_SHOWN = 5
_PATTERNS = (
    re.compile(r"^(?P<file>[^\s:()]+):(?P<line>\d+)(?::\d+)?: (?:fatal error|error): (?P<text>.*)$"),  # g++
    re.compile(r"^(?P<file>[^\s:()]+)\((?P<line>\d+)\): (?:catastrophic error|error)(?: #[\w-]+)?: (?P<text>.*)$"),  # nvcc's front end
    re.compile(r"^(?P<file>ptxas|nvlink|nvcc|cc1plus|g\+\+)\s*:?\s*(?:fatal|error)\s*: (?P<text>.*)$"),
    re.compile(r"^(?P<file>\S*ld): (?!native\.o)(?P<text>.*(?:cannot|error|relocation).*)$"),
    re.compile(r"^.*(?P<text>undefined reference to .*)$"),
    re.compile(r"^(?P<text>(?:virtual memory exhausted|Segmentation fault|Killed|File size limit exceeded|CPU time limit exceeded).*)$"),
)
_MACHINE = re.compile(
    r"No space left on device|Killed signal terminated program|^Killed$|[Cc]annot execute|Permission denied", re.MULTILINE
)


def digest(log: str, source: str, warning: str = "") -> str:
    """The first errors of a compiler's log, each with its line of `source` (the candidate's file), then `warning` if there is one.

    A log without any line that looks like an error gives its last lines instead.
    """
    errors: dict[tuple[str, str], str] = {}
    lines = source.splitlines()
    for raw in log.splitlines():
        for pattern in _PATTERNS:
            match = pattern.match(raw.rstrip())
            if match:
                found = match.groupdict()
                where = ":".join(filter(None, (found.get("file"), found.get("line"))))
                # one error a source line: those after it are its consequences
                errors.setdefault((where, "" if found.get("line") else found["text"]), _shown(found, where, lines))
                break
    shown = list(errors.values())[:_SHOWN]
    if len(errors) > _SHOWN:
        shown.append(f"... and {len(errors) - _SHOWN} more errors.")
    if not shown:
        tail = [line for line in log.splitlines() if line.strip() and not line.startswith(("[", "FAILED:", "ninja:"))]
        shown = [line[:300] for line in tail[-3:]] or ["The compiler failed without a message."]
    return "\n".join(shown + ([warning] if warning else []))


def is_machine_fault(log: str) -> bool:
    """Whether the log speaks of a full disk, an out-of-memory kill or the like: such a failure must not be remembered."""
    return _MACHINE.search(log) is not None


def _shown(found: dict[str, str], where: str, lines: list[str]) -> str:
    text = f"{where}: error: {found['text']}"[:400] if where else found["text"][:400]
    if "linkage" in found["text"] and "extern" not in found["text"]:
        text += ' (declare it extern "C" where it is defined)'
    number = int(found.get("line") or 0)
    if found.get("file") == "candidate.py" and 0 < number <= len(lines) and not found["text"].startswith("static assertion"):
        text += f"\n    {number} | {lines[number - 1].strip()[:160]}"
    return text
