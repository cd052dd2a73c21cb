"""Reads `SIGNATURES` entries: "f32* x, i64 n" declares the C arguments of one launcher, once, for the binding and the compiler."""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from autokernel.builders.syntax import CandidateFault

POINTERS = ("f32*", "f16*", "bf16*", "f64*", "i64*", "i32*", "i8*", "u8*", "bool*", "void*")
SCALARS = ("i32", "i64", "f32", "f64")
LONGEST_ARGUMENT = 200  # characters
_ARGUMENT = re.compile(r"(?:const\s+)?([a-z0-9]+)\s*(\*?)\s*([A-Za-z]\w*)", re.ASCII)


@dataclass(frozen=True)
class Argument:
    """One C argument: `type` is of POINTERS (a tensor) or SCALARS (a number)."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """Whether a tensor is passed."""
        return self.type.endswith("*")


@dataclass(frozen=True)
class Signature:
    """One launcher: its exported name, its arguments in order, and the line of the candidate's file that declares it."""

    name: str
    arguments: tuple[Argument, ...]
    line: int


def parse_signature(name: str, text: str, line: int) -> Signature:
    """The signature that `text`, e.g. "f32* x, f32* y, i64 n", declares for the function `name`.

    `const` before a type is allowed and means nothing. Raises CandidateFault, with the line and the argument, for anything else.
    """
    where = f"candidate.py:{line}: error: SIGNATURES['{name}']"
    if not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII) or keyword.iskeyword(name):
        raise CandidateFault(f"{where}: choose a function name of letters, digits and _ that is no Python keyword.")
    arguments: list[Argument] = []
    for position, part in enumerate(filter(None, map(str.strip, text.split(","))), start=1):
        match = _ARGUMENT.fullmatch(part) if len(part) <= LONGEST_ARGUMENT else None
        if match is None:
            raise CandidateFault(f"{where}: argument {position} is '{part[:LONGEST_ARGUMENT]}', but must be TYPE NAME, "
                                 "for example 'f32* x' or 'i64 n'.")
        kind = match[1] + match[2]
        if kind == "void*" and match[3] == "stream":
            raise CandidateFault(f"{where}: remove 'void* stream'; the binding adds it after the arguments that are written here.")
        if kind not in POINTERS + SCALARS:
            raise CandidateFault(f"{where}: argument {position} has type '{kind}'; use one of {' '.join(POINTERS + SCALARS)}.")
        if any(argument.name == match[3] for argument in arguments):
            raise CandidateFault(f"{where}: two arguments are called '{match[3]}'; choose different names.")
        arguments.append(Argument(kind, match[3]))
    return Signature(name, tuple(arguments), line)
