"""Which other layouts are tried, and how two checkpoints are compared."""

import warnings
from pathlib import Path

import pytest
import torch

from tests.preflight.conftest import recipe
from zgcm.config.recipe import Recipe
from zgcm.preflight.reshard import compare, difference_words, other_layouts
from zgcm.preflight.trial import trial_stage


def test_one_cpu_process_gets_a_second_one() -> None:
    small = recipe()
    found = other_layouts(trial_stage(small.train_stages()["one"], 2), small.model)
    assert [change["parallel"] for change in found] == [
        {"tensor": 2, "pipeline": 1, "context": 1},
        {"tensor": 1, "pipeline": 2, "context": 1},
    ]
    assert {change["resources"]["processes_per_node"] for change in found} == {2}


def test_layers_that_do_not_divide_have_no_pipeline() -> None:
    odd = recipe(model={"num_layers": 3})
    found = other_layouts(trial_stage(odd.train_stages()["one"], 2), odd.model)
    assert [change["parallel"]["pipeline"] for change in found] == [1]


@pytest.mark.parametrize("name", ["pretrain_1t", "midtrain_256k", "sft"])
def test_published_stages_change_tp_and_pp_within_a_node(name: str, published: Recipe) -> None:
    trial = trial_stage(published.train_stages()[name], 2)
    found = other_layouts(trial, published.model)
    assert found
    for change in found:
        sizes = change["parallel"]
        assert 8 % (sizes["tensor"] * sizes["pipeline"] * sizes["context"]) == 0
        assert (sizes["tensor"], sizes["pipeline"]) != (trial.parallel.tensor, trial.parallel.pipeline)


def save(path: Path, **tensors: torch.Tensor) -> Path:
    state = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    with warnings.catch_warnings(action="ignore"):
        torch.distributed.checkpoint.save(state, checkpoint_id=path, no_dist=True)
    return path


def test_equal_checkpoints(tmp_path: Path) -> None:
    weight = torch.arange(6.0).view(2, 3)
    found = compare(save(tmp_path / "a", weight=weight), save(tmp_path / "b", weight=weight))
    assert (found.tensors, found.bytes, found.different, found.missing) == (1, 24, [], [])


def test_one_bit_is_a_difference(tmp_path: Path) -> None:
    weight = torch.ones(2, 3)
    other = weight.clone()
    other[1, 2] = torch.nextafter(other[1, 2], torch.tensor(2.0))
    found = compare(save(tmp_path / "a", weight=weight), save(tmp_path / "b", weight=other))
    assert found.different == ["weight"]
    assert difference_words(found) == "1 of 1 tensors differ, first weight"


def test_another_shape_is_a_difference_but_for_padded_vocabularies(tmp_path: Path) -> None:
    one = save(tmp_path / "a", weight=torch.ones(4, 2), output_layer__weight=torch.ones(4, 2))
    other = save(tmp_path / "b", weight=torch.ones(8, 2), output_layer__weight=torch.ones(8, 2))
    assert compare(one, other).different == ["weight"]


def test_a_tensor_that_is_gone(tmp_path: Path) -> None:
    one = save(tmp_path / "a", weight=torch.ones(1), momentum=torch.ones(1))
    found = compare(one, save(tmp_path / "b", weight=torch.ones(1)))
    assert found.missing == ["momentum"]
    assert "1 tensors are in one checkpoint only, first momentum" in difference_words(found)
