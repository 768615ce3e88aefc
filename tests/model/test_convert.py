"""Megatron checkpoints and published tensors: the layout, both directions, refusals."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from tests.model import small
from zgcm.errors import ZgcmError
from zgcm.io import sha256_file
from zgcm.model import published
from zgcm.model.convert import fuse, read_megatron, resize_vocabulary, split, write_megatron
from zgcm.model.published import Tensor
from zgcm.model.weights import read_safetensors, write_safetensors


@given(
    rows=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    groups=st.integers(1, 4),
    columns=st.integers(1, 3),
)
@settings(max_examples=50)
def test_split_undoes_fuse(rows: list[int], groups: int, columns: int) -> None:
    entry = Tensor("key", tuple(f"part{i}" for i in range(len(rows))), tuple(rows), groups, columns)
    parts = {name: torch.randn(shape) for name, shape in entry.published_shapes().items()}
    fused = fuse(entry, parts)
    assert fused.shape == entry.megatron_shape()
    again = split(entry, fused)
    assert again.keys() == parts.keys()
    assert all(torch.equal(again[name], parts[name]) for name in parts)


def test_a_group_holds_its_query_gate_key_and_value_rows_in_this_order() -> None:
    entries = {entry.key: entry for entry in published.tensors(small.MODEL, small.ROWS)}
    entry = entries["decoder.layers.0.self_attention.linear_qkv.weight"]
    # two groups of 64 query, 64 gate, 32 key and 32 value rows; a row's content is its own number
    fused = torch.arange(384.0)[:, None].expand(384, 64).contiguous()
    rows = {name.split(".")[-2]: part[:, 0].tolist() for name, part in split(entry, fused).items()}
    expected = {
        "q_proj": [*range(64), *range(192, 256)],
        "g_proj": [*range(64, 128), *range(256, 320)],
        "k_proj": [*range(128, 160), *range(320, 352)],
        "v_proj": [*range(160, 192), *range(352, 384)],
    }
    assert rows == expected


def test_hugging_face_to_megatron_and_back_is_exact(tmp_path: Path) -> None:
    source = small.directory(tmp_path / "hf")
    write_megatron(source, tmp_path / "megatron", small.MODEL, small.VOCABULARY)
    back = dict(read_megatron(tmp_path / "megatron/release", small.MODEL, small.VOCABULARY, small.ROWS))
    for name, tensor in small.weights().items():
        used = small.VOCABULARY if tensor.shape[0] == small.ROWS else None
        assert torch.equal(back[name][:used], tensor[:used]), name


def test_vocabulary_is_trimmed_padded_and_never_cut_short() -> None:
    weight = torch.arange(12.0).view(6, 2)
    assert torch.equal(resize_vocabulary(weight, 5, used=5), weight[:5])
    with_padding = resize_vocabulary(weight, 8, used=5)
    assert torch.equal(with_padding[6:], weight[5:].expand(2, 2))  # trained padding is repeated
    assert torch.equal(resize_vocabulary(weight, 8, used=6)[6:], torch.zeros(2, 2))
    for rows, used in ((4, 5), (8, 7)):
        with pytest.raises(ZgcmError, match="vocabulary does not fit"):
            resize_vocabulary(weight, rows, used)


def test_a_checkpoint_of_another_model_is_refused_by_name(tmp_path: Path) -> None:
    write_megatron(small.directory(tmp_path / "hf"), tmp_path / "megatron", small.MODEL, small.VOCABULARY)

    def read(**changes: object) -> None:
        model = small.MODEL.model_copy(update=changes)
        list(read_megatron(tmp_path / "megatron/release", model, small.VOCABULARY, small.ROWS))

    with pytest.raises(ZgcmError, match=r"lacks 8 tensors.*decoder\.layers\.6"):
        read(num_layers=7)
    with pytest.raises(ZgcmError, match=r"unknown 8 tensors.*decoder\.layers\.5"):
        read(num_layers=5)
    with pytest.raises(ZgcmError, match=r"linear_qkv\.weight has another shape.*\(384, 64\)"):
        read(attention_output_gate="none")
    with pytest.raises(ZgcmError, match=r"no \.metadata"):
        list(read_megatron(tmp_path, small.MODEL, small.VOCABULARY, small.ROWS))


def test_weights_in_another_layout_are_refused(tmp_path: Path) -> None:
    shapes = published.shapes(small.MODEL, small.ROWS)
    source = small.directory(tmp_path / "hf")
    with pytest.raises(ZgcmError, match=r"1 tensors are missing or unknown.*lm_head"):
        list(read_safetensors(source, {k: v for k, v in shapes.items() if k != "lm_head.weight"}))
    with pytest.raises(ZgcmError, match=r"norm\.weight has another shape"):
        list(read_safetensors(source, shapes | {"model.norm.weight": (65,)}))
    mixed = [(k, v.bfloat16() if "norm" in k else v) for k, v in small.weights().items()]
    save_file(dict(mixed), tmp_path / "model.safetensors")
    with pytest.raises(ZgcmError, match=r"one floating-point type.*BF16, F32"):
        list(read_safetensors(tmp_path, shapes))
    swapped = list(small.weights().items())
    swapped[1], swapped[2] = swapped[2], swapped[1]
    with pytest.raises(ZgcmError, match="not in the published layout"):
        write_safetensors(tmp_path, shapes, iter(swapped), torch.float32)


def test_shards_are_numbered_bounded_and_reproducible(tmp_path: Path) -> None:
    shapes = published.shapes(small.MODEL, small.ROWS)
    digests = []
    for copy in ("one", "two"):
        (tmp_path / copy).mkdir()
        count = write_safetensors(
            tmp_path / copy, shapes, iter(small.weights().items()), torch.bfloat16, shard_bytes=100_000
        )
        files = sorted((tmp_path / copy).iterdir())
        assert [file.name for file in files[:-1]] == [
            f"model-{i:05d}-of-{count:05d}.safetensors" for i in range(1, count + 1)
        ]
        assert count > 3
        assert all(file.stat().st_size < 110_000 for file in files[:-1])
        digests.append([sha256_file(file) for file in files])
    assert digests[0] == digests[1]
    again = dict(read_safetensors(tmp_path / "one", shapes))
    assert torch.equal(again["lm_head.weight"], small.weights()["lm_head.weight"].to(torch.bfloat16))
