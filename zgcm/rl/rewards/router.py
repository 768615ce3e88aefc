"""Each answer to the judge of its prompt's domain: mathematics and instructions to verifier processes, code
to the sandbox. The domains of a batch are judged side by side."""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from zgcm.config.rl import DemoPrompts, Reward, RLStage
from zgcm.errors import ZgcmError
from zgcm.rl import demo
from zgcm.rl.formats import write_assets
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.pool import VerifierPool, verifier_pool
from zgcm.rl.rewards.registry import checkout_of
from zgcm.rl.rewards.score import (
    Answers,
    Finished,
    Scores,
    answers_of,
    score_code,
    score_instructions,
    score_math,
)
from zgcm.rl.rewards.worker import READY
from zgcm.rl.sandbox import assets
from zgcm.rl.sandbox.service import Service, service


@dataclass(frozen=True)
class Judges:
    """The judges that a stage needs; None for those that none of its prompts asks for."""

    reward: Reward
    special_tokens: Sequence[str]
    pool: VerifierPool | None
    service: Service | None

    def score(self, responses: Sequence[Finished], max_new_tokens: int, *, evaluating: bool) -> Scores:
        """Raw reward of each response, in their order; 0 for one that was cut off. Evaluations ask more of
        code: every test. Raises ZgcmError for what is no wrong answer: an unknown domain, a broken rollout, a
        checker that fails, a sandbox that does not answer."""
        answers = answers_of(responses, max_new_tokens, self.special_tokens)
        places: dict[str, list[int]] = defaultdict(list)
        for place, response in enumerate(responses):
            places[response.prompt.domain].append(place)

        def of_domain(domain: str) -> Scores:
            mine = places[domain]
            prompts = [responses[place].prompt for place in mine]
            return self._judge(domain, [answers[place] for place in mine], prompts, evaluating)

        found = Scores([0.0] * len(responses), [""] * len(responses))
        if places:
            with ThreadPoolExecutor(len(places), thread_name_prefix="judge") as threads:
                for domain, scores in zip(places, threads.map(of_domain, places), strict=True):
                    for place, raw, kind in zip(places[domain], scores.raw, scores.not_judged, strict=True):
                        found.raw[place], found.not_judged[place] = raw, kind
        return found

    def _judge(self, domain: str, answers: Answers, prompts: Sequence[Prompt], evaluating: bool) -> Scores:
        if domain == "math" and self.pool is not None:
            return score_math(answers, prompts, self.pool)
        if domain == "if" and self.pool is not None:
            return score_instructions(answers, prompts, self.pool)
        if domain == "code" and self.service is not None:
            ask, settings = self.service.verify, self.reward.sandbox
            return score_code(answers, prompts, ask, settings, self.service.at_a_time, evaluating=evaluating)
        raise ZgcmError("No judge for this domain", where=prompts[0].named(), found=repr(domain))

    def take_retries(self) -> int:
        """How often the sandbox had to be asked again since the last call; no verdict changed by it."""
        return self.service.take_retries() if self.service is not None else 0


@contextlib.contextmanager
def judges(
    stage: RLStage, prompts: Sequence[Prompt], special_tokens: Sequence[str], directory: Path
) -> Iterator[Judges]:
    """Start what the domains of the prompts need, and stop it. Demo tests go to `directory`/tests, the
    sandbox's own lines to `directory`/logs. Raises ZgcmError when tests are missing or damaged, or the
    sandbox does not start or does not hold."""
    domains = {prompt.domain for prompt in prompts}
    reward = stage.reward
    with contextlib.ExitStack() as stack:
        pool, sandbox = None, None
        if "code" in domains:
            tests = assets_of(stage, prompts, directory)
            log = directory / "logs" / "sandbox.log"
            sandbox = stack.enter_context(service(reward.sandbox, tests, log))
        if verified := [domain for domain in READY if domain in domains]:
            checkout = checkout_of(reward)
            pool = stack.enter_context(
                verifier_pool(reward.workers, reward.verify_timeout, reward.tolerance, verified, checkout)
            )
        yield Judges(reward, special_tokens, pool, sandbox)


def assets_of(stage: RLStage, prompts: Sequence[Prompt], directory: Path) -> Path | None:
    """Where the tests of code lie, each checked; None where only a service elsewhere has them."""
    source = stage.prompts
    if isinstance(source, DemoPrompts):
        root = directory / "tests"
        write_assets(root, demo.tests(stage))
    elif source.assets is not None:
        root = Path(source.assets)
    elif stage.reward.sandbox.url is not None:
        return None
    else:
        raise ZgcmError(
            "Prompts of code have no tests", where="prompts.assets",
            expected="the directory of their tests, or reward.sandbox.url of a service that has them",
        )  # fmt: skip
    tasks = {prompt.code_asset_hash: prompt.task_type for prompt in prompts if prompt.domain == "code"}
    assets.check(root, tasks)
    return root
