"""The plan of a mix: how many tokens of which source, which documents, in which order and shard. `zgcm mix`

    mixes/{mix}/selection/{shard}.parquet   source, shard, row in final order
    mixes/{mix}/kept.fingerprints           texts used; later mixes exclude them
    mixes/{mix}/plan.json                   quotas, counts and digests; written last

Quotas are tokens of the training tokenizer, shared out exactly by weight, and by length where the mix has
`length_shares`. Documents are never cut, so a source gives the fewest documents that reach its quota: less
than one document too much.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from zgcm import identity
from zgcm.config.corpus import Mix
from zgcm.config.recipe import Recipe
from zgcm.corpus.candidates import Rows, concatenate, load_candidates
from zgcm.corpus.placement import order_mix, outliers, ranked
from zgcm.corpus.stable import allocate_mix_quotas
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file, write_json
from zgcm.layout import Layout, mix_shards, shard_name
from zgcm.tokens.columns import fingerprints, names, numbers, write_columns
from zgcm.tokens.tokenizer import tokenizer_facts

UNORDERED_CATEGORIES = ("code", "math")
"""Spread evenly through a curriculum, as conversations are; their lexical complexity says nothing about
difficulty."""


def plan_mix(
    recipe: Recipe, layout: Layout, mix: str, tokenizer: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Write selections, kept fingerprints and the plan; returns the plan.

    `tokenizer` are the facts of the tokenizer's directory where that is not the layout's.
    Raises ZgcmError when sources lack tokens (naming each and how many), or when an output shard would be
    empty; then no plan stands, an older one neither.
    """
    section = recipe.mixes[mix]
    layout.plan(mix).unlink(missing_ok=True)
    digest = (tokenizer or tokenizer_facts(layout.tokenizer))["digest"]
    sources = [source for source, weight in section.sources.items() if weight > 0]
    candidates, facts = {}, {}
    removed: dict[str, dict[str, int]] = {}
    for source in sources:
        candidates[source], removed[source], digests = load_candidates(recipe, layout, mix, source, digest)
        facts[source] = {"removed": removed[source], "bin_sha256": digests}
    general = np.array([_is_general(recipe, source, candidates) for source in section.sources])
    if section.order == "curriculum":
        _remove_outliers(candidates, facts, general)
    pools = {source: by_length(candidates[source], section) for source in sources}
    quotas = _quotas(section, mix, pools, removed)
    seed = f"{section.seed}:{mix}"
    picked = [
        pick(pools[source][pool], quota, section, f"{seed}:{source}")
        for source in sources
        for pool, quota in quotas[source].items()
        if quota
    ]
    rows, shards = order_mix(concatenate(picked), section, seed, general)
    outputs = mix_shards(recipe, mix)
    _refuse_empty(mix, outputs, shards)
    listed = list(section.sources)
    written = {
        shard: _write_selection(layout.selection(mix, shard), rows.take(shards == number), listed)
        for number, shard in enumerate(outputs)
    }
    plan = {
        "mix": mix,
        "kind": section.kind,
        "order": section.order,
        "seed": section.seed,
        "assumed": section.assumed,
        "tokens": int(rows.tokens.sum()),
        "documents": len(rows),
        "quota_tokens": section.tokens,
        "sources": {
            source: {
                "weight": section.sources[source],
                "quota_tokens": sum(quotas[source].values()),
                **_counts(rows, listed.index(source), section),
                "available_documents": len(candidates[source]),
                "available_tokens": int(candidates[source].tokens.sum()),
                **facts[source],
            }
            for source in sources
        },
        "shards": written,
        "kept_sha256": _write_kept(layout.kept(mix), rows),
        "duplicates_sha256": sha256_file(layout.duplicates(mix)),
        "tokenizer": digest,
        **({} if tokenizer else {"recipe_id": identity.recipe_id(recipe, "mix", mix)}),
    }
    write_json(layout.plan(mix), plan)
    return plan


def pick(rows: Rows, quota: int, section: Mix, seed: str) -> Rows:
    """The first rows that reach `quota` tokens; where all of them do not, whole epochs and then the rest.

    Each epoch is shuffled anew, unless the order is as listed. The quota must be reachable.
    """
    parts, left, epoch = [], quota, 0
    while left > 0:
        again = ranked(replace(rows, epoch=np.full(len(rows), epoch, np.int16)), seed, section.order)
        enough = int(np.searchsorted(np.cumsum(again.tokens), left)) + 1
        parts.append(again.take(np.arange(min(enough, len(again)))))
        left -= int(parts[-1].tokens.sum())
        epoch += 1
    return concatenate(parts)


def by_length(rows: Rows, section: Mix) -> dict[str, Rows]:
    """A source's candidates by greatest length (`""`: any); longer ones than the last bound are left out."""
    if not section.length_shares:
        return {"": rows}
    bounds = [part.up_to for part in section.length_shares]
    bucket = np.searchsorted(bounds, rows.tokens)
    return {str(bound): rows.take(bucket == number) for number, bound in enumerate(bounds)}


