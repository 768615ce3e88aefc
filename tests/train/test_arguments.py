"""From recipe to megatron-core's command line: what the 7B stages pass, and SFT's derived iterations."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.train.workspace import RECIPE, write_recipe
from zgcm.config.load import load_recipe, validate_recipe
from zgcm.config.recipe import deep_merge
from zgcm.errors import ZgcmError
from zgcm.io import write_json
from zgcm.layout import Layout
from zgcm.train.arguments import load_argv, megatron_argv, packed_metadata, plan, train_stage

CHECKOUT = Path(__file__).parents[2]


NOTHING_MADE = Layout(Path("no results yet"))
"""Not `results`: what a run left in the checkout would be read."""


@pytest.fixture(scope="module")
def big():
    return load_recipe([CHECKOUT / "config" / "zgcm-7b.yaml"])


def options(recipe, stage, layout=None):
    """Option -> its value, or True for a switch."""
    layout = layout or NOTHING_MADE
    found = {}
    for line in megatron_argv(recipe, layout, stage, Path("run"), plan(recipe, layout, stage)):
        for part in line:
            if part.startswith("--"):
                found[part], last = True, part
            else:
                found[last] = part
    return found


@pytest.mark.parametrize(
    ("stage", "expected"),
    [
        (
            "pretrain_1t",
            {
                **{"--train-iters": "79473", "--lr-warmup-iters": "667", "--lr-decay-style": "constant"},
                **{"--global-batch-size": "768", "--micro-batch-size": "2", "--seq-length": "16384"},
                **{"--window-size": "127,0", "--window-attn-skip-freq": "6", "--rotary-base": "5000000"},
                **{"--tensor-model-parallel-size": "2", "--context-parallel-size": "2"},
                **{"--sequence-parallel": True, "--cp-comm-type": "a2a", "--bf16": True},
                **{"--fp8-format": "hybrid", "--fp8-recipe": "delayed", "--fp8-amax-history-len": "1024"},
                **{"--fp8-param-gather": True, "--use-distributed-optimizer": True},
                **{"--overlap-grad-reduce": True, "--cross-entropy-loss-fusion": True},
                **{"--muon-tp-mode": "blockwise", "--optimizer": "muon", "--calculate-per-token-loss": True},
                **{"--transformer-impl": "transformer_engine", "--tokenizer-type": "HuggingFaceTokenizer"},
                **{"--no-create-attention-mask-in-dataloader": True, "--no-rope-fusion": True},
                **{"--ckpt-format": "torch_dist", "--rerun-mode": "disabled", "--log-throughput": True},
                **{"--distributed-timeout-minutes": "120", "--dataloader-type": "single"},
            },
        ),
        ("pretrain_3p2t", {"--train-iters": "333787", "--override-opt-param-scheduler": True}),
        (
            "midtrain_256k",
            {
                **{"--train-samples": "688560", "--lr-warmup-samples": "6864", "--rotary-base": "10000000"},
                **{"--pipeline-model-parallel-size": "2", "--cross-entropy-fusion-impl": "te"},
                **{"--recompute-granularity": "full", "--recompute-num-layers": "1", "--split": "9999,1,0"},
            },
        ),
        (
            "sft",
            {
                **{"--train-iters": "15467", "--save-interval": "1546", "--lr-decay-iters": "15467"},
                **{"--dataloader-type": "cyclic", "--overlap-param-gather": True, "--tp-comm-overlap": True},
                **{"--tensor-model-parallel-size": "8", "--weight-decay": "0.01", "--lr": "0.0001"},
                **{"--no-gradient-accumulation-fusion": True, "--ckpt-fully-parallel-load": True},
            },
        ),
    ],
)
def test_the_published_settings(big, stage, expected):
    found = options(big, stage)
    assert {key: found.get(key) for key in expected} == expected


def test_no_switch_is_passed_that_the_stage_lacks(big):
    assert "--cross-entropy-loss-fusion" not in options(big, "sft")
    assert "--overlap-param-gather" not in options(big, "pretrain_1t")
    assert "--override-opt-param-scheduler" not in options(big, "pretrain_1t")
    assert "--distributed-backend" not in options(big, "pretrain_1t")


@pytest.fixture
def packed(tmp_path):
    def make(tokens, records=100, **stage):
        layout = Layout(tmp_path)
        write_json(layout.dataset("packed"), {"train_tokens": tokens, "train_records": records})
        changes = {"stages": {"tuned": stage}}
        return validate_recipe(deep_merge(RECIPE, changes), where="test"), layout

    return make


def test_iterations_follow_the_packed_tokens(packed):
    """seq 64 x batch 2 = 128 tokens: floor(40,000 x 3 / 128) = 937, an epoch 312."""
    recipe, layout = packed(40_000, schedule={"epochs": 3}, checkpoints={"save_interval": None})
    length = plan(recipe, layout, "tuned")
    assert (length.iterations, length.save_interval) == (937, 312)


def test_too_little_packed_data_is_refused(packed):
    recipe, layout = packed(1000)
    with pytest.raises(ZgcmError, match=r"1000 tokens = 0.8960 epochs in 7 iterations"):
        plan(recipe, layout, "tuned")


@pytest.mark.parametrize(
    ("guard", "message"), [("expected_train_tokens", "train_tokens"), ("expected_train_records", "train_rec")]
)
def test_identity_guards(packed, guard, message):
    recipe, layout = packed(40_000, records=100, **{guard: 41_000})
    with pytest.raises(ZgcmError, match=message):
        packed_metadata(train_stage(recipe, "tuned"), layout, "tuned")


def test_a_stage_that_is_none(big):
    with pytest.raises(ZgcmError, match="found: rl"):
        train_stage(big, "rl_math")
    with pytest.raises(ZgcmError, match="no such stage"):
        train_stage(big, "pretrain")


def test_print_argv_needs_nothing(tmp_path):
    recipe = write_recipe(tmp_path / "recipe.yaml")
    command = [sys.executable, "-m", "zgcm.cli", "train", "one", "--print-argv", "--json", "-r", str(recipe)]
    answer = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "--num-layers" in json.loads(answer.stdout)["argv"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recipe.yaml"]


def test_megatron_accepts_every_option(big):
    """Spelled as megatron-core 0.19.2 spells them."""
    from tests.train.engine import one_process_engine

    one_process_engine()
    import argparse

    from megatron.training.arguments import add_megatron_arguments

    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    add_megatron_arguments(parser)
    for stage in big.train_stages():
        layout = NOTHING_MADE
        lines = megatron_argv(big, layout, stage, Path("run"), plan(big, layout, stage))
        args = parser.parse_args([part for line in lines for part in line])
        assert args.window_size == (127, 0)


@pytest.mark.parametrize(
    ("stage", "first"),
    [
        ("one", ["--load", "run/checkpoints"]),
        ("two", ["--load", "run/initial"]),
        ("mid", ["--load", "run/checkpoints", "--pretrained-checkpoint", "run/initial"]),
    ],
)
def test_a_stage_loads_from_elsewhere_only_until_it_has_saved(stage, first):
    """The original's second stage loads from the first at every start, so it can never be restarted."""
    settings = validate_recipe(RECIPE, where="test").train_stages()[stage]
    assert load_argv(settings, Path("run")) == first
    assert load_argv(settings, Path("run"), resuming=True) == ["--load", "run/checkpoints"]


def test_distributed_adam_saves_what_another_layout_can_load():
    def passed(**optimizer):
        changes = {"stages": {"one": {"optimizer": {"lr": 0.01, **optimizer}}}}
        return "--dist-ckpt-optim-fully-reshardable" in options(
            validate_recipe(deep_merge(RECIPE, changes), where="test"), "one"
        )

    assert passed(kind="adam")
    assert not passed(kind="adam", distributed=False)
    assert not passed(kind="muon")  # its layer-wise optimizer saves whole tensors by their names
