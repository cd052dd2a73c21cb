"""The search proposes each text once, the same ones for the same seed and history, also after a resume, and imports no torch."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from autokernel import builders
from autokernel.proposers import Solved, search, templates
from autokernel.proposers.graph import Unmatchable
from autokernel.proposers.learned import Lessons, params_of
from autokernel.proposers.search import REFUSED, SearchProposer, _Problem, value
from autokernel.proposers.template import Template
from autokernel.proposers.trace import trace
from autokernel.proposers.tracer import Tracer
from autokernel.records import STAGES, Candidate, Comparison, Evaluation, Measurement, Verdict

_spec = importlib.util.spec_from_file_location("search_problems", Path(__file__).with_name("problems.py"))
assert _spec is not None and _spec.loader is not None
problems: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(problems)
SOFTMAX = SimpleNamespace(uid="L1/2", name="2_Softmax", hash="0" * 32, source=problems.ROWS["softmax"])
MATMUL = SimpleNamespace(uid="L1/1", name="1_Matmul", hash="1" * 32, source=problems.OTHERS["matmul"])


@pytest.fixture(autouse=True)
def traced_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace in this process, which has torch anyway; the process of its own is tried once below."""
    monkeypatch.setattr(templates.TRACER, "trace", trace)


def judged(candidate: Candidate, ms: float | None) -> Evaluation:
    common: dict[str, Any] = {"problem": "L1/2", "problem_hash": "0" * 32, "candidate": candidate.sha256, "builder": candidate.builder,
                              "rules": "strict/6", "machine": {}}
    if ms is None:
        verdict = Verdict("smoke", False, "wrong")
        return Evaluation(accepted=False, refused_by="smoke", reason="wrong", verdicts=(verdict,), comparisons=(), **common)
    side = Measurement((ms,), 1, "window/1", 0.0)
    comparison = Comparison("eager", 1.0, 1.0, 1.0, 0.99, 1, side, side, 1.0)
    return Evaluation(accepted=True, refused_by=None, reason="", verdicts=tuple(Verdict(s, True) for s in STAGES[1:6]),
                      comparisons=(comparison,), **common)


def play(proposer: SearchProposer, problem: Any, history: list[Evaluation], count: int) -> list[str]:
    times: Sequence[float | None] = (3.0, None, 1.0, 2.0)
    texts = []
    for _ in range(count):
        candidate = proposer.propose(problem, history)
        if candidate is None:
            break
        texts.append(candidate.source)
        history.append(judged(candidate, times[len(history) % len(times)]))
    return texts


def test_the_first_proposal_is_the_starters_own_choice_and_says_why() -> None:
    candidate = SearchProposer(backend="cpp").propose(SOFTMAX, [])
    assert candidate is not None and candidate.builder == builders.detect(candidate.source) == "cpp"
    assert 'PARAMS = {"chunk": 1024}' in candidate.source and "SPACE" not in candidate.source
    assert candidate.note.startswith("softmax: amax/sum over dim 1 of 37x129") and "first choice: chunk=1024, keep=True" in candidate.note
    assert "\n" not in candidate.note and candidate.proposer == "search"


def test_the_first_choices_come_before_the_searchs_own() -> None:
    proposer = SearchProposer(backend="triton")
    history: list[Evaluation] = []
    notes = []
    for _ in range(4):
        candidate = proposer.propose(MATMUL, history)
        assert candidate is not None
        notes.append(candidate.note)
        history.append(judged(candidate, 1.0 + len(history)))
    precisions = [note.split("precision=")[1].split(",")[0] for note in notes]
    assert precisions[:3] == ["bf16x6", "tf32x3", "ieee"]  # 33 products a sum: three parts would be too coarse
    assert ["first choice" in note for note in notes] == [True, True, True, False]


def test_every_choice_is_proposed_once_and_then_nothing() -> None:
    texts = play(SearchProposer(backend="cpp"), SOFTMAX, [], 100)
    assert len(texts) == len(set(texts)) == 10  # 5 chunks, kept in between or not


