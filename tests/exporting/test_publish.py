"""`autokernel publish` with the real client against a local Hub: create, again, new version, refusals, interruptions, another's loading."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autokernel.records import Candidate
from exporters import Argument, Facts, Kernel, Operation, TensorSpec
from exporters.repository import Sources, repository_files
from kernelbench_bridge import load_problem

ROOT = Path(__file__).resolve().parents[2]
REPO = "acme/soft"
SHAPE = TensorSpec((1024, 1536), "float32", (1536, 1))
FACTS = Facts(arguments=(Argument("x", SHAPE),), outputs=(SHAPE,))


@pytest.fixture
def folder(tmp_path, texts, record):
    """An export of a pure Python winner, written without judging it again: what is uploaded is the same."""
    def write(name="softmax", *, backend="cpu", version=1, extra="", where="kernel"):
        problem = load_problem("L1/2", "embedded")
        candidate = Candidate(source=texts.SOFTMAX_PYTHON + extra, builder="python")
        operation = Operation(name=name, title=name.title(), uid=problem.uid, problem_name=problem.name, builder="python",
                              source=candidate.source, sha256=candidate.sha256, facts=FACTS, form="op")
        kernel = Kernel("soft", version, "mit", backend, (operation,))
        files = repository_files(kernel, Sources({name: record(problem, candidate).to_json()}, {name: problem.source}, "strict/1"))
        for path, data in files.items():
            (tmp_path / where / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / where / path).write_bytes(data)
        return tmp_path / where

    return write


def publish(folder, hub, *options, environment=None):
    """The command in a process of its own, as people run it: its exit code, stdout and stderr."""
    done = subprocess.run([sys.executable, "-m", "autokernel", "publish", folder, "--repo", REPO, *options], capture_output=True, text=True,
                          timeout=100, env={**(environment or hub.environment()), "PYTHONPATH": str(ROOT)}, cwd=folder.parent)
    assert "hf_right" not in done.stdout + done.stderr
    assert "hf_wrong" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def local_files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_a_first_upload_makes_repository_branch_and_card(hub, folder, bare_python):
    exported = folder()
    code, out, _ = publish(exported, hub, "--dry-run")
    assert code == 0
    assert "would upload" in out
    assert "new repository" in out
    assert hub.control()["repos"] == {}

    code, out, err = publish(exported, hub, "--private")
    assert (code, "uploaded" in out) == (0, True), err
    repo = hub.control()["repos"][REPO]
    assert repo["private"]
    assert repo["branches"]["main"] == [".gitattributes", "README.md", "media/speedup.svg"]
    builds = [name for name in local_files(exported) if not name.startswith(("README", "media"))]
    assert repo["branches"]["v1"] == [".gitattributes", *builds]

    text = (f'from kernels import get_kernel; import torch; k = get_kernel("{REPO}", version=1, trust_remote_code=["{REPO}"]); '
            'x = torch.randn(1024, 1536); print(k.softmax(x).equal(torch.softmax(x, 1)))')
    done = subprocess.run([bare_python, "-c", text], capture_output=True, text=True, env=hub.environment(token=None), timeout=100,
                          cwd=exported.parent)
    assert done.stdout.strip() == "True", done.stderr


def test_a_second_upload_replaces_its_variant_and_touches_nothing_else(hub, folder):
    exported = folder()
    assert publish(exported, hub)[0] == 0
    commits = len(hub.control()["repos"][REPO]["log"])
    assert publish(exported, hub)[0] == 0
    assert len(hub.control()["repos"][REPO]["log"]) == commits, "what is there already is not committed again"

    metadata = (exported / "build/torch-cpu/metadata.json").read_bytes()
    put(hub, "v1", {"build/torch-cpu/_old.py": b"", "build/torch-rocm/metadata.json": metadata, "notes.txt": b"theirs"})
    code, out, err = publish(folder(extra="# another text\n", where="other"), hub)
    assert code == 0, err
    assert "1 stale ones removed" in out
    there = hub.branches(REPO)["v1"]
    assert "build/torch-cpu/_old.py" not in there
    assert {"build/torch-rocm/metadata.json", "notes.txt"} <= set(there)


def put(hub, branch, files):
    """Files of somebody else's on a branch, by the real client."""
    script = ("import sys, json; from huggingface_hub import HfApi, CommitOperationAdd as Add; "
              "HfApi().create_commit(sys.argv[1], repo_type='kernel', revision=sys.argv[2], commit_message='theirs', "
              "operations=[Add(p, d.encode()) for p, d in json.loads(sys.argv[3]).items()])")
    text = json.dumps({path: data.decode() for path, data in files.items()})
    done = subprocess.run([sys.executable, "-c", script, REPO, branch, text], capture_output=True, text=True, env=hub.environment(),
                          timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_version_keeps_what_its_users_call(hub, folder):
    assert publish(folder(), hub)[0] == 0
    renamed = folder("other_name", where="renamed")
    code, _, err = publish(renamed, hub)
    assert code == 2
    assert "`softmax(Tensor x) -> Tensor`" in err
    assert "--version 2" in err
    assert "build/torch-cpu/_other_name.py" not in hub.branches(REPO)["v1"]

    code, out, err = publish(renamed, hub, "--version", "2")
    assert code == 0, err
    there = hub.branches(REPO)
    assert "build/torch-cpu/_other_name.py" in there["v2"]
    assert not [name for name in there["v2"] if "_softmax.py" in name]
    assert "build/torch-cpu/_softmax.py" in there["v1"]
    assert 'version=2, trust_remote_code=["acme/soft"]' in read(hub, "main", "README.md")
    assert "YOUR-ORG" not in read(hub, "main", "README.md")
    assert json.loads(read(hub, "v2", "build/torch-cpu/metadata.json"))["version"] == 2


def read(hub, branch, path):
    import urllib.request

    with urllib.request.urlopen(f"{hub.url}/kernels/{REPO}/resolve/{branch}/{path}", timeout=10) as reply:
        return reply.read().decode()


def test_another_build_of_the_same_calls_joins_a_version(hub, folder):
    assert publish(folder(), hub)[0] == 0
    code, _, err = publish(folder(backend="cuda", where="cuda"), hub)
    assert code == 0, err
    assert {"build/torch-cpu/metadata.json", "build/torch-cuda/metadata.json"} <= set(hub.branches(REPO)["v1"])


@pytest.mark.parametrize(("setting", "code", "words"), [
    ({"create": 403}, 3, ["approval", "Request Kernels Creation"]),
    ({"commit": 403}, 3, ["may not write", "write access to 'acme'"]),
    ({"commit": 503}, 3, ["the Hub answers 503", "run the same command again"]),
])
def test_what_the_hub_refuses_is_said_and_a_second_run_completes_it(hub, folder, setting, code, words):
    exported = folder()
    hub.control(**setting)
    got, _, err = publish(exported, hub)
    assert got == code, err
    assert all(word in err for word in words)
    hub.control()
    assert publish(exported, hub)[0] == 0
    assert "build/torch-cpu/metadata.json" in hub.branches(REPO)["v1"]
    assert "README.md" in hub.branches(REPO)["main"]


def test_logins(hub, folder):
    exported = folder()
    code, _, err = publish(exported, hub, environment=hub.environment(token="hf_wrong"))
    assert (code, "does not accept this login" in err) == (3, True)
    code, _, err = publish(exported, hub, environment=hub.environment(token=None))
    assert (code, "hf auth login" in err) == (3, True)
    code, out, err = publish(exported, hub, "--dry-run", environment=hub.environment(token=None))
    assert (code, "would upload" in out, "taken for new" in err) == (0, True, True), err
    hub.home.mkdir()
    (hub.home / "token").write_text("hf_right")  # what `hf auth login` stores
    assert publish(exported, hub, environment=hub.environment(token=None))[0] == 0


def test_no_network(hub, folder):
    code, _, err = publish(folder(), hub, environment={**hub.environment(), "HF_ENDPOINT": "http://127.0.0.1:9"})
    assert (code, "does not answer" in err, "Check the network" in err) == (3, True, True), err
    code, _, err = publish(folder(), hub, environment=hub.environment(HF_HUB_OFFLINE="1"))
    assert (code, "HF_HUB_OFFLINE" in err) == (3, True), err


def test_what_leaves_is_what_was_proven(hub, folder, tmp_path):
    exported = folder()
    path = exported / "build/torch-cpu/_winner_softmax.py"
    path.write_text(path.read_text() + "# changed\n")
    code, _, err = publish(exported, hub)
    assert (code, "_winner_softmax.py' is not what was proven" in err) == (2, True)
    (tmp_path / "empty").mkdir()
    code, _, err = publish(tmp_path / "empty", hub)
    assert (code, "no exported kernel" in err) == (2, True)
    assert hub.control()["repos"] == {}


@pytest.mark.skipif(not os.environ.get("AUTOKERNEL_LIVE_HUB"), reason="set AUTOKERNEL_LIVE_HUB=ORG/NAME to upload to the real Hub")
def test_the_real_hub(folder):
    """Opt-in: needs a login whose account may create kernels; uploads to the repository named, as private, version 0."""
    repo = os.environ["AUTOKERNEL_LIVE_HUB"]
    environment = {k: v for k, v in os.environ.items() if k not in ("HF_HUB_OFFLINE", "HF_ENDPOINT")}
    done = subprocess.run([sys.executable, "-m", "autokernel", "publish", folder(version=0), "--repo", repo, "--private"],
                          capture_output=True, text=True, timeout=170, env={**environment, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr
    text = (f'from kernels import get_kernel; import torch; k = get_kernel("{repo}", version=0, trust_remote_code=["{repo}"]); '
            'x = torch.randn(1024, 1536); print(k.softmax(x).equal(torch.softmax(x, 1)))')
    loaded = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=170, env=environment)
    assert loaded.stdout.strip() == "True", loaded.stderr


def test_an_upload_cut_short_is_completed_by_a_second_run(hub, folder, texts):
    exported = folder()
    # a library, so that something goes by the way of large files
    metadata_path = exported / "build/torch-cpu/metadata.json"
    (exported / "build/torch-cpu/lib_softmax.so").write_bytes(b"\x7fELF" + bytes(4096))
    metadata = json.loads(metadata_path.read_text())
    from exporters import digests

    files = {p.name: p.read_bytes() for p in metadata_path.parent.iterdir()}
    metadata["digest"]["files"] = digests(files)
    metadata_path.write_text(json.dumps(metadata))
    hub.control(hang=True)
    command = [sys.executable, "-m", "autokernel", "publish", exported, "--repo", REPO]
    with subprocess.Popen(command, env={**hub.environment(), "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL) as process:
        ends = time.monotonic() + 60
        while not any(seen.startswith("PUT /blob/") for seen in hub.control(hang=True)["requests"]):
            assert time.monotonic() < ends and process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert hub.branches(REPO)["v1"] == [".gitattributes"]
    hub.control()
    assert publish(exported, hub)[0] == 0
    assert "build/torch-cpu/lib_softmax.so" in hub.branches(REPO)["v1"]


def test_what_the_client_wraps_is_unwrapped():
    import httpx2

    from exporters import ExportError
    from exporters.hub_errors import hub_errors

    with pytest.raises(ExportError, match="the Hub does not answer") as failure, hub_errors("upload to", REPO):
        raise RuntimeError("Error while uploading 'x' to the Hub.") from httpx2.ReadTimeout("slow")
    assert failure.value.exit_code == 3
    with pytest.raises(RuntimeError, match="something else"), hub_errors("upload to", REPO):
        raise RuntimeError("something else")
