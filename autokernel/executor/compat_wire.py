"""The frame in which a worker reports an evaluation under KernelBench's rules: a fixed header, numbers, texts of capped length.

Nothing in it is unpickled, evaluated or used as a path. Everything in it is the untrusted side's own word: KernelBench compares and
times in the candidate's process, and so what comes from there is shown as unverified.
"""

from __future__ import annotations

import math
import socket
import struct
from dataclasses import dataclass, field

from autokernel.executor import wire

MAGIC = 0x414B4331  # "AKC1"
HEADER = struct.Struct("<IHHIIIIIIIIII4d")  # magic, outcome, flags, passed, trials, counts of 4 lists, lengths of 4 texts, seconds
MOST_NUMBERS = 1 << 20  # of one list; do_bench of a tiny kernel takes some thousand times
CAPS = (256, 32 << 10, 32 << 10, 4 << 10)  # bytes: error's name, its text, its traceback, a second error's name and text

# how it ended; each is one way out of KernelBench's evaluator
(FINISHED, LOADED, NOT_COMPILED, RETRY, NO_MODEL_NEW, CONSTRUCTOR_FAILED, CONSTRUCTOR_ESCAPED, SHAPE_DIFFERS, CANDIDATE_RAISED,
 CHECK_RAISED, REFERENCE_DOES_NOT_LOAD, REFERENCE_NOT_BUILT) = range(12)
OUTCOMES = 12
# flags
TIMED, TIMING_FAILED, REFERENCE_TIMED, REFERENCE_TIMING_FAILED, DREW, REBOUND, MISSING_PACKAGE = (1 << bit for bit in range(7))


@dataclass
class Report:
    """What a worker says of an evaluation. Times are in ms, `seconds` the worker's own clock for load, build, check and timing."""

    outcome: int = FINISHED
    flags: int = 0
    passed: int = 0
    trials: int = 0
    max_differences: list[float] = field(default_factory=list)
    average_differences: list[float] = field(default_factory=list)
    times_ms: list[float] = field(default_factory=list)
    reference_ms: list[float] = field(default_factory=list)
    error_name: str = ""
    error: str = ""
    trace: str = ""
    second: str = ""  # what went wrong later: in timing
    seconds: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def numbers(self) -> tuple[list[float], ...]:
        """The four lists in the frame's order."""
        return self.max_differences, self.average_differences, self.times_ms, self.reference_ms


def send(sock: socket.socket, report: Report) -> None:
    """Send a report, in the worker; what is too long is cut."""
    lists = [numbers[:MOST_NUMBERS] for numbers in report.numbers]
    texts = [_cut(text, cap) for text, cap in zip((report.error_name, report.error, report.trace, report.second), CAPS, strict=True)]
    header = HEADER.pack(MAGIC, report.outcome, report.flags, report.passed, report.trials, *map(len, lists), *map(len, texts),
                         *report.seconds)
    body = b"".join(struct.pack(f"<{len(numbers)}d", *numbers) for numbers in lists)
    sock.sendall(header + body + b"".join(texts))


def receive(sock: socket.socket) -> Report:
    """The report that a worker sends. Raises WireClosed, WireBroken, or TimeoutError if the socket has a timeout."""
    magic, outcome, flags, passed, trials, *rest = HEADER.unpack(wire.receive_exactly(sock, HEADER.size))
    counts, lengths, seconds = rest[:4], rest[4:8], rest[8:]
    if (magic != MAGIC or outcome >= OUTCOMES or any(count > MOST_NUMBERS for count in counts)
            or any(length > cap for length, cap in zip(lengths, CAPS, strict=True)) or passed > trials):
        raise wire.WireBroken("a report must be a frame of this protocol")
    lists = [list(struct.unpack(f"<{count}d", wire.receive_exactly(sock, 8 * count))) for count in counts]
    texts = [wire.receive_exactly(sock, length).decode("utf-8", "replace") for length in lengths]
    if any(not math.isfinite(time) or time < 0.0 for time in (*lists[2], *lists[3])):
        raise wire.WireBroken("a time must be a finite number that is not negative")
    return Report(outcome, flags, passed, trials, lists[0], lists[1], lists[2], lists[3], texts[0], texts[1], texts[2], texts[3],
                  (seconds[0], seconds[1], seconds[2], seconds[3]))


def _cut(text: str, cap: int) -> bytes:
    return text.encode("utf-8", "backslashreplace")[:cap]
