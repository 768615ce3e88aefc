"""Where every artifact lies below the results directory. Rules and verbs both ask here."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zgcm.errors import ZgcmError
from zgcm.io import read_json, sha256_file
from zgcm.records.lines import WHOLE, Part

if TYPE_CHECKING:
    from zgcm.config.recipe import Recipe


PACKED_PARTS = ("tokens", "targets", "cu_seqlens")
"""The three .bin/.idx pairs of a packed shard."""


def shard_name(index: int) -> str:
    return f"{index:05d}"


@dataclass(frozen=True)
class Layout:
    """Paths of one results directory."""

    root: Path = Path("results")

    # --- corpus -------------------------------------------------------------------------------------
    def raw(self, source: str, shard: str) -> Path:
        """Of demo and hub sources; local files are read where they lie (see `raw_input`)."""
        return self.root / "raw" / source / shard

    def cleaned(self, source: str, shard: str) -> Path:
        return self.root / "corpus" / source / f"{shard}.jsonl.zst"

    def cleaning_summary(self, source: str, shard: str) -> Path:
        return self.root / "corpus" / source / f"{shard}.summary.json"

    def rejected(self, source: str, shard: str) -> Path:
        return self.root / "corpus" / source / f"{shard}.rejected.jsonl"

    def fingerprints(self, source: str, shard: str) -> Path:
        return self.root / "corpus" / source / f"{shard}.fingerprints"

    def minhash(self, source: str, shard: str, scheme: str) -> Path:
        """Band hashes; `scheme` is bands x rows x ngram (14x8x5)."""
        return self.root / "corpus" / source / f"{shard}.{scheme}.minhash"

    def contamination(self, source: str, shard: str, evaluations: str) -> Path:
        """Rows that share a run of words with one of a set of evaluation files (see `evaluation_set`)."""
        return self.root / "corpus" / source / f"{shard}.{evaluations}.contamination"

    # --- tokens -------------------------------------------------------------------------------------
    @property
    def tokenizer(self) -> Path:
        return self.root / "tokenizer"

    def index_prefix(self, source: str, shard: str) -> Path:
        """Append .bin or .idx."""
        return self.root / "tokens" / source / f"{shard}_text_document"

    def index_report(self, source: str, shard: str) -> Path:
        return self.root / "tokens" / source / f"{shard}.index.json"

    def index_facts(self, source: str, shard: str) -> Path:
        """Lexical complexity and learned token ranges of each document, for mixing and packing."""
        return self.root / "tokens" / source / f"{shard}.documents.parquet"

    # --- mixes --------------------------------------------------------------------------------------
    def mix(self, mix: str) -> Path:
        return self.root / "mixes" / mix

    def duplicates(self, mix: str) -> Path:
        return self.mix(mix) / "duplicates.parquet"

    def plan(self, mix: str) -> Path:
        return self.mix(mix) / "plan.json"

    def kept(self, mix: str) -> Path:
        """Fingerprints of the documents that the mix uses; later mixes exclude them."""
        return self.mix(mix) / "kept.fingerprints"

    def selection(self, mix: str, shard: str) -> Path:
        return self.mix(mix) / "selection" / f"{shard}.parquet"

    def mix_prefix(self, mix: str, shard: str) -> Path:
        return self.mix(mix) / f"{shard}_text_document"

    def packed_prefix(self, mix: str, shard: str) -> Path:
        """Append _tokens, _targets or _cu_seqlens, then .bin or .idx."""
        return self.mix(mix) / shard

    def dataset(self, mix: str) -> Path:
        """Packed mixes: counts that the iteration formula reads."""
        return self.mix(mix) / "dataset.json"

    # --- stages -------------------------------------------------------------------------------------
    def stage(self, stage: str) -> Path:
        return self.root / stage

    def done(self, stage: str) -> Path:
        return self.stage(stage) / "done"

    def runs(self, stage: str) -> Path:
        return self.stage(stage) / "runs"

    def export(self, stage: str) -> Path:
        return self.root / "export" / stage

    def export_manifest(self, stage: str) -> Path:
        return self.export(stage) / "manifest.json"

    def evaluations(self, stage: str) -> Path:
        """An RL stage's markers, version_NNN.json; made at its success."""
        return self.stage(stage) / "evaluations"

    def pass_rates(self, stage: str, shard: str, shards: int) -> Path:
        """Of one shard of an RL stage's training prompts; another number of shards is another file."""
        return self.stage(stage) / "difficulty" / f"{shard}-of-{shard_name(shards)}.parquet"

    def difficulty(self, stage: str) -> Path:
        """Pass rate of every training prompt, and whether it is kept."""
        return self.stage(stage) / "difficulty.parquet"

    def kept_prompts(self, stage: str) -> Path:
        """The training prompts within the recipe's bounds."""
        return self.stage(stage) / "prompts.jsonl"

    # --- whole directory ----------------------------------------------------------------------------
    @property
    def report(self) -> Path:
        return self.root / "report.html"

    @property
    def stamp(self) -> Path:
        return self.root / "recipe.json"

    @property
    def preflight(self) -> Path:
        return self.root / "preflight.json"

    @property
    def preflight_work(self) -> Path:
        """Trial checkpoints lie here, on the storage that is to be judged, and are removed."""
        return self.root / ".preflight"


