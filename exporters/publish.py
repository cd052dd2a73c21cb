"""Upload of an exported kernel: repository of type kernel, branch `vN` with the builds, card on main. A second run completes a first."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exporters.errors import MISSING, ExportError
from exporters.folder import MAIN, ExportedFolder, read_export
from exporters.hub_errors import hub_errors, not_logged_in

if TYPE_CHECKING:
    from huggingface_hub import HfApi

KIND = "kernel"
FIRST_CLIENT = (2, 3)  # older clients refuse to upload to repositories of type kernel
MOST_OPERATIONS = 900  # in one commit; the Hub takes 1000


@dataclass(frozen=True)
class Published:
    """What an upload did, or with `dry_run` would do."""

    repo_id: str
    version: int
    created: bool  # the repository is new
    new_branch: bool
    uploaded: tuple[str, ...]  # paths, "main:README.md" or "v1:build/..."
    deleted: tuple[str, ...]
    dry_run: bool

    @property
    def url(self) -> str:
        """Where it is to be seen."""
        return f"https://huggingface.co/kernels/{self.repo_id}"


@dataclass(frozen=True)
class _Remote:
    """What the Hub has: no repository (`branches` is None), or branches with their commits and the version branch's files."""

    branches: Mapping[str, str] | None
    files: frozenset[str] = frozenset()
    fresh: bool = True  # nothing was ever committed on the version's branch


def publish(folder: Path, repo_id: str, *, version: int | None = None, private: bool = False, dry_run: bool = False,
            tell: Callable[[str], None] = lambda text: None) -> Published:
    """Upload the export in `folder`. `version` overrides the exported one. Branch first, card last: no card without its kernel.

    Raises ExportError: a folder that is no export or was changed, a version whose users this would break, a login, an approval or a
    network that is missing.
    """
    export = read_export(folder)
    number = export.version if version is None else version
    api, logged_in = _client()
    if not (logged_in or dry_run):
        raise not_logged_in()
    branch = f"v{number}"
    remote = _look(api, repo_id, branch, logged_in)
    if not logged_in and remote.branches is None:
        tell(f"not logged in: {repo_id} is taken for new, which a private one looks like too")
    if not remote.fresh:
        _check_version(api, repo_id, branch, export, remote)
    files = _final_files(export, repo_id, number)
    main = {name: data for name, data in files.items() if name.startswith(MAIN)}
    builds = {name: data for name, data in files.items() if not name.startswith(MAIN)}
    ours = tuple(f"build/{variant}/" for variant in export.variants)
    stale = sorted(name for name in remote.files if name not in builds and name.startswith("build/" if remote.fresh else ours))
    paths = (*(f"{branch}:{name}" for name in builds), *(f"main:{name}" for name in main))
    done = Published(repo_id, number, remote.branches is None, branch not in (remote.branches or {}), paths,
                     tuple(f"{branch}:{name}" for name in stale), dry_run)
    if dry_run:
        return done
    if remote.branches is None:
        tell(f"creating {repo_id}")
        with hub_errors("create the repository", repo_id):
            api.create_repo(repo_id, repo_type=KIND, private=private or None, exist_ok=True)
    if done.new_branch:
        with hub_errors(f"create the branch {branch} of", repo_id):
            api.create_branch(repo_id, branch=branch, repo_type=KIND, exist_ok=True)
        if remote.branches is not None:  # a branch inherits what main has
            stale = sorted(name for name in _files(api, repo_id, branch) if name.startswith("build/") and name not in builds)
    tell(f"uploading {len(builds)} files to {branch}")
    _commit(api, repo_id, branch, builds, stale, f"{export.name} {branch}")
    tell("uploading the card")
    _commit(api, repo_id, "main", main, [], f"Card of {export.name} {branch}")
    return done


