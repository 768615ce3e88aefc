"""Two FSDP2 processes on the CPU give one process's update, also where their micro-batches are unlike, and
save and load their state."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from test_learner import batch, build

from zgcm.rl.learner import Learner
from zgcm.rl.policy import build_optimizers
from zgcm.rl.trajectory import Trajectory
from zgcm.rl.weights import Payload, unpack

pytestmark = pytest.mark.slow

UNEVEN = {"minibatches": 1, "max_tokens_per_microbatch": 45}


def uneven() -> list[Trajectory]:
    """Micro-batches of 40, 24 and 16 response tokens: in chunks of 8, the first process has 5 and then 2, the
    second one 3 and then its filler's 5."""
    made = []
    for number, tokens in enumerate((40, 24, 16)):
        answer = [5 + (7 * number + 11 * place) % 255 for place in range(tokens)]
        made.append(Trajectory([9, 8 + number, 7, 6], answer, [-4.0] * tokens, 1.0 - 1.5 * number))
    return made


PROGRAM = """
import sys
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, {tests!r})
from test_learner import TINY, batch
from test_sharded import UNEVEN, uneven
from zgcm.config.rl import Learner as Settings
from zgcm.rl.learner import Learner
from zgcm.rl.weights import checksum, gathered

rank, policy, out = int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
torch.distributed.init_process_group(
    "gloo", init_method=f"file://{{out}}/rendezvous", rank=rank, world_size=2
)
settings = Settings(**TINY)
learner = Learner(policy, settings, temperature=1.0, rank=rank, world=2)
first = learner.step(batch(), 0, 10)
learner.save_state(out / "state")
second = learner.step(batch(), 1, 10)
payload, digest = learner.weights()
one_by_one = checksum(gathered(learner.model, learner.dtype))
assert rank > 0 or one_by_one == digest
half = checksum(gathered(learner.model, torch.bfloat16))
learner.dtype = torch.bfloat16
assert learner.weights()[1] == half or rank > 0
learner.dtype = torch.float32
again = Learner(policy, settings, temperature=1.0, rank=rank, world=2)
again.load_state(out / "state")
assert again.step(batch(), 1, 10) == second
again.load_state(out / "of_one")
after_one = again.step(batch(), 1, 10)
of_one = again.weights()[0]
patch("zgcm.rl.learner.LOGITS_CHUNK", 8 * learner.model.config.vocab_size).start()
settings = Settings(**{{**TINY, **UNEVEN}}, gradient_checkpointing=True)
learner = Learner(policy, settings, temperature=1.0, rank=rank, world=2)
third = learner.step(uneven(), 0, 10)
unlike = learner.weights()[0]
if rank == 0:
    torch.save([(first, payload), (after_one, of_one), (third, unlike)], out / "result.pt")
half = Learner(policy, Settings(**{{**TINY, "dtype": "bfloat16"}}), temperature=1.0, rank=rank, world=2)
found = (half.compare(batch()).logprobs, half.step(batch(), 0, 10)["grad_norm"])
if rank == 0:
    torch.save(found, out / "half.pt")
torch.distributed.destroy_process_group()
"""


def test_two_processes_equal_one(policy: Path, tmp_path: Path) -> None:
    alone = build(policy)
    expected = alone.step(batch(), 0, 10)
    alone.save_state(tmp_path / "of_one")
    afterwards = alone.step(batch(), 1, 10)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(tests=str(Path(__file__).parent)))
    processes = [
        subprocess.Popen(
            [sys.executable, str(program), str(rank), str(policy), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=600)[0].decode() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    results: list[tuple[dict[str, float], Payload]]
    results = torch.load(tmp_path / "result.pt", weights_only=False)
    require_same(*results[0], expected, alone)
    require_same(*results[1], afterwards, alone)
    continued = build(policy)  # a state is read by another number of processes, in both directions
    continued.load_state(tmp_path / "state")
    require_same(continued.step(batch(), 1, 10), continued.weights()[0], afterwards, alone)
    alone = build(policy, **UNEVEN, gradient_checkpointing=False)
    require_same(*results[2], alone.step(uneven(), 0, 10), alone)
    require_plain_bf16(*torch.load(tmp_path / "half.pt", weights_only=False), policy)


def require_plain_bf16(found: list[list[float]], grad_norm: float, policy: Path) -> None:
    """Log-probabilities of the model with bf16 weights, bit for bit: nothing else may be rounded, least of
    all positions, which the rollout engine keeps in fp32."""
    plain = build(policy)
    rotary = plain.model.model.rotary_emb
    frequencies = rotary.inv_freq.clone()
    plain.model.bfloat16()
    rotary.inv_freq = frequencies
    plain.optimizers = build_optimizers(plain.model, plain.settings)
    assert found == plain.compare(batch()).logprobs
    assert grad_norm == pytest.approx(plain.step(batch(), 0, 10)["grad_norm"], rel=0.01)


def require_same(
    stats: dict[str, float], payload: Payload, expected: dict[str, float], alone: Learner
) -> None:
    for name in ("loss", "grad_norm", "entropy", "logprob_gap_mean"):
        assert stats[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6)
    for (_, one), (_, two) in zip(unpack(payload), unpack(alone.weights()[0]), strict=True):
        torch.testing.assert_close(one, two, atol=1e-4, rtol=1e-3)
