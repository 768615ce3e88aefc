"""The model card (README.md) of an export: what it is, how it was made, how to load it."""

from typing import Any

from zgcm.config.recipe import Recipe
from zgcm.config.rl import RLStage
from zgcm.config.stages import AdoptedStage, TrainStage
from zgcm.model.published import global_layers

CARD = """---
license: mit
library_name: transformers
pipeline_tag: text-generation
tags: [zgcm]
---

# {recipe}: {stage}

{description}

| | |
|---|---|
| parameters | {parameters:,} ({dtype}) |
| layers | {layers}, of which {global_layers} global (every {every}th), the others with a window of {window} |
| attention | {heads} query heads, {groups} key/value heads of {head_dim} channels; QK-norm; gate on {gate} |
| width | {hidden}, SwiGLU {ffn} |
| positions | rotary, base {rotary_base:,}, trained up to {context:,} tokens |
| vocabulary | {vocabulary:,} tokens, embedding padded to {rows:,} rows |

## Stages

{lineage}

## Use

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(PATH, trust_remote_code=True, dtype="auto")
tokenizer = AutoTokenizer.from_pretrained(PATH, trust_remote_code=True)
messages = [{{"role": "user", "content": "47+38=?"}}]
inputs = tokenizer.apply_chat_template(
    messages, add_generation_prompt=True, enable_thinking=True, return_tensors="pt", return_dict=True
)
print(tokenizer.decode(model.generate(**inputs, max_new_tokens=256)[0]))
```

transformers 5 or later. vLLM serves the directory natively where the `zgcm` package is installed, and through
its Transformers backend with `--trust-remote-code` elsewhere.

Recipe id `{recipe_id}`, run `{run_id}`, weights `{weights_digest}`.
"""


def lineage(recipe: Recipe, stage: str) -> list[str]:
    """The stages that led to `stage`, first to last."""
    chain = [stage]
    while (init := recipe.stages[chain[0]].init) is not None:
        chain.insert(0, init)
    return chain


def card(recipe: Recipe, stage: str, facts: dict[str, Any]) -> str:
    """Markdown text. `facts` is the export's manifest without its files."""
    model = recipe.model
    gates = {"window": "the window layers", "all": "all layers", "none": "no layer"}
    return CARD.format(
        recipe=recipe.name,
        description=recipe.description or "Made with zgcm.",
        layers=model.num_layers,
        global_layers=sum(global_layers(model)),
        every=model.window_attn_skip_freq,
        window=model.sliding_window,
        heads=model.num_attention_heads,
        groups=model.num_query_groups,
        head_dim=model.kv_channels,
        gate=gates[model.attention_output_gate],
        hidden=model.hidden_size,
        ffn=model.ffn_hidden_size,
        lineage="\n".join(f"- {_line(name, recipe.stages[name], facts)}" for name in lineage(recipe, stage)),
        **facts,
    )


def _line(name: str, stage: TrainStage | RLStage | AdoptedStage, facts: dict[str, Any]) -> str:
    if isinstance(stage, AdoptedStage):
        return f"`{name}`: weights adopted from a {stage.format} directory, digest `{facts['adopted'][name]}`"
    if isinstance(stage, RLStage):
        return f"`{name}`: GRPO, {stage.domain}"
    kind = "supervised fine-tuning" if stage.kind == "sft" else "next-token training"
    return f"`{name}`: {kind} on {', '.join(stage.mix)}, {stage.seq_length:,} tokens a sequence"
