"""Makes and describes locks: a look at the files of a source, written beside the recipe."""

from pathlib import Path
from typing import Any

from zgcm.config.corpus import FileSource, HubSource
from zgcm.config.recipe import Recipe
from zgcm.corpus.hub import list_files
from zgcm.corpus.lock import Lock
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file, write_json
from zgcm.layout import read_lock, shard_count
from zgcm.records import FORMATS
from zgcm.records.find import find_files


def lock_path(recipe: Recipe, source: str, checkout: Path) -> Path:
    return checkout / (getattr(recipe.sources[source], "lock", None) or f"config/sources/{source}.lock")


def lock_source(recipe: Recipe, source: str, paths: list[str], checkout: Path = Path()) -> tuple[Path, Lock]:
    """Look at a source's files, write its lock below `checkout` and return where and what.

    `paths` (files, directories, patterns) is for sources of kind `files` that name none in the recipe.
    Raises ZgcmError for a demo source, a revision that moves, files that are missing or unreadable.
    """
    section = _section(recipe, source)
    if isinstance(section, FileSource):
        lock = _lock_files(source, section.files or paths)
    elif isinstance(section, HubSource):
        if paths:
            raise ZgcmError(
                "A hub source is locked by its patterns", where=f"sources.{source}.patterns",
                found=" ".join(paths), hint="put the patterns into the recipe",
            )  # fmt: skip
        lock = _lock(source, "hub", list_files(section, source), section.repo, section.revision)
    else:
        raise ZgcmError(
            "A demo source has no files to lock", where=f"sources.{source}", found="kind: demo",
            expected="kind: files or hub",
        )  # fmt: skip
    path = lock_path(recipe, source, checkout)
    write_json(path, lock)
    return path, lock


def _section(recipe: Recipe, source: str) -> Any:
    if source not in recipe.sources:
        raise ZgcmError(
            "The recipe has no such source", where="sources", found=source, expected=", ".join(recipe.sources)
        )
    return recipe.sources[source]


def _lock(source: str, kind: str, files: list[dict[str, Any]], repo: str = "", revision: str = "") -> Lock:
    return {
        "source": source,
        "kind": kind,
        "repo": repo or None,
        "revision": revision or None,
        "assumed": False,
        "files": files,
    }


def _lock_files(source: str, wanted: list[str]) -> Lock:
    paths = find_files(wanted)
    if not paths:
        raise ZgcmError(
            f"No files for source {source}", where=f"sources.{source}", found=" ".join(wanted) or "no paths",
            expected=", ".join(FORMATS), hint=f"name them: zgcm sources lock {source} 'data/*.jsonl.zst'",
        )  # fmt: skip
    files = []
    for path in paths:
        if path.stat().st_size == 0:
            raise ZgcmError("An empty file cannot be a shard", where=str(path), hint="leave it out")
        files.append({"path": str(path), "bytes": path.stat().st_size, "sha256": sha256_file(path)})
    return _lock(source, "files", files)


def describe_sources(recipe: Recipe) -> list[dict[str, Any]]:
    """One row per source. `shards` is None where a lock is still to be written, `bytes` where unknown."""
    rows = []
    for name, section in recipe.sources.items():
        shards, size, origin = _extent(recipe, name, section)
        rows.append(
            {
                "source": name,
                "kind": section.kind,
                "stage": section.stage,
                "category": section.category,
                "shards": shards,
                "bytes": size,
                "from": origin,
            }
        )
    return rows


def _extent(recipe: Recipe, name: str, section: Any) -> tuple[int | None, int | None, str]:
    if isinstance(section, FileSource | HubSource) and section.lock is not None:
        path = Path(section.lock)
        if not path.exists():
            return None, None, f"{path} (missing)"
        lock = read_lock(path, name)
        size = sum(file["bytes"] or 0 for file in lock["files"])
        note = " (assumed)" if lock.get("assumed") else ""
        return shard_count(recipe, name), size or None, f"{path}{note}"
    if isinstance(section, FileSource):
        return shard_count(recipe, name), None, "files in the recipe"
    return section.shards, None, f"generated: {section.content}"
