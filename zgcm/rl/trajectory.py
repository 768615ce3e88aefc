"""What passes between rollout engines, rewards and learner."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One prompt to answer `n` times. The seed alone decides the answers, not the batch it is part of."""

    prompt_ids: list[int]
    seed: int


@dataclass(frozen=True)
class Response:
    token_ids: list[int]
    """With the end-of-text token, when the response finished by itself."""
    logprobs: list[float]
    """Of each token, by the policy that sampled it."""
    finish_reason: str
    """stop, length or abort."""
    version: int
    """Of that policy: the number of updates it has seen."""


Groups = list[list[Response]]
"""Responses, prompt by prompt."""


@dataclass(frozen=True)
class Trajectory:
    """A response to train on."""

    prompt_ids: list[int]
    token_ids: list[int]
    logprobs: list[float]
    advantage: float

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.token_ids)


@dataclass(frozen=True)
class Comparison:
    """The learner's view of a batch: its log-probabilities, and how far the rollout engine's lie from it."""

    logprobs: list[list[float]]
    """One list a trajectory."""
    entropy: float
    """Nats a response token."""
    gap_mean: float
    """Of |learner - rollout| log-probability over response tokens."""
    gap_max: float


def seed_of(*parts: int | str) -> int:
    """A seed (63 bits) for what `parts` name, for instance (stage seed, "train", step, prompt's place)."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