def source_shards(recipe: "Recipe", source: str) -> list[str]:
    """Shard names of a source, from the recipe or its lock; never from a look at the data."""
    return [shard_name(index) for index in range(shard_count(recipe, source))]


def shard_count(recipe: "Recipe", source: str) -> int:
    section = recipe.sources[source]
    if section.kind == "demo":
        return section.shards
    if section.kind == "files" and section.files:
        return len(section.files) * section.shards_per_file
    assert section.lock is not None
    files = len(read_lock(Path(section.lock), source)["files"])
    return files * section.shards_per_file if section.kind == "files" else files


def read_lock(path: Path, source: str) -> dict:
    """A source's lock: {"files": [{"path", "bytes", "sha256"}, ...], "revision": ..., "assumed": bool}."""
    if not path.exists():
        raise ZgcmError(
            f"Source {source} has no lock file, so its shards are unknown",
            where=str(path),
            hint=f"write it once with: zgcm sources lock {source}",
        )
    return read_json(path)


def raw_input(recipe: "Recipe", layout: Layout, source: str, shard: str) -> Path:
    """The raw file that cleaning a shard reads."""
    section = recipe.sources[source]
    if section.kind == "demo":
        return layout.raw(source, f"{shard}.{section.format}")
    if section.kind == "files":
        files = section.files or [
            item["path"] for item in read_lock(Path(str(section.lock)), source)["files"]
        ]
        return Path(files[int(shard) // section.shards_per_file])
    name = read_lock(Path(section.lock), source)["files"][int(shard)]["path"]
    return layout.raw(source, shard + "".join(Path(name).suffixes[-2:]))


def raw_part(recipe: "Recipe", source: str, shard: str) -> Part:
    """Which part of its raw file a shard is."""
    section = recipe.sources[source]
    if section.kind != "files":
        return WHOLE
    return Part(int(shard) % section.shards_per_file, section.shards_per_file)


def cleaned_shard(layout: Layout, source: str, shard: str) -> Path:
    """The cleaned shard. Raises ZgcmError, naming the verb that makes it, when it is not there, and when it
    is not the one that its summary describes: an edited one would pass for what the recipe makes."""
    path, summary = layout.cleaned(source, shard), layout.cleaning_summary(source, shard)
    again = f"zgcm clean {source} {shard}"
    if not path.exists():
        raise ZgcmError(
            f"Shard {shard} of source {source} was not cleaned yet", where=str(path),
            hint=f"make it with: {again}",
        )  # fmt: skip
    expected = read_json(summary).get("output_sha256") if summary.exists() else None
    if expected is not None and (found := sha256_file(path)) != expected:
        raise ZgcmError(
            "A cleaned shard was changed after it was cleaned", where=str(path), found=f"sha256 {found}",
            expected=f"sha256 {expected}",
            hint=f"restore it, or make it again: {again}; corrected records are a source of their own",
        )  # fmt: skip
    return path


def mix_shards(recipe: "Recipe", mix: str) -> list[str]:
    return [shard_name(index) for index in range(recipe.mixes[mix].shards)]


def used_shards(recipe: "Recipe", mix: str) -> list[tuple[str, str]]:
    """(source, shard) of everything a mix draws from; sources of weight 0 take no part."""
    return [
        (source, shard)
        for source, weight in recipe.mixes[mix].sources.items()
        if weight > 0
        for shard in source_shards(recipe, source)
    ]


def compared_shards(recipe: "Recipe", mix: str) -> list[tuple[str, str]]:
    """(source, shard) of everything that near-duplicates of a mix are sought in: its own, then those of the
    mixes that it excludes."""
    mixes = [mix, *recipe.mixes[mix].exclude]
    return list(dict.fromkeys(place for name in mixes for place in used_shards(recipe, name)))