def _quotas(
    section: Mix, mix: str, pools: dict[str, dict[str, Rows]], removed: dict[str, dict[str, int]]
) -> dict[str, dict[str, int]]:
    """Tokens of each source and length. Without a total: everything once. `removed` says why documents of a
    source are no candidates, which an error tells."""
    available = {
        source: {pool: int(rows.tokens.sum()) for pool, rows in of_source.items()}
        for source, of_source in pools.items()
    }
    if section.tokens is None:
        if not any(tokens for of_source in available.values() for tokens in of_source.values()):
            raise _lacking(mix, ["no source has a document left"], available, section, removed)
        return available
    shares = {str(part.up_to): part.share for part in section.length_shares} or {"": 1.0}
    quotas = {
        source: allocate_mix_quotas(shares, tokens)
        for source, tokens in allocate_mix_quotas(section.sources, section.tokens).items()
    }
    lacking = [
        f"{_pool_name(source, pool)} lacks {quota - section.max_epochs * have:,} of {quota:,} tokens"
        for source, of_source in quotas.items()
        for pool, quota in of_source.items()
        if quota > section.max_epochs * (have := available[source][pool])
    ]
    if lacking:
        raise _lacking(mix, lacking, available, section, removed)
    return quotas


def _pool_name(source: str, pool: str) -> str:
    return f"{source} up to length {int(pool):,}" if pool else source


def _lacking(
    mix: str,
    lacking: list[str],
    available: dict[str, dict[str, int]],
    section: Mix,
    removed: dict[str, dict[str, int]],
) -> ZgcmError:
    gone = [
        f"{source}: " + ", ".join(f"{reason} {count:,}" for reason, count in reasons.items())
        for source, reasons in removed.items()
        if reasons
    ]
    have = ", ".join(
        f"{_pool_name(source, pool)} {tokens:,}"
        for source, of_source in available.items()
        for pool, tokens in of_source.items()
    )
    return ZgcmError(
        "There are too few tokens for this mix", where=f"mixes.{mix}",
        found="; ".join(lacking) + (f" (documents left out of {'; '.join(gone)})" if gone else ""),
        expected=f"enough tokens within {section.max_epochs} epoch(s); available are {have}",
        hint=f"add data, lower mixes.{mix}.tokens or a weight, or raise mixes.{mix}.max_epochs"
        + (", or exclude fewer mixes" if section.exclude else ""),
    )  # fmt: skip


def _is_general(recipe: Recipe, source: str, candidates: dict[str, Rows]) -> bool:
    """Whether complexity orders a source: not of code, mathematics and conversations, which have none."""
    known = source in candidates and not np.isnan(candidates[source].complexity).all()
    return known and recipe.sources[source].category not in UNORDERED_CATEGORIES


def _remove_outliers(
    candidates: dict[str, Rows], facts: dict[str, dict[str, Any]], general: np.ndarray
) -> None:
    """Take extreme outliers of complexity out of the general sources, judged over all of them together."""
    sources = [s for s, rows in candidates.items() if len(rows) and general[rows.source[0]]]
    if not sources:
        return
    mask = outliers(np.concatenate([candidates[source].complexity for source in sources]))
    for source in sources:
        mine, mask = np.split(mask, [len(candidates[source])])
        if mine.any():
            facts[source]["removed"]["complexity_outlier"] = int(mine.sum())
        candidates[source] = candidates[source].take(~mine)


def _refuse_empty(mix: str, outputs: list[str], shards: np.ndarray) -> None:
    empty = [shard for number, shard in enumerate(outputs) if not (shards == number).any()]
    if empty:
        raise ZgcmError(
            "An output shard would hold no document", where=f"mixes.{mix}.shards",
            found=f"{len(shards):,} documents for {len(outputs):,} shards, none for {', '.join(empty[:5])}",
            hint="use fewer shards",
        )  # fmt: skip


def _counts(rows: Rows, source: int, section: Mix) -> dict[str, Any]:
    mine = rows.take(rows.source == source)
    counts: dict[str, Any] = {
        "documents": len(mine),
        "tokens": int(mine.tokens.sum()),
        "epochs": int(mine.epoch.max(initial=-1)) + 1,
    }
    if section.length_shares:
        pools = by_length(mine, section)
        counts["tokens_by_length"] = {pool: int(part.tokens.sum()) for pool, part in pools.items()}
    return counts


def _write_selection(path: Path, rows: Rows, sources: list[str]) -> dict[str, Any]:
    """Returns what the plan says about an output shard."""
    used, places = np.unique(rows.shard, return_inverse=True)
    shards = [shard_name(int(number)) for number in used]
    columns = {
        "source": names(sources, rows.source),
        "shard": names(shards, places),
        "row": numbers(rows.row),
    }
    write_columns(path, columns)
    return {
        "documents": len(rows),
        "tokens": int(rows.tokens.sum()),
        "selection_sha256": sha256_file(path),
    }


def _write_kept(path: Path, rows: Rows) -> str:
    """Every text once, sorted, so that the file depends on the set alone. Returns the digest."""
    texts = np.unique(rows.exact, axis=0)
    write_columns(path, {"exact": fingerprints(texts)})
    return sha256_file(path)