def test_the_same_seed_and_history_give_the_same_proposals() -> None:
    first, second = (play(SearchProposer(backend="triton", seed=5), MATMUL, [], 14) for _ in range(2))
    other = play(SearchProposer(backend="triton", seed=6), MATMUL, [], 14)
    assert first == second and len(set(first)) == 14
    assert first[0] == other[0] and first != other


def test_a_resumed_search_goes_on_where_it_was() -> None:
    history: list[Evaluation] = []
    whole = play(SearchProposer(backend="triton", seed=1), MATMUL, history, 20)
    for cut in (1, 7, 13):
        assert play(SearchProposer(backend="triton", seed=1), MATMUL, list(history[:cut]), 20 - cut) == whole[cut:]


def test_what_won_where_a_template_began_likewise_is_tried_second() -> None:
    proposer = SearchProposer(backend="triton", seed=1)
    history: list[Evaluation] = []
    texts = play(proposer, MATMUL, history, 9)
    won = next(text for text in texts[3:] if params_of(text) != params_of(texts[0]))
    proposer = SearchProposer(backend="triton", seed=1)
    proposer.learn([Solved(tuple(texts), won)])
    history = []
    again = play(proposer, MATMUL, history, 2)
    assert again == [texts[0], won]
    candidate = SearchProposer(backend="triton", seed=1).propose(MATMUL, history[:1])
    assert candidate is not None and candidate.source != won  # who has learned nothing goes on as ever
    other = SearchProposer(backend="cpp")
    other.learn([Solved(tuple(texts), won)])
    assert play(other, SOFTMAX, [], 10) == play(SearchProposer(backend="cpp"), SOFTMAX, [], 10)  # begins otherwise


def test_a_problem_won_by_its_first_choice_teaches_nothing() -> None:
    texts = play(SearchProposer(backend="triton", seed=1), MATMUL, [], 4)
    proposer = SearchProposer(backend="triton", seed=1)
    proposer.learn([Solved(tuple(texts), texts[0]), Solved(("x = (",), "x = ("), Solved((), "PARAMS = 3")])
    assert play(proposer, MATMUL, [], 4) == texts


def test_first_choices_of_every_template_come_before_any_second_one() -> None:
    def made(name: str, count: int) -> Template:
        choices = [{"n": number} for number in range(count)]
        return Template(name, "python", name, tuple(choices), {"n": [*range(count)]}, lambda params: f"{name} {params['n']}")

    queue = _Problem([made("a", 3), made("b", 1), made("c", 2)], 0, Lessons(), "").queue
    assert [(template.name, choice["n"]) for template, choice in queue] == [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2)]


def test_asking_twice_without_an_answer_gives_the_same_candidate() -> None:
    proposer = SearchProposer(backend="triton")
    history: list[Evaluation] = []
    play(proposer, MATMUL, history, 3)
    first, again = proposer.propose(MATMUL, history), proposer.propose(MATMUL, history)
    assert first is not None and again is not None and first.sha256 == again.sha256


def test_a_refusal_that_takes_a_kept_candidates_place_is_heard() -> None:
    proposer = SearchProposer(backend="triton")
    history: list[Evaluation] = []
    texts = play(proposer, MATMUL, history, 4)
    history[0] = judged(Candidate(texts[0], "triton"), None)
    fresh = SearchProposer(backend="triton").propose(MATMUL, history)
    again = proposer.propose(MATMUL, history)
    assert fresh is not None and again is not None and fresh.sha256 == again.sha256


def test_evaluations_of_other_proposers_in_the_history_do_no_harm() -> None:
    foreign = judged(Candidate("class ModelNew: pass", "python"), 0.5)
    candidate = SearchProposer(backend="cpp").propose(SOFTMAX, [foreign])
    assert candidate is not None and candidate.parent == foreign.candidate


def test_what_the_study_hears() -> None:
    assert value(judged(Candidate("x", "python"), None)) == REFUSED
    assert value(judged(Candidate("x", "python"), 1.0)) == 0.0


