"""Problems from the Hub's data set ScalingIntelligence/KernelBench, splits `level_N`: an earlier download, else `datasets`.

Neither may hang a command: reachability is asked first with a deadline, and the download has one of its own.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TypeVar

from kernelbench_bridge.errors import MISSING, BridgeError
from kernelbench_bridge.origins import parquet
from kernelbench_bridge.origins.listing import Listing

DATASET = "ScalingIntelligence/KernelBench"
LEVELS = (1, 2, 3, 4)
PROBE_S = 2.5  # a name server that does not answer may hold a look-up for longer; the thread is then left behind
DOWNLOAD_S = 120.0

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T]) -> T:
    """Result of `call`, run in a daemon thread; TimeoutError after `seconds`, the thread then being left to itself.

    What `call` raises is raised here. A thread, because a name look-up cannot be given a deadline.
    """
    future: Future[T] = Future()

    def body() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            future.set_exception(error)

    threading.Thread(target=body, name="kernelbench-hub", daemon=True).start()
    if not wait([future], timeout=seconds).done:
        raise TimeoutError(f"no answer within {seconds:g} s")
    return future.result()


def cache_folder() -> Path:
    """Where huggingface_hub keeps its downloads, by its own environment variables; read without importing it."""
    cache = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if cache:
        return Path(cache).expanduser()
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(home).expanduser() / "hub"


def cached(level: int) -> Path | None:
    """Folder of parquet files of an earlier download that holds this level: branch main's, else the newest; None without one."""
    try:
        for folder in _snapshots(cache_folder() / f"datasets--{DATASET.replace('/', '--')}"):
            place = parquet.root(folder)
            if place is not None and level in parquet.levels(place):
                return place
    except OSError:
        return None  # a cache of another user's that cannot be read is as good as none
    return None


def _snapshots(repository: Path) -> list[Path]:
    """Revisions of a data set in the Hub's cache, the one to prefer first."""
    main = repository / "refs" / "main"
    snapshots = repository / "snapshots"
    folders = sorted(snapshots.iterdir(), key=lambda each: each.stat().st_mtime, reverse=True) if snapshots.is_dir() else []
    if main.is_file():
        folders.insert(0, snapshots / main.read_text(encoding="utf-8").strip())
    return folders


@functools.lru_cache(maxsize=1)
def unreachable() -> str | None:
    """Why the Hub cannot be asked from here, or None if it answers. Asked once a process; takes at most 2.5 s."""
    for variable in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            return f"{variable} is set"
    import urllib.error
    import urllib.request

    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    request = urllib.request.Request(f"{endpoint.rstrip('/')}/api/datasets/{DATASET}", method="HEAD")
    try:
        within(PROBE_S, lambda: urllib.request.urlopen(request, timeout=PROBE_S).close())
    except urllib.error.HTTPError as error:
        error.close()
        return f"the Hub answered {error.code}"
    except TimeoutError:
        return f"the Hub did not answer within {PROBE_S:g} s"
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", error)  # urllib wraps what the socket said
        return f"the Hub cannot be reached ({getattr(cause, 'strerror', None) or cause})"
    return None


def read_level(level: int) -> tuple[Listing, str]:
    """A level's problems, and where they came from: an earlier download, else the Hub itself.

    Raises BridgeError: exit 2 for a level the Hub does not have, 3 where it cannot be reached or `datasets` is missing.
    """
    if level not in LEVELS:
        raise BridgeError(f"there is no level {level} on the Hub; choose one of {', '.join(map(str, LEVELS))}.")
    place = cached(level)
    if place is not None:
        return parquet.read_level(place, level, "hub"), f"downloaded earlier to {place}"
    reason = unreachable()
    if reason is not None:
        raise BridgeError(f"{DATASET} was not downloaded here before, and {reason}. Use --source embedded, or pass a "
                          "KernelBench checkout or a folder of its parquet files as --source.", exit_code=MISSING)
    return _download(level), f"{DATASET} on the Hub"


def _download(level: int) -> Listing:
    try:
        import datasets
    except ImportError:
        raise BridgeError("downloading KernelBench needs the package datasets; install it.",
                          hint="Run: pip install datasets", exit_code=MISSING) from None
    try:
        rows = within(DOWNLOAD_S, lambda: list(datasets.load_dataset(DATASET, split=f"level_{level}")))
    except (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BridgeError(f"{DATASET} could not be downloaded ({reason}); check the network.", exit_code=MISSING,
                          hint="Or pass a folder of its parquet files as --source.") from error
    return parquet.problems_of(rows, level, "hub")
