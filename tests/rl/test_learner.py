"""The learner against plain computations on the model, and its saved state."""

import json
import shutil
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from zgcm.config.rl import Learner as Settings
from zgcm.rl.batch import micro_batch
from zgcm.rl.learner import Learner
from zgcm.rl.trajectory import Trajectory
from zgcm.rl.weights import checksum, pack, unpack
from zgcm.rundir.manifest import verify_manifest

TINY = {
    "lr": 1e-3,
    "dtype": "float32",
    "attention": "sdpa",
    "minibatches": 2,
    "max_tokens_per_microbatch": 64,
}


def build(policy: Path, **settings: Any) -> Learner:
    return Learner(policy, Settings(**{**TINY, **settings}), temperature=settings.pop("temperature", 1.0))


def batch(count: int = 6) -> list[Trajectory]:
    generator = torch.Generator().manual_seed(3)
    made = []
    for number in range(count):
        prompt, answer = (
            torch.randint(5, 260, (size,), generator=generator).tolist()
            for size in (4 + number, 20 - 2 * number)
        )
        advantage = 1.0 if number % 2 else -1.0
        made.append(Trajectory(prompt, answer, [-4.0] * len(answer), advantage))
    return made


def alone(learner: Learner, item: Trajectory) -> torch.Tensor:
    """Log-probabilities of one trajectory, straight from the logits."""
    ids = torch.tensor([item.prompt_ids + item.token_ids])
    logprobs = learner.model(input_ids=ids, use_cache=False).logits[0].log_softmax(-1)
    positions = torch.arange(len(item.prompt_ids) - 1, len(item) - 1)
    return logprobs[positions, ids[0, positions + 1]]


def test_compare_equals_one_trajectory_at_a_time(policy: Path) -> None:
    learner, items = build(policy), batch()
    found = learner.compare(items)
    with torch.no_grad():
        expected = [alone(learner, item) for item in items]
    for mine, other in zip(found.logprobs, expected, strict=True):
        torch.testing.assert_close(torch.tensor(mine), other, atol=1e-5, rtol=0)
    gap = (torch.cat(expected) + 4.0).abs()
    assert found.gap_mean == pytest.approx(float(gap.mean()), abs=1e-5)
    assert found.gap_max == pytest.approx(float(gap.max()), abs=1e-5)


def test_packed_row_equals_padded_rows(policy: Path) -> None:
    learner, items = build(policy), batch()
    values = []
    for packed in (False, True):
        data = micro_batch(items, packed=packed, device=torch.device("cpu"))
        values.append(learner._logprobs(data)[0])
    torch.testing.assert_close(values[0], values[1], atol=1e-5, rtol=0)


def test_micro_batch_size_does_not_change_the_update(policy: Path) -> None:
    after = []
    for capacity in (32, 4096):
        learner = build(policy, max_tokens_per_microbatch=capacity)
        stats = learner.step(batch(), 0, 10)
        after.append((stats, learner.weights()[0]))
    assert after[0][0]["loss"] == pytest.approx(after[1][0]["loss"], abs=1e-6)
    for (_, one), (_, two) in zip(unpack(after[0][1]), unpack(after[1][1]), strict=True):
        torch.testing.assert_close(one, two, atol=2e-5, rtol=1e-4)


def test_a_step_is_the_gradient_of_the_formula(policy: Path) -> None:
    """One minibatch without recomputation: the gradient norm equals autograd's on the plain formula."""
    items = batch()
    learner = build(policy, minibatches=1)
    with torch.no_grad():
        items = [
            Trajectory(item.prompt_ids, item.token_ids, alone(learner, item).tolist(), item.advantage)
            for item in items
        ]
    total = sum(
        (-(alone(learner, item) - alone(learner, item).detach()).exp() * item.advantage).sum()
        for item in items
    ) / sum(len(item.token_ids) for item in items)
    total.backward()
    expected = torch.nn.utils.get_total_norm(
        [p.grad for p in learner.model.parameters() if p.grad is not None]
    )
    learner.model.zero_grad()
    stats = learner.step(items, 0, 10)
    assert stats["grad_norm"] == pytest.approx(float(expected), rel=1e-4)
    assert stats["loss"] == pytest.approx(float(total.detach()), abs=1e-6)
    assert stats["logprob_gap_max"] < 1e-5 and stats["clipped_fraction"] == 0


