"""Keys that contradict one another are refused when the recipe is read, not on the cluster."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from zgcm.config.keys import sections, variants
from zgcm.config.recipe import Recipe

Refused = Callable[..., str]
ROOT = Path(__file__).parents[2]
BIG = ROOT / "config/zgcm-7b.yaml"
DIRECTORIES = {
    name for path in ROOT.glob("rules/*.smk") for name in re.findall(r'"results/(\w+)/', path.read_text())
}
"""That steps other than stages write in."""

NAMES = [
    ("tokenizer: {sources: [demo_cod]}", "tokenizer.sources: unknown source 'demo_cod'; known: demo_code,"),
    ("tokenizer: {sources: [demo_cod]}", "did you mean 'demo_code'?"),
    ("mixes: {sft: {sources: {nope: 1.0}}}", "mixes.sft.sources.nope: unknown source 'nope'"),
    (
        "mixes: {pretrain_1t: {exclude: [pretrain_3p2t]}}",
        "mixes.pretrain_1t.exclude: unknown earlier mix 'pretrain_3p2t'; known: none",
    ),
    (
        "mixes: {sft: {sources: {demo_conversations: 0.0, demo_programs: 0.0, demo_instructions: 0.0}}}",
        "mixes.sft.sources: all weights are 0",
    ),
    ("stages: {sft: {init: rl_math}}", "stages.sft.init: unknown earlier stage 'rl_math'"),
    ("stages: {rl_math: {init: sftt}}", "stages.rl_math.init: unknown earlier stage 'sftt'"),
    ("stages: {sft: {mix: {stf: 1}}}", "stages.sft.mix.stf: unknown mix 'stf'"),
]

TINY_CASES = [
    # inside one section
    (
        "stages: {sft: {optimizer: {min_lr: 0.1}}}",
        "stages.sft.optimizer: min_lr 0.1 is greater than lr 0.005",
    ),
    ("stages: {sft: {optimizer: {muon_num_ns_steps: 6}}}", "muon_num_ns_steps 6 is not a multiple of 5"),
    (
        "stages: {sft: {global_batch_size: 3, micro_batch_size: 2}}",
        "3 is not a multiple of micro_batch_size 2",
    ),
    ("stages: {sft: {schedule: {train_iters: 5}}}", "exactly one of train_iters, train_samples, epochs"),
    ("stages: {pretrain_1t: {schedule: {lr_warmup_samples: 5}}}", "go with train_samples only"),
    ("stages: {midtrain_64k: {schedule: {lr_warmup_iters: 5}}}", "train_samples goes with lr_warmup_samples"),
    ("stages: {pretrain_1t: {schedule: {lr_warmup_iters: 100}}}", "a warm-up of 100 leaves nothing"),
    ("stages: {pretrain_1t: {continues: true}}", "`continues: true` needs `init`"),
    ("model: {num_query_groups: 3}", "num_attention_heads 4 is not a multiple of num_query_groups 3"),
    ("mixes: {sft: {sequence_length: null}}", "`sequence_length` belongs to packed mixes"),
    ("stages: {rl_math: {reward: {length_penalty: {start: 48}}}}", "start 48 is not below end 48"),
    ("stages: {rl_math: {rollout: {sampling: {max_tokens: 40}}}}", "max_new_tokens 48 exceeds max_tokens 40"),
    # rewards of a domain that does not have them, programs without tests or with another service's
    (
        "stages: {rl_math: {domain: if}}",
        "stages.rl_math.reward.length_penalty: only mathematics has one (as published)",
    ),
    (
        "stages: {rl_math: {reward: {sandbox: {token_file: t}}}}",
        "stages.rl_math.reward.sandbox.token_file: is of a service at `url`",
    ),
    (
        "stages: {rl_math: {domain: mixed, reward: {sandbox: {url: 'http://127.0.0.1:8719'}}}}",
        "stages.rl_math.reward.sandbox.url: that service has no tests of demo prompts",
    ),
    # numbers that an engine would take, or fail at late
    ("stages: {sft: {data_split: '100'}}", "stages.sft.data_split: found '100'; expected three numbers"),
    ("stages: {sft: {data_split: '0,1,0'}}", "the first above 0"),
    ("stages: {sft: {data_split: 'nan,0,0'}}", "stages.sft.data_split: found 'nan,0,0'"),
    ("stages: {sft: {optimizer: {adam_beta2: 1.0}}}", "adam_beta2: input should be less than 1; found 1.0"),
    ("stages: {sft: {optimizer: {muon_momentum: 9.0}}}", "muon_momentum: input should be less than 1"),
    ("stages: {rl_math: {learner: {beta1: 1.0}}}", "learner.beta1: input should be less than 1"),
    ("stages: {sft: {seed: 20261130120000}}", "stages.sft.seed: input should be less than 2147483648"),
    ("stages: {sft: {spikes: {deviations: 1.0e+308}}}", "deviations: input should be less than or equal to"),
    ("tokenizer: {kind: import, path: ''}", "tokenizer.path: string should have at least 1 character"),
    ("sources: {demo_code: {include: []}}", "include: list should have at least 1 item"),
    # layout of the ranks
    ("stages: {sft: {parallel: {tensor: 3}}}", "stages.sft.parallel.tensor: 3 does not divide"),
    (
        "stages: {sft: {resources: {processes_per_node: 4}, parallel: {pipeline: 4}}}",
        "stages.sft.parallel.pipeline: 4 does not divide model.num_layers 6",
    ),
    (
        "stages: {midtrain_64k: {seq_length: 258, parallel: {context: 2}}}",
        "stages.midtrain_64k.seq_length: 258 is not a multiple of 2 x parallel.context = 4",
    ),
    ("stages: {sft: {parallel: {context: 4}}}", "all-to-all spreads the 2 key/value heads"),
    (
        "stages: {sft: {parallel: {tensor: 2}}}",
        "1 processes are not a multiple of tensor x pipeline x context",
    ),
    (
        "stages: {sft: {resources: {processes_per_node: 2}}}",
        "stages.sft.global_batch_size: 1 is not a multiple of micro_batch_size x data-parallel ranks = 1 x 2",
    ),
    ("stages: {sft: {resources: {gpus_per_node: 8}}}", "1 processes for 8 GPUs"),
    # what the engine would silently ignore
    ("stages: {sft: {fp8: {}}}", "stages.sft.fp8: needs engine: transformer_engine"),
    ("stages: {sft: {attention_backend: flash}}", "flash needs engine: transformer_engine"),
    ("stages: {sft: {cross_entropy_fusion: te}}", "te needs engine: transformer_engine"),
    # data
    ("stages: {sft: {micro_batch_size: 2, global_batch_size: 2}}", "packed sequences go one at a time"),
    (
        "stages: {pretrain_1t: {data_order: shuffled}}",
        "shuffled would undo the order of mixes.pretrain_1t (curriculum)",
    ),
    ("stages: {midtrain_16k: {data_order: sequential}}", "a blend of 2 mixes has no order of its own"),
    ("stages: {sft: {data_order: shuffled}}", "found shuffled; cyclic belongs to SFT"),
    ("stages: {pretrain_1t: {data_order: cyclic}}", "found cyclic; cyclic belongs to SFT"),
    ("stages: {sft: {seq_length: 512}}", "512 differs from mixes.sft.sequence_length 1024"),
    ("stages: {sft: {mix: {pretrain_1t: 1}}}", "pretrain_1t is a mix of kind documents"),
    ("stages: {pretrain_1t: {mix: {sft: 1}}}", "sft is a mix of kind packed"),
    # one stage after another
    (
        "stages: {pretrain_3p2t: {schedule: {train_iters: 100}}}",
        "100 is cumulative and pretrain_1t already ends at 100",
    ),
    (
        "stages: {pretrain_3p2t: {schedule: {train_iters: null, train_samples: 900, lr_warmup_iters: 0}}}",
        "both must count train_iters or neither",
    ),
    # reinforcement learning
    ("stages: {rl_math: {steps: 17}}", "17, but 512 prompts give 16 steps an epoch x 1 epochs = 16"),
    ("stages: {rl_math: {prompts: {train: 31}}}", "32 prompts a step, but there are only 31"),
    (
        "stages: {rl_math: {learner: {max_tokens_per_microbatch: 95}}}",
        "95 cannot hold the longest trajectory",
    ),
    ("stages: {rl_math: {rollout: {max_model_len: 2048}}}", "2048 is longer than sft was trained for"),
    ("stages: {rl_math: {rollout: {max_model_len: 90}}}", "96 exceeds rollout.max_model_len 90"),
    (
        "stages: {rl_math: {evaluation: {sampling: {max_tokens: 97}}}}",
        "evaluation.sampling.max_tokens: 97 e",
    ),
    (
        "stages: {rl_math: {max_prompt_tokens: 96}}",
        "stages.rl_math.rollout.sampling.max_tokens: 96 leaves no room for a response",
    ),
    (
        "stages: {rl_math: {max_prompt_tokens: 96}}",
        "stages.rl_math.evaluation.sampling.max_tokens: 96 leaves no room for a response",
    ),
    ("stages: {rl_math: {rollout: {sampling: {n_samples: 1}}}}", "a group of 1 has no spread"),
    ("stages: {rl_math: {rollout: {sampling: {greedy: true}}}}", "sampling.greedy: all responses to a"),
    ("stages: {rl_math: {rollout: {sampling: {temperature: 0.0}}}}", "sampling.temperature: all responses"),
    ("stages: {rl_math: {rollout: {sampling: {ignore_eos: true}}}}", "every response would be cut off"),
    ("stages: {rl_math: {learner: {minibatches: 257}}}", "only batch_size x n_samples = 256 responses"),
    ("stages: {rl_math: {learner: {kl_coefficient: 0.1}}}", "there is no reference policy; use 0"),
    ("stages: {rl_math: {learner: {processes: 2}}}", "muon needs whole matrices, and 2 processes shard them"),
    ("stages: {rl_math: {learner: {recompute_logprob: false}}}", "recompute_logprob is false; set both or"),
    (
        "stages: {rl_math: {learner: {reward_scaling: -1.0}}}",
        "reward_scaling: input should be greater",
    ),
    (
        "stages: {rl_math: {learner: {warmup_proportion: 1.5}}}",
        "warmup_proportion: input should be less",
    ),
    # what it starts, and where
    (
        "stages: {rl_math: {learner: {attention: flash_attention_2}}}",
        "stages.rl_math.learner.attention: flash_attention_2 needs GPUs",
    ),
    (
        "stages: {rl_math: {difficulty: {resources: {gpus_per_node: 1}}}}",
        "difficulty.resources.gpus_per_node: found 1, expected 0; the stage's engines run on CPUs",
    ),
    (
        "stages: {rl_math: {difficulty: {resources: {nodes: 2}}}}",
        "resources.nodes: found 2; one job is one",
    ),
    ("stages: {rl_math: {rollout: {engines: 3}}}", "rollout.engines: 3 on CPUs, and resources.nodes x"),
    ("stages: {rl_math: {rollout: {kv_cache_mb: 9000}}}", "kv_cache_mb: 9000 MB of all engines, and"),
    ("stages: {rl_math: {resources: {gpus_per_node: 1}}}", "1 GPUs, but rollout.engines x tensor_parallel"),
    ("stages: {rl_math: {learner: {weight_transfer: nccl}}}", "resources.gpus_per_node is 0; use auto"),
    ("stages: {rl_math: {rollout: {tensor_parallel: 2}}}", "object_store does not reach the processes"),
]

BIG_CASES = [
    (
        "stages: {pretrain_1t: {resources: {nodes: 25}}}",
        "768 is not a multiple of micro_batch_size x data-parallel",
    ),
    ("stages: {midtrain_256k: {parallel: {pipeline: 5}}}", "5 does not divide model.num_layers 32"),
    ("stages: {midtrain_256k: {parallel: {context: 8}}}", "all-to-all spreads the 4 key/value heads"),
    ("stages: {sft: {parallel: {tensor: 7}}}", "7 does not divide model.num_attention_heads 32"),
    (
        "stages: {rl_code: {rollout: {tensor_parallel: 3}, resources: {nodes: 2, gpus_per_node: 5}}}",
        "2 x 5 GPUs hold 2 engines of 3, not 4",
    ),
    ("stages: {rl_code: {rollout: {engines: 5}}}", "8 GPUs, but rollout.engines x tensor_parallel"),
    (
        "stages: {rl_math: {rollout: {engines: 1, tensor_parallel: 3}}}",
        "stages.rl_math.rollout.tensor_parallel: 3 does not divide model.num_attention_heads 32",
    ),
    (
        "stages: {rl_math: {difficulty: {resources: {gpus_per_node: 0}}}}",
        "difficulty.resources.gpus_per_node: found 0, expected 1; an engine takes rollout.tensor_parallel",
    ),
]


@pytest.mark.parametrize(("text", "part"), NAMES + TINY_CASES)
def test_tiny(refused: Refused, text: str, part: str) -> None:
    assert part in refused(text)


@pytest.mark.parametrize(("text", "part"), BIG_CASES)
def test_big(refused: Refused, text: str, part: str) -> None:
    assert part in refused(text, BIG)


@pytest.mark.parametrize("name", sorted(DIRECTORIES))
def test_a_stage_may_not_take_a_directory_of_the_layout(refused: Refused, name: str) -> None:
    stage = "{kind: rl, init: sft, domain: math, steps: 1, prompts: {kind: demo, train: 384, valid: 8}}"
    assert f"stages.{name}: a stage cannot have this name" in refused(f"stages: {{{name}: {stage}}}")


def test_training_cannot_start_from_an_rl_policy(refused: Refused) -> None:
    text = (
        "stages:\n  again: {kind: sft, init: rl_math, mix: {sft: 1}, data_order: cyclic, seq_length: 1024,\n"
    )
    text += "    micro_batch_size: 1, global_batch_size: 1, optimizer: {lr: 0.1}, schedule: {epochs: 1}}\n"
    assert "stages.again.init: rl_math is an RL stage" in refused(text)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "::",
            "",
            "localhost:8719",
            "ftp://host:1",
            "http://",
            "http://:8719",
            "http://host:port",
            "http://[",
        ),
        *(
            "http://host:99999",
            "http://host:0",
            "http://a b:1",
            "http://host/?a=b",
            "http://me:secret@host:1",
        ),
        *("http://host\n:1", "http://ho%st", "http://é", "http://[::x]:1", "http://a..b:1"),
    ],
)
def test_a_service_needs_an_address(refused: Refused, url: str) -> None:
    message = refused(f"stages: {{rl_math: {{reward: {{sandbox: {{url: {json.dumps(url)}}}}}}}}}")
    assert "reward.sandbox.url: found" in message and "expected http://HOST:PORT" in message


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8719",
        "https://node-7.cluster:80/code",
        "http://[::1]:9",
        "http://sandbox",
        "HTTP://A_b.c./",
    ],
)
def test_addresses_of_services(overlay: Callable[..., Recipe], url: str) -> None:
    recipe = overlay(f"stages: {{rl_math: {{reward: {{sandbox: {{url: {json.dumps(url)}}}}}}}}}")
    assert recipe.rl_stages()["rl_math"].reward.sandbox.url == url


def test_no_whole_number_is_beyond_64_bits() -> None:
    """Of any key: 10^40 engines passed, and numpy or a file's reader would refuse them hours later."""
    seen = 0
    for section in sections():
        for name, field in section.model.model_fields.items():
            if int not in variants(field.annotation):
                continue
            seen += 1
            with pytest.raises(ValidationError) as caught:
                section.model.model_validate({name: 10**40})
            assert (name,) in {error["loc"][:1] for error in caught.value.errors()}, (section.model, name)
    assert seen > 100


def test_all_contradictions_are_listed_at_once(refused: Refused) -> None:
    message = refused(
        "stages: {sft: {seq_length: 512}, rl_math: {steps: 90}, pretrain_1t: {data_order: shuffled}}"
    )
    assert "3 problems" in message


def test_other_layouts_of_the_same_recipe_are_fine(overlay: Callable[..., Recipe]) -> None:
    overlay("stages: {pretrain_1t: {resources: {nodes: 12}}, sft: {resources: {nodes: 6}}}", BIG)
    overlay("stages: {sft: {resources: {processes_per_node: 2}, parallel: {tensor: 2}}}")
