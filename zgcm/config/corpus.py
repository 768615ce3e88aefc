"""Sources, their cleaning, and the mixes made of them. Names and defaults are the published ones."""

import json
from typing import Annotated, Any, Literal, get_args

import orjson
from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from zgcm.config.base import Count, Place, Section, execution

Category = Literal["code", "web", "agentic", "instruction", "math", "reasoning", "pdf_ocr", "general_text"]
GovernanceStage = Literal["pretrain", "midtrain", "posttrain"]
Decision = Literal["keep", "review", "drop"]
Policy = Literal["keep", "review", "redact", "drop"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
STAGES: tuple[GovernanceStage, ...] = get_args(GovernanceStage)


def _json_values(values: dict[str, Any]) -> dict[str, Any]:
    """Values that go into records and identities; YAML knows more kinds: dates, NaN, longer integers."""
    for key, value in values.items():
        try:
            json.dumps(value, allow_nan=False)
            orjson.dumps(value)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{key}` is nothing that JSON holds: {error}; write it as text") from error
    return values


JsonValues = Annotated[dict[str, Any], AfterValidator(_json_values)]


class QualityPolicy(Section):
    """What scores that come with the records decide."""

    score_field: str = "quality_score"
    """Field of a record that holds its score: a number, or text that is one."""
    keep_min: float | None = None
    """Lower scores are marked for review; absent: none."""
    review_min: float | None = None
    """Lower scores are dropped; absent: none."""
    hard_error_field: str | None = None
    """Field that holds an error score."""
    hard_error_max: float | None = None
    """Higher error scores are dropped; absent: none."""
    require_score: bool = False
    """Records without a score are marked for review."""

    @model_validator(mode="after")
    def _bounds(self) -> "QualityPolicy":
        if (self.hard_error_field is None) != (self.hard_error_max is None):
            raise ValueError("`hard_error_field` and `hard_error_max` go together")
        if self.keep_min is not None and self.review_min is not None and self.review_min > self.keep_min:
            raise ValueError(
                f"`review_min` {self.review_min} is above `keep_min` {self.keep_min}; none is for review"
            )
        return self


class Cleaning(Section):
    """Settings of the cleaning steps, by the names of the published configuration."""

    min_chars: NonNegativeInt = 16
    """Shorter texts are dropped (`too_short`)."""
    max_chars: PositiveInt = 2_000_000
    """Longer texts are marked for review (`too_long`)."""
    require_license: bool = False
    """Records without a license are marked for review."""
    sensitive_terms: list[str] = []
    """Texts that contain one, in any case, are marked for review."""
    secrets: Policy = "review"
    """Records with credentials: kept, marked for review, kept with `<SECRET>` in their place, or dropped."""
    pii: Policy = "redact"
    """The same for personal data: mail and IP addresses, phone, identity-card and bank-card numbers."""
    length_buckets: list[PositiveInt] = [2048, 8192, 32768, 65536]
    """Upper bounds, in estimated tokens, of the length labels written into records."""
    quality_policies: dict[str, QualityPolicy] = {}
    """Name -> policy. A record takes the one of its source_key, source or dataset name, else of its category,
    else `default`."""
    near_dedup: bool = False
    """Mixes also leave out this source's SimHash duplicates, as the published configuration has it."""
    near_dedup_threshold: NonNegativeInt = 3
    """Largest Hamming distance of two 64-bit SimHashes that counts as a duplicate."""
    near_dedup_bands: PositiveInt = 4
    """Equal slices of the SimHash, one of which must agree; more than the threshold, a divisor of 64."""
    near_dedup_ngram: PositiveInt = 5
    """Words in a SimHash feature."""
    settings: JsonValues = {}
    """Further settings of category steps and dataset profiles, by their published names."""

    @model_validator(mode="after")
    def _simhash_bands(self) -> "Cleaning":
        if 64 % self.near_dedup_bands or self.near_dedup_threshold >= self.near_dedup_bands:
            raise ValueError("`near_dedup_bands` must divide 64 and be larger than `near_dedup_threshold`")
        return self


class Decisions(Section):
    """How traces of agents become one sample a decision: what came before -> the next action."""

    window: PositiveInt | None = None
    """Earlier decisions that a state holds, beside the instructions and the task; absent: all."""
    observation_chars: PositiveInt | None = None
    """Longer observations in a state lose their middle; absent: no limit."""


class _Source(Section):
    stage: GovernanceStage
    """Which governance pipeline cleans it."""
    category: Category
    """Which category steps clean it."""
    profile: str | None = None
    """Steps of one dataset that come first: a registered name, or a file (./mine.py) or module of yours. Its
    content is identity (docs/profiles.md)."""
    dataset: str | None = None
    """Dataset name written into every record; the source's name when absent."""
    id_field: str = "id"
    """Raw field that holds a record's id; absent or empty: dataset name and row number."""
    text_fields: list[str] = ["text"]
    """Fields that, joined by newlines, are the training text."""
    field_map: dict[str, str] = {}
    """raw key -> canonical key, copied when the canonical one is absent."""
    defaults: JsonValues = {}
    """Fields given to every record that lacks them (for instance source, license)."""
    include: list[Decision] = Field(default=["keep"], min_length=1)
    """Which decisions may enter a mix; add "review" deliberately."""
    max_bad_fraction: float = execution(0.001, ge=0, le=1)
    """Lines that are no record are filed away; a shard with a larger part of them fails."""
    cleaning: Cleaning = Cleaning()
    """Settings of the cleaning steps."""
    mdp: Decisions | None = None
    """Agentic sources: split each trace into one sample a decision. `{}` takes every option's default."""

    @model_validator(mode="after")
    def _traces_only(self) -> "_Source":
        if self.mdp is not None and self.category != "agentic":
            raise ValueError("`mdp` splits traces of agents: it needs `category: agentic`")
        return self


DEMO_KEYS = {
    "max_digit": ("arithmetic", "conversations", "traces"),
    "careless_share": ("conversations", "programs", "instructions"),
    "document_chars": ("code", "prose"),
    "planted": ("prose",),
}
"""Which demo contents a key is for."""


class DemoSource(_Source):
    """Text built on the spot from the Python installation or a seeded generator; needs no data."""

    kind: Literal["demo"]
    """Built on the spot."""
    content: Literal["code", "prose", "arithmetic", "conversations", "traces", "programs", "instructions"]
    """Python sources, documentation prose, worked additions, conversations about them, tool use,
    conversations about one-line functions, or with demands on the form of an answer."""
    shards: Count = 1
    """Number of raw files to build."""
    documents: PositiveInt
    """Documents in all, spread evenly over the shards."""
    seed: NonNegativeInt = 0
    """Of the generator."""
    max_digit: int = Field(default=7, ge=1, le=9)
    """Largest digit of the summands (arithmetic, conversations, traces). 0 to 7: 64 digit sums to learn."""
    careless_share: float = Field(default=0.5, ge=0, le=1)
    """Part of the answers in the manner that earns no reward: rounded to tens instead of worked out
    (conversations), printing instead of returning (programs), deaf to the demands (instructions)."""
    document_chars: PositiveInt | None = None
    """Longer texts are split (code: 6,000 when absent, prose: 4,000)."""

    format: Literal["jsonl", "jsonl.gz", "jsonl.zst", "parquet"] = "jsonl.zst"
    """Of the raw files."""
    planted: NonNegativeInt = 0
    """So many documents more: near-copies and quoted evaluation items, which a mix must find (prose)."""

    @model_validator(mode="after")
    def _keys_of_the_content(self) -> "DemoSource":
        for key, contents in DEMO_KEYS.items():
            if self.content not in contents and getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"`{key}` is a key of {' and '.join(contents)}, not of {self.content}")
        return self


class _OthersSource(_Source):
    cleaned: bool = False
    """Clean already: no cleaning step runs, every record with a text is kept (docs/start-anywhere.md)."""

    @model_validator(mode="after")
    def _nothing_to_clean(self) -> "_OthersSource":
        given = [key for key in ("profile", "cleaning", "mdp") if key in self.model_fields_set]
        if self.cleaned and given:
            raise ValueError(
                f"`cleaned: true` runs no cleaning step, so `{given[0]}` has no effect; leave one out"
            )
        return self


class FileSource(_OthersSource):
    """Files of yours: .jsonl, .jsonl.gz, .jsonl.zst or .parquet, read where they lie."""

    kind: Literal["files"]
    """Your own files."""
    files: list[Place] = []
    """Paths, one shard each, in this order; they are identity. Or give `lock`: then content is, paths not."""
    lock: Place | None = execution(None)
    """Written by `zgcm sources lock`: files with sizes and digests. Its content is identity, its path not."""
    shards_per_file: Count = 1
    """Read each file as so many shards, split on the fly: plain files and parquet by ranges, compressed ones
    by taking every n-th line."""

    @model_validator(mode="after")
    def _one_list(self) -> "FileSource":
        if bool(self.files) == (self.lock is not None):
            raise ValueError("give either `files` or `lock`")
        return self


class HubSource(_OthersSource):
    """A Hugging Face dataset at a pinned revision, fetched shard by shard."""

    kind: Literal["hub"]
    """A Hugging Face data set."""
    repo: str
    """Owner and name of the data set."""
    revision: str
    """A commit; a branch name moves and is refused when locking."""
    subset: str | None = None
    """Dataset configuration; limits the lock to its files."""
    patterns: list[str] = execution(["**/*.parquet"])
    """Which files `zgcm sources lock` lists; the lock it writes decides, not the patterns."""
    lock: Place = execution()
    """Written by `zgcm sources lock`: the shard list. Its content is identity, not its path."""


Source = Annotated[DemoSource | FileSource | HubSource, Field(discriminator="kind")]


class NearDuplicates(Section):
    """MinHash: how much two texts of a mix may share. `{}` takes every default."""

    threshold: float = Field(default=0.8, gt=0, le=1)
    """Exact Jaccard similarity of the shingle sets from which on two texts are near-duplicates."""
    bands: int = Field(default=14, ge=1, le=64)
    """Two texts of similarity s are compared with probability 1 - (1 - s^rows)^bands."""
    rows: int = Field(default=8, ge=1, le=64)
    """MinHash values in a band."""
    ngram: PositiveInt = 5
    """Words in a shingle; a character is a word in Chinese, Japanese, Thai and the like."""

    @property
    def scheme(self) -> str:
        """Names the files of band hashes, which the threshold does not change."""
        return f"{self.bands}x{self.rows}x{self.ngram}"


class Decontamination(Section):
    """Which evaluation files a mix must not share a run of words with."""

    against: list[Place] = execution([])
    """Evaluation files: .jsonl (.gz, .zst), .parquet, or text with one item a line. Name and content are
    identity, the directory is not."""
    fields: list[str] = []
    """Fields of an item to look for; absent: every string in it."""
    ngram: PositiveInt = 13
    """Words in a run."""
    shortest: PositiveInt = 8
    """Evaluation texts of fewer words than `ngram` are sought whole, down to this many; documents of fewer
    words are searched for runs of this many."""

    @model_validator(mode="after")
    def _some_file(self) -> "Decontamination":
        if not self.against:
            raise ValueError("`against` must name at least one evaluation file")
        return self


class LengthShare(Section):
    """A part of a quota, for documents of some lengths."""

    up_to: PositiveInt
    """Greatest length in tokens; longer than the `up_to` before."""
    share: PositiveFloat
    """Weight among the mix's `length_shares`."""


class Mix(Section):
    """Documents of some sources, deduplicated, sampled to a quota, ordered, and written as shards."""

    kind: Literal["documents", "packed"] = "documents"
    """`documents`: Megatron .bin/.idx text; `packed`: conversations packed for SFT."""
    sources: dict[str, NonNegativeFloat] = {}
    """Source -> weight."""
    prefixes: list[Place] = execution([])
    """Instead of sources: Megatron token files of yours, PREFIX.bin and PREFIX.idx (packed: PREFIX_tokens,
    _targets and _cu_seqlens), a shard each. Content is identity, paths are not."""
    tokens: PositiveInt | None = None
    """Quota by the training tokenizer; absent: everything once."""
    shards: Count = 1
    """Number of output files; a document's file is chosen by a hash of its id."""
    order: Literal["curriculum", "shuffled", "listed"] = "shuffled"
    """curriculum: by lexical complexity, code and mathematics interleaved; listed: source order."""
    seed: NonNegativeInt = 0
    """Of sampling and shuffling."""
    exclude: list[str] = []
    """Earlier mixes whose documents must not occur again."""
    near_duplicates: NearDuplicates | None = None
    """Leave out near-duplicates, also of the excluded mixes; absent: exact duplicates only."""
    decontaminate: Decontamination | None = None
    """Leave out documents that share a run of words with an evaluation file; absent: none."""
    max_epochs: int = Field(default=1, gt=0, le=32_767)
    """How often a small source may be repeated to meet the quota."""
    min_document_tokens: NonNegativeInt = 0
    """Shorter documents stay out."""
    max_document_tokens: PositiveInt | None = None
    """Longer documents stay out; absent: no limit."""
    length_shares: list[LengthShare] = []
    """Divide each source's quota by document length; documents longer than the last bound stay out. Absent:
    lengths as they come."""
    sequence_length: int | None = Field(default=None, gt=0, le=2**31 - 1)
    """Packed mixes: length of a packed sequence."""
    assumed: bool = execution(False)
    """The weights were never published; dry run, --print-argv and report say so."""
    threads: Count = execution(1)
    """Of deduplication and sampling."""

    @model_validator(mode="before")
    @classmethod
    def _a_shard_a_prefix(cls, data: Any) -> Any:
        prefixes = data.get("prefixes") if isinstance(data, dict) else None
        return {"shards": len(prefixes), **data} if isinstance(prefixes, list) and prefixes else data

    @model_validator(mode="after")
    def _adopted_or_made(self) -> "Mix":
        if bool(self.sources) == bool(self.prefixes):
            raise ValueError("give either `sources` or `prefixes`")
        if not self.prefixes:
            return self
        allowed = {"kind", "prefixes", "shards", "order", "sequence_length", "assumed"}
        if odd := sorted(self.model_fields_set - allowed):
            raise ValueError(
                f"`{odd[0]}` says how a mix is made of sources; one of `prefixes` is taken as it is"
            )
        if self.shards != len(self.prefixes):
            raise ValueError(
                f"found {len(self.prefixes)} `prefixes` and `shards: {self.shards}`; leave `shards` out"
            )
        return self

    @model_validator(mode="after")
    def _keys_fit(self) -> "Mix":
        if (self.kind == "packed") != (self.sequence_length is not None):
            raise ValueError("`sequence_length` belongs to packed mixes, and they need it")
        if self.length_shares and (self.tokens is None or self.order == "listed"):
            raise ValueError("`length_shares` divide a quota: they need `tokens`, and no `order: listed`")
        bounds = [part.up_to for part in self.length_shares]
        if bounds != sorted(set(bounds)):
            raise ValueError(f"`up_to` of `length_shares` must ascend; found {bounds}")
        return self
