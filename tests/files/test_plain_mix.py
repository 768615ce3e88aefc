"""`zgcm mix FILE=WEIGHT... --output DIR`."""

import json

import pytest

from zgcm.errors import ZgcmError
from zgcm.records import read_records
from zgcm.tokens.indexed import open_indexed
from zgcm.tokens.tokenizer import load_tokenizer


def test_files_are_mixed_by_weight(call, two_files, tokenizer, tmp_path):
    one, two = two_files
    out = tmp_path / "out"
    command = ("mix", f"{one}=3", f"{two}=1", "--tokens", 600, "--shards", 2, "--tokenizer", tokenizer)
    plan = json.loads(call(*command, "--output", out, "--json").stdout)
    assert [plan["sources"][name]["quota_tokens"] for name in ("one", "two")] == [450, 150]
    assert plan["tokens"] >= 600
    decode = load_tokenizer(tokenizer).decode
    texts = []
    for shard in ("00000", "00001"):
        indexed = open_indexed(out / f"{shard}_text_document")
        texts += [decode(indexed.document(row)[:-1]) for row in range(len(indexed))]
    assert len(texts) == len(set(texts)) == plan["documents"]
    assert set(texts) <= {row["text"] for path in two_files for row in read_records(path)}
    assert not (out / "compared").exists()
    again = json.loads(call(*command, "--output", tmp_path / "again", "--json").stdout)
    assert again["shards"] == plan["shards"]


def test_a_quota_that_cannot_be_met_says_what_is_missing(call, two_files, tokenizer, tmp_path):
    command = (
        "mix",
        *two_files,
        "--tokens",
        1_000_000,
        "--tokenizer",
        tokenizer,
        "--output",
        tmp_path / "out",
    )
    with pytest.raises(ZgcmError, match=r"too few tokens.*one lacks.*lower --tokens .* raise --max-epochs"):
        call(*command)


def test_a_name_may_hold_an_equals_sign(call, two_files, tokenizer, tmp_path):
    odd = two_files[0].rename(tmp_path / "a=b.jsonl")
    plan = json.loads(call("mix", odd, "--tokenizer", tokenizer, "-o", tmp_path / "out", "--json").stdout)
    assert plan["shards"]["00000"]


def test_an_unknown_order_is_named(call, two_files, tokenizer, tmp_path):
    command = ("mix", *two_files, "--order", "random", "--tokenizer", tokenizer, "--output", tmp_path / "out")
    with pytest.raises(ZgcmError, match=r"order: found 'random'; allowed: curriculum, shuffled, listed"):
        call(*command)
