"""Contaminated documents against a brute-force reading of the rule."""

import json
import random

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_workspace import document, make_recipe, write_source

from zgcm.config.corpus import Decontamination
from zgcm.corpus.decontaminate import contaminate_shard, contamination, write_contamination
from zgcm.corpus.dedup import deduplicate
from zgcm.corpus.evaluations import read_evaluations
from zgcm.corpus.shingles import words
from zgcm.errors import ZgcmError
from zgcm.identity import evaluation_set, recipe_id
from zgcm.layout import Layout
from zgcm.records import write_records

QUESTION = "If Anna buys three apples and two pears for seven coins, how many coins does one apple cost?"
FILLER = "completely other words stand around what was copied here and there"


def write_items(path, items, field="question"):
    path.write_text("".join(json.dumps({field: item, "id": i}) + "\n" for i, item in enumerate(items)))
    return str(path)


def test_a_copied_question_is_found_with_its_run_and_item(tmp_path):
    path = write_items(
        tmp_path / "quiz.jsonl", ["another question about nothing in particular at all", QUESTION]
    )
    index = read_evaluations(Decontamination(against=[path]))
    found = contamination(f"{FILLER}. {QUESTION.upper().replace(',', ' - ')} {FILLER}", index)
    assert found == {
        "evaluation": "quiz.jsonl", "item": 2, "matches": 6,
        "ngram": "if anna buys three apples and two pears for seven coins how many",
    }  # fmt: skip
    assert contamination(f"{FILLER} {' '.join(QUESTION.split()[:12])} {FILLER}", index) is None  # 12 words


def test_eight_grams_find_what_thirteen_do_not(tmp_path):
    path = write_items(tmp_path / "quiz.jsonl", [QUESTION])
    text = f"{FILLER} {' '.join(QUESTION.split()[:8])} {FILLER}"
    assert contamination(text, read_evaluations(Decontamination(against=[path]))) is None
    assert contamination(text, read_evaluations(Decontamination(against=[path], ngram=8)))["matches"] == 1


def test_chinese_is_compared_by_character(tmp_path):
    path = write_items(tmp_path / "c.jsonl", ["小明有三个苹果和两个梨，一共花了七元，问一个苹果多少元？"])
    index = read_evaluations(Decontamination(against=[path]))
    assert contamination("题目：小明有三个苹果和两个梨， 一共花了七元。", index)["ngram"] == " ".join(
        "小明有三个苹果和两个梨一共"[:13]
    )
    assert contamination("小明有三个苹果和两个梨。他很高兴地回家去了。", index) is None


LETTERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=14).map(" ".join)


@given(st.lists(LETTERS, min_size=1, max_size=4), LETTERS, st.integers(1, 5), st.integers(1, 5))
def test_the_rule_read_aloud(tmp_path_factory, passages, text, ngram, shortest):
    path = write_items(tmp_path_factory.getbasetemp() / "rule.jsonl", passages)
    index = read_evaluations(Decontamination(against=[path], ngram=ngram, shortest=shortest))
    shortest = min(shortest, ngram)
    tokens = text.split()

    def runs(of, width):
        return [" ".join(of[i : i + width]) for i in range(len(of) - width + 1)]

    long_enough = [p.split() for p in passages if len(p.split()) >= shortest]
    if len(tokens) >= ngram:
        sought = {run for p in long_enough for run in runs(p, min(ngram, len(p)))}
        hits = [run for width in range(shortest, ngram + 1) for run in runs(tokens, width) if run in sought]
    else:
        sought = {run for p in long_enough for run in runs(p, shortest)}
        hits = [run for run in runs(tokens, shortest) if run in sought]
    hits = [run for run in hits if len(set(run.split())) >= min(3, len(run.split()))]
    found = contamination(text, index)
    assert (found["matches"] if found else 0) == len(hits)
    if found:
        assert found["ngram"] in hits
        assert found["ngram"] in passages[found["item"] - 1]
    assert index.skipped == len(passages) - len(long_enough)


def test_fields_plain_text_parquet_and_errors(tmp_path):
    rows = [{"prompt": QUESTION, "notes": {"hint": [FILLER]}}]
    write_records(tmp_path / "a.jsonl.zst", rows)
    (tmp_path / "b.txt").write_text(f"\n{FILLER}\n")
    every = read_evaluations(Decontamination(against=[str(tmp_path / "a.jsonl.zst")]))
    named = read_evaluations(Decontamination(against=[str(tmp_path / "a.jsonl.zst")], fields=["prompt"]))
    plain = read_evaluations(Decontamination(against=[str(tmp_path / "b.txt")], ngram=10))
    assert (len(every.passages), len(named.passages)) == (2, 1)
    assert contamination(FILLER + " and more", plain)["item"] == 2
    with pytest.raises(ZgcmError, match=r"none of the named fields.*a\.jsonl\.zst:1.*answer"):
        read_evaluations(Decontamination(against=[str(tmp_path / "a.jsonl.zst")], fields=["answer"]))
    with pytest.raises(ZgcmError, match="evaluation file is missing"):
        read_evaluations(Decontamination(against=[str(tmp_path / "c.jsonl")]))
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ZgcmError, match="holds no text"):
        read_evaluations(Decontamination(against=[str(tmp_path / "empty.txt")]))


