"""The GRPO loop: sample, reward, filter, update, synchronise, record, save, evaluate.

Steps are counted from 1 in files and on the screen; policy version n has seen n updates. Everything random is
seeded by (stage seed, step, prompt), so a run that was killed and continued gives the same `reward.jsonl`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from zgcm.config.rl import Sampling
from zgcm.errors import ZgcmError
from zgcm.rl import markers, recover
from zgcm.rl.evaluation import evaluate_and_mark
from zgcm.rl.experience import (
    UPDATE_KEYS,
    by_domain,
    policy_directory,
    saved_versions,
    step_record,
    trajectories,
)
from zgcm.rl.prompts import MIXED, Prompt
from zgcm.rl.rewards.router import Judges
from zgcm.rl.steps import judge, prompts_of, requests_of
from zgcm.rl.sync import weight_sync
from zgcm.rl.trajectory import Groups
from zgcm.rundir.manifest import is_complete
from zgcm.stopping import Stopped, how_far

if TYPE_CHECKING:
    from zgcm.rl.actors import Learners, Rollouts
    from zgcm.rl.prepare import Run

PROBE_PROMPTS = 4
PROBE_TOKENS = 64
"""At most, of a response that proves a version after its sync: seconds, where whole ones take minutes."""
GAP_LIMIT = {"float32": 1e-3, "bfloat16": 0.1}
"""Largest mean |learner - rollout| log-probability of one and the same policy; measured in fp32: 1e-6."""


def probe_sampling(sampling: Sampling) -> Sampling:
    """The same distribution, cut short."""
    longest = min(PROBE_TOKENS, sampling.max_new_tokens)
    shortest = min(sampling.min_new_tokens, longest)
    return sampling.model_copy(update={"max_new_tokens": longest, "min_new_tokens": shortest})


class Loop:
    """The state of a running stage."""

    def __init__(
        self,
        run: "Run",
        learners: "Learners",
        rollouts: "Rollouts",
        judges: Judges,
        say: Callable[[str], None],
    ) -> None:
        self.job, self.stage = run, run.stage
        self.learners, self.rollouts, self.judges, self.say = learners, rollouts, judges, say
        self.seconds: dict[str, float] = defaultdict(float)
        self.sync = weight_sync(run.stage, learners, rollouts)
        self.version = 0
        self.pending: Groups | None = None
        """Responses for the next step, where rollouts may be one update behind."""

    def run(self) -> None:
        """From the last recover point (or the start) to the last step, evaluations and policies included."""
        self._resume()
        self._gate()
        self._stop_if_asked()
        self._finish_version(resumed=self.version > 0)
        while self.version < self.stage.steps:
            self._stop_if_asked()
            self._step()
            self._stop_if_asked()
            self._finish_version(resumed=False)

    def _stop_if_asked(self) -> None:
        """Between steps. Raises Stopped once the version is saved; its evaluation may come later."""
        if not (number := self.job.asked_to_stop()):
            return
        if recover.newest_step(self.job.directory) < self.version:
            self._save_recover_point()
        raise Stopped(number, how_far(self.job.name, self.version, self.stage.steps))

    def _finish_version(self, *, resumed: bool) -> None:
        """What a policy version leaves behind, unless it already did."""
        self._save_policy_if_due()
        self._evaluate_if_due(resumed=resumed)

    # --- before the first step --------------------------------------------------------------------------
    def _resume(self) -> None:
        run = self.job.directory
        point = recover.newest(run)
        if point is not None:
            self.version, self.pending = recover.load(point)
            self.learners.load_state(point / "learner")
            self.say(f"{self.job.name} continues after step {self.version}/{self.stage.steps}")
        for name in ("reward.jsonl", "speed.jsonl"):
            recover.cut_back(run / name, self.version)

    def _gate(self) -> None:
        """Prove, before anything depends on it, that the engines sample from the learner's weights."""
        begun = time.monotonic()
        before = self._versions()
        with self._timed("gate"):
            digest = self.sync(self.version)
            gap = self._prove_version(self.stage.rollout.sampling)
        after = self._versions()
        if set(after.values()) != {self.version}:
            raise ZgcmError(
                "The engines hold another version after the sync", where=f"version {self.version}",
                found=str(after), hint="the same command starts engines anew, from the last recover point",
            )  # fmt: skip
        markers.write_gate(
            self.job.directory,
            self.version,
            versions_before=before,
            versions_after=after,
            transport=self.stage.weight_transport(),
            weights_checksum=digest,
            logprob_gap_mean=gap,
            elapsed_seconds=time.monotonic() - begun,
        )

    def _versions(self) -> dict[str, int]:
        """Of learner and engines; evaluations ask the same engines, and the published marker names both."""
        engines = self.rollouts.versions()
        if len(set(engines)) > 1:
            raise ZgcmError(
                "Rollout engines hold different versions", found=", ".join(map(str, engines)),
                hint="the same command starts engines anew, from the last recover point",
            )  # fmt: skip
        return {"actor": self.version, "rollout": engines[0], "eval_rollout": engines[0]}

    def _prove_version(self, sampling: Sampling) -> float:
        """Mean log-probability gap of learner and engines, both at this version. Raises ZgcmError.

        A step's own responses prove nothing where they are one update old: their gap holds that update too.
        """
        prompts = self.job.train[:PROBE_PROMPTS]
        groups = self.rollouts.generate(requests_of(self.stage, prompts, "gate", 0), sampling)
        probe = trajectories(prompts, groups, np.zeros(sum(map(len, groups))))
        gap = self.learners.compare(probe).gap_mean
        self._check_gap(gap)
        return gap

    # --- one step ---------------------------------------------------------------------------------------
    def _step(self) -> None:
        stage, step = self.stage, self.version
        begun = dict(self.seconds)
        prompts = prompts_of(stage, self.job.train, step)
        groups = self.pending
        if groups is None:
            with self._timed("rollout"):
                groups = self._sample(prompts, "train", step)
        ahead = None
        if stage.rollout.max_head_offpolicyness > 0 and step + 1 < stage.steps:
            following = prompts_of(stage, self.job.train, step + 1)
            asked = requests_of(stage, following, "train", step + 1)
            ahead = self.rollouts.start(asked, stage.rollout.sampling)
        with self._timed("reward"):
            judged = judge(self.job, self.judges, prompts, groups)
        update: dict[str, Any] = dict.fromkeys(UPDATE_KEYS)
        if judged.batch:
            with self._timed("learner"):
                update |= self.learners.step(judged.batch, step, stage.steps)
            if all(response.version == step for group in groups for response in group):
                self._check_gap(update["logprob_gap_mean"])
        if ahead is not None:
            with self._timed("rollout"):
                self.pending = self.rollouts.collect(ahead)
        else:
            self.pending = None
        self.version = step + 1
        with self._timed("sync"):
            self.sync(self.version)
        with self._timed("proof"):
            proven = self._prove_version(probe_sampling(stage.rollout.sampling))
        record = step_record(self.version, groups, judged)
        if stage.domain == MIXED:
            record["domains"] = by_domain(prompts, groups, judged.raw)
        self._record(record | update | {"version_gap_mean": proven}, begun)

    def _record(self, record: dict[str, Any], begun: dict[str, float]) -> None:
        run, stage = self.job.directory, self.stage
        self.job.check_owner()
        recover.append(run / "reward.jsonl", record)
        if self.version % stage.checkpoints.recover_every_steps == 0 or self.version == stage.steps:
            self._save_recover_point()
        spent = {part: round(total - begun.get(part, 0.0), 3) for part, total in self.seconds.items()}
        spent = {part: seconds for part, seconds in spent.items() if seconds}
        speed = {"step": self.version, "seconds": spent, "sandbox_retries": self.judges.take_retries()}
        recover.append(run / "speed.jsonl", speed)
        rejected = sum(record["rejected"].values())
        gap = record["logprob_gap_mean"]
        self.say(
            f"{self.job.name} {self.version}/{stage.steps} reward {record['mean_raw_reward']:.3f} "
            f"tokens {record['mean_tokens']:.1f} groups left out {rejected}/{record['groups']} "
            f"logprob gap {'-' if gap is None else f'{gap:.1e}'} {sum(spent.values()):.1f} s"
        )

    def _save_recover_point(self) -> None:
        keep = self.stage.checkpoints.keep_recent
        with self._timed("recover"):
            recover.save(self.job.directory, self.version, self.learners.save_state, self.pending, keep)

    # --- rollouts ---------------------------------------------------------------------------------------
    def _sample(self, prompts: Sequence[Prompt], purpose: str, step: int) -> Groups:
        asked = requests_of(self.stage, prompts, purpose, step)
        return self.rollouts.generate(asked, self.stage.rollout.sampling)

    def _check_gap(self, gap: float) -> None:
        limit = GAP_LIMIT[self.stage.rollout.dtype]
        if not gap <= limit:
            raise ZgcmError(
                "Learner and rollout engine disagree about the same policy",
                where=f"version {self.version}",
                found=f"mean log-probability gap {gap:.3g}",
                expected=f"at most {limit:g} in {self.stage.rollout.dtype}",
                hint="compare the two model implementations; training on would collapse silently",
            )

    # --- evaluations and policies -------------------------------------------------------------------------
    def _evaluate_if_due(self, *, resumed: bool) -> None:
        stage, run = self.stage, self.job
        if self.version not in stage.evaluation_versions():
            return
        marker = markers.read_marker(run.directory, self.version)
        if marker is None:
            with self._timed("evaluation"):
                marker = evaluate_and_mark(run, self.rollouts, self.judges, self.version, resumed=resumed)
        stats = marker["stats"]
        self.say(
            f"{run.name} evaluation of version {self.version}: reward {stats[markers.RAW_REWARD]:.3f} over "
            f"{stats[markers.COMPLETIONS]} completions "
            f"(standard error {stats['eval/raw_correct_standard_error']:.3f})"
        )

    def _save_policy_if_due(self) -> None:
        if self.version not in saved_versions(self.stage, len(self.job.train)):
            return
        directory = policy_directory(self.job.directory, self.version)
        if is_complete(directory):
            return
        self.job.check_owner()
        with self._timed("policy"):
            self.learners.save_policy(directory)

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        begun = time.monotonic()
        yield
        self.seconds[part] += time.monotonic() - begun
