"""The command line: help, exit codes, problems. Judging and running have files of their own."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from autokernel.cli import cli
from autokernel.cli.failures import explain
from autokernel.cli.options import chosen_device, id_list, number_or_off, opponents, read_candidate
from autokernel.doctor import memory_reading
from autokernel.errors import MissingOnMachine, UsageError
from autokernel.sandbox import command
from kernelbench_bridge import BridgeError


def run(*arguments):
    return CliRunner().invoke(cli, [str(a) for a in arguments], prog_name="autokernel")


def test_help_costs_little_more_than_python_with_click(processor_seconds):
    """Under 0.3 s on a machine that starts python with click in 0.2 s; a slower one is not our fault."""
    assert processor_seconds("-m", "autokernel", "--help") < max(0.3, 1.5 * processor_seconds("-c", "import click"))


def loaded_by(*arguments):
    """The modules that a fresh process holds after it has answered this command line."""
    text = ("import sys\nfrom autokernel.cli import main\n"
            "try:\n    main(sys.argv[1:])\nfinally:\n    print('\\n' + ' '.join(sys.modules), file=sys.stderr)")
    done = subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.splitlines()[-1].split())


def test_help_of_all_commands_loads_no_module_of_a_single_one():
    loaded = loaded_by("--help")
    assert "autokernel.cli.kb" in loaded
    assert not [name for name in loaded if name.startswith("autokernel.cli.kb_")]


@pytest.mark.parametrize("arguments", [["--help"], ["kb", "--help"], ["kb", "run", "--help"], ["export", "--help"]])
def test_help_imports_neither_torch_nor_anything_else_heavy(arguments):
    loaded = loaded_by(*arguments)
    assert "click" in loaded
    assert not loaded & {"torch", "triton", "numpy", "rich", "optuna", "pyarrow", "datasets", "kernelbench_bridge", "scorer"}


@pytest.mark.parametrize(("arguments", "words"), [
    (["--help"], ["doctor", "kb", "Exit codes"]),
    (["kb", "--help"], ["list", "show", "run", "eval", "score"]),
    (["kb", "list", "--help"], ["--level", "--source", "--json"]),
    (["kb", "eval", "--help"], ["--min-speedup", "--against", "--rules", "--backend", "--memory-gb", "--seed", "--timeout", "--json"]),
    (["kb", "run", "--help"], ["--problems", "--proposer", "--iterations", "--minutes", "--out", "--fresh", "--max-reverts",
                               "--stop-speedup", "--stop-roofline", "--max-hours", "--candidates", "--watch"]),
    (["kb", "score", "--help"], ["RUN", "--json"]),
    (["doctor", "--help"], ["--device", "--json"]),
])
def test_help_names_the_options(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 0
    assert [word for word in words if word not in result.output] == []


@pytest.mark.parametrize(("arguments", "word"), [
    (["kb", "list", "--level", "9", "--source", "embedded"], "level 9"),
    (["kb", "list", "--level", "x"], "level"),
    (["kb", "list"], "--level"),
    (["kb", "list", "--level", "1", "--problems", "3-1"], "3-1"),
    (["kb", "list", "--level", "1", "--source", "embedded", "--problems", "1,4000"], "4000"),
    (["kb", "show", "L1/4000", "--source", "embedded"], "4000"),
    (["kb", "show", "no-such-thing"], "no-such-thing"),
    (["kb", "list", "--level", "1", "--source", "/no/such/folder"], "/no/such/folder"),
    (["kb", "nonsense"], "nonsense"),
    (["kb", "eval", "L1/1", "x.py", "--device", "tpu"], "tpu"),
    (["kb", "eval", "L1/1", "x.py", "--against", "numpy"], "numpy"),
    (["kb", "eval", "L1/1", "x.py", "--rules", "lax"], "lax"),
    (["kb", "run", "--level", "9", "--source", "embedded"], "level 9"),
    (["kb", "run", "--level", "1", "--source", "embedded", "--problems", "4000"], "4000"),
    (["kb", "run", "--level", "1", "--source", "embedded", "--proposer", "replay"], "--candidates"),
    (["kb", "run", "--level", "1", "--source", "embedded", "--proposer", "file", "--watch", "x.py"], "--watch"),
    (["kb", "score", "/no/such/run"], "/no/such/run"),
])
def test_wrong_usage_is_exit_2_with_one_message_that_names_it(arguments, word):
    result = run(*arguments)
    assert result.exit_code == 2
    assert word in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("arguments", "code", "word"), [
    (["kb", "list", "--level", "9", "--source", "embedded", "--json"], 2, "level 9"),  # refused by what the command calls
    (["kb", "list", "--json"], 2, "--level"),  # refused by the parser
    (["kb", "eval", "L1/1", "x.py", "--json", "--rules", "lax"], 2, "lax"),
    (["kb", "eval", "L1/1", "/no/such/file.py", "--source", "embedded", "--json"], 2, "/no/such/file.py"),
])
def test_with_json_a_failure_is_an_object_too(arguments, code, word):
    result = run(*arguments)
    told = json.loads(result.stdout)["error"]
    assert result.exit_code == told["exit_code"] == code
    assert word in told["message"] and told["message"] in result.stderr
    assert run(*(a for a in arguments if a != "--json")).stdout == ""


def test_an_absent_gpu_is_exit_3(monkeypatch):
    monkeypatch.setattr("autokernel.doctor.visible_gpus", lambda: 0)
    result = run("doctor", "--device", "cuda")
    assert result.exit_code == 3
    assert "--device cpu" in result.stderr


def test_list_names_every_problem_with_its_hash():
    result = run("kb", "list", "--level", "1", "--source", "embedded", "--json")
    listed = json.loads(result.stdout)
    assert result.exit_code == 0
    assert listed["origin"] == "embedded"
    assert [row["uid"] for row in listed["problems"][:3]] == ["L1/1", "L1/2", "L1/3"]
    assert all(len(row["hash"]) == 32 and row["missing"] == [] for row in listed["problems"])
    text = run("kb", "list", "--level", "1", "--source", "embedded", "--problems", "2")
    assert text.stdout.split() == ["L1/2", listed["problems"][1]["hash"], listed["problems"][1]["name"]]
    assert "embedded set" in text.stderr


def test_list_says_what_a_problem_needs_that_is_missing(tmp_path):
    level = tmp_path / "level4"
    level.mkdir()
    (level / "1_x.py").write_text("import no_such_package_of_ours\nclass Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n")
    result = run("kb", "list", "--level", "4", "--source", tmp_path)
    assert result.exit_code == 0
    assert "missing: no_such_package_of_ours" in result.stdout


@pytest.mark.parametrize("broken", ["stdout", "stderr"])
def test_output_that_nobody_reads_ends_the_command_quietly(broken):
    reading, writing = os.pipe()
    os.close(reading)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, broken: writing}
    done = subprocess.run([sys.executable, "-m", "autokernel", "kb", "list", "--level", "1", "--source", "embedded"], check=False,
                          timeout=60, **streams)
    os.close(writing)
    assert done.returncode == 128 + signal.SIGPIPE
    assert b"Error" not in (done.stderr or b"") and b"Exception" not in (done.stderr or b"")


def test_a_broken_pipe_of_our_own_is_an_internal_error(monkeypatch):
    def broken(device):
        raise BrokenPipeError("to the judge")
    monkeypatch.setattr("autokernel.doctor.examine", broken)
    result = run("doctor", "--device", "cpu")
    assert result.exit_code == 4
    assert "internal: BrokenPipeError" in result.stderr


def test_show_prints_the_source_and_nothing_else_on_stdout():
    result = run("kb", "show", "L1/1", "--source", "embedded", "--source-only")
    assert result.exit_code == 0
    assert result.stdout.startswith(('"""', "import", "#", "from"))
    assert "class Model" in result.stdout
    assert "hash: " in result.stderr


