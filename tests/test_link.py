"""The judge's end of a worker, against a real one on the CPU: lending, windows, giving memory back, strange layouts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

torch = pytest.importorskip("torch")
from autokernel.executor import families, wire  # noqa: E402
from autokernel.executor.faults import LinkFailed  # noqa: E402  needs torch
from autokernel.executor.link import WorkerLink  # noqa: E402
from autokernel.executor.nursery import Nursery  # noqa: E402

SOURCE = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, way):
        super().__init__()
        self.way = way
    def forward(self, x):
        y = x * 2 + 1
        if self.way == "transposed": return y.t().contiguous().t()
        if self.way == "expanded": return y[:1].expand(4, 6)
        if self.way == "sliced": return torch.cat([y, y])[4:]
        if self.way == "far apart":
            held = torch.zeros(4, 6, 4096)
            held[:, :, 7] = y
            return held[:, :, 7]
        if self.way == "rows far apart":
            held = torch.zeros(4, 4096)
            held[:, 64:70] = y
            return held[:, 64:70]
        return y
"""


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("nursery")
    made = Nursery("cpu", folder / "store", folder, (0, 1), compiles=False)
    made.open()
    yield made
    for worker in list(made.workers.values()):
        made.bury(worker)
    made.close()


def linked(nursery: Nursery, way: str) -> WorkerLink:
    worker = nursery.spawn()
    nursery.load(worker, SOURCE, "python", deadline_s=60)
    worker.attached = True  # the link owns the socket from here on
    link = WorkerLink(worker.sock, worker.pid, worker.keeper, torch.device("cpu"))
    link.construct(1, [way], 30)
    return link


def test_a_reply_must_be_whole_within_its_deadline_however_it_comes() -> None:
    ours, theirs = socket.socketpair()
    whole = wire.REPLY.pack(wire.MAGIC, wire.OK, wire.NO_CODE, 7, 0.0, 0, 0, b"", 0)

    def drip(pause_s: float) -> None:
        for byte in whole[:8]:
            time.sleep(pause_s)
            theirs.sendall(bytes([byte]))
        theirs.sendall(whole[8:])

    ours.settimeout(0.5)
    for pause_s, in_time in ((0.4, False), (0.0, True)):
        sender = threading.Thread(target=drip, args=(pause_s,))
        sender.start()
        start = time.monotonic()
        if in_time:
            assert wire.receive_reply(ours, 7).sequence == 7
        else:
            with pytest.raises(TimeoutError):
                wire.receive_reply(ours, 7)
            assert time.monotonic() - start < 2.5  # each byte alone came in time
        sender.join()
        ours.settimeout(0.1)
        while not in_time:
            try:
                ours.recv(4096)
            except TimeoutError:
                break
        assert ours.gettimeout() == 0.1
        ours.settimeout(5)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("way", ["plain", "transposed", "sliced", "far apart", "rows far apart"])
def test_a_window_gives_every_calls_output_from_where_it_lies(nursery: Nursery, way: str) -> None:
    link = linked(nursery, way)
    sets = [(torch.randn(4, 6),), (torch.randn(4, 6),)]
    window = link.window(sets, [torch.empty(4, 6)], b"T", seed=0, timeout_s=30)
    for (given,), (answer,) in zip(sets, window.outputs, strict=True):
        assert torch.equal(answer, given * 2 + 1)
    assert window.ms > 0 and link.unchanged(sets) is None
    link.close()


def test_an_expanded_output_is_read_by_its_strides(nursery: Nursery) -> None:
    link = linked(nursery, "expanded")
    given = torch.randn(4, 6)
    window = link.window([(given,)], [torch.empty(4, 6)], b"T", seed=0, timeout_s=30)
    assert torch.equal(window.outputs[0][0], (given * 2 + 1)[:1].expand(4, 6))
    link.close()


def test_memory_given_back_is_lent_anew(nursery: Nursery) -> None:
    link = linked(nursery, "plain")
    for size in (4, 400, 4):  # grows, then is released, then starts again
        given = torch.randn(size, 6)
        window = link.window([(given,)], [torch.empty(size, 6)], b"T", seed=0, timeout_s=30)
        assert torch.equal(window.outputs[0][0], given * 2 + 1)
        link.release()
        assert link.lent is None
    link.release()  # nothing lent: nothing asked
    link.close()


def test_inputs_of_any_layout_arrive_as_they_are(nursery: Nursery) -> None:
    link = linked(nursery, "plain")
    base = torch.randn(6, 4)
    for given in (base.t(), base[:, :1].t().expand(4, 6), torch.randn(8, 6)[::2]):
        window = link.window([(given,)], [torch.empty(4, 6)], b"T", seed=0, timeout_s=30)
        assert torch.equal(window.outputs[0][0], given * 2 + 1)
    link.close()


def test_another_shape_or_nesting_than_the_references_is_a_broken_contract(nursery: Nursery) -> None:
    link = linked(nursery, "plain")
    given = (torch.randn(4, 6),)
    for expected, spelling in ((torch.empty(4, 7), b"T"), (torch.empty(4, 6, dtype=torch.float64), b"T"), (torch.empty(4, 6), b"(T)")):
        with pytest.raises(LinkFailed) as caught:
            link.window([given], [expected], spelling, seed=0, timeout_s=30)
        assert caught.value.kind == "contract"
    link.close()


def test_a_changed_input_is_named(nursery: Nursery) -> None:
    link = linked(nursery, "plain")
    given = [(torch.randn(4, 6),)]
    link.window(given, [torch.empty(4, 6)], b"T", seed=0, timeout_s=30)
    assert link.lent is not None
    link.lent.bytes[5] ^= 1  # one bit in lent memory, as a candidate could
    assert link.unchanged(given) == 0
    link.close()


def test_the_clock_runs_before_the_worker_does(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever keeps the judge off the processors once a worker may run, and before it is asked to, is timed meanwhile."""
    link = linked(nursery, "plain")
    x, expected = torch.ones(4, 6), [torch.empty(4, 6)]

    def window_ms() -> float:
        return link.window([(x,)], expected, b"T", seed=1, timeout_s=10).ms

    window_ms()
    plain = min(window_ms() for _ in range(5))
    thaw = families.thaw

    def late(keeper: int, still: families.Still) -> float:
        released = thaw(keeper, still)
        time.sleep(0.2)
        return released

    monkeypatch.setattr(families, "thaw", late)
    assert window_ms() > 200 > plain
    link.close()
