import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from token_workspace import document, make_recipe, write_source

from zgcm.config.model import ImportedTokenizer, TrainedTokenizer
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file
from zgcm.layout import Layout
from zgcm.tokens.tokenizer import (
    FILES,
    REASONING_TOKENS,
    SPECIAL_TOKENS,
    import_tokenizer,
    load_tokenizer,
    make_tokenizer,
    tokenizer_facts,
    train_tokenizer,
    training_texts,
)

TEXTS = [
    "the quick brown fox 1234 jumps over the lazy dog\n",
    "fn main() { return 12; }\n",
    "日本語 ünï",
] * 20


def train(directory: Path, **changes) -> dict:
    section = TrainedTokenizer(kind="train", sources=["x"], **{"vocab_size": 290, **changes})
    return train_tokenizer(section, TEXTS, directory)


def test_exactly_the_vocabulary_with_added_tokens_last(tmp_path):
    facts = train(tmp_path, vocab_size=290)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    assert len(tokenizer["model"]["vocab"]) == 283
    assert [t["id"] for t in tokenizer["added_tokens"]] == list(range(283, 290))
    assert facts["end_id"] == 283
    special = {t["content"]: t["special"] for t in tokenizer["added_tokens"]}
    assert special == dict.fromkeys(SPECIAL_TOKENS, True) | dict.fromkeys(REASONING_TOKENS, False)


def test_too_little_text_is_an_error_that_says_how_much_was_found(tmp_path):
    with pytest.raises(ZgcmError, match=r"too small for the vocabulary.*found: \d+ tokens.*exactly 5000"):
        train(tmp_path, vocab_size=5000)
    assert not (tmp_path / "tokenizer.json").exists()


def test_a_vocabulary_below_the_bytes_is_refused(tmp_path):
    with pytest.raises(ZgcmError, match="at least 263"):
        train(tmp_path, vocab_size=262)


@pytest.mark.parametrize(("individual", "longest"), [(True, 1), (False, 3)])
def test_digits(tmp_path, individual, longest):
    section = TrainedTokenizer(kind="train", sources=["x"], vocab_size=300, individual_digits=individual)
    train_tokenizer(section, ["123456 123456 99 99 abcabc abcabc defdef xyz" * 9, *TEXTS], tmp_path)
    vocab = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    assert max(len(token) for token in vocab if token.isascii() and token.isdigit()) == longest


def test_every_text_survives_a_round_trip(tokenizer_directory):
    tokenizer = load_tokenizer(tokenizer_directory)
    for text in ("", " a  b\r\n\tc", "\x00\ud7ff\U0010ffff", "<think>", "１２³"):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_same_bytes_whatever_threads_and_hash_seed(tmp_path):
    program = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path;"
        "from test_tokenizer import train; train(Path(sys.argv[1]))"
    )
    here = Path(__file__).parent
    for name, threads, seed in (("a", "1", "0"), ("b", "4", "123")):
        env = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": seed}
        env["PYTHONPATH"] = f"{here}:{here.parent}"
        subprocess.run([sys.executable, "-c", program, str(tmp_path / name), str(here)], check=True, env=env)
    for file in FILES:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_transformers_loads_it(tokenizer_directory):
    from transformers import AutoTokenizer

    ours, theirs = load_tokenizer(tokenizer_directory), AutoTokenizer.from_pretrained(tokenizer_directory)
    facts = tokenizer_facts(tokenizer_directory)
    assert theirs.eos_token_id == theirs.pad_token_id == facts["end_id"]
    assert theirs.bos_token_id is None
    assert len(theirs) == facts["vocab_size"] == ours.get_vocab_size()
    text = "What is 12+30?<|endoftext|>\n\n <think> x</think>"
    assert theirs(text)["input_ids"] == ours.encode(text).ids
    kept = theirs.decode(theirs("<think>a</think>b<|endoftext|>")["input_ids"], skip_special_tokens=True)
    assert kept == "<think>a</think>b"


def test_trains_on_kept_records_up_to_the_limit(tmp_path):
    layout = Layout(tmp_path)
    rows = [document("a" * 10, "1"), document("b" * 10, "2", decision="review"), document("c" * 10, "3")]
    write_source(layout, "s", [rows, [document("d" * 10, "4")]])
    recipe = make_recipe({"s": 2})
    section = TrainedTokenizer(kind="train", vocab_size=300, sources=["s"], max_bytes_per_source=25)
    assert list(training_texts(recipe, layout, "s", section)) == ["a" * 10, "c" * 10]


