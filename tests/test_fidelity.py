"""The benchmark that says how far the clock can be trusted, a row of each kind: what it asks of the evaluator is there."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from autokernel.executor.broker import Executor

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fidelity", ROOT / "benchmarks" / "fidelity.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["fidelity"] = module  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with Executor("cpu", tmp_path_factory.mktemp("store")) as made:
        yield made


def test_equal_code_known_gains_and_events_give_rows(bench: ModuleType, executor: Executor) -> None:
    same = next(bench.aa_rows(executor, 1.0, 3, []))
    assert same["kind"] == "aa" and same["low"] <= same["speedup"] <= same["high"] and same["pairs"] >= 3
    half = next(bench.gain_rows(executor, 1.0, [{"kind": "gain", "work_ms": ms, "gain": gain} for ms, gain in bench.GAINS[:2]
                                                for _ in range(bench.TRIES)]))
    assert (half["work_ms"], half["gain"]) == bench.GAINS[2] and half["eager_ms"] > 0.2
    event = next(bench.event_rows(executor, []))
    assert event["elements"] == bench.SIZES[0] and event["window_ms"] > 0 and "false keeps" in bench.report([same, half, event])
