"""Weights of a Hugging Face directory: safetensors in numbered shards with an index, one tensor at a time."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.model.published import Shape
from zgcm.model.told import writing

SHARD_BYTES = 5_000_000_000
INDEX = "model.safetensors.index.json"
Named = Iterator[tuple[str, torch.Tensor]]


def write_safetensors(
    directory: Path,
    shapes: dict[str, Shape],
    named: Named,
    dtype: torch.dtype,
    shard_bytes: int = SHARD_BYTES,
) -> int:
    """Write `named`, which must come in the order of `shapes`, as numbered shards with an index.

    Same tensors, same bytes. Returns the number of shards.
    """
    plan: list[list[str]] = [[]]
    sizes = {name: torch.Size(shape).numel() * dtype.itemsize for name, shape in shapes.items()}
    filled = 0
    for name, size in sizes.items():
        if plan[-1] and filled + size > shard_bytes:
            plan.append([])
            filled = 0
        plan[-1].append(name)
        filled += size
    weight_map: dict[str, str] = {}
    for number, names in enumerate(plan, start=1):
        file = f"model-{number:05d}-of-{len(plan):05d}.safetensors"
        shard = {}
        for expected in names:
            name, tensor = next(named)
            if name != expected or tuple(tensor.shape) != shapes[name]:
                raise ZgcmError(
                    "The weights are not in the published layout",
                    where=str(directory / file),
                    found=f"{name} {tuple(tensor.shape)}",
                    expected=f"{expected} {shapes[expected]}",
                )
            shard[name] = tensor.to(dtype).contiguous()
        with writing(directory / file):
            save_file(shard, directory / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    total = {
        "total_size": sum(sizes.values()),
        "total_parameters": sum(sizes.values()) // dtype.itemsize,
    }
    write_json(directory / INDEX, {"metadata": total, "weight_map": weight_map})
    return len(plan)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Any]:
    """A safetensors file. Raises ZgcmError when it is missing, cut short, or lacks what the index says."""
    if not path.is_file():
        found = "a directory" if path.is_dir() else "no such file"
        raise ZgcmError("A file of the weights is missing", where=str(path), found=found, hint=AGAIN)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ZgcmError(
            "A file of the weights is damaged", where=str(path), found=str(error), hint=AGAIN
        ) from error


AGAIN = "bring that file again from where the weights came from"


@dataclass(frozen=True)
class Weights:
    """A directory whose tensors were found to be exactly those expected."""

    directory: Path
    files: dict[str, str]
    """Tensor name -> file."""
    dtype: torch.dtype

    def read(self, name: str) -> torch.Tensor:
        with opened(self.directory / self.files[name]) as file:
            return file.get_tensor(name)


def open_weights(directory: Path, shapes: dict[str, Shape]) -> Weights:
    """Check names, shapes and that there is one dtype, reading headers only. Raises ZgcmError."""
    files = _files(directory)
    if files.keys() != shapes.keys():
        odd = sorted(files.keys() ^ shapes.keys())
        raise ZgcmError(
            f"{len(odd)} tensors are missing or unknown",
            where=str(directory),
            found=", ".join(odd[:3]),
            expected=f"the {len(shapes)} published names",
        )
    dtypes = set()
    for file_name in sorted(set(files.values())):
        with opened(directory / file_name) as file:
            for name in file.keys():  # noqa: SIM118 - not a mapping
                header = file.get_slice(name)
                dtypes.add(header.get_dtype())
                if tuple(header.get_shape()) != shapes[name]:
                    raise ZgcmError(
                        f"Tensor {name} has another shape than the recipe's model",
                        where=str(directory / file_name),
                        found=str(tuple(header.get_shape())),
                        expected=str(shapes[name]),
                    )
    known = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    if len(dtypes) != 1 or not dtypes <= known.keys():
        raise ZgcmError(
            "The weights are not of one floating-point type",
            where=str(directory),
            found=", ".join(sorted(dtypes)),
            expected=f"one of {', '.join(known)}",
        )
    return Weights(directory, files, known[dtypes.pop()])


def read_safetensors(directory: Path, shapes: dict[str, Shape]) -> Named:
    """Tensors of a Hugging Face directory in the order of `shapes`, which it checks first."""
    weights = open_weights(directory, shapes)
    for name in shapes:
        yield name, weights.read(name)


def _files(directory: Path) -> dict[str, str]:
    """Tensor name -> file, of a sharded or a single-file directory."""
    if (directory / INDEX).is_file():
        named = read_json(directory / INDEX)["weight_map"]
        if odd := [name for name, file in named.items() if not isinstance(file, str) or "/" in file]:
            raise ZgcmError(
                "The index of the weights does not name files",
                where=str(directory / INDEX),
                found=f"{odd[0]}: {named[odd[0]]}",
                hint=AGAIN,
            )
        return named
    single = directory / "model.safetensors"
    if not single.is_file():
        expected = f"{INDEX} or {single.name}"
        raise ZgcmError("No safetensors weights here", where=str(directory), expected=expected)
    with opened(single) as file:
        return dict.fromkeys(file.keys(), single.name)
