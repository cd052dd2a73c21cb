"""The spare worker that imports torch.compile's compiler ahead: here on the CPU, told that the cores suffice."""

from __future__ import annotations

from pathlib import Path

import pytest

from autokernel.executor import nursery as module
from autokernel.executor.nursery import Nursery


def test_a_spare_is_warmed_taken_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPARE_CORES", 1)
    nursery = Nursery("cpu", tmp_path / "store", tmp_path, (0,), compiles=True)
    nursery.open()
    try:
        nursery.device = "cuda:0"  # only from here on: the zygote itself is the CPU's
        monkeypatch.setattr(nursery, "spawn", lambda **given: Nursery.spawn(nursery, **{**given, "on_device": False}))
        nursery.warm_spare()
        warm = nursery._spare
        assert warm is not None and len(nursery.workers) == 1
        taken = nursery.spawn_compiler()
        assert taken is warm and taken.started
        assert nursery._spare is not None and nursery._spare is not warm
    finally:
        for worker in list(nursery.workers.values()):
            nursery.bury(worker)
        nursery.close()
    assert nursery.workers == {} and nursery._spare is None
