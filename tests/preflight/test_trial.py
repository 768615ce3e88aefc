"""A stage made small enough for one node, and what it prints when it breaks."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from tests.preflight.conftest import recipe
from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.preflight.text import EOD, write_text
from zgcm.preflight.trial import error_line, single_node, trial_option, trial_stage
from zgcm.tokens.indexed import open_indexed

PUBLISHED = ["pretrain_1t", "pretrain_3p2t", "midtrain_16k", "midtrain_64k", "midtrain_256k", "sft"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_stage_fits_a_node(name: str, published: Recipe) -> None:
    stage = published.train_stages()[name]
    trial = trial_stage(stage, 20)
    sizes = trial.parallel
    assert trial.resources.nodes == 1
    assert trial.resources.world_size % (sizes.tensor * sizes.pipeline * sizes.context) == 0
    assert sizes.tensor == stage.parallel.tensor, "block-wise Muon depends on it"
    # A rank holds as many tokens as in the stage itself.
    assert trial.seq_length / sizes.context == stage.seq_length / stage.parallel.context
    assert (trial.fp8, trial.engine, trial.recompute) == (stage.fp8, stage.engine, stage.recompute)
    assert trial.schedule.train_iters == 20


def test_context_shrinks_before_pipeline(published: Recipe) -> None:
    stage = published.train_stages()["midtrain_256k"]  # TP2 PP2 CP4: two nodes
    assert single_node(stage)["parallel"] == {"context": 2, "pipeline": 2}
    assert single_node(stage)["seq_length"] == stage.seq_length // 2


def test_a_node_smaller_than_a_tensor_parallel_group_is_an_error() -> None:
    stage = recipe(stages={"one": {"parallel": {"tensor": 2}, "resources": {"nodes": 2}}}).train_stages()[
        "one"
    ]
    with pytest.raises(ZgcmError, match="whole tensor-parallel group"):
        single_node(stage)


def test_changes_win_over_the_stage() -> None:
    stage = recipe().train_stages()["tuned"]
    trial = trial_stage(stage, 20, bf16=False, optimizer={"distributed": False})
    assert (trial.kind, trial.bf16, trial.optimizer.distributed) == ("pretrain", False, False)
    assert trial.optimizer.lr == stage.optimizer.lr


def test_a_trial_reads_no_tokenizer_and_saves_only_if_asked_to() -> None:
    assert (
        trial_option(["--tokenizer-type", "HuggingFaceTokenizer", "--x"], False, None)[1] == "NullTokenizer"
    )
    assert trial_option(["--save", "a", "--save-interval", "5"], False, None) == []
    assert trial_option(["--save", "a"], True, None) == ["--save", "a"]
    assert trial_option(["--dataloader-type", "single"], True, Path("x"))[1] == "external"


def test_made_up_text_is_the_same_every_time_and_can_be_learned(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_text(tmp_path / name, 250, 5000)
    assert (tmp_path / "a.bin").read_bytes() == (tmp_path / "b.bin").read_bytes()
    text = open_indexed(tmp_path / "a")
    tokens = np.concatenate([text.document(row) for row in range(len(text))])
    assert len(tokens) >= 5000 and tokens.max() < 250
    assert text.document(0)[-1] == EOD
    pairs = {(int(a), int(b)) for a, b in itertools.pairwise(tokens) if a != EOD and b != EOD}
    assert len(pairs) <= 4 * 249, "each word has four successors"


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ("start\n[rank1]: Traceback\n[rank1]: ValueError: bad\nexitcode : 1\n", "ValueError: bad"),
        (
            "x\ntorch.distributed.DistNetworkError: no port\nbye\n",
            "torch.distributed.DistNetworkError: no port",
        ),
        ("zgcm: Training stopped.\nlast\n", "zgcm: Training stopped."),
        ("only this\n\n", "only this"),
        ("", "it printed nothing"),
    ],
)
def test_the_line_that_matters_of_a_log(log: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(log)
    assert error_line(tmp_path / "log") == expected
