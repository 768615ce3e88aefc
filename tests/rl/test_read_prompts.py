"""A stage's prompts as their files give them: how many there must be, which repeat an evaluation prompt."""

import json
from pathlib import Path

import pytest
from bandit import prompt_rows
from measuring import recipe_of

from zgcm.errors import ZgcmError
from zgcm.rl.prepare import read_prompts
from zgcm.tokens.tokenizer import read_tokenizer


@pytest.mark.parametrize(("split", "count"), [("train", 40), ("valid", 6)])
def test_another_number_of_rows_than_the_recipe_expects_is_refused(
    root: Path, split: str, count: int
) -> None:
    stage = recipe_of(root).rl_stages()["rl_math"]
    export = root / "results/export/sft"

    def read(expected: int) -> None:
        section = stage.prompts.model_copy(update={f"expected_{split}_rows": expected})
        read_prompts("rl_math", stage.model_copy(update={"prompts": section}), export, read_tokenizer(export))

    read(count)
    with pytest.raises(ZgcmError, match="Wrong number of prompts") as caught:
        read(count + 1)
    assert (caught.value.where, caught.value.found) == (f"{root}/{split}.jsonl", str(count))


def test_training_prompts_that_repeat_evaluation_prompts_can_be_dropped(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = recipe_of(root)
    rows = prompt_rows("train", 20)
    rows[3]["messages"] = prompt_rows("valid", 1)[0]["messages"]
    (root / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stage = recipe.rl_stages()["rl_math"]
    export = root / "results/export/sft"
    tokenizer = read_tokenizer(export)
    with pytest.raises(ZgcmError, match="evaluation prompt") as caught:
        read_prompts("rl_math", stage, export, tokenizer)
    assert f"{root}/valid.jsonl:1" in caught.value.where and f"{root}/train.jsonl:4" in caught.value.found
    dropping = stage.model_copy(update={"prompts": stage.prompts.model_copy(update={"overlap": "drop"})})
    train, valid = read_prompts("rl_math", dropping, export, tokenizer)
    assert len(train) == 19 and len(valid) == 6
    assert "1 training prompt of 20 left out" in capsys.readouterr().err
