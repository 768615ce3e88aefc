"""A Hugging Face directory to a Megatron checkpoint, or back, outside any recipe. `zgcm convert`

Weights are bit for bit the same in both. What differs is the vocabulary's padding: rows beyond the
tokenizer's size exist on one side and not on the other, and are trimmed and padded only as asked.
"""

import contextlib
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from zgcm.errors import ZgcmError
from zgcm.io import write_json, write_text
from zgcm.model import published
from zgcm.model.convert import read_megatron, write_megatron
from zgcm.model.described import checked_config, differences, model_of, read_config
from zgcm.model.megatron_files import find_checkpoint, read_facts
from zgcm.model.weights import write_safetensors

MODEL_CODE = ("configuration_zgcm.py", "modeling_zgcm.py")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
Summary = dict[str, Any]


def to_megatron(directory: Path, output: Path, vocabulary: int | None) -> Summary:
    """Write OUTPUT/release (torch_dist) and its tracker file. `vocabulary`: rows to keep, absent: all.

    Raises ZgcmError when the directory is not in the published layout.
    """
    config = read_config(directory)
    model = model_of(config, str(directory / "config.json"))
    rows = config["vocab_size"]
    kept = vocabulary or rows
    if odd := differences(config, model, kept):
        raise ZgcmError(
            "The vocabulary does not fit",
            where=str(directory / "config.json"),
            found="; ".join(odd),
            hint="say with --vocabulary how many rows are tokens; the others are padding",
        )
    with _building(output, directory) as building:
        write_megatron(directory, building, model, kept)
    return {
        "to": "megatron",
        "output": str(output),
        "rows_before": rows,
        "rows": kept,
        "parameters": published.parameters(model, kept),
    }


def to_huggingface(
    checkpoint: Path, output: Path, config_file: Path, vocabulary: int | None, tokenizer: Path | None
) -> Summary:
    """Write a directory in the published layout. `config_file` says which model it is and how many rows the
    embedding gets; the first `vocabulary` of them (absent: all) are the checkpoint's, the others padding.

    Raises ZgcmError when the checkpoint is not of that model or lacks rows.
    """
    config = checked_config(config_file)
    model, rows = model_of(config, str(config_file)), config["vocab_size"]
    found = find_checkpoint(checkpoint)
    facts, used = read_facts(found), vocabulary or rows
    if not used <= min(facts.rows, rows):
        raise ZgcmError(
            "The vocabulary does not fit",
            where=str(found),
            found=f"{facts.rows} rows in the checkpoint, vocab_size {rows} in {config_file}",
            expected=f"at least {used} in both",
            hint="say with --vocabulary how many rows are tokens; the others are padding",
        )
    if tokenizer is not None and not tokenizer.is_dir():
        raise ZgcmError("There is no such directory", where=str(tokenizer), hint="correct --tokenizer")
    dtype = facts.dtype
    with _building(output, checkpoint) as building:
        named = read_megatron(found, model, used, rows)
        write_safetensors(building, published.shapes(model, rows), named, getattr(torch, dtype))
        described = {key: value for key, value in config.items() if key not in ("dtype", "torch_dtype")}
        write_json(building / "config.json", {**described, "dtype": dtype})
        for name in MODEL_CODE:
            write_text(building / name, files("zgcm.model.hf").joinpath(name).read_text())
        for name in TOKENIZER_FILES:
            if (source := (tokenizer or config_file.parent) / name).is_file():
                shutil.copyfile(source, building / name)
    return {
        "to": "huggingface",
        "output": str(output),
        "dtype": dtype,
        "rows": rows,
        "kept": used,
        "parameters": published.parameters(model, rows),
    }


@contextlib.contextmanager
def _building(output: Path, source: Path) -> Iterator[Path]:
    """A directory beside `output` to write in, which gets its name when the block succeeds and goes when it
    does not."""
    if output.exists() or output.is_symlink():
        raise ZgcmError(
            "The output exists already", where=str(output), hint="name another directory, or remove this one"
        )
    if source.resolve() in output.resolve().parents:
        raise ZgcmError(
            "The output lies inside the weights that are converted",
            where=str(output),
            hint="name a directory outside of them",
        )
    building = output.with_name(f".{output.name}.unfinished")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    try:
        yield building
        building.rename(output)
    finally:
        shutil.rmtree(building, ignore_errors=True)
