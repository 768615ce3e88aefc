"""Locks: the shard list of a source, with sizes and digests, committed beside the recipe.

A lock makes the number of shards known without a look at the data, so the dry run of a recipe needs neither
data nor network, and it pins the data: another byte is another source.
"""

from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import sha256_file

Lock = dict[str, Any]
"""{"source", "kind", "repo", "revision", "assumed", "files": [{"path", "bytes", "sha256"}]}"""


def locked_file(lock: Lock, source: str, shard: str, where: Path) -> dict[str, Any]:
    """The lock's entry for a shard. Raises ZgcmError for a shard that it does not list, and for an assumed
    lock, whose entries stand for files that nobody has published."""
    refuse_assumed(lock, source, where)
    files = lock["files"]
    if not shard.isdecimal() or int(shard) >= len(files):
        raise ZgcmError(
            "No such shard", where=f"sources.{source}", found=shard, expected=f"00000 to {len(files) - 1:05d}"
        )
    return files[int(shard)]


def refuse_assumed(lock: Lock, source: str, where: Path) -> None:
    if lock.get("assumed"):
        raise ZgcmError(
            f"The files of source {source} are assumed, not known: its shard list was never published",
            where=str(where),
            hint=f"give sources.{source} files or a dataset of yours (repo and a commit as revision), then "
            f"write the lock anew with: zgcm sources lock {source}",
        )


def check_file(path: Path, entry: dict[str, Any]) -> None:
    """Refuse a file that is not the locked one. The size is compared first: it costs nothing."""
    if not path.exists():
        raise ZgcmError(
            "A locked file is missing", where=str(path), hint="bring it back, or lock the source anew"
        )
    size = path.stat().st_size
    if size != entry["bytes"]:
        raise _changed(path, f"{size:,} bytes", f"{entry['bytes']:,} bytes")
    digest = sha256_file(path)
    if digest != entry["sha256"]:
        raise _changed(path, f"sha256 {digest}", f"sha256 {entry['sha256']}")


def _changed(path: Path, found: str, expected: str) -> ZgcmError:
    return ZgcmError(
        "A file is not the one that was locked", where=str(path), found=found, expected=expected,
        hint="bring the locked file back, or accept the new one with: zgcm sources lock",
    )  # fmt: skip