def test_without_a_starter_the_references_text_is_proposed_once() -> None:
    problem = SimpleNamespace(uid="L1/9", name="9_Conv", hash="2" * 32,
                              source=problems.problem("x: return self.c(x)", "torch.rand(1, 3, 8, 8)", "self.c = nn.Conv2d(3, 4, 3)"))
    proposer = SearchProposer(backend="cpp")
    candidate = proposer.propose(problem, [])
    assert candidate is not None and candidate.builder == "python" and candidate.note == "no starter: convolution.default is not supported"
    assert "class ModelNew" in candidate.source
    assert proposer.propose(problem, [judged(candidate, 1.0)]) is None


def test_auto_chooses_by_the_device() -> None:
    for device, builder in (("cpu", "cpp"), ("cuda:0", "triton")):
        candidate = SearchProposer(device=device).propose(SOFTMAX, [])
        assert candidate is not None and candidate.builder == builder


def test_the_brokers_process_needs_no_torch(tmp_path: Path) -> None:
    source = tmp_path / "problem.py"
    source.write_text(problems.ROWS["softmax"])
    script = ("import sys, types\nfrom autokernel.proposers.search import SearchProposer\n"
              "p = types.SimpleNamespace(uid='x', name='x', hash='x', source=open(sys.argv[1]).read())\n"
              "for backend in ('cpp', 'triton'):\n    assert SearchProposer(backend=backend).propose(p, []).builder == backend\n"
              "assert 'torch' not in sys.modules and 'triton' not in sys.modules\nprint('no torch')\n")
    done = subprocess.run([sys.executable, "-c", script, str(source)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "no torch\n", done.stderr


@pytest.mark.parametrize(("device", "cpus", "begun"), [("cuda:0", (4, 5), 1), ("cuda:0", (), 0), ("cpu", (4, 5), 0)])
def test_the_next_problem_is_analysed_while_the_present_one_is_timed(monkeypatch: pytest.MonkeyPatch, device: str, cpus: tuple[int, ...],
                                                                    begun: int) -> None:
    made: list[tuple[str, str]] = []
    plain = search.templates

    def counted(source: str, backend: str, where: str) -> list[Template]:
        made.append((threading.current_thread().name, source))
        return plain(source, backend, where)

    monkeypatch.setattr(search, "confined", lambda: cpus)
    monkeypatch.setattr(search, "templates", counted)
    monkeypatch.setattr(templates, "seed_template", lambda *_: pytest.fail("a plan of one stage needs no seed"))
    proposer = SearchProposer(backend="triton", device=device)
    for _ in range(2):
        proposer.look_ahead(SOFTMAX)
    first = proposer.propose(SOFTMAX, [])
    assert first is not None and first.source == SearchProposer(backend="triton").propose(SOFTMAX, []).source  # type: ignore[union-attr]
    ahead = [name for name, source in made if source == SOFTMAX.source and name == "autokernel-analysis"]
    assert len(ahead) == begun and len(made) == 2  # once, ahead or not, and once by the other


def test_what_has_no_plan_is_said_when_its_turn_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "confined", lambda: (0, 1))
    monkeypatch.setattr(templates, "seed_template", lambda *_: (_ for _ in ()).throw(Unmatchable("no seed here")))
    proposer, strange = SearchProposer(backend="triton", device="cuda:0"), SimpleNamespace(**{**vars(SOFTMAX), "source": "no problem"})
    proposer.look_ahead(strange)
    candidate = proposer.propose(strange, [])
    assert candidate is not None and candidate.note.startswith("no starter: ")


@pytest.mark.slow
def test_two_who_ask_the_tracer_at_once_get_their_own_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer = Tracer()
    answers: dict[str, dict[str, Any]] = {}
    texts = {"softmax": SOFTMAX.source, "matmul": MATMUL.source, "neither": "no problem"}
    threads = [threading.Thread(target=lambda n=name: answers.update({n: tracer.trace(texts[n])})) for name in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tracer.close()
    assert "error" in answers.pop("neither") and answers == {name: trace(texts[name]) for name in answers}
