"""What a `config.json` of the published layout says: its model, and how that differs from a recipe's.

differences(config, recipe.model, 154880)     # [] or one sentence for each key
model_of(config, "where it stands")           # the recipe's model section that it describes
"""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from zgcm.config.explain import describe
from zgcm.config.model import Model
from zgcm.errors import ZgcmError
from zgcm.io import found_there, read_json
from zgcm.model.published import gated_layers, global_layers

Config = dict[str, Any]

SIZES = {
    "num_hidden_layers": "num_layers",
    "hidden_size": "hidden_size",
    "intermediate_size": "ffn_hidden_size",
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_query_groups",
    "head_dim": "kv_channels",
    "sliding_window": "sliding_window",
    "rms_norm_eps": "norm_epsilon",
}
"""Key of config.json -> key of the recipe's model."""
FIXED = {
    "model_type": "zgcm",
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "rope_scaling": None,
}
"""What the recipe cannot say otherwise."""
ASSUMED = {"hidden_act": "silu", "attention_bias": False, "tie_word_embeddings": False, "rope_scaling": None}
"""Of absent keys."""


MOST = 1 << 24
"""A size beyond it is a mistake, and would make lists of that length."""


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


KINDS = (
    (("num_hidden_layers",), "a number of layers", lambda value: _is_size(value) and value <= 10_000),
    (
        (*(key for key in SIZES if key not in ("rms_norm_eps", "num_hidden_layers")), "vocab_size"),
        "a size",
        _is_size,
    ),
    (("window_attn_skip_freq", "max_position_embeddings"), "a whole number", _is_size),
    (("rms_norm_eps", "rope_theta", "initializer_range", "partial_rotary_factor"), "a number", _is_number),
    (("layer_types",), "a list", lambda value: isinstance(value, list)),
    (("attention_gate_layers",), "a list or a word", lambda value: isinstance(value, list | str)),
)
"""Of config.json: keys, what their values are, whether one is."""


def read_config(directory: Path) -> Config:
    """`config.json` of a Hugging Face directory. Raises ZgcmError when there is none."""
    path = directory / "config.json"
    if not path.is_file():
        raise ZgcmError(
            "Not a Hugging Face directory",
            where=str(path),
            found=found_there(directory),
            expected="config.json, *.safetensors and the tokenizer's files",
            hint="correct the path, or download the model there",
        )
    return checked_config(path)


def checked_config(path: Path) -> Config:
    """A config.json whose values are of the kinds that its keys name. Raises ZgcmError listing the others."""
    config = read_json(path)
    odd = [
        f"{key} is {str(value)[:40]}, not {what}"
        for keys, what, fits in KINDS
        for key in keys
        if (value := _rope(config, key)) is not None and not fits(value)
    ]
    for key in ("layer_types", "attention_gate_layers"):
        layers = config.get("num_hidden_layers")
        if isinstance(config.get(key), list) and not odd and len(config[key]) not in (0, layers):
            odd.append(f"{key} names {len(config[key])} layers of {layers}")
    if not odd and not isinstance(config.get("vocab_size"), int):
        odd.append("vocab_size is missing")
    if odd:
        raise ZgcmError(
            "The config.json does not describe a model of the published layout",
            where=str(path),
            found="; ".join(odd),
            hint="restore the file that came with the weights",
        )
    return config


