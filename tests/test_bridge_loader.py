"""One loader, four origins; no test here uses the network."""

from __future__ import annotations

import os
import socket
import sys
import time
import types
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from kernelbench_bridge import BridgeError, format_ids, load_level, load_problem, requirements
from kernelbench_bridge.loader import FOLDER_VARIABLE
from kernelbench_bridge.origins import hub

TEXT = "class Model: ...\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n"
REAL = os.environ.get(FOLDER_VARIABLE)  # read before the fixture below takes it away
needs_real_problems = pytest.mark.skipif(not REAL, reason=f"{FOLDER_VARIABLE} is not set")


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    """No folder in the environment, an empty cache, and a Hub that cannot be reached."""
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "no-cache"))
    for variable in ("HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ask = hub.unreachable  # tests may replace the name
    ask.cache_clear()
    yield
    ask.cache_clear()


def write_checkout(folder: Path, level: int, names: list[str]) -> Path:
    place = folder / "KernelBench" / f"level{level}"
    place.mkdir(parents=True)
    for name in names:
        (place / name).write_text(f"{TEXT}name = {name!r}\n")
    return folder


def write_parquet(path: Path, level: int, rows: list[tuple[int, str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = {"code": [row[2] for row in rows], "level": [level] * len(rows), "name": [row[1] for row in rows],
             "problem_id": [row[0] for row in rows]}
    pyarrow.parquet.write_table(pyarrow.table(table), path)


def test_a_checkout_is_read_by_kernelbenchs_rules(tmp_path):
    write_checkout(tmp_path, 1, ["100_Last.py", "2_B.py", "07_Padded.py", "10_x.py", "readme.md", "notes_3.py", "3_c.txt", "-3_Minus.py",
                                 "1.5_Half.py", "4.py"])
    loaded = load_level(1, str(tmp_path))
    assert [problem.uid for problem in loaded.problems] == ["L1/2", "L1/7", "L1/10", "L1/100"]  # "4.py" starts with "4.py", no integer
    assert [problem.name for problem in loaded.problems] == ["2_B", "07_Padded", "10_x", "100_Last"]
    assert loaded.origin == "checkout"
    assert loaded.why == f"problems: KernelBench checkout {tmp_path}, as asked"
    assert loaded.notes == ("-3_Minus.py is skipped: its id is below 1",)
    assert load_level(1, str(tmp_path / "KernelBench")).problems == loaded.problems


def test_two_files_of_one_id_are_reported_and_the_first_name_wins(tmp_path):
    write_checkout(tmp_path, 2, ["5_Zeta.py", "5_Alpha.py", "05_Nought.py", "6_Only.py"])
    loaded = load_level(2, str(tmp_path))
    assert [problem.name for problem in loaded.problems] == ["05_Nought", "6_Only"]
    assert loaded.notes == ("L2/5 is there 3 times with different code (05_Nought, 5_Alpha, 5_Zeta); 05_Nought is used",)


def test_a_file_that_is_no_text_is_skipped_with_a_note(tmp_path):
    write_checkout(tmp_path, 1, ["1_Good.py"])
    (tmp_path / "KernelBench/level1/2_Junk.py").write_bytes(b"\xff\xfe\x00\x80")
    (tmp_path / "KernelBench/level1/3_Folder.py").mkdir()
    loaded = load_level(1, str(tmp_path))
    assert loaded.all_uids == ("L1/1",)
    assert len(loaded.notes) == 2 and "not UTF-8" in loaded.notes[0] and "is a folder" in loaded.notes[1]


def test_parquet_rows_in_any_order_become_problems_in_order(tmp_path):
    write_parquet(tmp_path / "data" / "level_3-00000-of-00001.parquet", 3, [(10, "10_Ten", TEXT), (2, "2_Two", "two"), (2, "2_Two", "two")])
    for folder in (tmp_path, tmp_path / "data"):
        loaded = load_level(3, str(folder))
        assert [(problem.uid, problem.name, problem.source) for problem in loaded.problems] == [
            ("L3/2", "2_Two", "two"), ("L3/10", "10_Ten", TEXT)]
        assert loaded.notes == ("L3/2 is there 2 times with the same code (2_Two, 2_Two); 2_Two is used",)
        assert loaded.origin == "parquet"


def test_parquet_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "level_1-00000-of-00001.parquet").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(BridgeError, match="cannot be read as parquet") as caught:
        load_level(1, str(tmp_path))
    assert caught.value.exit_code == 2 and "LFS" in str(caught.value)
    pyarrow.parquet.write_table(pyarrow.table({"code": ["x"], "name": ["1_x"]}), tmp_path / "level_2.parquet")
    with pytest.raises(BridgeError, match="lacks the column problem_id"):
        load_level(2, str(tmp_path))


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    write_parquet(tmp_path / "level_1.parquet", 1, [(1, "1_x", TEXT)])
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(BridgeError, match="needs the package pyarrow") as caught:
        load_level(1, str(tmp_path))
    assert caught.value.exit_code == 3 and "pip install pyarrow" in str(caught.value)


def test_auto_takes_the_folder_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(write_checkout(tmp_path, 1, ["1_A.py"])))
    loaded = load_level(1)
    assert loaded.origin == "checkout"
    assert loaded.why.endswith("because AUTOKERNEL_KERNELBENCH_DIR is set")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(BridgeError, match="AUTOKERNEL_KERNELBENCH_DIR is set.*does not exist"):
        load_level(1)


def test_auto_falls_back_to_the_embedded_set_and_says_why():
    loaded = load_level(1)
    assert loaded.origin == "embedded"
    assert "not KernelBench's" in loaded.why and "HF_HUB_OFFLINE is set" in loaded.why and "\n" not in loaded.why


def test_an_earlier_download_is_used_without_the_network(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "datasets--ScalingIntelligence--KernelBench"
    for revision, text in (("aaa", "old"), ("bbb", "new")):
        write_parquet(repository / "snapshots" / revision / "data" / "level_1-00000-of-00001.parquet", 1, [(1, "1_A", text)])
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("aaa")
    for source in ("auto", "hub"):
        loaded = load_level(1, source)
        assert loaded.origin == "hub" and loaded.problems[0].origin == "hub"
        assert loaded.problems[0].source == "old"  # what the branch main points at, not what is newest
        assert "downloaded earlier" in loaded.why
    assert load_level(2).origin == "embedded"  # a level that the download lacks


def test_the_hub_is_read_through_datasets(monkeypatch):
    asked = []
    rows = [{"code": TEXT, "level": 2, "name": "12_B", "problem_id": 12}, {"code": TEXT, "level": 2, "name": "3_A", "problem_id": 3}]
    fake = types.SimpleNamespace(load_dataset=lambda name, split: asked.append((name, split)) or rows,
                                 exceptions=types.SimpleNamespace(DatasetsError=RuntimeError))
    monkeypatch.setitem(sys.modules, "datasets", fake)
    monkeypatch.setattr(hub, "unreachable", lambda: None)
    loaded = load_level(2, "hub")
    assert asked == [("ScalingIntelligence/KernelBench", "level_2")]
    assert [problem.uid for problem in loaded.problems] == ["L2/3", "L2/12"]

    def fail(name: str, split: str) -> None:
        raise ConnectionError("reset by peer\nlong story")
    fake.load_dataset = fail
    with pytest.raises(BridgeError, match=r"could not be downloaded \(reset by peer\)") as caught:
        load_level(2, "hub")
    assert caught.value.exit_code == 3
    assert "could not be downloaded" in load_level(2).why
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BridgeError, match="needs the package datasets"):
        load_level(2, "hub")


def test_a_hub_that_does_not_answer_costs_no_more_than_the_deadline(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(hub, "PROBE_S", 0.3)
    for variable in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        assert load_level(1).origin == "embedded"
        assert load_level(2).origin == "embedded"  # asked once a process
        assert time.monotonic() - begun < 4.0  # 0.3 s, once
        assert hub.unreachable() == "the Hub did not answer within 0.3 s"


def test_a_call_that_hangs_is_left_behind():
    with pytest.raises(TimeoutError, match="no answer within 0.05 s"):
        hub.within(0.05, lambda: time.sleep(0.5))
    assert hub.within(5.0, lambda: 7) == 7
    with pytest.raises(KeyError):
        hub.within(5.0, lambda: {}["x"])


@pytest.mark.parametrize(("level", "source", "exit_code", "says"), [
    (9, "embedded", 2, "no level 9 in the embedded set; choose one of 1, 2, 3, 4"),
    (9, "auto", 2, "no level 9"), (0, "hub", 2, "no level 0 on the Hub; choose one of 1, 2, 3, 4"),
    (1, "hub", 3, "not downloaded here before, and HF_HUB_OFFLINE is set"),
    (1, "/nowhere/at/all", 2, "does not exist"), (1, __file__, 2, "holds neither"), (1, "", 2, "holds neither"),
])
def test_what_is_not_there_is_said(level, source, exit_code, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BridgeError) as caught:
        load_level(level, source)
    assert says in caught.value.message and caught.value.exit_code == exit_code


def test_problems_are_selected_by_id(tmp_path):
    write_checkout(tmp_path, 1, ["1_A.py", "2_B.py", "3_C.py"])
    loaded = load_level(1, str(tmp_path), [3, 1])
    assert [problem.problem_id for problem in loaded.problems] == [1, 3]
    assert loaded.all_ids == (1, 2, 3)
    assert load_level(1, str(tmp_path), []).problems == ()
    with pytest.raises(BridgeError, match=r"level 1 has no problem 4-5,9; choose from 1-3\.") as caught:
        load_level(1, str(tmp_path), [2, 4, 5, 9])
    assert caught.value.exit_code == 2


def test_load_problem_by_uid_and_by_file(tmp_path):
    assert load_problem("L2/3", "embedded").name == "3_Linear_Temperature_Softmax"
    with pytest.raises(BridgeError, match="level 2 has no problem 77"):
        load_problem("L2/77", "embedded")
    path = tmp_path / "mine.py"
    path.write_text(TEXT)
    problem = load_problem(str(path))
    assert (problem.uid, problem.level, problem.origin, problem.source) == ("file/mine", 0, "file", TEXT)
    path.write_text("from elsewhere import *\n")
    assert load_problem(str(path)).uid == "file/mine"


@pytest.mark.parametrize(("content", "says"), [
    (b"class Model: ...\n", "does not define get_inputs, get_init_inputs"), (b"def f(:\n", "not valid Python (line 1"),
    (b"\xff\x00\x80", "not UTF-8"), (b"x = 1\x00", "not valid Python"), (b"", "does not define Model"),
    (b"(" * 5000, "not valid Python"),
])
def test_problem_files_that_are_none(tmp_path, content, says):
    path = tmp_path / "p.py"
    path.write_bytes(content)
    with pytest.raises(BridgeError) as caught:
        load_problem(str(path))
    assert says in caught.value.message and caught.value.exit_code == 2


def test_problem_names_that_lead_nowhere(tmp_path):
    with pytest.raises(BridgeError, match="neither a problem such as L1/19 nor a file"):
        load_problem("L1-19")
    with pytest.raises(BridgeError, match="No such file"):
        load_problem(str(tmp_path / "gone.py"))
    with pytest.raises(BridgeError, match="is a folder"):
        load_problem(str(tmp_path))
    with pytest.raises(BridgeError, match="is no plain file"):
        load_problem("/dev/zero")


@needs_real_problems
def test_all_270_problems_load_with_uid_name_and_hash():
    sizes = {1: 100, 2: 100, 3: 50, 4: 20}
    known = {"L1/1": "c0fd5f9a24b704cf4a721e8ac3d284cf", "L1/97": "840aaaa63d2ecd8962ba744a56c5aa3f",
             "L2/83": "2b6543ac3d83c9b9b73b361558229205", "L3/43": "236077b1327b225e524a2c110e6672a5"}
    found = {}
    for level, size in sizes.items():
        loaded = load_level(level, REAL)
        assert format_ids(loaded.all_ids) == f"1-{size}" and loaded.notes == ()
        found |= {problem.uid: problem for problem in loaded.problems}
    assert len(found) == 270
    assert all(problem.name.startswith(f"{problem.problem_id}_") and len(problem.hash) == 32 for problem in found.values())
    assert {uid: found[uid].hash for uid in known} == known


@needs_real_problems
def test_level_4_names_its_models(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    for problem in load_level(4, REAL).problems:
        assert any(need.startswith("model ") for need in requirements(problem)), problem.uid
