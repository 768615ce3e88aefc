"""`zgcm profile`: what it finds in raw files, and drafts that load and clean."""

import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support import recipe_with
from typer.testing import CliRunner

from zgcm.cli import verbs  # noqa: F401 - registers the verb
from zgcm.cli.app import app
from zgcm.corpus import survey as survey_module
from zgcm.corpus.clean import clean_shard
from zgcm.corpus.draft import draft_source, draft_yaml, source_name
from zgcm.corpus.language import language_of
from zgcm.corpus.noise import ADVICE, noise_in
from zgcm.corpus.survey import Lengths, Repeats, survey
from zgcm.errors import ZgcmError
from zgcm.layout import Layout
from zgcm.records import write_records

LONG = "The story of a fox that was not seen by the people who live in the village. " * 4


def written(tmp_path, rows, name="raw.jsonl"):
    path = tmp_path / name
    write_records(path, rows)
    return path


def test_fields_types_lengths_and_shares(tmp_path):
    rows = [
        {"id": "a", "text": LONG, "meta": {"lang": "en", "stars": 3}, "tags": ["x"], "score": None},
        {"id": "b", "text": LONG.upper(), "meta": {"lang": "en"}, "tags": [], "score": 0.5},
        {"id": "c", "text": "kurz", "meta": {"lang": "de"}},
        {"id": "d", "messages": [{"role": "user", "content": "Hallo"}, {"role": "assistant"}]},
    ]
    found = survey(written(tmp_path, rows)).summary()
    fields = {item["name"]: item for item in found["fields"]}
    assert list(fields)[:3] == ["id", "messages", "messages[].content"] or "messages[].role" in fields
    assert (found["records"], found["complete"], found["bad_lines"]) == (4, True, 0)
    assert {name: item["present"] for name, item in fields.items()} == {
        "id": 1.0, "text": 0.75, "meta": 0.75, "meta.lang": 0.75, "meta.stars": 0.25, "tags": 0.5,
        "score": 0.25, "messages": 0.25, "messages[].role": 0.25, "messages[].content": 0.25,
    }  # fmt: skip
    assert fields["meta.lang"]["values"] == {"en": 2, "de": 1}
    assert "values" not in fields["id"]
    assert fields["text"]["length"]["max"] == int(f"{len(LONG):.3g}".split(".")[0])
    assert fields["score"]["types"] == {"number": 1}
    assert fields["messages"]["length"]["max"] == 2
    assert found["duplicate_share"] == 0.25  # the second text is the first in capitals


def test_lines_that_are_no_records_are_counted_and_the_limit_holds(tmp_path):
    path = tmp_path / "raw.jsonl.gz"
    good = json.dumps({"text": LONG})
    path.write_bytes(gzip.compress(f"\ufeff{good}\n\nnonsense\n[1]\n{good}\n{good}\n".encode()))
    found = survey(path, 2)
    assert (found.records, found.bad_lines, found.complete) == (2, 2, False)
    assert found.first_bad_line.startswith(f"{path}:3:1: ")
    assert survey(path, 3).complete
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    with pytest.raises(ZgcmError, match=r"no records.*bad\.jsonl:1:1.*1 lines"):
        survey(tmp_path / "bad.jsonl")


def test_fields_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(survey_module, "MOST_FIELDS", 5)
    found = survey(written(tmp_path, [{"text": LONG, "scores": {f"user{n}": n}} for n in range(20)]))
    assert len(found.fields) == 5
    assert found.summary()["fields_left_out"] == 17


def test_progress_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(survey_module, "TOLD_EVERY", 2)
    told: list[int] = []
    survey(written(tmp_path, [{"text": "x"}] * 5), progress=told.append)
    assert told == [2, 4]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=30))
