"""Every kind of stage, one after another, as the recipe chains them; and the same bytes elsewhere."""

import json

import pytest

from tests.train.commands import done, losses, run, run_directory
from tests.train.workspace import make, write_recipe

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    root = tmp_path_factory.mktemp("chain")
    make(root / "results")
    write_recipe(root / "recipe.yaml")
    for stage in ("one", "two", "mid", "tuned"):
        code, errors = run(root, stage)
        assert code == 0, errors
    return root


def read(chain, stage):
    return json.loads(done(chain, stage))


def test_iterations_and_samples(chain):
    wanted = ("iteration", "consumed_samples", "consumed_tokens")
    facts = {stage: [read(chain, stage)[key] for key in wanted] for stage in ("one", "two", "mid", "tuned")}
    assert facts["one"] == [8, 32, 1024]
    assert facts["two"] == [14, 56, 1792]  # counts on from stage one
    assert facts["mid"] == [6, 24, 768]  # begins at 0
    assert facts["tuned"][1:] == [facts["tuned"][0] * 2, facts["tuned"][0] * 2 * 64]


def test_every_iteration_is_logged(chain):
    assert [record["iteration"] for record in losses(chain, "two")] == list(range(9, 15))
    rates = [record["learning_rate"] for record in losses(chain, "mid")]
    assert rates[-1] == pytest.approx(0.0005)
    assert losses(chain, "tuned")[-1]["loss"] < losses(chain, "tuned")[0]["loss"] - 0.2
    assert list((run_directory(chain, "one") / "tensorboard").glob("events.*"))


def test_stages_build_on_one_another(chain):
    for stage, init in (("two", "one"), ("mid", "two"), ("tuned", "mid")):
        digest = read(chain, stage)["inputs"][f"weights of {init}"]
        assert digest == read(chain, init)["weights_digest"]


def test_the_checkpoint_names_every_layer(chain):
    from torch.distributed.checkpoint import FileSystemReader

    path = chain / "results" / read(chain, "one")["checkpoint"]
    keys = FileSystemReader(str(path)).read_metadata().state_dict_metadata
    assert keys["decoder.layers.0.self_attention.linear_qkv.weight"].size == (192, 32)
    assert keys["decoder.layers.1.self_attention.linear_qkv.weight"].size == (128, 32)


def test_finished_stages_are_not_trained_again(chain):
    before = done(chain, "one")
    (chain / "results" / "one" / "done").unlink()
    assert run(chain, "one")[0] == 0
    assert done(chain, "one") == before
    attempts = json.loads((run_directory(chain, "one") / "run.json").read_text())["attempts"]
    assert len(attempts) == 1


def test_two_processes_give_the_same_losses(chain, tmp_path):
    """Data parallel by torch.distributed.run; nodes and processes are no part of a run's identity."""
    changes = {"stages": {"one": {"resources": {"processes_per_node": 2}}}}
    make(tmp_path / "results", **changes)
    write_recipe(tmp_path / "recipe.yaml", **changes)
    code, errors = run(tmp_path, "one")
    assert code == 0, errors
    assert read(tmp_path, "one")["run_id"] == read(chain, "one")["run_id"]
    pairs = zip(losses(tmp_path, "one"), losses(chain, "one"), strict=True)
    assert all(ours["loss"] == pytest.approx(theirs["loss"], abs=2e-3) for ours, theirs in pairs)
