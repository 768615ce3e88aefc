"""`zgcm convert` on damaged weights and full disks: a message with the file, and nothing is left."""

import json
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model import small
from zgcm.errors import ZgcmError
from zgcm.model.conversion import to_huggingface, to_megatron

SHARD, INDEX = "model-00001-of-00001.safetensors", "model.safetensors.index.json"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return small.directory(tmp_path / "hf")


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file beyond 20 kB: what a full disk does, without filling one."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def refused(tmp_path: Path, source: Path, words: str) -> None:
    with pytest.raises(ZgcmError, match=words):
        to_megatron(source, tmp_path / "out", None)
    assert [path.name for path in tmp_path.glob("*out*")] == []


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe\x00", b"[]", None])
@pytest.mark.parametrize("name", ["config.json", SHARD, INDEX])
def test_damaged_files_of_the_source(tmp_path: Path, source: Path, name: str, content: bytes | None) -> None:
    whole = (source / name).read_bytes()
    (source / name).write_bytes(whole[: len(whole) // 2] if content is None else content)
    refused(tmp_path, source, name)


@pytest.mark.parametrize("value", ["missing.safetensors", ["a"], None, "../x"])
def test_an_index_that_names_no_file(tmp_path: Path, source: Path, value: Any) -> None:
    index = json.loads((source / INDEX).read_text())
    index["weight_map"]["lm_head.weight"] = value
    (source / INDEX).write_text(json.dumps(index))
    refused(tmp_path, source, "missing.safetensors|lm_head.weight")


@pytest.mark.parametrize("value", [float("nan"), -1, 10**12, "x", [True], 1.5, {}])
@pytest.mark.parametrize("key", ["num_hidden_layers", "head_dim", "vocab_size", "layer_types"])
def test_a_config_of_no_model(tmp_path: Path, source: Path, key: str, value: Any) -> None:
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps({**config, key: value}))
    refused(tmp_path, source, "config.json")


@pytest.mark.parametrize("content", [b"", b"null", b"\xff\xfe\x00", None])
@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp", "common.pt"])
def test_damaged_files_of_a_checkpoint(
    tmp_path: Path, source: Path, name: str, content: bytes | None
) -> None:
    to_megatron(source, tmp_path / "meg", None)
    file = tmp_path / "meg/release" / name
    whole = file.read_bytes() if file.exists() else b"common.pt is of older checkpoints"
    file.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(ZgcmError, match="damaged"):
        to_huggingface(tmp_path / "meg", tmp_path / "out", source / "config.json", None, None)
    assert [path.name for path in tmp_path.glob("*out*")] == []


def test_a_full_disk_either_way(tmp_path: Path, source: Path, request: pytest.FixtureRequest) -> None:
    to_megatron(source, tmp_path / "meg", None)
    request.getfixturevalue("small_files")
    refused(tmp_path, source, "disk is full")
    with pytest.raises(ZgcmError, match="disk is full"):
        to_huggingface(tmp_path / "meg", tmp_path / "out", source / "config.json", None, None)
    assert [path.name for path in tmp_path.glob("*out*")] == []


def test_the_output_is_outside_and_new(tmp_path: Path, source: Path) -> None:
    with pytest.raises(ZgcmError, match="inside"):
        to_megatron(source, source / "out", None)
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ZgcmError, match="exists already"):
        to_megatron(source, tmp_path / "link", None)
