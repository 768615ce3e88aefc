"""megatron-core in the test's own process: one CPU rank and a model of two layers, one window, one global."""

import os
import warnings


def one_process_engine() -> None:
    """Idempotent: the CPU layer, a gloo group of one, megatron's process groups and generators."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    warnings.filterwarnings("ignore")
    from zgcm.train import cpu

    cpu.install()
    import torch
    from megatron.core import parallel_state
    from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed

    if not torch.distributed.is_initialized():
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    if not parallel_state.model_parallel_is_initialized():
        parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1)


def tensor_parallel_size() -> int:
    from megatron.core import parallel_state

    return parallel_state.get_tensor_model_parallel_world_size()


def tiny_model(gate: str = "window", num_layers: int = 2, window: int = 7, query_groups: int = 2):
    import torch
    from megatron.core.models.gpt import GPTModel
    from megatron.core.transformer.transformer_config import TransformerConfig

    from zgcm.model.megatron import block_spec

    config = TransformerConfig(
        **{"num_layers": num_layers, "hidden_size": 32, "ffn_hidden_size": 64, "kv_channels": 16},
        **{"num_attention_heads": 2 * query_groups, "num_query_groups": query_groups},
        **{"window_size": (window, 0), "tensor_model_parallel_size": tensor_parallel_size()},
        **{"window_attn_skip_freq": 2, "hidden_dropout": 0, "attention_dropout": 0, "qk_layernorm": True},
        **{"normalization": "RMSNorm", "gated_linear_unit": True, "add_bias_linear": False},
        **{"activation_func": torch.nn.functional.silu, "masked_softmax_fusion": False},
        **{"bias_dropout_fusion": False, "apply_rope_fusion": False, "use_cpu_initialization": True},
        transformer_impl="local",
    )
    return GPTModel(
        config,
        block_spec(config, gate),
        **{"vocab_size": 64, "max_sequence_length": 128, "position_embedding_type": "rope"},
        **{"rotary_percent": 0.334, "share_embeddings_and_output_weights": False},
    )