def _client() -> tuple[HfApi, bool]:
    """The client, and whether it has a login."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise ExportError("publishing needs the package huggingface_hub."
                          " pip install 'huggingface_hub>=2.3'", exit_code=MISSING) from error
    found = tuple(int(part) for part in re.findall(r"\d+", huggingface_hub.__version__)[:2])
    if found < FIRST_CLIENT:
        raise ExportError(f"huggingface_hub {huggingface_hub.__version__} cannot upload kernels; 2.3 is the first that can."
                          " pip install --upgrade 'huggingface_hub>=2.3'", exit_code=MISSING)
    return huggingface_hub.HfApi(), huggingface_hub.get_token() is not None


def _look(api: HfApi, repo_id: str, branch: str, logged_in: bool) -> _Remote:
    from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError

    with hub_errors("look at", repo_id):
        try:
            refs = api.list_repo_refs(repo_id, repo_type=KIND)
        except HfHubHTTPError as error:
            refused = error.response is not None and error.response.status_code == 401
            if not logged_in if refused else isinstance(error, RepositoryNotFoundError):  # to nobody, 401 is said of what is not there
                return _Remote(None)
            raise
    branches = {ref.name: ref.target_commit for ref in refs.branches}
    if branch not in branches:
        return _Remote(branches)
    files = _files(api, repo_id, branch)
    return _Remote(branches, files, fresh=branches[branch] == branches.get("main") or not any(f.startswith("build/") for f in files))


def _files(api: HfApi, repo_id: str, branch: str) -> frozenset[str]:
    with hub_errors("list the files of", repo_id):
        return frozenset(api.list_repo_files(repo_id, repo_type=KIND, revision=branch))


def _check_version(api: HfApi, repo_id: str, branch: str, export: ExportedFolder, remote: _Remote) -> None:
    """The Hub's rule: what users of a version call must stay; what is added must be there in every build of it."""
    there = {name.split("/")[1] for name in remote.files if name.startswith("build/") and name.count("/") >= 2}
    staying = sorted(there - set(export.variants))
    before: set[str] = set()
    for variant in sorted(there):
        before |= _remote_api(api, repo_id, branch, variant)
    free = 1 + max([int(name[1:]) for name in remote.branches or {} if re.fullmatch(r"v\d+", name)] or [0])
    advice = f"Publish it as a new version: --version {free}."
    lost = sorted(before - export.api)
    if lost:
        raise ExportError(f"{branch} of '{repo_id}' has `{lost[0]}`, and this kernel has not: it would break those who use {branch}. "
                          f"{advice}")
    added = sorted(export.api - before)
    if added and staying:
        raise ExportError(f"this kernel adds `{added[0]}` to {branch} of '{repo_id}', but the build {staying[0]} there would stay without "
                          f"it. {advice}")


def _remote_api(api: HfApi, repo_id: str, branch: str, variant: str) -> set[str]:
    with hub_errors("read the metadata of", repo_id):
        path = api.hf_hub_download(repo_id, f"build/{variant}/metadata.json", repo_type=KIND, revision=branch)
    try:
        return set(json.loads(Path(path).read_bytes())["autokernel"]["api"])
    except (ValueError, KeyError, TypeError) as error:
        raise ExportError(f"{branch} of '{repo_id}' holds the build {variant}, which AutoKernel did not make: what its users rely on is "
                          "not known. "
                          "Pass another --version, or another repository.") from error


def _final_files(export: ExportedFolder, repo_id: str, version: int) -> dict[str, bytes]:
    """The files as they are uploaded: the card names the repository, card and metadata the version."""
    files = dict(export.files)
    for name in ("README.md", "source/CARD.md"):
        if name in files:
            text = files[name].decode().replace(export.repo, repo_id)
            files[name] = text.replace(f"version={export.version}, trust", f"version={version}, trust").encode()
    if version != export.version:
        for variant, metadata in export.variants.items():
            changed: dict[str, Any] = {**metadata, "version": version}
            files[f"build/{variant}/metadata.json"] = (json.dumps(changed, indent=2) + "\n").encode()
    return files


def _commit(api: HfApi, repo_id: str, branch: str, files: Mapping[str, bytes], stale: list[str], message: str) -> None:
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    operations: list[Any] = [CommitOperationDelete(path_in_repo=name) for name in stale]
    operations += [CommitOperationAdd(path_in_repo=name, path_or_fileobj=data) for name, data in files.items()]
    for start in range(0, len(operations), MOST_OPERATIONS):
        with hub_errors(f"upload to the branch {branch} of", repo_id):
            api.create_commit(repo_id, operations=operations[start:start + MOST_OPERATIONS], commit_message=message, repo_type=KIND,
                              revision=branch)
