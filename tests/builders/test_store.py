from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from autokernel import builders
from autokernel.builders.store import BuildStore
from autokernel.builders.toolchain import missing_tool
from autokernel.errors import DeadlinePassed

CPP = builders.get("cpp")
needs_gxx = pytest.mark.skipif(missing_tool("cpp") is not None, reason=str(missing_tool("cpp")))
KEY = "ab" * 32
BUILD = """
import sys
from pathlib import Path
from autokernel import builders
from autokernel.sandbox import command
command.why_not = lambda: {"namespaces": "the slow compiler waits for a file outside", "seccomp": ""}
text, store = Path(sys.argv[1]).read_text(), Path(sys.argv[2])
print("started", flush=True)
built = builders.get("cpp").build(text, store, None, 60)
print(built.ok, built.cached, flush=True)
"""


def publish(store, content=b"library", **changes):
    with store.lock(KEY, 1), store.workspace(KEY) as folder:
        (folder / "native.so").write_bytes(content)
        return store.publish(KEY, folder, **{"ok": True, "digest": "", "seconds": 1.5, "timeout_s": None, **changes})


def test_an_entry_is_found_after_it_is_published_and_not_before(tmp_path):
    store = BuildStore(tmp_path, "native.so", "log.txt")
    assert store.find(KEY) is None
    entry = publish(store)
    assert store.find(KEY) == entry and entry.artifact_bytes == 7
    assert store.artifact_path(KEY).read_bytes() == b"library"
    assert sorted(path.name for path in (tmp_path / "ab").iterdir()) == [KEY, KEY + ".lock"]


def test_a_damaged_entry_is_not_found_and_can_be_replaced(tmp_path):
    store = BuildStore(tmp_path, "native.so", "log.txt")
    publish(store)
    store.artifact_path(KEY).chmod(0o644)
    store.artifact_path(KEY).write_bytes(b"lib")
    assert store.find(KEY) is None
    publish(store, b"library 2")
    assert store.artifact_path(KEY).read_bytes() == b"library 2"
    (store.artifact_path(KEY).parent / "result.json").unlink()
    assert store.find(KEY) is None


def test_a_lock_excludes_threads_too_and_gives_up_at_its_deadline(tmp_path):
    store = BuildStore(tmp_path, "native.so", "log.txt")
    errors = []

    def second():
        try:
            with store.lock(KEY, 0.1):
                pass
        except DeadlinePassed as error:
            errors.append(str(error))

    with store.lock(KEY, 1):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert errors == ["another process has been building the same text for over 0.1 s. Run the command again later."]
    with store.lock(KEY, 0):
        pass


@pytest.fixture
def slow_gxx(tmp_path, monkeypatch):
    """A g++ on PATH that waits while compiling until a file appears, and notes each start."""
    real = subprocess.run(["which", "g++"], capture_output=True, text=True, check=True).stdout.strip()
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "g++").write_text(f"""#!/bin/sh
case "$*" in *" -c "*) echo $$ >> {tmp_path}/starts; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done;; esac
exec {real} "$@"
""")
    (folder / "g++").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return tmp_path


def spawn(folder, text):
    (folder / "text.py").write_text(text)
    process = subprocess.Popen([sys.executable, "-c", BUILD, folder / "text.py", folder / "store"], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "started\n"
    return process


def wait_for(path):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_gxx
def test_two_processes_with_one_text_compile_once(slow_gxx, candidates):
    both = [spawn(slow_gxx, candidates["cpp"]) for _ in range(2)]
    wait_for(slow_gxx / "starts")
    (slow_gxx / "go").touch()
    assert sorted(process.communicate(timeout=60)[0] for process in both) == ["True False\n", "True True\n"]
    assert len((slow_gxx / "starts").read_text().splitlines()) == 1


@needs_gxx
def test_kill_9_in_mid_build_leaves_the_store_usable(slow_gxx, candidates):
    process = spawn(slow_gxx, candidates["cpp"])
    wait_for(slow_gxx / "starts")
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    left = [path.name for path in (slow_gxx / "store").rglob("*.building-*")]
    assert len(left) == 1
    os.kill(int((slow_gxx / "starts").read_text().split()[0]), signal.SIGKILL)  # the orphan, which would end by itself
    (slow_gxx / "go").touch()
    built = CPP.build(candidates["cpp"], slow_gxx / "store", None, 60)
    assert built.ok and not built.cached
    assert not list((slow_gxx / "store").rglob("*.building-*"))
    assert CPP.build(candidates["cpp"], slow_gxx / "store", None, 60).cached
