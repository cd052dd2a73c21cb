"""The report of a run: every figure from its ledger, nothing of a candidate's obeyed, the same bytes each time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from autokernel.cli import cli
from autokernel.records import STAGES, Comparison, Evaluation, Measurement, Verdict
from autokernel.report.rows import rows
from autokernel.run_folder import RunFolder
from autokernel.trials import Outcome, RunHeader, Trial

pytest.importorskip("matplotlib")
HEADER = RunHeader(rules="strict/6", torch="2.13.0", device="cpu Test Processor", origin="embedded", version="0.1.0",
                   options={"level": 1, "ids": "1-3", "source": "embedded"}, machine={"python": "3.11.7", "driver": None},
                   created="2026-01-01T00:00:00+00:00")


def compared(against: str, speedup: float) -> Comparison:
    ours, theirs = Measurement((1.0,) * 12, 1, "window/1", 0.0), Measurement((speedup,) * 12, 1, "window/1", 0.0)
    return Comparison(against, speedup, 0.9 * speedup, 1.1 * speedup, 0.99, 12, ours, theirs, 0.8 * speedup)


def evaluation(uid: str, name: str, speedup: float | None, reason: str = "") -> Evaluation:
    common: dict[str, Any] = {"problem": uid, "problem_hash": "0" * 32, "candidate": name * 64, "builder": "triton", "rules": "strict/6",
                              "machine": {}}
    if speedup is None:
        return Evaluation(accepted=False, refused_by="smoke", reason=reason, verdicts=(Verdict("smoke", False, reason),), comparisons=(),
                          **common)
    made = (compared("eager", speedup), compared("compile", speedup / 2))
    return Evaluation(accepted=True, refused_by=None, reason="", verdicts=tuple(Verdict(s, True) for s in STAGES[1:6]), comparisons=made,
                      times_ms={"candidate": 1.0, "eager": speedup}, precision_class="ieee-grade", roofline=0.5, **common)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """L1/1 with a champion, L1/2 with nothing right, L1/3 not come to."""
    with RunFolder.open(tmp_path / "run", HEADER) as folder:
        reason = "off by <script>alert(1)</script>: element 3"
        folder.record(Trial(1, "search", "reverted", evaluation("L1/1", "a", None, reason), note="first", seconds=1800.0))
        folder.record(Trial(2, "search", "kept", evaluation("L1/1", "b", 3.0), note="softmax & <b>more</b>: block 4", seconds=1800.0))
        folder.record(Trial(2, "final", "kept", evaluation("L1/1", "b", 2.5), note="speedup"))
        folder.ledger.end(Outcome("L1/1", "champion", "speedup", 2, 1, "b" * 64, 2.5, 2.25, 2.75, 1.25))
        folder.record(Trial(1, "search", "reverted", evaluation("L1/2", "c", None, "off by 7: element 9")))
        folder.ledger.end(Outcome("L1/2", "none", "proposer", 1, reason="no candidate passed"))
    return tmp_path / "run"


def report(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["report", *map(str, arguments)])


def test_a_page_has_the_final_figures_and_stands_alone(run: Path) -> None:
    done = report(run)
    assert done.exit_code == 0 and done.stdout.strip() == f"report: {run / 'report.html'}", done.output
    text = (run / "report.html").read_text()
    assert "2.50 (2.25 to 2.75)" in text and "1.25 (1.12 to 1.38)" in text and "3.00" not in re.sub(r"<svg.*?</svg>", "", text, flags=re.S)
    assert "none: no candidate passed" in text and "1 of 3 problems have a right kernel; 3 tries, 1.0 hours" in text
    assert "not in this run: L1/3" in text and "failed: L1/2" in text and "L1/1 1_TanhGELU" in text and "with the whole interval" in text
    assert "33.3 %" in text and "Against eager: 1 timed, 1 above 1.05x with the whole interval, 1 by the median, 1 above 2x" in text
    assert f"autokernel kb eval L1/1 {run}/winners/L1_1.py --against eager,compile --source embedded" in text
    assert not re.findall(r"(?:src|href)=\"(?!#)", re.sub(r"xlink:href", "", text))
    svgs = re.findall(r"<svg.*?</svg>", text, flags=re.S)
    assert len(svgs) == 3  # speedups, fast_p, the one search of two tries
    assert all(ElementTree.fromstring(svg) is not None for svg in svgs)
    assert {"L1/1", "against eager"} <= set(re.findall(r">([^<>]+)</text>", svgs[1]))


def test_what_candidates_say_is_text(run: Path) -> None:
    assert report(run).exit_code == 0
    text = (run / "report.html").read_text()
    assert "<script>" not in text and "<b>more" not in text
    assert "triton: softmax &amp; &lt;b&gt;more&lt;/b&gt;" in text


def test_refusals_are_counted_by_kind(run: Path) -> None:
    assert report(run).exit_code == 0
    table = (run / "report.html").read_text().split("What was refused")[1].split("</table>")[0]
    assert re.findall(r"<td>([^<]*)</td><td>([^<]*)</td><td class=\"n\">(\d)</td>", table) == [
        ("smoke", "off by", "1"), ("smoke", "off by &lt;script&gt;alert", "1")]


def test_the_same_ledger_gives_the_same_bytes_wherever_they_go(run: Path, tmp_path: Path) -> None:
    made = []
    for name in ("one.html", "deep/two.html"):
        done = report(run, "--out", tmp_path / name, "--json")
        assert json.loads(done.stdout) == {"report": str(tmp_path / name)}
        made.append((tmp_path / name).read_bytes())
    assert made[0] == made[1] and not (run / "report.html").exists()


def test_a_run_without_any_champion_is_told_too(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", HEADER) as folder:
        folder.record(Trial(1, "search", "reverted", evaluation("L1/2", "c", None, "off by 7: element 9")))
        folder.ledger.end(Outcome("L1/2", "none", "proposer", 1, reason="no candidate passed"))
    assert report(tmp_path / "run").exit_code == 0
    text = (tmp_path / "run" / "report.html").read_text()
    assert "0 of 3 problems have a right kernel" in text and "none: no candidate passed" in text and "<h2>Speedups" not in text
    with RunFolder.open(tmp_path / "begun", HEADER):
        pass
    assert report(tmp_path / "begun").exit_code == 0  # nothing has ended yet


def test_what_is_no_run_is_exit_2(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments in ([tmp_path / "empty"], [run, run], []):
        assert report(*arguments).exit_code == 2


def test_rows_are_in_the_problems_order(run: Path) -> None:
    from autokernel import ledger

    found = rows({str(run): ledger.read(run)})
    assert [(row.uid, row.status, row.kernel) for row in found] == [
        ("L1/1", "champion", "triton: softmax & <b>more</b>"), ("L1/2", "none", "")]