def test_content_and_name_are_identity_and_the_directory_is_not(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_items(tmp_path / name / "quiz.jsonl", [QUESTION])

    def ids(path, **keys):
        section = {"against": [str(path)], **keys}
        recipe = make_recipe({"web": 1}, {"m": {"sources": {"web": 1}, "decontaminate": section}})
        return evaluation_set(Decontamination(**section)), recipe_id(recipe, "mix", "m")

    first = ids(tmp_path / "one" / "quiz.jsonl")
    assert first == ids(tmp_path / "two" / "quiz.jsonl")
    assert all(a != b for a, b in zip(first, ids(tmp_path / "one" / "quiz.jsonl", ngram=8), strict=True))
    write_items(tmp_path / "two" / "quiz.jsonl", [QUESTION, FILLER])
    assert all(a != b for a, b in zip(first, ids(tmp_path / "two" / "quiz.jsonl"), strict=True))


def test_a_mix_leaves_contaminated_rows_out_and_says_why(tmp_path):
    path = write_items(tmp_path / "quiz.jsonl", [QUESTION])
    layout = Layout(tmp_path / "results")
    mix = {"sources": {"web": 1}, "decontaminate": {"against": [path]}}
    recipe = make_recipe({"web": 2}, {"m": mix, "plain": {"sources": {"web": 1}}})
    rows = [document("clean text", "0"), document(f"{FILLER}: {QUESTION}", "1"), document(QUESTION, "2")]
    write_source(layout, "web", [rows[:2], rows[2:]])
    with pytest.raises(ZgcmError, match="zgcm contamination m SOURCE SHARD"):
        deduplicate(recipe, layout, "m")
    with pytest.raises(ZgcmError, match="No such mix with evaluation files"):
        contaminate_shard(recipe, layout, "plain", "web", "00000")
    counts = [contaminate_shard(recipe, layout, "m", "web", shard) for shard in ("00000", "00001")]
    assert counts == [
        {"documents": 2, "skipped": 0, "quiz.jsonl": 1},
        {"documents": 1, "skipped": 0, "quiz.jsonl": 1},
    ]
    assert deduplicate(recipe, layout, "m") == {"contaminated:quiz.jsonl": 2}
    removed = pq.read_table(layout.duplicates("m")).to_pylist()
    assert [(row["shard"], row["row"]) for row in removed] == [("00000", 1), ("00001", 0)]
    assert all(row["ngram"].startswith("if anna buys three") for row in removed)
    assert deduplicate(recipe, layout, "plain") == {}


def test_all_that_a_record_trains_on_is_looked_at(tmp_path):
    """Of a decision of a trace `text` is only what is new; its state, the task in it, is trained on too."""
    index = read_evaluations(Decontamination(against=[write_items(tmp_path / "quiz.jsonl", [QUESTION])]))
    asked = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "Let me calculate."}]
    later = [*asked, {"role": "tool", "content": "5"}, {"role": "assistant", "content": FILLER}]
    hidden = [*later[:1], {"role": "assistant", "content": "", "reasoning_content": f"{FILLER} {QUESTION}"}]
    rows = [
        document("", name, data={"messages": messages, "text": f"{FILLER} {FILLER}"}, category="agentic")
        for name, messages in (("t#1", later), ("reasoning", hidden[1:]), ("clean", later[1:]))
    ]
    write_records(tmp_path / "x.jsonl.zst", rows)
    write_contamination(tmp_path / "x.jsonl.zst", tmp_path / "found", index)
    assert pq.read_table(tmp_path / "found")["row"].to_pylist() == [0, 1]


def test_same_bytes_again(tmp_path):
    rng = random.Random(0)
    items = [" ".join(rng.choices(["ka", "lo", "mi", "on"], k=20)) for _ in range(30)]
    index = read_evaluations(Decontamination(against=[write_items(tmp_path / "q.jsonl", items)]))
    write_records(
        tmp_path / "x.jsonl.zst", [document(f"{item} {FILLER}", str(i)) for i, item in enumerate(items)]
    )
    for name in ("a", "b"):
        assert write_contamination(tmp_path / "x.jsonl.zst", tmp_path / name, index)["q.jsonl"] == 30
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert words(pq.read_table(tmp_path / "a")["ngram"][0].as_py()) == words(items[0])[:13]
