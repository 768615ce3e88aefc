"""Published variable -> where it stands in the recipe, for every variable of every stage.

Three kinds of entry:
- Key(path, convert): the recipe has it under `path`; `convert` turns the published form into the recipe's.
- Derived(compute): no key of its own, but it follows from others; `compute` gets the loaded recipe.
- NoKey(reason): it decides nothing here, and the reason says why.
"""

from published_entries import Entry
from published_megatron import LAUNCHER, MIDTRAIN, PRETRAIN, SFT, SFT_RUNNER, SFT_RUNTIME
from published_rl import RL

STAGES = {
    "pretrain_s1": "pretrain_1t",
    "pretrain_s2": "pretrain_3p2t",
    "midtrain_16k": "midtrain_16k",
    "midtrain_64k": "midtrain_64k",
    "midtrain_256k": "midtrain_256k",
    "sft": "sft",
    "sft_runtime": "sft",
    "sft_runner": "sft",
    "rl_math": "rl_math",
    "rl_code": "rl_code",
    "rl_if": "rl_if",
}
"""Published stage -> ours; `{stage}` in a path stands for it."""


MAPPING: dict[str, dict[str, Entry]] = {
    "pretrain_s1": PRETRAIN,
    "pretrain_s2": PRETRAIN,
    "midtrain_16k": MIDTRAIN,
    "midtrain_64k": MIDTRAIN,
    "midtrain_256k": MIDTRAIN,
    "sft": SFT,
    "sft_runtime": SFT_RUNTIME,
    "sft_runner": SFT_RUNNER,
    "launcher": LAUNCHER,
    "rl_math": RL,
    "rl_code": RL,
    "rl_if": RL,
}
