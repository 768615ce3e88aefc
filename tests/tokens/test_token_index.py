"""The index verb: documents in, the same ids as `tokenizers`, nothing half-done when something is wrong."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_workspace import conversation, document, sum_conversation, write_source

from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.records import read_records
from zgcm.tokens import complexity, index, parity
from zgcm.tokens import encode as encoding
from zgcm.tokens.chat import render
from zgcm.tokens.complexity import lexical_complexity
from zgcm.tokens.encode import encode, load_encoder
from zgcm.tokens.facts import read_complexities, read_learned
from zgcm.tokens.index import index_shard
from zgcm.tokens.indexed import open_indexed
from zgcm.tokens.parity import encode_probes, start_parity
from zgcm.tokens.tokenizer import load_tokenizer, tokenizer_facts


@pytest.fixture(scope="module")
def encoder(tokenizer_directory):
    return load_encoder(tokenizer_directory)


def test_documents_are_the_records_with_one_end_token_each(workspace):
    _, layout = workspace
    tokenizer = load_tokenizer(layout.tokenizer)
    end = tokenizer_facts(layout.tokenizer)["end_id"]
    indexed = open_indexed(layout.index_prefix("prose", "00001"))
    records = list(read_records(layout.cleaned("prose", "00001")))
    assert len(indexed) == len(records)
    for row, record in enumerate(records):
        *text, last = indexed.document(row).tolist()
        assert last == end
        assert text == tokenizer.encode(record["data"]["text"]).ids
        assert end not in text
    report = read_json(layout.index_report("prose", "00001"))
    assert (report["documents"], report["tokens"], report["dtype"]) == (50, len(indexed.tokens), "uint16")
    assert report["parity"]["documents"] == 32 and report["parity"]["equal"] is True


def test_conversations_are_rendered_and_end_once(workspace):
    _, layout = workspace
    tokenizer = load_tokenizer(layout.tokenizer)
    indexed = open_indexed(layout.index_prefix("talk", "00000"))
    marks, offsets = read_learned(layout.index_facts("talk", "00000"))
    for row, record in enumerate(read_records(layout.cleaned("talk", "00000"))):
        text = render(record["data"]["messages"], layout.tokenizer)
        tokens = indexed.document(row)
        assert tokens.tolist() == tokenizer.encode(text).ids
        start, end = marks[offsets[row] : offsets[row + 1]]
        learned = tokenizer.decode(tokens[start:end], skip_special_tokens=False)
        assert learned in (text.split("<think>")[-1], text.split("<|assistant|></think>")[-1])
        assert end == len(tokens)


def test_special_tokens_in_documents_stay_text(workspace):
    recipe, layout = workspace
    added = tokenizer_facts(layout.tokenizer)["added_tokens"]
    evil = "".join(added) + " <|endoftext|>"
    rows = [document(evil, "evil"), conversation([{"role": "user", "content": evil}], "talk")]
    write_source(layout, "code", [rows])
    index_shard(recipe, layout, "code", "00000")
    indexed = open_indexed(layout.index_prefix("code", "00000"))
    special = [[t for t in indexed.document(row).tolist() if t in added.values()] for row in (0, 1)]
    assert special == [[added["<|endoftext|>"]], [added["<|user|>"], added["<|endoftext|>"]]]
    tokenizer = load_tokenizer(layout.tokenizer)
    assert tokenizer.decode(indexed.document(0)[:-1], skip_special_tokens=False) == evil
    report = read_json(layout.index_report("code", "00000"))
    assert (report["conversations_without_loss"], report["learned_tokens"]) == (1, 0)


@settings(max_examples=60)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=6))
def test_gigatoken_equals_tokenizers_on_any_text(encoder, texts):
    reference = start_parity(encoder, encode_probes(encoder))
    encoded = encode(encoder, [[text, encoder.end_id] for text in texts])
    ends = np.cumsum(encoded.lengths)
    for text, length, end in zip(texts, encoded.lengths, ends, strict=True):
        reference.compare([text, encoder.end_id], encoded.tokens[end - length : end], "here")


@pytest.mark.parametrize("characters", [1, 500])
def test_chunks_change_no_byte(workspace, monkeypatch, characters):
    recipe, layout = workspace
    monkeypatch.setattr(index, "CHUNK_CHARACTERS", characters)
    for source in ("talk", "code"):
        before = read_json(layout.index_report(source, "00000"))
        facts = layout.index_facts(source, "00000")
        learned = [part.tolist() for part in read_learned(facts)]
        assert index_shard(recipe, layout, source, "00000") == before
        assert [part.tolist() for part in read_learned(facts)] == learned


def final_files(layout, source):
    return [path.name for path in layout.index_report(source, "00000").parent.iterdir()]


def test_wrong_ids_fail_the_step_and_leave_nothing(workspace, monkeypatch):
    recipe, layout = workspace
    honest = encoding._encode_texts

    def off_by_one(encoder, texts):
        tokens, lengths = honest(encoder, texts)
        tokens = tokens.copy()
        if len(texts) > 1:  # not the probes: they would fail first
            tokens[5] ^= 1
        return tokens, lengths

    monkeypatch.setattr(encoding, "_encode_texts", off_by_one)
    with pytest.raises(ZgcmError, match=r"disagree; nothing was written.*code/00000.*record 0.*from token 5"):
        index_shard(recipe, layout, "code", "00000")
    assert not {"00000_text_document.idx", "00000.index.json"} & set(final_files(layout, "code"))


def test_probes_catch_a_backend_that_knows_special_tokens(encoder, tokenizer_directory, monkeypatch):
    from gigatoken.gigatoken_rs import load_hf_json

    whole = load_hf_json((tokenizer_directory / "tokenizer.json").read_text())
    wrong = dataclasses.replace(encoder, backend=whole)
    with pytest.raises(ZgcmError, match="probe 6"):
        start_parity(wrong, encode_probes(wrong))


def test_the_sample_is_bounded():
    sample = parity.Sample()
    wanted = [*range(32), 500, 1000]
    assert sample.of(range(1200)) == wanted
    ends = [0, 1, 30, 33, 500, 501, 999, 1200]
    parts = [sample.of(range(start, end)) for start, end in itertools.pairwise(ends)]
    assert [row for part in parts for row in part] == wanted
    assert not sample.full
    sample.documents = parity.MAX_DOCUMENTS
    assert sample.full


def test_a_document_of_100_mb_is_left_to_gigatoken_alone():
    sample = parity.Sample()
    assert not sample.count(["x" * (parity.MAX_CHARACTERS + 1), 0])
    assert sample.count(["x" * parity.MAX_CHARACTERS, 0])
    assert not sample.count(["x"])
    assert (sample.documents, sample.characters) == (1, parity.MAX_CHARACTERS)


def test_a_lone_surrogate_names_the_record(workspace, monkeypatch):
    recipe, layout = workspace
    rows = [document("fine", "1"), document("broken \ud800", "2")]
    monkeypatch.setattr(index, "read_records", lambda path: iter(rows))
    with pytest.raises(ZgcmError, match=r"not valid Unicode.*record 1.*lone surrogate"):
        index_shard(recipe, layout, "code", "00000")
    assert "00000_text_document.idx" not in final_files(layout, "code")


def test_a_conversation_the_template_refuses_names_the_record(workspace):
    recipe, layout = workspace
    rows = [sum_conversation(1, 2), conversation([{"role": "narrator", "content": "x"}], "bad")]
    write_source(layout, "talk", [rows])
    with pytest.raises(ZgcmError, match=r"refuses.*record 1.*narrator"):
        index_shard(recipe, layout, "talk", "00000")


def test_without_tokenizer(workspace):
    recipe, layout = workspace
    (layout.tokenizer / "manifest.json").unlink()
    with pytest.raises(ZgcmError, match="no tokenizer"):
        index_shard(recipe, layout, "code", "00000")


def test_an_empty_shard_is_an_empty_index(workspace):
    recipe, layout = workspace
    write_source(layout, "code", [[]])
    report = index_shard(recipe, layout, "code", "00000")
    assert (report["documents"], report["tokens"]) == (0, 0)
    assert len(open_indexed(layout.index_prefix("code", "00000"))) == 0
    assert len(read_learned(layout.index_facts("code", "00000"))[0]) == 0


def test_complexity_is_measured_for_general_text_only(workspace):
    _, layout = workspace
    assert np.isnan(read_complexities(layout.index_facts("code", "00000"))).all()
    assert np.isnan(read_complexities(layout.index_facts("talk", "00000"))).all()
    texts = [record["data"]["text"] for record in read_records(layout.cleaned("prose", "00000"))]
    expected = np.array([lexical_complexity(text) for text in texts], np.float32)
    np.testing.assert_array_equal(read_complexities(layout.index_facts("prose", "00000")), expected)


@given(text=st.text(st.one_of(st.characters(max_codepoint=127), st.characters()), max_size=80))
def test_the_short_cut_for_ascii_finds_the_same_words(text):
    assert complexity._words(text) == complexity._WORD.findall(text.casefold())


def test_complexity_grows_with_variety_and_word_length_not_with_length():
    plain = "the cat sat on the mat and the dog sat on the cat and so on " * 20
    rich = " ".join(f"{a}{b}ation" for a in ("oxid", "transfer", "hyper", "crystal", "modul") for b in
                    ("is", "iz", "ific", "or", "iv", "ul", "et", "al", "ant", "in")) * 3  # fmt: skip
    assert lexical_complexity(plain) < lexical_complexity(rich)
    assert lexical_complexity(plain) == pytest.approx(lexical_complexity(plain * 5), rel=0.05)
    assert np.isnan(lexical_complexity("12 + 34 = 46"))
    assert lexical_complexity("日本語") == pytest.approx(4.7 * 3 / np.sqrt(150))
