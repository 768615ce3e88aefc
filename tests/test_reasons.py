"""Why a job would run: Snakemake's sentence and changed recipes in words."""

import os
from pathlib import Path

import pytest
import yaml

from zgcm import reasons
from zgcm.cli.dryrun import Job, together, totals
from zgcm.config.load import load_recipe, read_mapping
from zgcm.config.recipe import deep_merge
from zgcm.identity import basis, recipe_id
from zgcm.io import write_json
from zgcm.layout import Layout

TINY = Path(__file__).parents[1] / "config/tiny.yaml"
PARAMS = (
    "Params have changed since last execution: Union of exclusive params before and now across all output: "
    "before: '{}' now: 'bbbbbbbbbbbb' "
)


@pytest.mark.parametrize(
    ("reason", "missing", "changed", "said"),
    [
        ("Missing output files: a", True, None, "missing output"),
        ("Input files updated by another job: a, b", True, None, "missing output"),
        ("Input files updated by another job: a, b", False, None, "input made anew"),
        ("Input files updated by another job: a", False, ["settings.optimizer.lr"], "changed: optimizer.lr"),
        ("Updated input files: b.jsonl, a.jsonl", False, None, "input changed: a.jsonl and 1 more"),
        (PARAMS, False, ["settings.seed", "version"], "changed: seed, version"),
        (PARAMS, False, ["built_on.tokenizer"], "built on tokenizer, changed since"),
        (PARAMS, False, None, "another recipe or version of zgcm than it was made with"),
        ("Forced execution", False, None, "forced"),
        ("Something new", False, None, "Something new"),
    ],
)
def test_words(reason: str, missing: bool, changed: list[str] | None, said: str) -> None:
    assert reasons.in_words(reason, missing, changed) == said


@pytest.fixture
def remembered(tmp_path: Path):
    """Two recipes that earlier runs left, and today's."""
    places = []
    for number, more in enumerate(({"seed": 1}, {"documents": 7}, {"documents": 8})):
        data = deep_merge(read_mapping(TINY), {"sources": {"demo_traces": more}})
        places.append(tmp_path / f"{number}.yaml")
        places[-1].write_text(yaml.safe_dump(data, sort_keys=False))
    (tmp_path / "old.yaml").write_text("no: recipe of today\n")
    return [load_recipe([path]) for path in places], tmp_path


def test_keys_that_changed_since_the_recipe_that_made_it(remembered, tmp_path: Path) -> None:
    (first, second, now), directory = remembered
    known = reasons.remembered_recipes(directory)
    assert len(known) == 3, "one that is no recipe any more is passed over"
    layout = Layout(tmp_path / "results")
    for then, expected in (
        (first, ["settings.documents", "settings.seed"]),
        (second, ["settings.documents"]),
    ):
        before = reasons.old_ids(PARAMS.format(recipe_id(then, "raw", "demo_traces")))
        assert reasons.changed_keys(now, "raw", "demo_traces", before, layout, known) == expected
    assert reasons.changed_keys(now, "raw", "demo_traces", {"0" * 12}, layout, known) is None


def test_of_a_stage_its_done_tells(remembered, tmp_path: Path) -> None:
    recipe, layout = load_recipe([TINY]), Layout(tmp_path / "results")
    then = basis(recipe, "train", "sft")
    then["settings"]["optimizer"]["lr"] = 1
    write_json(layout.done("sft"), {"basis": then})
    assert reasons.changed_keys(recipe, "train", "sft", set(), layout, []) == ["settings.optimizer.lr"]


def test_every_rule_has_its_step() -> None:
    recipe = load_recipe([TINY])
    for rule, wildcards, step in (
        ("contamination", {"source": "demo_code"}, ("decontaminate", "demo_code")),
        ("mix_sft", {}, ("mix", "sft")),
        ("gather", {"mix": "pretrain_1t"}, ("mix", "pretrain_1t")),
        ("rl_math", {"stage": "rl_math"}, ("rl", "rl_math")),
        ("export", {"stage": "sft"}, ("export", "sft")),
        ("report", {}, None),
    ):
        assert reasons.step_of(recipe, rule, wildcards) == step


def test_an_edited_profile_is_named(tmp_path: Path) -> None:
    """The recipe is the same then, so that no key tells."""
    profile, output = tmp_path / "mine.py", tmp_path / "summary.json"
    profile.write_text("def step(sample, settings): pass\nPROFILE = [step]\n")
    output.touch()
    os.utime(output, (1, 1))
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(yaml.safe_dump({"sources": {"demo_code": {"profile": str(profile)}}}))
    recipe = load_recipe([TINY, overlay])

    def edited(step: str, name: str) -> list[str]:
        return reasons.edited_profiles(recipe, step, name, [str(output)])

    assert edited("clean", "demo_code") == edited("mix", "pretrain_1t") == [str(profile)]
    assert edited("clean", "demo_prose") == edited("raw", "demo_code") == edited("mix", "sft") == []
    assert reasons.in_words(PARAMS, False, None, ["mine.py"]) == "changed: profile mine.py"
    assert reasons.in_words(PARAMS, False, ["settings.name"], ["mine.py"]) == "changed: name"
    os.utime(profile, (0, 0))
    assert edited("clean", "demo_code") == []


def jobs(*shards: int) -> list[Job]:
    return [
        Job("clean", f"Clean shard {shard:05d} of web", "missing output", {"shard": f"{shard:05d}"})
        for shard in shards
    ]


def test_shards_share_a_line() -> None:
    assert together(jobs(3)) == "Clean shard 00003 of web"
    assert together(jobs(0, 1, 2)) == "Clean shards 00000 to 00002 of web"
    assert together(jobs(0, 2, 4)) == "Clean 3 shards of 00000 to 00004 of web"


def test_totals_count_the_steps_to_train(tmp_path: Path) -> None:
    recipe = load_recipe([TINY])
    stages = ("pretrain_3p2t", "sft")
    trained = [Job("train", f"Train {stage}", "", {"stage": stage}) for stage in stages]
    said = totals([*jobs(0, 1), *trained], recipe, Layout(tmp_path))
    schedules = [recipe.train_stages()[stage].schedule for stage in ("pretrain_1t", "pretrain_3p2t")]
    own = int(schedules[1].train_iters or 0) - int(schedules[0].train_iters or 0)
    assert said[0].endswith(": 2 raw text and cleaning, 2 training and export")
    unknown = "sft, whose length its data will say; what that costs: zgcm plan"
    assert said[1] == f"To train: {own:,} steps in 1 stage, and {unknown}"
    alone = totals(trained[1:], recipe, Layout(tmp_path))
    assert alone[1] == f"To train: {unknown}"


def test_of_missing_files_those_are_named_that_the_jobs_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe([TINY.with_name("zgcm-7b.yaml")], TINY.parents[1])

    def named(*planned: Job) -> list[str]:
        said = totals(list(planned), recipe, Layout(tmp_path))
        return [line.split(": ")[1] for line in said if line.startswith("missing: ")]

    rl = Job("rl", "Train rl_math by reinforcement", "", {"stage": "rl_math"})
    prompts = ["stages.rl_math.prompts.train", "stages.rl_math.prompts.valid"]
    assert named(*jobs(0)) == []
    assert named(Job("tokenizer", "Make the tokenizer", "", {})) == ["tokenizer.path"]
    assert named(Job("train", "Train sft", "", {"stage": "sft"}), rl) == prompts
    assert named(Job("export", "Export rl_math", "", {"stage": "rl_math"})) == []
