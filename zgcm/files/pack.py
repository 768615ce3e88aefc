"""`zgcm pack IN... --seq-length N --output DIR`: conversations of files, packed for fine-tuning."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zgcm.config.corpus import Mix
from zgcm.files import decisions
from zgcm.files.fanout import Fanout, run_all
from zgcm.files.index import IndexJob, index_file, index_in, index_line
from zgcm.files.plain import Summary, alone, expand, in_own_words, output_names, require_records, small_recipe
from zgcm.layout import Layout
from zgcm.tokens.columns import names, numbers, write_columns
from zgcm.tokens.index import IndexFiles
from zgcm.tokens.pack import pack_shard, summarize
from zgcm.tokens.tokenizer import any_facts

MIX, SHARD = "packed", "00000"
OPTIONS = {"sequence_length": "--seq-length"}


@dataclass(frozen=True)
class PackedLayout(Layout):
    """DIR/00000_{tokens,targets,cu_seqlens}.bin/.idx, 00000.json and dataset.json; the index in between lies
    in DIR/.index until all is packed."""

    @property
    def indexed(self) -> Path:
        return self.root / ".index"

    def index_prefix(self, source: str, shard: str) -> Path:
        return self.indexed / source

    def index_facts(self, source: str, shard: str) -> Path:
        facts = index_in(self.index_prefix(source, shard)).facts
        assert facts is not None
        return facts

    def mix(self, mix: str) -> Path:
        return self.root

    def selection(self, mix: str, shard: str) -> Path:
        return self.indexed / "selection.parquet"

    def plan(self, mix: str) -> Path:
        return self.indexed / "plan.json"


def pack_files(
    inputs: list[str],
    tokenizer: Path,
    output: Path,
    length: int,
    include: tuple[str, ...],
    fanout: Fanout,
    say: Callable[[str], None],
) -> Summary:
    """Pack the conversations (`messages`) of all files; returns what dataset.json holds, and how many records
    were left out for their decision."""
    paths, layout = expand(inputs), PackedLayout(output)
    sources = output_names(paths)
    require_records(paths)
    with alone(output):
        jobs = [
            IndexJob(path, tokenizer, ("text",), _index(layout, source), include)
            for path, source in zip(paths, sources, strict=True)
        ]
        reports = run_all(index_file, jobs, fanout, lambda job, report: say(index_line(job, report)))
        left_out, where = decisions.added(reports), ", ".join(inputs[:3])
        decisions.require_some(sum(report["documents"] for report in reports), left_out, where)
        counts = np.array([report["documents"] for report in reports])
        rows = np.concatenate([np.arange(count, dtype=np.int32) for count in counts])
        write_columns(
            layout.selection(MIX, SHARD),
            {
                "source": names(sources, np.repeat(np.arange(len(sources)), counts)),
                "shard": names([SHARD], np.zeros(len(rows), np.int32)),
                "row": numbers(rows),
            },
        )
        mix = Mix(kind="packed", sources=dict.fromkeys(sources, 1.0), sequence_length=length)
        recipe = small_recipe({}, {MIX: mix})
        layout.dataset(MIX).unlink(missing_ok=True)  # it must not describe what is being replaced
        with in_own_words(f"mixes.{MIX}", where, lambda key: OPTIONS.get(key, key)):
            pack_shard(recipe, layout, MIX, SHARD, any_facts(tokenizer))
        dataset = summarize(recipe, layout, MIX)
        shutil.rmtree(layout.indexed)
        return {**dataset, "left_out": left_out}


def _index(layout: PackedLayout, source: str) -> IndexFiles:
    return index_in(layout.index_prefix(source, SHARD))