def imported(source: Path, target: Path, **changes) -> dict:
    section = ImportedTokenizer(kind="import", path=str(source), **{"vocab_size": 512, **changes})
    return import_tokenizer(section, target)


def test_import_copies_and_checks_the_digest(tmp_path):
    train(tmp_path / "published")
    digest = sha256_file(tmp_path / "published" / "tokenizer.json")
    facts = imported(tmp_path / "published", tmp_path / "ours", sha256=digest)
    assert (facts["kind"], facts["vocab_size"], facts["end_id"]) == ("import", 512, 283)
    for file in FILES:
        assert (tmp_path / "ours" / file).read_bytes() == (tmp_path / "published" / file).read_bytes()
    with pytest.raises(ZgcmError, match="not the one the recipe names"):
        imported(tmp_path / "published", tmp_path / "other", sha256="0" * 64)
    assert not (tmp_path / "other").exists()


def test_import_refuses_a_directory_without_template_and_a_vocabulary_too_large(tmp_path):
    train(tmp_path / "published")
    with pytest.raises(ZgcmError, match=r"id 289.*ids below 289"):
        imported(tmp_path / "published", tmp_path / "ours", vocab_size=289)
    (tmp_path / "published" / "chat_template.jinja").unlink()
    with pytest.raises(ZgcmError, match=r"incomplete.*chat_template.jinja"):
        imported(tmp_path / "published", tmp_path / "ours")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b'{"eos_token": {}}', b"\xff", None])
def test_import_refuses_damaged_files(tmp_path, name, content):
    train(tmp_path / "published")
    file = tmp_path / "published" / name
    file.write_bytes(file.read_bytes()[:99] if content is None else content)
    with pytest.raises(ZgcmError, match=name):
        imported(tmp_path / "published", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_import_accepts_configurations_that_transformers_does_not_know(tmp_path):
    train(tmp_path / "published")
    config = {"tokenizer_class": "TokenizersBackend"}
    (tmp_path / "published" / "tokenizer_config.json").write_text(json.dumps(config))
    assert imported(tmp_path / "published", tmp_path / "ours")["end_token"] == "<|endoftext|>"


def test_import_without_an_end_token_is_refused(tmp_path):
    train(tmp_path / "published")
    (tmp_path / "published" / "tokenizer_config.json").write_text('{"eos_token": "</s>"}')
    with pytest.raises(ZgcmError, match=r"no end-of-document token.*expected: </s>"):
        imported(tmp_path / "published", tmp_path / "ours")


def test_a_damaged_or_missing_directory_is_named(workspace):
    recipe, layout = workspace
    file = layout.tokenizer / "tokenizer.json"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(ZgcmError, match=r"Damaged file.*tokenizer\.json"):
        load_tokenizer(layout.tokenizer)
    (layout.tokenizer / "manifest.json").unlink()
    with pytest.raises(ZgcmError, match=r"no tokenizer.*zgcm tokenizer"):
        load_tokenizer(layout.tokenizer)
    make_tokenizer(recipe, layout)
    load_tokenizer(layout.tokenizer)


@pytest.mark.parametrize(
    ("key", "value"),
    [("vocab_size", "x"), ("vocab_size", True), ("vocab_size", 10), ("end_id", -1), ("end_id", 5),
     ("end_id", 10**9), ("end_token", []), ("end_token", "<think>"), ("added_tokens", []), ("files", {}),
     ("files", []), ("digest", "")],
)  # fmt: skip
def test_a_manifest_changed_by_hand_is_refused(workspace, key, value):
    """An end token of another id would train without a word; other kinds of value ended in a traceback."""
    _, layout = workspace
    path = layout.tokenizer / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    with pytest.raises(ZgcmError, match=r"manifest|ids beyond the model|no end-of-document"):
        load_tokenizer(layout.tokenizer)


def test_an_end_token_that_is_no_text_is_named(tmp_path):
    train(tmp_path / "published")
    (tmp_path / "published" / "tokenizer_config.json").write_text('{"eos_token": 5}')
    with pytest.raises(ZgcmError, match=r"eos_token is no text.*tokenizer_config\.json.*found: 5"):
        imported(tmp_path / "published", tmp_path / "ours")
