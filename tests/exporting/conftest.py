"""What export's tests share: a local Hub, an interpreter that has torch and kernels and nothing of ours, records to write cards from."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import urllib.request
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from autokernel.records import Comparison, Evaluation, Measurement, Verdict

SERVER = Path(__file__).with_name("hub_server.py")
MIDDLE = ("smoke", "shape_sweep", "stability", "determinism", "edge_cases")


@dataclass
class Hub:
    """The local Hub: its address, what a client needs in its environment, what happened there."""

    url: str
    home: Path

    def environment(self, token="hf_right", **more):
        """For a process that uses it. No cache, login or settings of the user's; nothing that keeps the client from the network."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING", "DO_NOT_TRACK", "PYTHONPATH", "LOCAL_KERNELS"))}
        login = {"HF_TOKEN": token} if token else {}
        return {**kept, "HF_ENDPOINT": self.url, "HF_HOME": str(self.home), "HF_HUB_DISABLE_XET": "1", **login, **more}

    def control(self, **faults):
        """Set the faults (none: everything works) and get what the server has seen."""
        request = urllib.request.Request(self.url + "/control", json.dumps({"faults": faults}).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    def branches(self, repo):
        """Files by branch of a repository."""
        return self.control()["repos"][repo]["branches"]


@pytest.fixture
def hub(tmp_path):
    server = subprocess.Popen([sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Hub(f"http://127.0.0.1:{int(server.stdout.readline())}", tmp_path / "hf")
    finally:
        server.stdin.close()
        server.wait(10)
        server.stdout.close()


def _closure(*names):
    """Distributions that `names` need here, themselves included; the GPU's libraries stay out of a CPU torch's anyway."""
    found, open_ones = {}, list(names)
    while open_ones:
        name = re.sub(r"[-_.]+", "-", open_ones.pop()).lower()
        if name in found:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        found[name] = distribution
        for text in distribution.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                open_ones.append(requirement.name)
    return found.values()


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory):
    """An interpreter whose environment holds torch, kernels and what they require, as links; AutoKernel is not there."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, symlinks=True, with_pip=False)
    site = next((folder / "lib").glob("python*/site-packages"))
    for distribution in _closure("torch", "kernels"):
        for file in distribution.files or ():
            top = file.parts[0]
            source = Path(distribution.locate_file(top))
            if top not in ("..", "__pycache__") and source.exists() and not (site / top).exists():
                (site / top).symlink_to(source)
    python = folder / "bin" / "python"
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    asked = subprocess.run([python, "-c", "import importlib.util as u; print([u.find_spec(n) is not None for n in "
                            "('torch', 'kernels', 'autokernel', 'exporters', 'optuna')])"],
                           capture_output=True, text=True, timeout=120, env=environment, cwd=folder)
    assert asked.stdout.strip() == "[True, True, False, False, False]", asked.stderr
    return python


def measurement(ms):
    return Measurement(samples_ms=(ms,) * 12, calls_per_window=1, protocol="window/1", null_ms=0.01)


def accepted(problem, candidate, *, device="cpu", speedup=1.5, rules="strict/1", **more):
    """A record as the gate writes one."""
    least = {"verified_low": 0.8 * speedup} if "verified_low" in Comparison.__dataclass_fields__ else {}
    compared = Comparison(against="eager", speedup=speedup, low=0.9 * speedup, high=1.1 * speedup, confidence=0.9995, pairs=12,
                          candidate=measurement(1.0), opponent=measurement(speedup), **least)
    fields = {"problem": problem.uid, "problem_hash": problem.hash, "candidate": candidate.sha256, "builder": candidate.builder,
              "rules": rules, "accepted": True, "refused_by": None, "reason": "", "comparisons": (compared,),
              "verdicts": tuple(Verdict(stage, True) for stage in MIDDLE), "precision_class": "ieee-grade",
              "machine": {"device": device, "device_name": "Test Processor", "torch": "2.13.0", "python": "3.11"},
              "created": "2026-01-01T00:00:00+00:00"}
    return Evaluation(**{**fields, **more})


@pytest.fixture(scope="session")
def record():
    """`accepted`, for tests that need a record without judging again."""
    return accepted


@pytest.fixture(scope="session")
def texts():
    """The winners' texts, tests/exporting/candidates.py."""
    spec = importlib.util.spec_from_file_location("exporting_candidates", Path(__file__).with_name("candidates.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
