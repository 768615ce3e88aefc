"""Token files of others as a mix: what is whole is linked, what is not is refused with the reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zgcm.config.recipe import Recipe
from zgcm.errors import ZgcmError
from zgcm.io import read_json
from zgcm.layout import PACKED_PARTS, Layout
from zgcm.tokens.adopt import adopt_tokens
from zgcm.tokens.indexed import open_indexed, write_indexed
from zgcm.tokens.pack import summarize
from zgcm.tokens.tokenizer import tokenizer_facts


def adopting(recipe: Recipe, **mix: Any) -> Recipe:
    """The recipe with one more mix, `mine`."""
    from zgcm.config.corpus import Mix

    return recipe.model_copy(update={"mixes": {**recipe.mixes, "mine": Mix.model_validate(mix)}})


def write(prefix: Path, items: list[list[int]], dtype: Any = np.uint16) -> Path:
    with write_indexed(prefix, np.dtype(dtype)) as (writer, _):
        for item in items:
            writer.append(np.array(item, np.int64), np.array([len(item)]))
    return prefix


@pytest.fixture
def made(workspace: tuple[Recipe, Layout]) -> tuple[Recipe, Layout, int]:
    recipe, layout = workspace
    return recipe, layout, tokenizer_facts(layout.tokenizer)["end_id"]


def test_documents_are_linked_and_described_as_if_gathered(
    made: tuple[Recipe, Layout, int], tmp_path: Path
) -> None:
    recipe, layout, end = made
    prefix = write(tmp_path / "mine", [[1, 2, 3, end], [4, end]])
    facts = adopt_tokens(adopting(recipe, prefixes=[str(prefix)]), layout, "mine", "00000")
    assert (facts["documents"], facts["tokens"], facts["dtype"]) == (2, 6, "uint16")
    assert facts == read_json(layout.mix("mine") / "00000.json")
    link = layout.mix_prefix("mine", "00000")
    assert link.with_name(link.name + ".bin").is_symlink()
    assert open_indexed(link).document(1).tolist() == [4, end]
    again = adopt_tokens(adopting(recipe, prefixes=[str(prefix)]), layout, "mine", "00000")
    assert again == facts
    assert open_indexed(prefix).document(0).tolist() == [1, 2, 3, end]  # the files themselves are untouched


def test_documents_without_an_end_are_told(
    made: tuple[Recipe, Layout, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, layout, end = made
    prefix = write(tmp_path / "mine", [[1, 2, 3], [4, end]])
    facts = adopt_tokens(adopting(recipe, prefixes=[str(prefix)]), layout, "mine", "00000")
    assert facts["documents_with_end_token"] == 0.5
    assert "50.0% of the documents" in capsys.readouterr().err


def cut(prefix: Path) -> None:
    path = prefix.with_name(prefix.name + ".bin")
    path.write_bytes(path.read_bytes()[:-2])


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (cut, r"the \.bin has 10 bytes, the \.idx describes 12"),
        (lambda prefix: prefix.with_name("mine.idx").unlink(), "are not there.*mine.idx"),
        (lambda prefix: prefix.with_name("mine.bin").unlink(), r"there is no \.bin"),
        (lambda prefix: write(prefix, [[1, 400]]), "id 400 is beyond the tokenizer's 400"),
        (lambda prefix: write(prefix, []), "it holds no token"),
        (lambda prefix: write(prefix, [[1, -2]], np.int32), "its smallest id is -2"),
    ],
)
def test_damaged_or_foreign_files_are_refused(
    made: tuple[Recipe, Layout, int], tmp_path: Path, spoil: Callable[[Path], Any], said: str
) -> None:
    recipe, layout, end = made
    prefix = write(tmp_path / "mine", [[1, 2, 3, end], [4, end]])
    adopt_tokens(adopting(recipe, prefixes=[str(prefix)]), layout, "mine", "00000")
    spoil(prefix)
    with pytest.raises(ZgcmError, match=f"(?s){said}"):
        adopt_tokens(adopting(recipe, prefixes=[str(prefix)]), layout, "mine", "00000")
    assert not (layout.mix("mine") / "00000.json").exists()


GOOD = {
    "tokens": [[1, 2, 3, 9], [4, 5]],
    "targets": [[-100, 2, 3, 9], [-100, 5]],
    "cu_seqlens": [[0, 2, 4], [0, 2]],
}


def write_packed(prefix: Path, **changes: list[list[int]]) -> Path:
    for part, items in {**GOOD, **changes}.items():
        write(prefix.with_name(f"{prefix.name}_{part}"), items, np.int32)
    return prefix


def test_packed_shards_give_the_same_dataset_as_ours(
    made: tuple[Recipe, Layout, int], tmp_path: Path
) -> None:
    recipe, layout, _ = made
    prefix = write_packed(tmp_path / "mine")
    whole = adopting(recipe, kind="packed", sequence_length=4, prefixes=[str(prefix)])
    facts = adopt_tokens(whole, layout, "mine", "00000")
    assert (facts["sequences"], facts["conversations"], facts["tokens"]) == (2, 3, 6)
    assert facts["learned_tokens"] == 4
    dataset = summarize(whole, layout, "mine")
    assert (dataset["train_records"], dataset["train_tokens"], dataset["padding_fraction"]) == (2, 6, 0.25)
    for part in PACKED_PARTS:
        link = layout.packed_prefix("mine", "00000").with_name(f"00000_{part}")
        assert open_indexed(link).document(0).tolist() == GOOD[part][0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tokens": [[1, 2, 3, 9, 9], [4, 5]]}, "sequence 0 has 5 tokens, sequence_length is 4"),
        ({"targets": [[2, 3, 9, -100], [-100, 5]]}, "neither its tokens, unshifted, nor -100"),
        ({"targets": [[-100, 2, 3, 9], [-100, -100]]}, "sequence 1 has nothing to learn"),
        ({"targets": [[-100, 2, 3, 9]]}, "2 sequences of tokens, 1 of targets, 2 of cu_seqlens"),
        ({"targets": [[-100, 2, 3], [-100, 5]]}, "4 tokens and 3 targets"),
        ({"cu_seqlens": [[0, 4, 2], [0, 2]]}, "do not rise from 0 to its 4 tokens"),
    ],
)
def test_packed_shards_that_would_train_wrongly_are_refused(
    made: tuple[Recipe, Layout, int], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    recipe, layout, _ = made
    prefix = write_packed(tmp_path / "mine", **changes)
    with pytest.raises(ZgcmError, match=said):
        adopt_tokens(
            adopting(recipe, kind="packed", sequence_length=4, prefixes=[str(prefix)]),
            layout,
            "mine",
            "00000",
        )
