"""The page: self-contained, well-formed, complete, the same bytes each time, and honest when unfinished."""

import html
import json
import re
import shutil
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

from zgcm.config.recipe import Recipe
from zgcm.config.rl import Difficulty
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.report import reinforcement
from zgcm.report.counts import source_counts
from zgcm.report.page import render, write_report

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Balance(HTMLParser):
    """Fails on a tag that is closed out of order or never."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(tiny: Recipe, complete: Layout) -> str:
    return render(tiny, complete)


def test_every_tag_is_closed_in_order(page: str) -> None:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []


def test_drawings_are_well_formed_xml(page: str, tiny: Recipe) -> None:
    drawings = re.findall(r'<svg viewBox.*?role="img".*?</svg>', page, re.DOTALL)
    # pipeline and loss; of each RL stage difficulty, reward, lengths and truncation; each wide and narrow
    assert len(drawings) == 4 + 8 * len(tiny.rl_stages())
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_the_page_needs_nothing_from_outside(page: str) -> None:
    assert not re.search(r"""(src|href)\s*=|https?://|@import|<script|url\((?!#)""", page)


def test_every_stage_mix_and_source_is_named(page: str, tiny: Recipe) -> None:
    for name in [*tiny.stages, *tiny.mixes, *tiny.sources]:
        assert name in page


def test_same_results_give_the_same_bytes(page: str, tiny: Recipe, complete: Layout) -> None:
    assert render(tiny, complete) == page


def test_drop_reasons_unreadable_lines_and_personal_data_are_counted(
    page: str, tiny: Recipe, complete: Layout
) -> None:
    for row in source_counts(tiny, complete):
        assert row["in"] == sum(row[kind] for kind in ("kept", "review", "dropped", "rejected"))
        reason, number = next(iter(row["reasons"].items()))
        assert f"{reason} {number:,}" in page
        assert f"secrets and personal data: email {row['found']['email']}" in page
    assert "near_duplicate" in page


def test_the_numbers_are_the_files_numbers(page: str) -> None:
    assert "41.0\u00a0% to 90.4\u00a0%" in page  # first and last evaluation
    assert ">102.4K<" in page  # 100 steps x 16 x 64
    assert ">153.6K<" in page  # the second stage counts its own 150 steps only


def test_names_from_the_recipe_are_escaped(tiny: Recipe, complete: Layout) -> None:
    recipe = tiny.model_copy(update={"description": "<script>alert(1)</script>"})
    assert "<script" not in render(recipe, complete)


def test_an_unfinished_run_gives_a_page_that_says_so(tiny: Recipe, unfinished: Layout) -> None:
    page = render(tiny, unfinished)
    names = list(tiny.stages)
    reached = names.index("midtrain_64k")
    assert f"{reached} of {len(names)} stages are done." in page
    assert "midtrain_64k is unfinished" in page
    assert f"Not started: {', '.join(names[reached + 1 :])}." in page
    assert "3 of 8" in page


def test_an_empty_directory_gives_a_page(tiny: Recipe, tmp_path) -> None:
    layout = Layout(tmp_path / "results")
    path = write_report(tiny, layout)
    assert f"0 of {len(tiny.stages)} stages are done." in path.read_text()
    assert "No stage has trained yet." in path.read_text()


def test_a_stopped_run_shows_its_reason(tiny: Recipe, unfinished: Layout) -> None:
    run = next(unfinished.runs("midtrain_64k").iterdir())
    write_json(run / "stopped.json", {"what": "Training stopped: loss is not finite", "found": "nan"})
    assert "midtrain_64k was stopped: Training stopped: loss is not finite" in render(tiny, unfinished)


def test_assumed_weights_are_flagged(tiny: Recipe, complete: Layout) -> None:
    mixes = {
        name: mix.model_copy(update={"assumed": name == "midtrain_mix16"}) for name, mix in tiny.mixes.items()
    }
    page = html.unescape(render(tiny.model_copy(update={"mixes": mixes}), complete))
    assert "weights were never published; the recipe's are an assumption: midtrain_mix16." in page
    assert page.count("weights assumed") >= 2  # in the picture and in the table


def test_assumed_pass_rates_are_flagged(tiny: Recipe, complete: Layout) -> None:
    assumed = tiny.stages["rl_math"].model_copy(update={"difficulty": Difficulty(assumed=True)})
    recipe = tiny.model_copy(update={"stages": {**tiny.stages, "rl_math": assumed}})
    page = html.unescape(render(recipe, complete))
    assert "Pass rates that choose prompts, never published and assumed: rl_math." in page


def test_the_histogram_says_what_was_kept(page: str) -> None:
    assert re.search("89 of 100 prompts kept; 11 too easy; mean pass rate 49.5.%", html.unescape(page))
    assert page.count('class="column out"') * 8 == page.count('class="column"')
    assert "8 of 8: 11 prompts, left out" in page and "0 of 8: 12 prompts, kept" in page


def test_a_mixed_stage_has_a_named_line_a_domain(tiny: Recipe, complete: Layout, tmp_path: Path) -> None:
    layout = Layout(shutil.copytree(complete.root, tmp_path / "results"))
    (run,) = layout.runs("rl_math").iterdir()
    rows = [json.loads(line) for line in (run / "reward.jsonl").read_text().splitlines()]
    for row in rows:
        facts = {"mean_raw_reward": 0.5, "responses": 8, "mean_tokens": 20.0, "truncated": 0.1}
        row["domains"] = dict.fromkeys(("code", "if", "math"), facts)
    (run / "reward.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    section = reinforcement.section(layout, "rl_math")
    for chart in ("reward_wide", "lengths_narrow", "truncated_wide"):
        for domain in ("code", "if", "math"):
            assert f">{domain}</text>" in section[chart]
    assert section["domains"] == ["code", "if", "math"]