def test_the_270_real_problems_are_listed(kernelbench_dir):
    count = {}
    for level in (1, 2, 3, 4):
        result = run("kb", "list", "--level", level, "--source", kernelbench_dir, "--json")
        assert result.exit_code == 0
        count[level] = len({row["uid"] for row in json.loads(result.stdout)["problems"]})
    assert count == {1: 100, 2: 100, 3: 50, 4: 20}


def test_doctor_says_each_backend_and_what_is_not_covered(monkeypatch):
    monkeypatch.setattr("autokernel.doctor.visible_gpus", lambda: 0)
    result = run("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["device"] == "cpu"
    assert report["backends"]["python"] == {"cpu": None}
    assert {"cpp", "cuda", "python", "triton"} == set(report["backends"])
    layers = {layer["name"]: layer for layer in report["layers"]}
    assert list(layers) == ["namespaces", "mounts", "devices", "compilers", "environment", "seccomp", "limits", "memory", "processes",
                            "freezer", "cpuset"]
    assert layers["environment"]["on"] and layers["limits"]["on"]
    assert all(layer["on"] or layer["says"] and layer["needs"] for layer in layers.values())
    assert report["isolation"]["memory_reading"].startswith(("process_vm_readv works", "process_vm_readv fails ("))
    text = run("doctor")
    assert "not covered" in text.stdout and "python    cpu    works" in text.stdout and "memory reading   process_vm_readv" in text.stdout
    assert "triton    cpu    works, interpreted" in text.stdout
    assert max(map(len, text.stdout.splitlines())) <= 80


def test_doctor_says_why_a_layer_is_off_and_what_it_needs(monkeypatch):
    reasons = {"namespaces": "unshare: Operation not permitted", "seccomp": "libseccomp.so.2 is not installed"}
    monkeypatch.setattr(command, "why_not", lambda: reasons)
    report = json.loads(run("doctor", "--json", "--device", "cpu").stdout)
    off = {layer["name"]: layer for layer in report["layers"] if not layer["on"]}
    assert {"namespaces", "mounts", "devices", "compilers", "seccomp"} <= set(off)
    assert off["namespaces"]["says"] == reasons["namespaces"] and "--cap-add SYS_ADMIN" in off["namespaces"]["needs"]
    assert off["seccomp"]["says"] == reasons["seccomp"] and "apt install libseccomp2" in off["seccomp"]["needs"]
    assert "run candidates you do not trust in a container" in report["not_covered"][0]
    text = " ".join(run("doctor", "--device", "cpu").stdout.split())
    assert "seccomp off: libseccomp.so.2 is not installed; needs: install libseccomp" in text


def test_doctor_says_what_to_do_where_memory_cannot_be_read(monkeypatch):
    monkeypatch.setattr("autokernel.doctor._read_word", lambda libc, pid, word: errno.EPERM)
    said = memory_reading()
    assert said.startswith("process_vm_readv fails (Operation not permitted)") and "--cap-add SYS_PTRACE" in said


@pytest.mark.parametrize(("content", "word"), [
    (None, "no candidate file"),
    ("directory", "is a directory"),
    (b"\x7fELF\0\0\0", "binary"),
    (b"caf\xe9 = 1\n", "UTF-8"),
])
def test_an_unreadable_candidate_is_exit_2(tmp_path, content, word):
    path = tmp_path / "candidate.py"
    if content == "directory":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    result = run("kb", "eval", "L1/1", path, "--source", "embedded", "--device", "cpu")
    assert result.exit_code == 2
    assert word in result.stderr


def test_a_candidate_with_a_byte_order_mark_is_read_without_it(tmp_path):
    (tmp_path / "c.py").write_bytes(b"\xef\xbb\xbfimport torch\n")
    assert read_candidate(tmp_path / "c.py") == "import torch\n"


def test_a_device_file_is_no_candidate():
    from pathlib import Path
    with pytest.raises(UsageError, match="not a regular file"):
        read_candidate(Path("/dev/zero"))


def test_the_default_device_is_the_first_gpu_else_the_cpu(monkeypatch):
    monkeypatch.setattr("autokernel.doctor.visible_gpus", lambda: 2)
    assert chosen_device(None) == "cuda:0"
    assert chosen_device("cuda:1") == "cuda:1"
    with pytest.raises(MissingOnMachine, match="cuda:2"):
        chosen_device("cuda:2")
    monkeypatch.setattr("autokernel.doctor.visible_gpus", lambda: 0)
    assert chosen_device(None) == "cpu"


def test_option_values_are_turned_into_what_they_mean():
    context = click.Context(cli)
    option = cli.params[0]
    assert id_list(context, option, "1-3,7") == (1, 2, 3, 7) and id_list(context, option, None) is None
    assert opponents(context, option, "compile,eager,compile") == ("compile", "eager")
    assert number_or_off(context, option, "off") is None and number_or_off(context, option, "0") is None
    assert number_or_off(context, option, "2.5") == 2.5
    for bad in ("-1", "nan", "inf", "two"):
        with pytest.raises(click.BadParameter):
            number_or_off(context, option, bad)


@pytest.mark.parametrize(("error", "code", "words"), [
    (UsageError("no such rules.", hint="Choose strict."), 2, ["no such rules.", "Choose strict."]),
    (MissingOnMachine("nvcc is not here.", hint="Install it."), 3, ["nvcc is not here."]),
    (BridgeError("no level 9; choose 1.", exit_code=2), 2, ["no level 9"]),
    (ModuleNotFoundError("No module named 'optuna.samplers'", name="optuna.samplers"), 3, ["optuna", "pip install optuna"]),
    (ModuleNotFoundError("No module named 'autokernel.gone'", name="autokernel.gone"), 4, ["internal: ModuleNotFoundError"]),
    (ValueError("odd"), 4, ["internal: ValueError: odd", "--debug"]),
])
def test_every_failure_has_its_code_and_message(capsys, error, code, words):
    assert explain(error, debug=False) == code
    written = capsys.readouterr().err
    assert all(word in written for word in words)
    assert "Traceback" not in written


def test_debug_shows_the_traceback(monkeypatch):
    monkeypatch.setattr("autokernel.doctor.examine", lambda device: 1 / 0)
    plain, debug = run("doctor", "--device", "cpu"), run("--debug", "doctor", "--device", "cpu")
    assert (plain.exit_code, debug.exit_code) == (4, 4)
    assert "internal: ZeroDivisionError" in plain.stderr and "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr


def test_an_interrupt_is_exit_130_and_says_what_goes_on(monkeypatch):
    def interrupted(device):
        raise KeyboardInterrupt
    monkeypatch.setattr("autokernel.doctor.examine", interrupted)
    result = run("doctor", "--device", "cpu")
    assert result.exit_code == 130
    assert "Interrupted" in result.stderr


def test_show_says_what_a_problem_does_and_how_it_would_be_written(tmp_path):
    text = ("import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.fc = nn.Linear(32, 16)\n\n    def forward(self, x):\n        return torch.relu(self.fc(x)) * 2.0\n\n\n"
            "def get_inputs():\n    return [torch.rand(8, 32)]\n\n\ndef get_init_inputs():\n    return []\n")
    path = tmp_path / "linear.py"
    path.write_text(text)
    result = run("kb", "show", str(path), "--device", "cpu", "--backend", "triton", "--json")
    assert result.exit_code == 0, result.stderr
    seen = json.loads(result.stdout)["analysis"]
    assert [(op["name"], op["shape"], op["flops"]) for op in seen["operations"]] == [
        ("addmm", [8, 16], 2 * 8 * 32 * 16), ("relu", [8, 16], 0), ("mul", [8, 16], 0)]
    assert (seen["input_bytes"], seen["weight_bytes"], seen["output_bytes"]) == (8 * 32 * 4, (32 * 16 + 16) * 4, 8 * 16 * 4)
    assert seen["plans"] == ["matmul: product, float32 as bf16 parts on tensor cores, chain in the epilogue"]
    assert 0 < seen["roofline_ms"] <= seen["apart_ms"] and seen["device"] == "cpu"
    shown = run("kb", "show", str(path), "--device", "cpu", "--backend", "triton")
    assert "must move: " in shown.stderr and "which says nothing of a GPU" in shown.stderr and shown.stdout == text
