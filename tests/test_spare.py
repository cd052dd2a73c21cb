"""Workers that are started before their need: here on the CPU, told that it is a GPU with cores enough."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autokernel.errors import InternalError
from autokernel.executor import families
from autokernel.executor import spares as module
from autokernel.executor.nursery import Layers, Nursery
from autokernel.executor.spares import Spares

TEXT = "class ModelNew: pass\n"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("nursery")
    made = Nursery("cpu", folder / "store", folder, (0,), compiles=True)
    made.open()
    made.settle(dict)  # in all layers, as if a first worker had come through
    yield made
    made.close()


@pytest.fixture
def nursery(opened: Nursery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    monkeypatch.setattr(module, "SPARE_CORES", 1)
    monkeypatch.setattr(opened, "device", "cuda:0")  # only from here on: the zygote itself is the CPU's
    monkeypatch.setattr(opened, "layers", opened.layers)  # as it is, whatever a test makes of it
    monkeypatch.setattr(opened, "spawn", lambda **given: Nursery.spawn(opened, **{**given, "on_device": False}))
    yield opened
    for worker in list(opened.workers.values()):
        opened.bury(worker)


def test_a_compilers_spare_is_warmed_taken_and_replaced(nursery: Nursery) -> None:
    spares = Spares(nursery)
    spares.warm_compiler()
    warm, = nursery.workers.values()
    taken = spares.take_compiler()
    assert taken is warm and taken.started
    assert len(nursery.workers) == 2 and spares.take_compiler() is not warm
    spares.close()


def test_the_next_candidates_worker_is_born_before_its_caches_are_known_and_hands_on_what_it_adds(nursery: Nursery, tmp_path: Path) -> None:
    spares, folder = Spares(nursery), tmp_path / "triton" / "candidate"
    adds = ("import os\nfolder = os.environ['TRITON_CACHE_DIR']\nos.makedirs(folder, exist_ok=True)\n"
            "with open(folder + '/{0}', 'w') as file: file.write(str(sorted(os.listdir(folder))))\n")
    assert spares.take_next([folder]) is None
    for number, name in enumerate("ab"):
        spares.prepare_next()
        spares.settle()
        worker = spares.take_next([folder])
        assert worker is not None and worker.started and worker.kept == (folder,)
        (folder / "host").mkdir(parents=True, exist_ok=True)
        (folder / "host" / "seed").write_text("seed")
        nursery.load(worker, adds.format(name) + TEXT, "python", kernels=folder, deadline_s=60)
        nursery.bury(worker)
        assert (folder / name).read_text() == str([*"ab"[:number + 1], "host"])  # it found what lay there, and its forerunner's
    spares.close()


def test_one_that_died_is_not_given_away(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    spares = Spares(nursery)
    spares.prepare_next()
    spares.settle()
    worker, = nursery.workers.values()
    nursery.bury(worker)  # as when the judge was restarted
    assert spares.take_next([]) is None
    spares.prepare_next()
    spares.settle()
    worker, = nursery.workers.values()
    families.kill(worker.keeper)
    assert spares.take_next([]) is None and nursery.workers == {} and not worker.folder.exists()
    monkeypatch.setattr(nursery, "spawn", lambda **given: (_ for _ in ()).throw(InternalError("no worker")))
    spares.prepare_next()
    spares.settle()
    assert spares.take_next([]) is None
    spares.close()


def test_none_is_started_where_cores_are_few_or_taken_for_a_place_outside(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    spares = Spares(nursery)
    spares.prepare_next()
    assert spares.take_next([Path("/srv/caches")]) is None and spares.take_next([]) is not None
    monkeypatch.setattr(module, "SPARE_CORES", 2)
    few = Spares(nursery)
    few.prepare_next()
    few.warm_compiler()
    assert few.take_next([]) is None and len(nursery.workers) == 1
    nursery.layers = Layers(namespaces=False)
    assert nursery.is_anyones(Path("/srv/caches"))  # the machine's own files: nothing is made for it alone
    spares.close()
    few.close()
