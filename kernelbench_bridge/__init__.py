"""KernelBench's problems as plain values, from the Hub, a checkout, a folder of parquet files, or the embedded set. Imports no sibling."""

from __future__ import annotations

from kernelbench_bridge.errors import BridgeError
from kernelbench_bridge.loader import LoadedLevel, load_level, load_problem
from kernelbench_bridge.problem import Problem
from kernelbench_bridge.requirements import requirements
from kernelbench_bridge.selection import format_ids, parse_ids

__all__ = ["BridgeError", "LoadedLevel", "Problem", "format_ids", "load_level", "load_problem", "parse_ids", "requirements"]