def test_quantiles_are_right_to_one_percent(lengths):
    kept = Lengths()
    for length in lengths:
        kept.add(length)
    for share in (0.5, 0.95, 1.0):
        true = sorted(lengths)[max(0, -int(-share * len(lengths) // 1) - 1)]
        assert true * 0.99 - 1 <= kept.quantile(share) <= true


def test_repeats_are_estimated_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(survey_module, "MOST_DIGESTS", 1000)
    repeats = Repeats()
    for number in range(40_000):
        repeats.add(str(number // 2))  # every value twice
    assert len(repeats.seen) <= 1000
    assert repeats.part > 1
    assert repeats.share() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (LONG, "en"),
        ("Der Hund und die Katze sind nicht auf dem Tisch, auch wenn es regnet.", "de"),
        ("Le chat est sur la table et le chien dans la maison avec les enfants.", "fr"),
        ("El perro no está en la casa, pero los gatos se quedan con una niña.", "es"),
        ("O gato não está em casa e os cães foram para uma praia com o menino.", "pt"),
        ("Kot nie jest na stole, ale pies jest w domu i nie śpi.", "pl"),
        ("芳芳买了一本书有九十九页。", "zh"),
        ("私は本を買いました。", "ja"),
        ("나는 책을 샀다.", "ko"),
        ("Кошка сидит на столе.", "ru"),
        ("Кішка сидить на столі, її звуть Їжак.", "uk"),
        ("for (i = 0; i < n; i++) { f(i); }", "code"),
        ("12345", "und"),
        ("Xyzzy plugh frobnicate", "und"),
    ],
)
def test_languages(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize(
    ("text", "noise"),
    [
        ("a\x00b", "control characters"),
        ("a\ufffdb", "replacement characters"),
        ("<think>hm</think>", "think tags"),
        ("<|im_start|>user", "chat template tokens"),
        ("[INST] do it [/INST]", "chat template tokens"),
        ('<div class="x">words</div>', "html"),
        ("a &amp; b", "html entities"),
        ("cafÃ© au lait", "mojibake"),
        ("a\r\nb", "windows line ends"),
        ("We have a cookie policy.", "boilerplate"),
        ("same\n" * 8, "repeated lines"),
        ("x" * 10_001, "very long lines"),
    ],
)
def test_noise(text, noise):
    assert list(noise_in(text)) == [noise]
    assert ADVICE[noise]


def test_clean_text_has_no_noise():
    assert list(noise_in("if a < b and b > c:\n    print(f'{a} & {b}')  # sign input | pipe |")) == []


DRAFTS = {
    "documents": ([{"id": str(n), "text": f"{n} {LONG}", "license": "MIT"} for n in range(3)],
                  {"stage": "pretrain", "category": "general_text"}),
    "pages": ([{"url": f"u{n}", "page": f"{n} {LONG}"} for n in range(3)],
              {"stage": "midtrain", "category": "web", "id_field": "url", "field_map": {"page": "text"}}),
    "files": ([{"blob_id": f"b{n}", "content": f"def f(x):\n    return x + {n}", "lang": "Python"}
               for n in range(3)],
              {"stage": "pretrain", "category": "code", "id_field": "blob_id",
               "field_map": {"lang": "language"}}),
    "maths": ([{"problem": f"What is {n}+1?", "solution": f"Add one, therefore the answer: {n + 1}."}
               for n in range(3)],
              {"stage": "midtrain", "category": "math"}),
    "talks": ([{"conversations": [{"role": "user", "content": f"Count to {n}, please."},
                                  {"role": "assistant", "content": f"One, two, {n}."}]} for n in range(3)],
              {"stage": "posttrain", "category": "instruction", "field_map": {"conversations": "messages"}}),
    "shared": ([{"conversations": [{"from": "human", "value": f"Count to {n}, please."},
                                   {"from": "gpt", "value": f"One, two, {n}, and that is it."}]}
                for n in range(3)],
               {"stage": "posttrain", "category": "instruction", "field_map": {"conversations": "messages"}}),
    "tools": ([{"messages": [{"role": "user", "content": "List it."},
                             {"role": "assistant", "content": "", "tool_calls": [{"name": "ls"}]},
                             {"role": "tool", "content": f"file {n}"}]} for n in range(3)],
              {"stage": "posttrain", "category": "agentic"}),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("ending", [".jsonl.zst", ".parquet"])
def test_drafts_load_and_keep_every_record(tmp_path, name, ending):
    rows, expected = DRAFTS[name]
    path = tmp_path / f"raw{ending}"
    if ending == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        write_records(path, rows)
    found = survey(path)
    draft = draft_source(found)
    if "license" not in rows[0]:
        expected = {**expected, "defaults": {"license": "unknown"}}
    assert draft == {"kind": "files", "files": [str(path)], **expected}
    assert yaml.safe_load(draft_yaml(found, "mine")) == {"sources": {"mine": draft}}
    layout = Layout(tmp_path / "results")
    assert clean_shard(recipe_with(draft), layout, "mine", "00000")["kept"] == 3


def test_the_draft_says_what_was_found(tmp_path):
    rows = [{"text": LONG}, {"text": LONG}, {"text": f"<p>{LONG}</p>"}]
    draft = draft_yaml(survey(written(tmp_path, rows, "My Notes-2.jsonl")))
    assert "# 33.3% of the texts repeat an earlier one" in draft
    assert "# 33.3% html: " in draft
    assert "\n  my_notes_2:\n" in draft


@pytest.mark.parametrize("name", ["2024.jsonl", "???.jsonl", "Ä.parquet", "a-b.c.jsonl"])
def test_source_names_are_names(name):
    assert recipe_with({"kind": "demo", "content": "code", "documents": 1, "stage": "pretrain",
                        "category": "code"}, source_name(Path(name)))  # fmt: skip


def test_the_verb(tmp_path):
    path = written(tmp_path, [{"id": str(n), "text": LONG} for n in range(3)])

    def run(*more):
        result = CliRunner().invoke(app, ["profile", str(path), *more], catch_exceptions=False)
        assert result.exit_code == 0
        return result.output

    table = run("--limit", "2")
    assert table.startswith("field ")
    assert "the first 2 records" in table
    both = json.loads(run("--draft", "--json"))
    assert (both["records"], both["draft"]["category"]) == (3, "general_text")
    assert yaml.safe_load(run("--draft"))["sources"]["raw"]["kind"] == "files"
    with pytest.raises(ZgcmError, match="One dataset at a time"):
        run("b", "c")
