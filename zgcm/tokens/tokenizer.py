"""The tokenizer directory: trained on cleaned sources, or imported as published. `zgcm tokenizer`

    results/tokenizer/tokenizer.json, tokenizer_config.json, chat_template.jinja, manifest.json (last)

`transformers.AutoTokenizer.from_pretrained` loads it. End of document, end of turn and padding are one token.
"""

import shutil
from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.io import atomic_open, read_json, sha256_file, write_json, write_text
from zgcm.layout import Layout, cleaned_shard, source_shards
from zgcm.records import read_records
from zgcm.rundir.manifest import NAME as MANIFEST
from zgcm.rundir.manifest import is_complete, verify_manifest, write_manifest
from zgcm.tokens.text import plain_text

if TYPE_CHECKING:
    import tokenizers

    from zgcm.config.model import ImportedTokenizer, TrainedTokenizer
    from zgcm.config.recipe import Recipe

END = "<|endoftext|>"
SPECIAL_TOKENS = (END, "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>")
REASONING_TOKENS = ("<think>", "</think>")
"""Not flagged special, as in the published tokenizer: decoding with skip_special_tokens keeps them."""
AGAIN = "copy or download the directory again"
FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")

DIGIT_RUN = r"\p{N}"
LONG_DIGIT_RUN = r"\p{N}{1,3}"
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|@DIGITS@"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Pieces that merges never cross: contractions, words with one leading mark, digits, punctuation, line ends.
The cl100k family's pattern; @DIGITS@ is one digit (Qwen2's) or up to three (GLM-4's); gigatoken has both."""


def make_tokenizer(recipe: "Recipe", layout: Layout) -> dict[str, Any]:
    """Train or import the recipe's tokenizer into `layout.tokenizer`; returns its manifest."""
    directory = layout.tokenizer
    (directory / MANIFEST).unlink(missing_ok=True)
    section = recipe.tokenizer
    if section.kind == "import":
        facts = import_tokenizer(section, directory)
    else:
        texts = (
            text for source in section.sources for text in training_texts(recipe, layout, source, section)
        )
        facts = train_tokenizer(section, texts, directory)
    from zgcm import identity

    write_manifest(directory, **facts, recipe_id=identity.recipe_id(recipe, "tokenizer"))
    return read_json(directory / MANIFEST)


def training_texts(
    recipe: "Recipe", layout: Layout, source: str, section: "TrainedTokenizer"
) -> Iterator[str]:
    """Text of a source's kept records in shard order, until `max_bytes_per_source` have been read."""
    left = section.max_bytes_per_source
    for shard in source_shards(recipe, source):
        for record in read_records(cleaned_shard(layout, source, shard)):
            if record["decision"] != "keep":
                continue
            text = plain_text(record)
            left -= len(text.encode("utf-8", "surrogatepass"))
            if left < 0:
                return
            yield text


def train_tokenizer(section: "TrainedTokenizer", texts: Iterable[str], directory: Path) -> dict[str, Any]:
    """Train byte-level BPE of exactly `section.vocab_size` tokens, added tokens last; write the directory.

    The 256 bytes come first, then merges in order of frequency, then the added tokens: ids of text do not
    depend on how many special tokens there are. Raises ZgcmError when the text has too few merges.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    added = len(SPECIAL_TOKENS) + len(REASONING_TOKENS)
    if section.vocab_size < 256 + added:
        raise ZgcmError(
            "The vocabulary is too small for bytes and special tokens", where="tokenizer.vocab_size",
            found=str(section.vocab_size), expected=f"at least {256 + added}", hint="raise it",
        )  # fmt: skip
    tokenizer = Tokenizer(models.BPE())
    pattern = SPLIT.replace("@DIGITS@", DIGIT_RUN if section.individual_digits else LONG_DIGIT_RUN)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=section.vocab_size - added,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in REASONING_TOKENS])
    if (found := tokenizer.get_vocab_size()) != section.vocab_size:
        raise ZgcmError(
            "The text is too small for the vocabulary: training ran out of pairs to merge",
            where="tokenizer.sources", found=f"{found} tokens", expected=f"exactly {section.vocab_size}",
            hint="add sources or text, or lower tokenizer.vocab_size",
        )  # fmt: skip
    write_text(directory / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
    write_json(directory / "tokenizer_config.json", _config())
    write_text(directory / "chat_template.jinja", default_template())
    return _facts("train", section.vocab_size, END, directory)


def import_tokenizer(section: "ImportedTokenizer", directory: Path) -> dict[str, Any]:
    """Copy a published tokenizer directory. Raises ZgcmError for a missing file, a wrong digest, no end
    token, or more tokens than the model has rows."""
    source = Path(section.path)
    for name in FILES:
        if not (source / name).is_file():
            raise ZgcmError(
                "The tokenizer to import is incomplete", where=str(source / name), found="no such file",
                expected=", ".join(FILES), hint="correct tokenizer.path, or download the directory again",
            )  # fmt: skip
    digest = sha256_file(source / "tokenizer.json")
    if section.sha256 not in (None, digest):
        raise ZgcmError(
            "The tokenizer to import is not the one the recipe names", where=str(source / "tokenizer.json"),
            found=f"sha256 {digest}", expected=f"sha256 {section.sha256}",
            hint="use that file, or change tokenizer.sha256 deliberately",
        )  # fmt: skip
    read_tokenizer(source)
    facts = _facts("import", section.vocab_size, _end_token(source), source)
    for name in FILES:
        with (source / name).open("rb") as original, atomic_open(directory / name) as copy:
            shutil.copyfileobj(original, copy)
    return facts


def load_tokenizer(directory: Path) -> "tokenizers.Tokenizer":
    """The `tokenizers` object of a complete tokenizer directory. Raises ZgcmError when there is none."""
    tokenizer_facts(directory)
    return read_tokenizer(directory)


def read_tokenizer(directory: Path) -> "tokenizers.Tokenizer":
    """The `tokenizers` object of a directory's tokenizer.json. Raises ZgcmError when it is none."""
    from tokenizers import Tokenizer

    path = directory / "tokenizer.json"
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower one
        raise ZgcmError(
            "Not a tokenizer of the `tokenizers` library", where=str(path), found=str(error), hint=AGAIN
        ) from error


def tokenizer_facts(directory: Path) -> dict[str, Any]:
    """The verified manifest: kind, vocab_size, end_token, end_id, added_tokens {text: id}, digest, files.

    Raises ZgcmError when there is none, and when it is not that of its files."""
    if not is_complete(directory):
        raise ZgcmError("There is no tokenizer", where=str(directory), hint="make it with: zgcm tokenizer")
    manifest = verify_manifest(directory)
    size = manifest["vocab_size"] if type(manifest["vocab_size"]) is int else None
    known = _facts(manifest["kind"], size, str(manifest["end_token"]), directory)
    for key, value in known.items():
        if manifest[key] != value:
            raise ZgcmError(
                "The tokenizer's manifest is not that of its files", where=str(directory / MANIFEST),
                found=f"{key}: {str(manifest[key])[:80]}", expected=str(value)[:80], hint=AGAIN,
            )  # fmt: skip
    return manifest


def published_facts(directory: Path) -> dict[str, Any]:
    """The same of a directory as published, which has no manifest: its vocabulary ends with its largest id.
    Raises ZgcmError when it is no tokenizer directory."""
    for name in FILES[:2]:
        if not (directory / name).is_file():
            raise ZgcmError(
                "Not a tokenizer directory", where=str(directory), found=f"no {name}",
                expected=", ".join(FILES[:2]),
                hint="name a directory that `zgcm tokenizer` made, or a published one",
            )  # fmt: skip
    facts = _facts("published", None, _end_token(directory), directory)
    return {**facts, "digest": sha256_file(directory / "tokenizer.json")}


def any_facts(directory: Path) -> dict[str, Any]:
    """Facts of a tokenizer directory, whether ours (then verified) or as published."""
    return tokenizer_facts(directory) if is_complete(directory) else published_facts(directory)


def default_template() -> str:
    """The chat template of trained tokenizers."""
    return files("zgcm.tokens").joinpath("chat_template.jinja").read_text()


def _facts(kind: str, vocab_size: int | None, end: str, directory: Path) -> dict[str, Any]:
    """`vocab_size` absent: the vocabulary ends with its largest id."""
    tokenizer = read_json(directory / "tokenizer.json")
    try:
        added = {str(token["content"]): int(token["id"]) for token in tokenizer["added_tokens"]}
        largest = max(*tokenizer["model"]["vocab"].values(), *added.values())
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ZgcmError(
            "Not the files of a byte-level BPE tokenizer", where=str(directory),
            found=f"{type(error).__name__}: {error}", expected=f"{FILES[0]} of the `tokenizers` library",
            hint=AGAIN,
        ) from error  # fmt: skip
    if end not in added:
        raise ZgcmError(
            "The tokenizer has no end-of-document token", where=str(directory / "tokenizer.json"),
            found=f"added tokens {', '.join(added) or 'none'}", expected=end,
            hint="name it as eos_token in tokenizer_config.json",
        )  # fmt: skip
    vocab_size = vocab_size or largest + 1
    if largest >= vocab_size:
        raise ZgcmError(
            "The tokenizer has ids beyond the model's vocabulary", where="tokenizer.vocab_size",
            found=f"id {largest}", expected=f"ids below {vocab_size}", hint="raise tokenizer.vocab_size",
        )  # fmt: skip
    return {"kind": kind, "vocab_size": vocab_size, "end_token": end, "end_id": added[end],
            "added_tokens": added}  # fmt: skip


def _config() -> dict[str, Any]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": END,
        "pad_token": END,
        "additional_special_tokens": list(SPECIAL_TOKENS[1:]),
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _end_token(directory: Path) -> str:
    named = read_json(directory / "tokenizer_config.json").get("eos_token")
    named = named["content"] if isinstance(named, dict) else named
    if isinstance(named, str | None):
        return named or END
    raise ZgcmError(
        "The tokenizer's eos_token is no text", where=str(directory / "tokenizer_config.json"),
        found=str(named)[:80], expected="the text of an added token", hint=AGAIN,
    )  # fmt: skip
