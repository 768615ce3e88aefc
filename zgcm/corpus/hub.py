"""Datasets of the Hugging Face hub at a pinned commit: list their files for a lock, fetch one file.

`HF_ENDPOINT` chooses another hub, `HF_TOKEN` (or a stored login) opens gated datasets.
"""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from zgcm.config.corpus import HubSource
from zgcm.corpus.lock import check_file
from zgcm.errors import ZgcmError
from zgcm.io import fsync_directory, sha256_file
from zgcm.records import FORMATS

COMMIT = re.compile(r"[0-9a-f]{40}")


def list_files(source: HubSource, name: str) -> list[dict[str, Any]]:
    """The dataset's files that match: [{"path", "bytes", "sha256"}], sorted by path.

    The hub states the digest of large files; small ones, which it keeps in git, are fetched and hashed.
    Raises ZgcmError when the revision is a branch or tag, when nothing matches, when access is refused.
    """
    from huggingface_hub import HfApi

    with _explained(source.repo):
        api = HfApi(endpoint=_endpoint())
        info = api.dataset_info(source.repo, revision=source.revision, files_metadata=True)
    if not COMMIT.fullmatch(source.revision):
        raise ZgcmError(
            "A branch or tag moves; a lock needs a commit", where=f"sources.{name}.revision",
            found=source.revision, expected="40 hexadecimal digits",
            hint=f"today that revision is commit {info.sha}; write it into the recipe",
        )  # fmt: skip
    patterns = _subset_patterns(info, source, name)
    siblings = {item.rfilename: item for item in info.siblings or []}
    chosen = sorted(
        path
        for path in siblings
        if _matches(path, source.patterns) and _matches(path, patterns) and path.endswith(FORMATS)
    )
    if not chosen:
        raise ZgcmError(
            "No file of the dataset matches", where=f"sources.{name}.patterns",
            found=f"{len(siblings)} other files in {source.repo}",
            expected=f"{' or '.join(source.patterns)} with an ending of {', '.join(FORMATS)}",
        )  # fmt: skip
    return [_entry(source, siblings[path]) for path in chosen]


def fetch_file(source: HubSource, entry: dict[str, Any], target: Path) -> None:
    """Download a locked file to `target`, which appears only with the locked size and digest."""
    from huggingface_hub import hf_hub_download

    target.parent.mkdir(parents=True, exist_ok=True)
    # A fixed directory beside the target: a download that was cut off continues there.
    partial = target.with_name(f".{target.name}.partial")
    with _explained(source.repo):
        downloaded = hf_hub_download(
            source.repo, entry["path"], repo_type="dataset", revision=source.revision,
            local_dir=partial, endpoint=_endpoint(),
        )  # fmt: skip
    try:
        check_file(Path(downloaded), entry)
        with Path(downloaded).open("rb") as stream:
            os.fsync(stream.fileno())
        Path(downloaded).replace(target)
        fsync_directory(target.parent)
    finally:
        shutil.rmtree(partial)


def _entry(source: HubSource, sibling: Any) -> dict[str, Any]:
    if sibling.lfs is not None:
        return {"path": sibling.rfilename, "bytes": sibling.lfs.size, "sha256": sibling.lfs.sha256}
    from huggingface_hub import hf_hub_download

    with tempfile.TemporaryDirectory() as directory, _explained(source.repo):
        path = Path(
            hf_hub_download(
                source.repo, sibling.rfilename, repo_type="dataset", revision=source.revision,
                local_dir=directory, endpoint=_endpoint(),
            )
        )  # fmt: skip
        return {"path": sibling.rfilename, "bytes": path.stat().st_size, "sha256": sha256_file(path)}


def _subset_patterns(info: Any, source: HubSource, name: str) -> list[str]:
    """Patterns of the files of one dataset configuration, as the dataset card declares them; a card without
    configurations means one directory per configuration."""
    if source.subset is None:
        return ["**"]
    card = info.card_data
    declared = {item["config_name"]: item.get("data_files") for item in (card and card.get("configs")) or []}
    if not declared:
        return [f"{source.subset}/**"]
    if source.subset not in declared:
        raise ZgcmError(
            "The dataset has no such configuration", where=f"sources.{name}.subset", found=source.subset,
            expected=", ".join(declared),
        )  # fmt: skip
    files = declared[source.subset] or f"{source.subset}/**"
    items = files if isinstance(files, list) else [files]
    paths = [item["path"] if isinstance(item, dict) else item for item in items]
    return [path for item in paths for path in (item if isinstance(item, list) else [item])]


def _matches(path: str, patterns: list[str]) -> bool:
    """`**/` also stands for no directory at all, as everywhere but in fnmatch."""
    return any(fnmatchcase(path, form) for item in patterns for form in (item, item.removeprefix("**/")))


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


@contextlib.contextmanager
def _explained(repo: str) -> Iterator[None]:
    """Turn what the hub's client raises into one paragraph that says what to do."""
    from huggingface_hub import errors

    try:
        yield
    except errors.LocalEntryNotFoundError as error:
        # The client's words for "the request before the download failed"; the reason is the cause.
        raise _refusal(repo, error.__cause__ or error) from error
    except (errors.HTTPError, errors.EntryNotFoundError, errors.FileMetadataError, ConnectionError) as error:
        raise _refusal(repo, error) from error


def _refusal(repo: str, error: BaseException) -> ZgcmError:
    from huggingface_hub import errors

    response = getattr(error, "response", None)
    if isinstance(error, errors.GatedRepoError):
        what = "The hub refuses access to a gated dataset"
        hint = "accept the dataset's terms on its page, then set HF_TOKEN to a token of that account"
    elif isinstance(error, errors.RevisionNotFoundError):
        what, hint = "The dataset has no such revision", "check `revision` in the recipe"
    elif isinstance(error, errors.RepositoryNotFoundError):
        what = "The hub has no such dataset, or you may not see it"
        hint = "check `repo` in the recipe; for a private dataset set HF_TOKEN"
    elif isinstance(error, errors.EntryNotFoundError):
        what, hint = "The dataset has no such file at that revision", "lock the source anew"
    elif response is not None:
        what, hint = "The hub refused the request", "set HF_TOKEN, or try again later"
    else:
        what = "The hub cannot be reached"
        hint = "check the network, HF_ENDPOINT and HF_HUB_OFFLINE, then repeat the command"
    found = f"HTTP status {response.status_code}" if response is not None else str(error).split("\n")[0]
    where = f"{_endpoint() or 'the Hugging Face hub'}, dataset {repo}"
    return ZgcmError(what, where=where, found=found or type(error).__name__, hint=hint)
