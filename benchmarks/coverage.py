"""Which plan the built-in search finds for every problem of a level, without running one: a census.

    python benchmarks/coverage.py --level 1 [--level 2] [--source PATH] [--backend triton] [--seeds] [--json census.json]

Prints a line a problem (the template that is tried first, or why there is none) and the counts by template.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


def census(level: int, source: str, backend: str, seeds: bool) -> Iterator[dict[str, Any]]:
    """A row a problem, as it is found: uid, name, templates (names, the likeliest first), ideas, and the reason where there is none."""
    from autokernel.proposers.graph import Unmatchable
    from autokernel.proposers.templates import templates
    from kernelbench_bridge import load_level

    for problem in load_level(level, source=source).problems:
        row: dict[str, Any] = {"uid": problem.uid, "name": problem.name, "templates": [], "ideas": [], "reason": ""}
        try:
            found = templates(problem.source, backend, "cuda:0", seeds)
            row |= {"templates": [t.name for t in found], "ideas": [t.idea for t in found]}
        except Unmatchable as met:
            row["reason"] = str(met)
        yield row


def main() -> int:
    """Print the census of the levels asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", type=int, action="append", required=True)
    parser.add_argument("--source", default="auto")
    parser.add_argument("--backend", default="triton", choices=("triton", "cuda", "cpp"))
    parser.add_argument("--seeds", action="store_true", help="also ask torch.compile, seconds a problem")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    whole = {}
    for level in options.level:
        rows = []
        for row in census(level, options.source, options.backend, options.seeds):
            print(f"{row['uid']:7} {row['name'][:56]:56} {'; '.join(row['ideas']) or 'no starter: ' + row['reason']}", flush=True)
            rows.append(row)
        counts = Counter(row["templates"][0] if row["templates"] else "no starter" for row in rows)
        found = sum(bool(row["templates"]) for row in rows)
        print(f"level {level}: {found} of {len(rows)} with a plan; " + ", ".join(f"{name} {n}" for name, n in counts.most_common()))
        whole[level] = rows
    if options.json:
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
