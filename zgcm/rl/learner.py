"""The torch learner: recompute log-probabilities, take clipped policy-gradient steps, save and load state.

One process trains the plain model; several shard it with FSDP2. Each process gets the whole batch and takes
every `world`-th micro-batch, so which process computes what never depends on timing.

Axes: L tokens of a row, T response tokens of a micro-batch, C channels, V vocabulary.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint import state_dict as dcp_state
from torch.utils.checkpoint import checkpoint

from zgcm.config.rl import Learner as Settings
from zgcm.errors import ZgcmError
from zgcm.rl.batch import MicroBatch, Share, flat, micro_batch, shares
from zgcm.rl.loss import grpo_loss, warmup_factor
from zgcm.rl.packing import minibatches
from zgcm.rl.policy import build_optimizers, gathered_weight, load_policy, save_policy, shard
from zgcm.rl.trajectory import Comparison, Trajectory, seed_of
from zgcm.rl.weights import Payload, checksum, pack, unpack

LOGITS_CHUNK = 1 << 28
"""Elements of a matrix as wide as the vocabulary (1 GB in fp32); a longer micro-batch is projected in chunks.
At most four such matrices exist at once: logits, log-probabilities, probabilities and their product."""


class Learner:
    """A policy and its optimizers."""

    def __init__(
        self, policy: Path, settings: Settings, *, temperature: float, rank: int = 0, world: int = 1
    ) -> None:
        self.origin, self.settings, self.temperature = policy, settings, temperature
        self.rank, self.world = rank, world
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype: torch.dtype = getattr(torch, settings.dtype)
        self.packed = settings.attention.startswith("flash")
        self.model: Any = load_policy(policy, settings, self.device)
        if world > 1:
            shard(self.model, self.dtype)
        self.optimizers = build_optimizers(self.model, settings)

    def step(self, batch: Sequence[Trajectory], step: int, total_steps: int) -> dict[str, float]:
        """One GRPO step (counted from 0): every minibatch of `batch` once. Returns statistics.

        Raises ZgcmError when the loss or a gradient is not finite: this learner is then of no use any more,
        and the run continues from its last recover point.
        """
        lr = self.settings.lr * warmup_factor(step, total_steps, self.settings.warmup_proportion)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr
        before = self.compare(batch)
        recompute = self.settings.recompute_logprob
        proximal = before.logprobs if recompute else [item.logprobs for item in batch]
        parts = minibatches(len(batch), self.settings.minibatches, seed_of("minibatches", step))
        losses, norms, clipped, masked = [], [], 0.0, 0.0
        for part in parts:
            loss, part_clipped, part_masked = self._accumulate(part, batch, proximal)
            losses.append(loss)
            norms.append(self._apply())
            clipped, masked = clipped + part_clipped, masked + part_masked
            if not math.isfinite(losses[-1] + norms[-1]):
                raise ZgcmError(
                    "The loss or its gradient is not finite",
                    where=f"step {step + 1}",
                    found=f"loss {losses[-1]}, gradient norm {norms[-1]}",
                    hint="lower learner.lr",
                )
        tokens = sum(len(item.token_ids) for item in batch)
        return {
            "loss": math.fsum(losses) / len(losses),
            "grad_norm": math.fsum(norms) / len(norms),
            "learning_rate": lr,
            "clipped_fraction": clipped / tokens,
            "masked_fraction": masked / tokens,
            "entropy": before.entropy,
            "logprob_gap_mean": before.gap_mean,
            "logprob_gap_max": before.gap_max,
        }

    def compare(self, batch: Sequence[Trajectory]) -> Comparison:
        """Recompute log-probabilities and entropy under the current weights."""
        mine: dict[int, tuple[list[float], float]] = {}
        for share in self._shares(range(len(batch)), batch):
            data = self._micro_batch(share, batch)
            with torch.no_grad():
                logprobs_T, entropy_T = self._logprobs(data, with_entropy=True)
            lengths = [len(batch[index].token_ids) for index in share.indices]
            parts = zip(logprobs_T.cpu().split(lengths), entropy_T.double().cpu().split(lengths), strict=True)
            for index, (logprobs, entropy) in zip(share.indices, parts, strict=True):
                mine[index] = (logprobs.tolist(), float(entropy.sum()))
        every: list[Any] = [mine]
        if self.world > 1:
            every = [None] * self.world
            torch.distributed.all_gather_object(every, mine)
        known = {index: value for one in every for index, value in one.items()}
        logprobs = [known[index][0] for index in range(len(batch))]
        gap = flat(logprobs, self.device) - flat([item.logprobs for item in batch], self.device)
        return Comparison(
            logprobs,
            math.fsum(known[index][1] for index in range(len(batch))) / len(gap),
            float(gap.abs().double().mean()),
            float(gap.abs().max()),
        )

    def weights(self) -> tuple[Payload, str]:
        """All weights in the training dtype, and their checksum. Every process must call it."""
        options = dcp_state.StateDictOptions(full_state_dict=True, cpu_offload=True)
        state: Any = dcp_state.get_model_state_dict(self.model, options=options)
        payload = pack(state, self.dtype)
        return payload, checksum(unpack(payload))

    def save_policy(self, directory: Path) -> str:
        """Write a Hugging Face directory (the first process does). Returns the digest of its files."""
        payload, _ = self.weights()
        if self.rank > 0:
            return ""
        return save_policy(directory, dict(unpack(payload)), self.origin, self.settings.dtype)

    def save_state(self, directory: Path) -> None:
        """Weights (fp32) and optimizer state, each process its part."""
        model, optimizers = dcp_state.get_state_dict(self.model, self.optimizers)
        dcp.save({"model": model, "optimizers": optimizers}, checkpoint_id=directory, no_dist=self.world == 1)

    def load_state(self, directory: Path) -> None:
        model, optimizers = dcp_state.get_state_dict(self.model, self.optimizers)
        state: dict[str, Any] = {"model": model, "optimizers": optimizers}
        dcp.load(state, checkpoint_id=directory, no_dist=self.world == 1)
        dcp_state.set_state_dict(
            self.model,
            self.optimizers,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizers"],
        )

    def _accumulate(
        self, part: list[int], batch: Sequence[Trajectory], proximal: Sequence[Sequence[float]]
    ) -> tuple[float, float, float]:
        """Gradient of one minibatch. Returns its loss, and how many of its tokens were clipped and masked."""
        tokens = sum(len(batch[index].token_ids) for index in part)
        sums = torch.zeros(3, dtype=torch.float64)
        for share in self._shares(part, batch):
            data = self._micro_batch(share, batch)
            logprobs_T, _ = self._logprobs(data)
            terms = grpo_loss(
                logprobs_T,
                flat([proximal[index] for index in share.indices], self.device),
                data.behaviour_T,
                data.advantages_T,
                eps_clip=self.settings.eps_clip,
                ratio_mask_upper=self.settings.ratio_mask_upper,
                decoupled=self.settings.decoupled_loss,
            )
            weight = 0.0 if share.filler else 1.0
            loss = terms.loss_T.sum() * (weight / tokens)
            # FSDP averages gradients over the processes, and this is a sum over all of them
            (loss * self.world).backward()
            counts = (terms.clipped_T.sum() * weight, terms.masked_T.sum() * weight)
            sums += torch.tensor([float(loss.detach()), *map(float, counts)], dtype=torch.float64)
        if self.world > 1:
            sums = sums.to(self.device)
            torch.distributed.all_reduce(sums)
        loss_sum, clipped, masked = sums.tolist()
        return loss_sum, clipped, masked

    def _apply(self) -> float:
        """Clip the gradient, update, forget it. Returns its norm before clipping."""
        norm: Any = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_grad)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)

    def _logprobs(self, data: MicroBatch, *, with_entropy: bool = False) -> tuple[Tensor, Tensor]:
        """Log-probability (and entropy, else empty) of each response token, fp32."""
        mixed = self.world == 1 and self.dtype != torch.float32
        with torch.autocast(self.device.type, self.dtype) if mixed else nullcontext():
            hidden_RLC = self.model(
                input_ids=data.input_ids_RL,
                position_ids=data.position_ids_RL,
                use_cache=False,
                compute_logits=False,
            ).hidden_states[0]
            hidden_TC = hidden_RLC[data.row_T, data.column_T]
            rows = max(1, LOGITS_CHUNK // self.model.config.vocab_size)
            chunks = list(zip(hidden_TC.split(rows), data.targets_T.split(rows), strict=True))
            # once for all chunks: processes have unlike numbers of them, and must run the same collectives
            head_VC = gathered_weight(self.model.lm_head.weight, self.dtype)
            if len(chunks) == 1:
                return self._project(head_VC, *chunks[0], with_entropy)
            parts = [
                checkpoint(self._project, head_VC, *chunk, with_entropy, use_reentrant=False)
                for chunk in chunks
            ]
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def _project(
        self, head_VC: Tensor, hidden_TC: Tensor, targets_T: Tensor, with_entropy: bool
    ) -> tuple[Tensor, Tensor]:
        logits_TV = torch.nn.functional.linear(hidden_TC, head_VC).float()
        if self.temperature != 1.0:
            logits_TV = logits_TV / self.temperature
        if not with_entropy:
            # not an empty slice of the logits, which would keep all of them until the last chunk is done
            nothing = logits_TV.new_empty(0)
            return -torch.nn.functional.cross_entropy(logits_TV, targets_T, reduction="none"), nothing
        logprobs_TV = logits_TV.log_softmax(-1)
        entropy_T = -(logprobs_TV.exp() * logprobs_TV).sum(-1)
        return logprobs_TV.gather(1, targets_T[:, None])[:, 0], entropy_T

    def _shares(self, indices: Sequence[int], batch: Sequence[Trajectory]) -> list[Share]:
        lengths = [len(batch[index]) for index in indices]
        capacity = self.settings.max_tokens_per_microbatch
        return shares(indices, lengths, capacity=capacity, rank=self.rank, world=self.world)

    def _micro_batch(self, share: Share, batch: Sequence[Trajectory]) -> MicroBatch:
        return micro_batch([batch[index] for index in share.indices], packed=self.packed, device=self.device)
