"""An output shard that exists already: Megatron token files of yours, checked and linked. `zgcm adopt`

    mixes/{mix}/{shard}_text_document.bin, .idx -> your files     mixes/{mix}/{shard}.json: counts, digests

Packed mixes: `{shard}_tokens`, `_targets` and `_cu_seqlens`, as `zgcm pack` writes them. The manifest is the
same as of a shard made here, so training cannot tell the difference.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file, write_json
from zgcm.layout import PACKED_PARTS, Layout
from zgcm.tokens.indexed import Indexed, data_path, index_path, open_indexed
from zgcm.tokens.inspect import Report, inspect_index
from zgcm.tokens.pack import IGNORE_INDEX
from zgcm.tokens.tokenizer import tokenizer_facts

SHOWN = 5


def adopt_tokens(recipe: Recipe, layout: Layout, mix: str, shard: str) -> dict[str, Any]:
    """Check a shard's files, link them and write its manifest; returns it. Raises ZgcmError listing what is
    wrong; nothing is then linked."""
    section = recipe.mixes[mix]
    prefix = Path(section.prefixes[int(shard)])
    manifest = layout.mix(mix) / f"{shard}.json"
    manifest.unlink(missing_ok=True)
    tokenizer = tokenizer_facts(layout.tokenizer)
    if section.kind == "packed":
        assert section.sequence_length is not None, "a packed mix has a sequence_length"
        facts = check_packed(layout, mix, prefix, section.sequence_length)
        links = {f"{shard}_{part}": _part(prefix, part) for part in PACKED_PARTS}
    else:
        facts = check_documents(layout, mix, prefix)
        links = {layout.mix_prefix(mix, shard).name: prefix}
    for name, source in links.items():
        _link(layout.mix(mix) / name, source)
    facts |= {"mix": mix, "shard": shard, "tokenizer": tokenizer["digest"], "adopted": True}
    write_json(manifest, facts)
    return facts


def check_documents(layout: Layout, mix: str, prefix: Path) -> dict[str, Any]:
    """Counts and digests of PREFIX.bin and PREFIX.idx; every token is read."""
    report = _inspect(layout, mix, prefix)
    ended = report.get("documents_with_end_token", 1.0)
    if ended < 1:
        print(
            f"zgcm: note: {1 - ended:.1%} of the documents of {prefix} do not end with the end token, so the "
            "model does not see where they end (Megatron's --append-eod writes it)",
            file=sys.stderr,
        )
    return {
        **{key: report[key] for key in ("documents", "tokens", "dtype")},
        "documents_with_end_token": ended,
        **_digests(prefix),
    }


def check_packed(layout: Layout, mix: str, prefix: Path, length: int) -> dict[str, Any]:
    """The same of PREFIX_tokens, PREFIX_targets and PREFIX_cu_seqlens, with what a packed shard states."""
    _inspect(layout, mix, _part(prefix, "tokens"))
    tokens, targets, edges = (open_indexed(_part(prefix, part)) for part in PACKED_PARTS)
    if problems := list(packed_problems(tokens, targets, edges, length)):
        more = f"; and {len(problems) - SHOWN:,} more" if len(problems) > SHOWN else ""
        raise _unfit(mix, prefix, "; ".join(problems[:SHOWN]) + more)
    count, sequences = int(tokens.lengths.sum(dtype=np.int64)), len(tokens)
    conversations = int((edges.lengths - 1).sum(dtype=np.int64))
    return {
        "sequence_length": length,
        "sequences": sequences,
        "conversations": conversations,
        "documents": conversations,
        "tokens": count,
        "learned_tokens": int((targets.tokens != IGNORE_INDEX).sum()),
        "padding_fraction": 1 - count / (sequences * length),
        **{"too_long": 0, "without_loss": 0, "reported": []},
        "parts": {part: _digests(_part(prefix, part)) for part in PACKED_PARTS},
    }


def packed_problems(tokens: Indexed, targets: Indexed, edges: Indexed, length: int) -> Iterator[str]:
    """What makes packed sequences unfit for training with this context."""
    if not len(tokens) == len(targets) == len(edges):
        yield (
            f"{len(tokens):,} sequences of tokens, {len(targets):,} of targets, {len(edges):,} of cu_seqlens"
        )
        return
    for row in range(len(tokens)):
        ids, goals, marks = tokens.document(row), targets.document(row), edges.document(row)
        learned = goals != IGNORE_INDEX
        if len(ids) > length:
            yield f"sequence {row} has {len(ids):,} tokens, sequence_length is {length:,}"
        elif len(goals) != len(ids):
            yield f"sequence {row} has {len(ids):,} tokens and {len(goals):,} targets"
        elif len(marks) < 2 or marks[0] != 0 or marks[-1] != len(ids) or (np.diff(marks) <= 0).any():
            yield f"cu_seqlens of sequence {row} do not rise from 0 to its {len(ids):,} tokens"
        elif (goals[learned] != ids[learned]).any():
            yield f"targets of sequence {row} are neither its tokens, unshifted, nor {IGNORE_INDEX}"
        elif not learned.any():
            yield f"sequence {row} has nothing to learn"


def _inspect(layout: Layout, mix: str, prefix: Path) -> Report:
    if not index_path(prefix).is_file():
        raise ZgcmError(
            f"The token files to adopt for mix {mix} are not there",
            where=str(index_path(prefix).absolute()),
            found="no such file",
            hint=f"bring them, or correct mixes.{mix}.prefixes: without .bin and .idx, below "
            "--directory where relative",
        )
    report = inspect_index(prefix, layout.tokenizer, show=0)
    problems = list(report["problems"])
    if not problems and np.dtype(report["dtype"]).kind not in "iu":
        problems.append(f"its data type is {report['dtype']}, not one of token ids")
    elif (smallest := report.get("smallest_id")) is not None and smallest < 0:
        problems.append(f"its smallest id is {smallest}")
    if not problems and not report["tokens"]:
        problems.append("it holds no token")
    if problems:
        raise _unfit(mix, prefix, "; ".join(problems))
    return report


def _unfit(mix: str, prefix: Path, found: str) -> ZgcmError:
    return ZgcmError(
        f"The token files to adopt for mix {mix} cannot be trained on",
        where=str(prefix),
        found=found,
        hint=f"look closer with: zgcm inspect {prefix}",
    )


def _digests(prefix: Path) -> dict[str, str]:
    return {"bin_sha256": sha256_file(data_path(prefix)), "idx_sha256": sha256_file(index_path(prefix))}


def _part(prefix: Path, part: str) -> Path:
    return Path(f"{prefix}_{part}")


def _link(place: Path, source: Path) -> None:
    """Links in place of the two files; a link is replaced, never what it points to."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for link, file in ((data_path(place), data_path(source)), (index_path(place), index_path(source))):
        link.unlink(missing_ok=True)
        link.symlink_to(file.resolve())
