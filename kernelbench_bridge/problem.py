"""One KernelBench task, as text; nothing here executes it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_TRIPLE_QUOTED = re.compile(r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'')
_COMMENT = re.compile(r"#.*$", re.MULTILINE)
_WHITE_SPACE = re.compile(r"\s+")

FILE_LEVEL = 0  # of a problem that is a file of the user's own, in no level


def code_hash(source: str) -> str:
    """md5 (hex) of the source without triple-quoted strings, comments and white space, as KernelBench computes it.

    It cuts at a `#` inside a plain string too, so two different programs can share a hash; kept, because the hash exists to
    be compared with KernelBench's. Source: KernelBench `Problem.hash`.
    """
    text = _TRIPLE_QUOTED.sub("", source)
    text = _COMMENT.sub("", text)
    text = _WHITE_SPACE.sub("", text)
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Problem:
    """One problem: where it stands in KernelBench, and its Python source, which defines Model, get_inputs, get_init_inputs."""

    level: int  # 1 to 4 in KernelBench; 0 for a file of the user's own
    problem_id: int
    name: str  # file name without `.py`, e.g. "19_ReLU"
    source: str
    origin: str  # "hub", "checkout", "parquet", "embedded" or "file"

    @property
    def uid(self) -> str:
        """Short name for people and records: "L1/19", or "file/STEM" for a file of the user's own."""
        return f"file/{self.name}" if self.level == FILE_LEVEL else f"L{self.level}/{self.problem_id}"

    @property
    def hash(self) -> str:
        """KernelBench's hash of the source. Records carry it because ids were given to other problems between versions."""
        return code_hash(self.source)