def differences(config: Config, model: Model, vocabulary: int) -> list[str]:
    """Everything in which the weights are not the recipe's model; `vocabulary` is the tokenizer's size."""
    found = [
        f"{key}: found {_shown(_value(config, key))}, the published layout has {_shown(wanted)}"
        for key, wanted in FIXED.items()
        if _value(config, key) != wanted
    ]
    for key, ours in SIZES.items():
        if config.get(key) != getattr(model, ours):
            found.append(f"{key}: found {_shown(config.get(key))}, model.{ours} is {getattr(model, ours)}")
    if (kind := _rope(config, "rope_type")) not in (None, "default"):
        found.append(f"rope_type: found {kind}, the published layout scales no positions")
    if (rotated := _rotary_dim(config)) != model.rotary_dim:
        found.append(
            f"partial_rotary_factor: {_shown(rotated)} channels of a head rotate, by model.rotary_percent "
            f"{model.rotary_dim}"
        )
    layers = config.get("num_hidden_layers")
    for key, theirs, wanted_layers in (
        ("layer_types", _global_layers(config), global_layers(model)),
        ("attention_gate_layers", _gated_layers(config), gated_layers(model)),
    ):
        if layers == model.num_layers and theirs != wanted_layers:
            odd = [
                str(number)
                for number, pair in enumerate(zip(theirs, wanted_layers, strict=False), 1)
                if len(set(pair)) > 1
            ]
            which = {"layer_types": "global", "attention_gate_layers": "gated"}[key]
            said = ", ".join(odd[:6]) + (" ..." if len(odd) > 6 else "") or "the number of layers"
            found.append(
                f"{key}: other layers are {which} than in the recipe's model: {said} (counted from 1)"
            )
    if not model.qk_layernorm:
        found.append("the published layout has QK-norm, model.qk_layernorm is false")
    rows = config.get("vocab_size")
    if not isinstance(rows, int) or rows < vocabulary:
        found.append(f"vocab_size: found {_shown(rows)} rows, tokenizer.vocab_size is {vocabulary}")
    return found


def model_of(config: Config, where: str) -> Model:
    """The model that a config.json describes. Raises ZgcmError naming every key that has no such model."""
    windows = [not is_global for is_global in _global_layers(config)]
    gates = _gated_layers(config)
    by_gates = {tuple(windows): "window", (True,) * len(windows): "all", (False,) * len(windows): "none"}
    given = {ours: config.get(key) for key, ours in SIZES.items()}
    given |= {
        "window_attn_skip_freq": config.get("window_attn_skip_freq") or [*windows, False].index(False) + 1,
        "attention_output_gate": by_gates.get(tuple(gates), str(gates)),
        "rotary_percent": _rope(config, "partial_rotary_factor"),
        "init_method_std": config.get("initializer_range"),
    }
    try:
        model = Model.model_validate({key: value for key, value in given.items() if value is not None})
    except ValidationError as error:
        items = [{**item, "loc": ("model", *item["loc"])} for item in error.errors()]
        found = "; ".join(line for item in items for line in describe(item))
        raise ZgcmError("No model of ours has this configuration", where=where, found=found) from error
    if odd := differences(config, model, 0):
        raise ZgcmError("The weights are not in the published layout", where=where, found="; ".join(odd))
    return model


def rotary_base(config: Config) -> int | None:
    base = _rope(config, "rope_theta")
    return None if base is None else int(base)


def _rope(config: Config, key: str) -> Any:
    """At the top as published, or below `rope_parameters` as transformers 5 writes it."""
    nested = config.get("rope_parameters")
    return config.get(key, nested.get(key) if isinstance(nested, dict) else None)


def _value(config: Config, key: str) -> Any:
    return config.get(key, ASSUMED.get(key))


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _rotary_dim(config: Config) -> int | None:
    """int(head_dim x factor), rounded down to even."""
    head, factor = config.get("head_dim"), _rope(config, "partial_rotary_factor")
    return None if head is None or factor is None else int(head * factor) // 2 * 2


def _global_layers(config: Config) -> list[bool]:
    if (kinds := config.get("layer_types")) is not None:
        return [kind == "full_attention" for kind in kinds]
    every = config.get("window_attn_skip_freq") or 1
    return [(layer + 1) % every == 0 for layer in range(config.get("num_hidden_layers") or 0)]


def _gated_layers(config: Config) -> list[bool]:
    """A list, or one of the words that the published code also takes; absent: the window layers."""
    windows = [not is_global for is_global in _global_layers(config)]
    gates = config.get("attention_gate_layers") or "sliding"
    if isinstance(gates, str):
        return {"all": [True] * len(windows), "none": [False] * len(windows)}.get(gates, windows)
    return [bool(gated) for gated in gates]