class VocabularyWide(TorchDispatchMode):
    """The most elements of matrices as wide as the vocabulary that exist at once; its projection aside."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.channels, self.width = learner.model.config.hidden_size, learner.model.config.vocab_size
        self.known: Any = WeakIdKeyDictionary()
        self.alive = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and self.counts(tensor):
                self.add(tensor.untyped_storage())
        return made

    def counts(self, tensor: torch.Tensor) -> bool:
        return tensor.ndim == 2 and tensor.shape[1] == self.width and tensor.shape[0] != self.channels

    def add(self, storage: Any) -> None:
        if storage in self.known:
            return
        size = storage.nbytes() // 4
        self.known[storage] = True
        weakref.finalize(storage, self.free, size)
        self.alive += size
        self.peak = max(self.peak, self.alive)

    def free(self, size: int) -> None:
        self.alive -= size


def peaks(learner: Learner, items: list[Trajectory]) -> dict[str, int]:
    """Of a forward pass, what it keeps for the backward pass, the backward pass, and a comparison."""
    data = micro_batch(items, packed=False, device=torch.device("cpu"))
    with VocabularyWide(learner) as forward:
        total = learner._logprobs(data)[0].sum()
    kept = forward.alive
    with VocabularyWide(learner) as backward:
        total.backward()
    with VocabularyWide(learner) as comparison:
        learner.compare(items)
    return {
        "forward": forward.peak,
        "kept": kept,
        "backward": backward.peak,
        "comparison": comparison.peak,
    }


def test_full_logits_never_exist_at_once(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 69,632 tokens and 154,880 words they would be 43 GB; and again 43 GB for the backward pass."""
    learner, items = build(policy, max_tokens_per_microbatch=4096), batch()
    width = learner.model.config.vocab_size
    everything = width * sum(len(item.token_ids) for item in items)
    assert min(peaks(learner, items).values()) >= everything, "one chunk alone may keep them"
    whole = [parameter.grad.clone() for parameter in learner.model.parameters()]
    learner.model.zero_grad()
    chunk = 8 * width
    monkeypatch.setattr("zgcm.rl.learner.LOGITS_CHUNK", chunk)
    found = peaks(learner, items)
    assert found["kept"] == 0
    assert max(found.values()) <= 4 * chunk < everything / 2
    for parameter, once in zip(learner.model.parameters(), whole, strict=True):
        # sums in another order: single elements that nearly cancel differ by 1e-3, the gradient does not
        assert (parameter.grad - once).norm() <= 1e-5 * once.norm()


def recomputed(learner: Learner, items: list[Trajectory]) -> tuple[int, int]:
    """Of a forward and backward pass: how often a layer's MLP began, and the elements kept in between."""
    begun, kept = [0], [0]

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[0] += tensor.numel() if not isinstance(tensor, torch.nn.Parameter) else 0
        return tensor

    def begin(*_: Any) -> None:
        begun[0] += 1

    for layer in learner.model.model.layers:
        layer.mlp.register_forward_pre_hook(begin)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        total = learner._logprobs(micro_batch(items, packed=False, device=torch.device("cpu")))[0].sum()
    total.backward()
    return begun[0], kept[0]


def test_gradient_checkpointing_computes_layers_again_and_the_same_gradient(policy: Path) -> None:
    plain, checkpointed = (build(policy, gradient_checkpointing=on) for on in (False, True))
    layers = len(plain.model.model.layers)
    calls, everything = recomputed(plain, batch())
    calls_again, kept = recomputed(checkpointed, batch())
    assert (calls, calls_again) == (layers, 2 * layers)
    assert kept < everything / 2
    for one, two in zip(plain.model.parameters(), checkpointed.model.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)


def test_dropout_of_a_policy_is_off(policy: Path, tmp_path: Path) -> None:
    directory = shutil.copytree(policy, tmp_path / "policy")
    config = json.loads((directory / "config.json").read_bytes())
    (directory / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.5}))
    expected = build(policy).compare(batch()).logprobs
    assert build(directory).compare(batch()).logprobs == expected
    assert build(directory, disable_dropout=False).compare(batch()).logprobs != expected


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_saved_state_continues_bit_for_bit(policy: Path, tmp_path: Path, optimizer: str) -> None:
    straight = build(policy, optimizer=optimizer)
    straight.step(batch(), 0, 10)
    straight.save_state(tmp_path / "state")
    expected = straight.step(batch(), 1, 10)
    continued = build(policy, optimizer=optimizer)
    continued.load_state(tmp_path / "state")
    assert continued.step(batch(), 1, 10) == expected
    assert continued.weights()[1] == straight.weights()[1]


def test_saved_policy_loads_with_the_new_weights(policy: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    learner = build(policy)
    learner.step(batch(), 0, 10)
    digest = learner.save_policy(tmp_path / "policy")
    assert verify_manifest(tmp_path / "policy")["digest"] == digest
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy")
    assert checksum(unpack(pack(model.state_dict(), torch.float32))) == learner.weights()[1]
    assert (tmp_path / "policy" / "chat_template.jinja").exists()


def test_checksum_sees_every_bit_name_and_order() -> None:
    one = {"a": torch.zeros(3), "b": torch.ones(2, dtype=torch.bfloat16)}
    assert dict(unpack(pack(one, torch.float32)))["b"].tolist() == [1.0, 1.0]
    base = checksum(unpack(pack(one, torch.bfloat16)))
    flipped = {**one, "a": torch.tensor([0.0, 0.0, -0.0])}
    renamed = {"a": one["a"], "c": one["b"]}
    digests = {checksum(unpack(pack(state, torch.bfloat16))) for state in (flipped, renamed)}
    assert len(digests | {base}) == 3
