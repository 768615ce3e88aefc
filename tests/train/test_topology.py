"""Another layout of the ranks inside a stage; restarts of a continued stage: weights, optimizer, counters.

Runs real trainers of one and two processes. The first layout trains 8 steps; the checkpoints after step 3 are
removed; another layout goes on from there and must give the losses of the first.
"""

import shutil

import pytest

from tests.train.commands import done, losses, run, run_directory
from tests.train.workspace import make, write_recipe

pytestmark = pytest.mark.long

SAVES = {"checkpoints": {"save_interval": 3, "keep_recent": 9}}
TWO = {"resources": {"processes_per_node": 2}}
LAYOUTS = {
    "one process": {},
    "two data-parallel": TWO,
    "two pipeline stages": {**TWO, "parallel": {"pipeline": 2}},
    "two context-parallel": {**TWO, "parallel": {"context": 2, "context_comm": "p2p"}},
}


def begin(root, **stages):
    changes = {"stages": {name: {**SAVES, **stage} for name, stage in stages.items()}}
    make(root / "results", **changes)
    write_recipe(root / "recipe.yaml", **changes)


def train(root, stage):
    code, errors = run(root, stage)
    assert code == 0, errors


def back_to(root, stage, iteration):
    """As if the run had been killed just after it saved `iteration`."""
    (root / "results" / stage / "done").unlink()
    for path in (run_directory(root, stage) / "checkpoints").glob("iter_*"):
        if int(path.name.removeprefix("iter_")) > iteration:
            shutil.rmtree(path)


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Stage one trained by two data-parallel ranks, stage two by one process."""
    root = tmp_path_factory.mktemp("pair")
    begin(root, one=TWO, two={})
    train(root, "one")
    train(root, "two")
    return root


@pytest.mark.parametrize("layout", ["one process", "two pipeline stages", "two context-parallel"])
def test_a_stage_goes_on_with_another_layout(pair, layout, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(pair, root, symlinks=True)
    before = losses(root, "one")
    back_to(root, "one", 3)
    begin(root, one=LAYOUTS[layout])
    train(root, "one")
    after = losses(root, "one")
    assert [record["consumed_samples"] for record in after] == [4 * step for step in range(1, 9)]
    # Context-parallel ranks add bf16 numbers in another order.
    tolerance = 2e-3 if layout == "two context-parallel" else 1e-6
    assert [record["loss"] for record in after] == pytest.approx(
        [record["loss"] for record in before], abs=tolerance
    )


def test_from_two_pipeline_stages_to_one_process(tmp_path):
    begin(tmp_path, one=LAYOUTS["two pipeline stages"])
    train(tmp_path, "one")
    before = losses(tmp_path, "one")
    back_to(tmp_path, "one", 3)
    begin(tmp_path, one={})
    train(tmp_path, "one")
    assert [record["loss"] for record in losses(tmp_path, "one")] == pytest.approx(
        [record["loss"] for record in before], abs=1e-6
    )


def test_a_continued_stage_restarts_as_often_as_it_must(pair, tmp_path):
    """The original's second stage loads from the first one's directory at every start."""
    root = tmp_path / "copy"
    shutil.copytree(pair, root, symlinks=True)
    finished, before = done(root, "two"), losses(root, "two")
    assert [record["consumed_samples"] for record in before] == [4 * step for step in range(9, 15)]
    for iteration in (9, 12):
        back_to(root, "two", iteration)
        train(root, "two")
        assert done(root, "two") == finished
        assert losses(root, "two") == before


def test_tensor_parallel_size_may_change_between_stages(pair, tmp_path):
    """Inside a stage it is identity. A stage that continues another reshards its optimizer, too."""
    root = tmp_path / "copy"
    shutil.copytree(pair, root, symlinks=True)
    one_rank = losses(root, "two")
    shutil.rmtree(root / "results" / "two")
    begin(root, one=TWO, two={**TWO, "parallel": {"tensor": 2}})
    train(root, "two")
    two_ranks = losses(root, "two")
    assert two_ranks[0]["loss"] == pytest.approx(one_rank[0]["loss"], abs=2e-3)  # the same weights
    # Block-wise Muon then takes other steps.
    assert two_ranks[-1]["loss"] == pytest.approx(one_rank[-1]["loss"], abs=5e-2)
