"""The engine's arguments of the 7B recipe: equal to the golden files, and every value a published one."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.train.published_options import GROUPS, TRACES, Derived, Ours, Switch, Value, trace
from zgcm.config.load import load_recipe
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.train import printed

HERE = Path(__file__).parent
CONFIG = HERE.parent / "config"
PUBLISHED = json.loads((CONFIG / "published.json").read_text())
DIFFERENCES = yaml.safe_load((CONFIG / "differences.yaml").read_text())["values"]
ABSENT = object()


@pytest.fixture(scope="module")
def big():
    return load_recipe([HERE.parents[1] / "config" / "zgcm-7b.yaml"])


def golden(stage: str) -> list[str]:
    return (HERE / "golden" / f"{stage}.argv").read_text().splitlines()


def options(stage: str) -> dict[str, str | bool]:
    lines = [shlex.split(line) for line in golden(stage) if not line.startswith("#")]
    return {line[0]: line[1] if len(line) > 1 else True for line in lines}


def published(stage: str, variables: tuple[str, ...]) -> Any:
    """The value of the first variable that the stage's groups have, or ABSENT."""
    for group in GROUPS[stage]:
        for variable in variables:
            if variable in PUBLISHED[group]:
                return difference(group, variable, PUBLISHED[group][variable])
    return ABSENT


def difference(group: str, variable: str, found: Any) -> Any:
    """Ours where tests/config/differences.yaml declares that the recipe departs on purpose."""
    for item in DIFFERENCES:
        if item["variable"] == variable and group in item["stages"]:
            return item["ours"]
    return found


def same(ours: str | bool, theirs: Any) -> bool:
    """As numbers where both are: 2e-05 is 2.0e-5."""
    try:
        return float(ours) == float(theirs)
    except ValueError:
        return ours == theirs


def mistakes(stage: str, found: dict[str, str | bool]) -> list[str]:
    """Every option whose value is not the published one, a line each."""
    wrong = []
    for option, ours in found.items():
        source = trace(stage, option)
        if isinstance(source, Ours):
            continue
        if isinstance(source, Switch):
            theirs = published(stage, source.variables)
            if theirs is ABSENT or not source.on(theirs):
                wrong.append(f"{option} is there, but published {source.variables} {theirs!r}")
            continue
        theirs = PUBLISHED["derived"][stage][source.key] if isinstance(source, Derived) else ABSENT
        if isinstance(source, Value) and (theirs := published(stage, source.variables)) is not ABSENT:
            theirs = source.convert(theirs)
        if theirs is ABSENT or not same(ours, theirs):
            wrong.append(f"{option} {ours}, published {theirs!r}")
    return wrong


def missing(stage: str, found: dict[str, str | bool]) -> list[str]:
    """Options that the published variables ask for and that are not passed."""
    asked = []
    for option in TRACES:
        source = trace(stage, option)
        if option in found or not isinstance(source, Value | Switch):
            continue
        theirs = published(stage, source.variables)
        if theirs in (ABSENT, "", None) or (isinstance(source, Switch) and not source.on(theirs)):
            continue
        asked.append(option)
    return asked


@pytest.mark.parametrize("stage", GROUPS)
def test_golden_file(big, stage, tmp_path, monkeypatch):
    """Meant? Write the files anew as tests/train/golden/README.md says."""
    monkeypatch.chdir(tmp_path)  # without results
    assert printed.text(big, Layout(), stage) == golden(stage)


def test_results_of_another_recipe_tell_nothing(big, tmp_path):
    layout = Layout(tmp_path)
    write_json(layout.dataset("sft"), {"train_tokens": 5, "train_records": 1})
    write_json(layout.stamp, {"name": "tiny"})
    assert any("expected_train_tokens" in line for line in printed.assumed(big, layout, "sft"))
    assert "15467" in printed.argv(big, layout, "sft")


def test_the_six_stages_have_golden_files(big):
    files = {path.stem for path in (HERE / "golden").glob("*.argv")}
    assert files == set(GROUPS) == set(big.train_stages())


@pytest.mark.parametrize("stage", GROUPS)
def test_every_value_is_the_published_one(stage):
    assert mistakes(stage, options(stage)) == []


@pytest.mark.parametrize("stage", GROUPS)
def test_no_published_option_is_missing(stage):
    assert missing(stage, options(stage)) == []


def test_every_option_is_traced_and_every_trace_is_used():
    passed = {option for stage in GROUPS for option in options(stage)}
    assert passed <= TRACES.keys()
    assert TRACES.keys() - passed == {"--attention-output-gate"}  # of gates on all layers
    assert all(len(found.reason) > 30 for found in TRACES.values() if isinstance(found, Ours))


def test_the_comparison_notices_a_change():
    found = {**options("midtrain_64k"), "--lr": "3e-05", "--bf16": True, "--overlap-param-gather": True}
    assert len(mistakes("midtrain_64k", found)) == 2
    del found["--bf16"]
    assert missing("midtrain_64k", found) == ["--bf16"]


@pytest.mark.parametrize("stage", GROUPS)
def test_what_is_assumed_is_marked(big, stage):
    head = [line for line in golden(stage) if line.startswith("# assumed: ")]
    assumed = [mix for mix in big.train_stages()[stage].mix if big.mixes[mix].assumed]
    assert [line for line in head if "mix" in line] == [
        f"# assumed: the weights of mix {mix} were never published" for mix in assumed
    ]
    assert any("expected_train_tokens = 19462049882" in line for line in head) == (stage == "sft")


def test_what_megatron_has_no_option_for_stands_beside(big):
    facts = printed.beside(big, "pretrain_3p2t")
    second = PUBLISHED["pretrain_s2"]
    assert facts["first sample"] == second["MEGATRON_DATASET_SAMPLE_OFFSET"]
    assert facts["batches read ahead by a worker"] == second["MEGATRON_DATALOADER_PREFETCH_FACTOR"]
    assert (second["NO_DATA_SHUFFLE"], facts["data order"]) == (1, "sequential")
    assert (second["ATTENTION_OUTPUT_GATE_ONLY_SWA"], facts["attention output gate"]) == (1, "window")
    blend = PUBLISHED["derived"]["midtrain_blend"]
    assert printed.beside(big, "midtrain_16k")["data"] == (
        f"midtrain_mix64 ({blend['long_shards']} shards of weight {blend['long_weight']}), "
        f"midtrain_mix16 ({blend['short_shards']} shards of weight {blend['short_weight']})"
    )
