"""The 7B model as megatron-core builds it: its parameters, and what ranks hold in every parallel layout."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from zgcm.config.load import load_recipe
from zgcm.config.plan import parameters
from zgcm.config.stages import TrainStage

CHECKOUT = Path(__file__).parents[2]
BIG = load_recipe([CHECKOUT / "config/zgcm-7b.yaml"])

OTHER_LAYOUTS = [(2, 1, 1), (4, 1, 1), (8, 1, 1), (1, 2, 1), (2, 4, 2), (4, 8, 1), (8, 2, 1), (1, 32, 1)]
GLOBAL_LAYERS = [6, 12, 18, 24, 30]
ROWS, COLUMNS = 0, 1
SPLIT = {
    **{"linear_qkv": ROWS, "linear_fc1": ROWS, "word_embeddings": ROWS, "output_layer": ROWS},
    **{"linear_proj": COLUMNS, "linear_fc2": COLUMNS},
}
"""The dimension that tensor-parallel ranks share; all other parameters are whole on each."""


def published_layouts() -> list[str]:
    found = []
    for name in BIG.train_stages():
        stage = BIG.stages[name]
        assert isinstance(stage, TrainStage)
        parallel = stage.parallel
        found.append(f"{name}:{parallel.tensor},{parallel.pipeline},{parallel.context}")
    return found


WHOLE = "pretrain_1t:1,1,1"
LAYOUTS = list(
    dict.fromkeys([*published_layouts(), *(f"sft:{tp},{pp},{cp}" for tp, pp, cp in OTHER_LAYOUTS)])
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, list[int]]]]:
    """Layout -> parameters of rank 0 of every pipeline stage."""
    answer = tmp_path_factory.mktemp("layouts") / "answer.jsonl"
    command = [sys.executable, "-m", "tests.model.layouts_process", str(answer), WHOLE, *LAYOUTS]
    ran = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    lines = map(json.loads, answer.read_text().splitlines())
    return dict(zip([WHOLE, *LAYOUTS], lines, strict=True))


def split_dimension(name: str) -> int | None:
    return next((dimension for part, dimension in SPLIT.items() if part in name), None)


def size(shapes: dict[str, list[int]], *parts: str) -> int:
    return sum(math.prod(shape) for name, shape in shapes.items() if any(part in name for part in parts))


def test_seven_billion_parameters_of_which_muon_has_the_matrices(built) -> None:
    (shapes,) = built[WHOLE]
    assert size(shapes, "") == 7_392_735_232
    matrices = {name: shape for name, shape in shapes.items() if len(shape) == 2 and "decoder" in name}
    assert size(matrices, "") == 6_123_683_840  # Muon's; Adam has the embedding, the head and the norms
    assert size(shapes, "") - size(matrices, "") == 1_269_051_392
    assert size(shapes, "embedding") == size(shapes, "output_layer") == 634_388_480
    assert shapes["decoder.final_layernorm.weight"] == [4096]
    counted = parameters(BIG.model, BIG.tokenizer.vocab_size)
    assert (counted.matrices, counted.others) == (6_123_683_840, 1_269_051_392)


def test_each_layer_has_its_published_parts(built) -> None:
    (shapes,) = built[WHOLE]
    for number in range(1, 33):
        prefix = f"decoder.layers.{number - 1}."
        layer = {name: shape for name, shape in shapes.items() if name.startswith(prefix)}
        assert size(layer, "linear_fc1", "linear_fc2") == 135_266_304
        assert size(layer, "linear_proj") == 16_777_216
        assert size(layer, "layernorm") == 8_448
        gated = number not in GLOBAL_LAYERS
        assert size(layer, "linear_qkv") == (41_943_040 if gated else 25_165_824), number


@pytest.mark.parametrize("layout", LAYOUTS)
def test_ranks_hold_the_whole_model_together(built, layout: str) -> None:
    tensor = int(layout.partition(":")[2].split(",")[0])
    (whole,) = built[WHOLE]
    holders = Counter(name for shapes in built[layout] for name in shapes)
    assert set(holders) == set(whole) and set(holders.values()) == {1}, "each in one pipeline stage"
    for name, shape in {name: shape for shapes in built[layout] for name, shape in shapes.items()}.items():
        dimension, expected = split_dimension(name), list(whole[name])
        if dimension is not None:
            expected[dimension] //= tensor
        if "word_embeddings" in name or "output_layer" in name:  # rows padded to 128 for each rank
            expected[ROWS] = math.ceil(whole[name][ROWS] / (128 * tensor)) * 128
        assert shape == expected, name
