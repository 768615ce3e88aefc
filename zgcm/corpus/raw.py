"""Bring one raw shard to where cleaning reads it: build it (demo), fetch it (hub), or look for it (files)."""

from pathlib import Path

from zgcm.config.corpus import DemoSource, FileSource, HubSource
from zgcm.config.recipe import Recipe
from zgcm.corpus.lock import check_file, locked_file
from zgcm.errors import ZgcmError
from zgcm.layout import Layout, raw_input, read_lock, shard_name, source_shards
from zgcm.records import write_records
from zgcm.records.rows import write_rows


def make_raw(recipe: Recipe, layout: Layout, source: str, shard: str) -> Path:
    """Make the raw shard and return its path. Raises ZgcmError, and then leaves nothing under that name."""
    section = require_shard(recipe, source, shard)
    if isinstance(section, FileSource):
        return find_raw(recipe, layout, source, shard)
    if isinstance(section, HubSource):
        from zgcm.corpus.hub import fetch_file

        entry = _hub_entry(section, source, shard)
        path = raw_input(recipe, layout, source, shard)
        fetch_file(section, entry, path)
        return path
    from zgcm.corpus.demo import build_shard

    path = raw_input(recipe, layout, source, shard)
    write = write_rows if section.format == "parquet" else write_records
    write(path, build_shard(section, source, int(shard)))
    return path


def find_raw(recipe: Recipe, layout: Layout, source: str, shard: str) -> Path:
    """The raw shard that cleaning reads; files of the user's are compared with their lock, if they have one.
    Raises ZgcmError when it is missing, empty or another than the locked one."""
    section = require_shard(recipe, source, shard)
    path = raw_input(recipe, layout, source, shard)
    if isinstance(section, FileSource) and section.lock is not None:
        lock_file = Path(section.lock)
        file = shard_name(int(shard) // section.shards_per_file)
        check_file(path, locked_file(read_lock(lock_file, source), source, file, lock_file))
    if not path.exists():
        hint = (
            f"`files` are looked for below the working directory; correct sources.{source}.files"
            if isinstance(section, FileSource)
            else f"make it with: zgcm raw {source} {shard}"
        )
        raise ZgcmError(f"Source {source} has no raw shard {shard}", where=str(path.absolute()), hint=hint)
    if path.stat().st_size == 0:
        raise ZgcmError("The file is empty", where=str(path), hint="leave it out")
    return path


def require_shard(recipe: Recipe, source: str, shard: str) -> DemoSource | FileSource | HubSource:
    """The source's section. Raises ZgcmError for a source or shard that the recipe does not have."""
    if source not in recipe.sources:
        raise ZgcmError(
            "The recipe has no such source", where="sources", found=source, expected=", ".join(recipe.sources)
        )
    shards = source_shards(recipe, source)
    if not shards:
        raise ZgcmError(
            f"Source {source} is empty", where=f"sources.{source}", hint="give it files, or remove it"
        )
    if shard not in shards:
        raise ZgcmError(
            f"Source {source} has no such shard", where=f"sources.{source}", found=shard,
            expected=f"{shards[0]} to {shards[-1]}",
        )  # fmt: skip
    return recipe.sources[source]


def _hub_entry(section: HubSource, source: str, shard: str) -> dict:
    lock = read_lock(Path(section.lock), source)
    entry = locked_file(lock, source, shard, Path(section.lock))
    if (lock["repo"], lock["revision"]) != (section.repo, section.revision):
        raise ZgcmError(
            "The lock is of another dataset or revision than the recipe", where=section.lock,
            found=f"{lock['repo']} at {lock['revision']}", expected=f"{section.repo} at {section.revision}",
            hint=f"write it anew with: zgcm sources lock {source}",
        )  # fmt: skip
    return entry
