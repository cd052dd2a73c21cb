"""KernelBench's data set classes: problems by id, subsets, samples. Names and behaviour are KernelBench's, leniency included."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelbench_bridge.origins import hub, parquet
from kernelbench_bridge.origins.checkout import read_source
from kernelbench_bridge.problem import code_hash

HUB_LEVELS = (1, 2, 3)
DATASET_NAME = "ScalingIntelligence/KernelBench"
FOLDER_VARIABLE = "AUTOKERNEL_KERNELBENCH_DIR"
REPRESENTATIVE = {
    1: (1, 3, 6, 18, 23, 26, 33, 36, 40, 42, 48, 54, 57, 65, 77, 82, 86, 87),
    2: (1, 2, 8, 18, 23, 28, 33, 43),
    3: (1, 5, 8, 11, 20, 21, 33, 38, 43),
}


@dataclass
class KernelBenchProblem:
    """One problem as KernelBench's library hands it out. `name` ends in `.py` for local ones and not for the Hub's."""

    problem_id: int
    name: str
    code: str
    level: int
    path: str | None = None
    metadata: dict[str, Any] | None = None

    @property
    def hash(self) -> str:
        """md5 of the code without comments and white space."""
        return code_hash(self.code)


class KernelBenchDataset:
    """Problems of one level, ascending by id; ids are whole numbers and are not coerced."""

    def __init__(self, level: int, problems: dict[int, KernelBenchProblem]) -> None:
        self.level = level
        self._problems = {number: problems[number] for number in sorted(problems)}

    def __len__(self) -> int:
        return len(self._problems)

    def __iter__(self) -> Iterator[KernelBenchProblem]:
        return iter(self._problems.values())

    def __getitem__(self, index: int) -> KernelBenchProblem:
        ids = self.get_problem_ids()
        if not 0 <= index < len(ids):
            raise IndexError(f"there is no problem at position {index}; the data set has {len(ids)}.")
        return self._problems[ids[index]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(level={self.level}, problems={len(self)})"

    def get_problem_ids(self) -> list[int]:
        """All ids, ascending."""
        return list(self._problems)

    def get_problem_by_id(self, problem_id: int) -> KernelBenchProblem:
        """The problem. Raises ValueError where there is none of that id, "1" included."""
        if problem_id not in self._problems:
            raise ValueError(f"Problem ID {problem_id} is not in level {self.level} of this data set; choose one of get_problem_ids().")
        return self._problems[problem_id]

    def subset(self, problem_ids: Sequence[int] | None = None, id_range: tuple[int, int] | None = None) -> KernelBenchDataset:
        """The problems named by id or by range, both ends included; unknown ones are passed over. With neither, all."""
        wanted = _wanted(problem_ids, id_range)
        chosen = {number: problem for number, problem in self._problems.items() if wanted is None or number in wanted}
        return KernelBenchDataset(self.level, chosen)

    def sample(self, n: int, seed: int = 42) -> KernelBenchDataset:
        """`n` problems (or all, if there are fewer), the same ones for the same seed."""
        random.seed(seed)  # the global generator, as KernelBench's callers may go on drawing from it
        ids = self.get_problem_ids()
        return self.subset(problem_ids=random.sample(ids, min(n, len(ids))))

    def get_representative_subset(self) -> KernelBenchDataset:
        """KernelBench's short list for the level. Raises ValueError where it has none (level 4)."""
        if self.level not in REPRESENTATIVE:
            raise ValueError(f"KernelBench names no representative problems for level {self.level}; use levels 1 to 3.")
        return self.subset(problem_ids=REPRESENTATIVE[self.level])


class LocalKernelBenchDataset(KernelBenchDataset):
    """Problems of a checkout (`base_path`/levelN/ID_Name.py), or of a folder of the Hub's parquet files.

    A file counts if it ends in `.py` and `int()` takes what stands before its first underscore. Raises ValueError for a level below 1
    and FileNotFoundError where the folder lacks the level.
    """

    def __init__(self, level: int, base_path: str | os.PathLike[str] | None = None, problem_ids: Sequence[int] | None = None,
                 id_range: tuple[int, int] | None = None) -> None:
        if level < 1:
            raise ValueError(f"level must be at least 1, and is {level}.")
        wanted = _wanted(problem_ids, id_range)
        found = _local(level, _base(base_path))
        super().__init__(level, {number: problem for number, problem in found.items() if wanted is None or number in wanted})


