"""The layer specs: which layers see what, packed sequences, context-parallel positions."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.train.engine import one_process_engine, tiny_model


def logits(model, tokens, packing=None):
    import torch

    with torch.no_grad():
        return model(tokens[None], torch.arange(len(tokens))[None], None, packed_seq_params=packing)[0]


def test_gate_and_window_belong_to_window_layers():
    one_process_engine()
    layers = tiny_model("window", num_layers=4).decoder.layers
    rows = [layer.self_attention.linear_qkv.weight.shape[0] for layer in layers]
    assert rows == [192, 128, 192, 128]
    assert [layer.self_attention.core_attention.window for layer in layers] == [7, None, 7, None]


def test_a_window_layer_sees_its_window_and_no_more():
    one_process_engine()
    import torch

    model = tiny_model("window", num_layers=1, window=7).eval()
    tokens = torch.randint(0, 64, (40,), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[10] = (changed[10] + 1) % 64
    moved = (logits(model, tokens) - logits(model, changed)).abs().amax(-1) > 0
    assert moved.nonzero().flatten().tolist() == list(range(10, 18))


@pytest.mark.parametrize("edges", [(0, 12, 40, 57, 64), (0, 3, 64), (0, 64, 64)])
def test_packed_sequences_equal_separate_ones(edges):
    one_process_engine()
    import torch

    from zgcm.model.megatron import install_packed_rope
    from zgcm.train.entry import packed_params

    install_packed_rope()
    model = tiny_model().eval()
    tokens = torch.randint(0, 64, (64,), generator=torch.Generator().manual_seed(0))
    packing = packed_params(torch.tensor([edges], dtype=torch.int32))
    parts = [(a, b) for a, b in itertools.pairwise(edges) if a != b]
    separate = torch.cat([logits(model, tokens[a:b]) for a, b in parts])
    torch.testing.assert_close(logits(model, tokens, packing), separate, rtol=0, atol=1e-6)


def test_padded_rows_and_one_mask_agree(monkeypatch):
    one_process_engine()
    import torch

    from zgcm.model import megatron
    from zgcm.train.entry import packed_params

    model = tiny_model().eval()
    tokens = torch.randint(0, 64, (64,), generator=torch.Generator().manual_seed(0))
    packing = packed_params(torch.tensor([(0, 20, 30, 64)], dtype=torch.int32))
    padded = logits(model, tokens, packing)
    monkeypatch.setattr(megatron, "padded_layout", lambda boundaries: None)
    torch.testing.assert_close(padded, logits(model, tokens, packing), rtol=0, atol=1e-6)


def test_packed_rope_equals_upstreams_bit_for_bit():
    one_process_engine()
    import importlib

    import torch
    from megatron.core import parallel_state
    from megatron.core.models.common.embeddings import rope_utils

    from zgcm.model.megatron import packed_rope

    upstream = importlib.util.find_spec(rope_utils.__name__)
    fresh = importlib.util.module_from_spec(upstream)
    upstream.loader.exec_module(fresh)
    edges = torch.tensor([0, 5, 9, 30])
    freqs = torch.randn(21, 1, 1, 4)
    group = parallel_state.get_context_parallel_group()
    for dtype in (torch.float32, torch.bfloat16):
        t = torch.randn(30, 4, 16, dtype=dtype)
        theirs = fresh._apply_rotary_pos_emb_thd(t, edges, freqs, cp_group=group)
        assert torch.equal(packed_rope(t, edges, freqs, cp_group=group), theirs)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 4))
def test_context_ranks_share_every_position_once_and_evenly(chunks, size):
    from zgcm.model.megatron import causal_mask, rank_positions

    edges = tuple(itertools.accumulate((2 * size * chunk for chunk in chunks), initial=0))
    parts = [rank_positions(edges, size, rank).tolist() for rank in range(size)]
    assert sorted(itertools.chain(*parts)) == list(range(edges[-1]))
    seen = [causal_mask(edges, None, size, rank) for rank in range(size)]
    work = {int(mask.sum()) if mask is not None else 0 for mask in seen}
    assert len(work) == 1  # the zigzag gives every rank the same number of query-key pairs


def test_a_segment_that_does_not_divide_is_refused():
    from zgcm.model.megatron import rank_positions

    with pytest.raises(ValueError, match="multiple of 2 x 2"):
        rank_positions((0, 6), 2, 0)


def test_bf16_products_are_rounded_once():
    one_process_engine()
    import torch

    a, b = torch.randn(7, 33).bfloat16(), torch.randn(33, 5).bfloat16()
    assert torch.equal(a @ b, (a.double() @ b.double()).float().bfloat16())
    assert (a @ b).dtype == torch.bfloat16
