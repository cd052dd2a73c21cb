"""What a shared library asks of the system that loads it, read from its dynamic section: symbol versions and undefined symbols.

Source: the ELF specification (64-bit, little-endian) and the GNU symbol versioning extension.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SHT_DYNSYM, _SHT_VERNEED, _SHT_DYNAMIC = 11, 0x6FFFFFFE, 6
_DT_NEEDED = 1
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class Needs:
    """What a library needs: libraries by soname, symbol versions such as "GLIBC_2.34", undefined symbols by name."""

    libraries: tuple[str, ...]
    versions: tuple[str, ...]
    symbols: tuple[str, ...]

    def newest(self, family: str) -> str | None:
        """The newest version of a family ("GLIBC", "GLIBCXX", "GCC", "CXXABI", "GOMP") that is asked for, e.g. "2.34"."""
        found = [v.rpartition("_")[2] for v in self.versions if v.startswith(family + "_") and v.rpartition("_")[2][:1].isdigit()]
        return max(found, key=lambda v: tuple(int(part) for part in v.split("."))) if found else None


def needs(data: bytes) -> Needs:
    """The needs of a 64-bit little-endian ELF library. Raises ValueError for anything else, damaged files included."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("the library must be a 64-bit little-endian ELF file")
    try:
        header = _HEADER.unpack_from(data)
        offset, size, count = header[6], header[11], header[12]
        sections = [_SECTION.unpack_from(data, offset + size * number) for number in range(count)]
        libraries: list[str] = []
        versions: set[str] = set()
        symbols: list[str] = []
        for section in sections:
            kind, start, length, link = section[1], section[4], section[5], section[6]
            if kind in (_SHT_DYNSYM, _SHT_VERNEED, _SHT_DYNAMIC):
                strings = sections[link]
                names = data[strings[4]:strings[4] + strings[5]]
                if kind == _SHT_DYNSYM:
                    symbols += _undefined(data, start, length, names)
                elif kind == _SHT_VERNEED:
                    versions |= set(_versions(data, start, section[7], names))
                else:
                    libraries += [_string(names, value) for tag, value in struct.iter_unpack("<qQ", data[start:start + length])
                                  if tag == _DT_NEEDED]
        return Needs(tuple(libraries), tuple(sorted(versions)), tuple(sorted(symbols)))
    except (struct.error, IndexError) as error:
        raise ValueError(f"the library is a damaged ELF file ({error}); run the export again") from error


def _undefined(data: bytes, start: int, length: int, names: bytes) -> Iterator[str]:
    for name, _, _, section, _, _ in struct.iter_unpack("<IBBHQQ", data[start:start + length]):
        if section == 0 and name:
            yield _string(names, name)


def _versions(data: bytes, start: int, count: int, names: bytes) -> Iterator[str]:
    at = start
    for _ in range(count):
        _, entries, _, aux, following = struct.unpack_from("<HHIII", data, at)
        inner = at + aux
        for _ in range(entries):
            _, _, _, name, step = struct.unpack_from("<IHHII", data, inner)
            yield _string(names, name)
            inner += step
        at += following


def _string(names: bytes, start: int) -> str:
    return names[start:names.index(b"\0", start)].decode("ascii", "replace")