class HuggingFaceKernelBenchDataset(KernelBenchDataset):
    """Problems of the Hub's data set, levels 1 to 3; names without `.py`. Raises ValueError for another level, BridgeError offline."""

    def __init__(self, level: int, dataset_name: str = DATASET_NAME, problem_ids: Sequence[int] | None = None,
                 id_range: tuple[int, int] | None = None) -> None:
        if level not in HUB_LEVELS:
            raise ValueError(f"the Hub's data set is taken for levels 1, 2 and 3 only, as KernelBench does, not for {level}.")
        if dataset_name != DATASET_NAME:
            raise ValueError(f"the data set '{dataset_name}' is not known here; use {DATASET_NAME}, or a local copy with source='local'.")
        wanted = _wanted(problem_ids, id_range)
        listing, _ = hub.read_level(level)
        super().__init__(level, {problem.problem_id: KernelBenchProblem(problem.problem_id, problem.name, problem.source, level)
                                 for problem in listing.problems if wanted is None or problem.problem_id in wanted})


def construct_kernelbench_dataset(level: int, source: str = "local", dataset_name: str = DATASET_NAME,
                                  base_path: str | os.PathLike[str] | None = None, problem_ids: Sequence[int] | None = None,
                                  id_range: tuple[int, int] | None = None) -> KernelBenchDataset:
    """A level from "local" or "huggingface". `problem_ids` and `id_range` are united; an empty list selects nothing.

    `base_path` defaults to AUTOKERNEL_KERNELBENCH_DIR. Raises ValueError and FileNotFoundError as the classes do.
    """
    if source == "local":
        return LocalKernelBenchDataset(level, base_path, problem_ids, id_range)
    if source == "huggingface":
        return HuggingFaceKernelBenchDataset(level, dataset_name, problem_ids, id_range)
    raise ValueError(f"the source '{source}' is not known; use 'local' or 'huggingface'.")


def fetch_ref_arch_from_dataset(dataset: KernelBenchDataset, problem_id: int | str, *, with_name: bool = False) -> Any:
    """A problem's code by its id, which may be text here; with its path (or name) before it where asked."""
    problem = dataset.get_problem_by_id(int(problem_id))
    return (problem.path or problem.name, problem.code) if with_name else problem.code


def _wanted(problem_ids: Sequence[int] | None, id_range: tuple[int, int] | None) -> set[int] | None:
    if problem_ids is None and id_range is None:
        return None
    wanted = set(problem_ids or ())
    return wanted if id_range is None else wanted | set(range(id_range[0], id_range[1] + 1))


def _base(named: str | os.PathLike[str] | None) -> Path:
    folder = named if named is not None else os.environ.get(FOLDER_VARIABLE)
    if not folder:
        raise FileNotFoundError(f"no folder of problems is named; pass base_path, or set {FOLDER_VARIABLE}.")
    return Path(folder).expanduser()


def _local(level: int, base: Path) -> dict[int, KernelBenchProblem]:
    folder = next((place for place in (base / f"level{level}", base / "KernelBench" / f"level{level}") if place.is_dir()), None)
    if folder is not None:
        return {number: KernelBenchProblem(number, path.name, read_source(path), level, str(path))
                for path in sorted(folder.iterdir()) if (number := _leading_id(path.name)) is not None}
    place = parquet.root(base)
    if place is not None and level in parquet.levels(place):
        return {problem.problem_id: KernelBenchProblem(problem.problem_id, f"{problem.name}.py", problem.source, level)
                for problem in parquet.read_level(place, level).problems}
    raise FileNotFoundError(f"'{base}' has no level {level}; pass a KernelBench checkout or a folder of its parquet files.")


def _leading_id(file_name: str) -> int | None:
    if not file_name.endswith(".py"):
        return None
    try:
        return int(file_name.split("_")[0])
    except ValueError:
        return None
