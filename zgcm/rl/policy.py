"""The policy as a torch module: load it, shard it, build its optimizers, save it for Hugging Face."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Partial, Replicate

from zgcm.config.rl import Learner as Settings
from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json
from zgcm.rundir.manifest import NAME as MANIFEST
from zgcm.rundir.manifest import is_complete, write_manifest

MUON_MOMENTUM = 0.95
MUON_ADAMW_SIZE = 0.2
"""Times sqrt(longer side): the root mean square of AdamW's updates, so both take one learning rate."""


def load_policy(directory: Path, settings: Settings, device: torch.device) -> nn.Module:
    """Weights in fp32 (the optimizer's precision); the forward pass runs in `settings.dtype`."""
    from transformers import AutoModelForCausalLM

    from zgcm.model.plugin import register_transformers

    register_transformers()
    # dropout, where a model has any, would make the recomputed log-probabilities differ from the rollout's
    changes = {"attention_dropout": 0.0} if settings.disable_dropout else {}
    model: Any = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation=settings.attention, **changes
    )
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable()
    # transformers computes layers again only of a model in training mode
    return model.to(device).train()


def shard(model: nn.Module, dtype: torch.dtype) -> None:
    """FSDP2: each layer and the rest are gathered only while they compute. The vocabulary projection is
    sharded with them, and used through `gathered_weight`."""
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    # a layer's inputs as they come: cast, the rotary embedding's cosines would carry two digits in bf16
    precision = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32, cast_forward_inputs=False)
    for layer in model.model.layers:  # type: ignore[union-attr]
        fully_shard(layer, mp_policy=precision)
    fully_shard(model.lm_head, mp_policy=precision)  # type: ignore[arg-type]
    fully_shard(model, mp_policy=precision)


def gathered_weight(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """A sharded weight, whole and in `dtype`; its gradient is averaged over the processes in fp32, as FSDP2
    does. One that is not sharded is returned as it is.

    Collective: one gathering here and one reduction in the backward pass, however often the result is used.
    """
    if not isinstance(weight, DTensor):
        return weight
    whole = weight.redistribute(placements=[Replicate()], forward_dtype=dtype, backward_dtype=torch.float32)
    return whole.to_local(grad_placements=[Partial("avg")])


def build_optimizers(model: nn.Module, settings: Settings) -> list[torch.optim.Optimizer]:
    """AdamW on all; or Muon on the layers' matrices (updates of AdamW's size) and AdamW on the rest."""
    named = dict(model.named_parameters())
    matrices = [
        parameter
        for name, parameter in named.items()
        if settings.optimizer == "muon" and parameter.ndim == 2 and ".layers." in name
    ]
    chosen = {id(parameter) for parameter in matrices}
    adam = torch.optim.AdamW(
        [parameter for parameter in named.values() if id(parameter) not in chosen],
        lr=settings.lr,
        betas=(settings.beta1, settings.beta2),
        eps=settings.eps,
        weight_decay=settings.weight_decay,
    )
    if not matrices:
        return [adam]
    from emerging_optimizers.orthogonalized_optimizers import Muon

    # in fp32: torch.optim.Muon computes in bf16, and a CPU without bf16 units needs many times longer for it
    muon = Muon(
        matrices,
        lr=settings.lr,
        momentum=MUON_MOMENTUM,
        nesterov=True,
        weight_decay=settings.weight_decay,
        scale_mode="spectral",
        extra_scale_factor=MUON_ADAMW_SIZE,
        fp32_matmul_prec="highest",
        coefficient_type="simple",
        num_ns_steps=5,
    )
    return [adam, muon]


def save_policy(directory: Path, state: Mapping[str, Tensor], like: Path, dtype: str) -> str:
    """A Hugging Face directory with the weights of `state` and all else as in `like`; the manifest last.

    Returns the manifest's digest. `state` has the published tensor names; they are divided among files as in
    `like`.
    """
    from safetensors import safe_open
    from safetensors.torch import save_file

    if is_complete(directory):
        (directory / MANIFEST).unlink()
    directory.mkdir(parents=True, exist_ok=True)
    missing = set(state)
    for source in sorted(like.iterdir()):
        if source.name == MANIFEST or source.name.startswith(".") or source.is_dir():
            continue
        if source.suffix != ".safetensors":
            shutil.copyfile(source, directory / source.name)
            continue
        with safe_open(source, framework="pt") as file:
            names = sorted(file.keys())
        tensors = {name: state[name].to(getattr(torch, dtype)).contiguous() for name in names}
        save_file(tensors, directory / source.name, metadata={"format": "pt"})
        missing -= set(names)
    if missing:
        raise ZgcmError("The policy has tensors that its origin lacks", where=str(like), found=min(missing))
    config = read_json(directory / "config.json")
    config["dtype"] = dtype
    config.pop("torch_dtype", None)
    write_json(directory / "config.json", config)
    return write_manifest(directory)
