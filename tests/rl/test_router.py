"""Each response goes to the judge of its prompt's domain, and what is no wrong answer is no 0."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from zgcm.config.rl import Reward, RLStage, Sandbox
from zgcm.errors import ZgcmError
from zgcm.io import sha256_bytes
from zgcm.rl.advantages import reject_reason
from zgcm.rl.evaluation import statistics
from zgcm.rl.experience import by_domain, shape
from zgcm.rl.formats import write_assets
from zgcm.rl.prompts import Prompt
from zgcm.rl.rewards.pool import Checked, Verdict
from zgcm.rl.rewards.router import Judges, assets_of, judges
from zgcm.rl.rewards.score import Finished, Scores
from zgcm.rl.sandbox.client import SandboxUnavailable
from zgcm.rl.trajectory import Response

TESTS = json.dumps(["assert f(1) == 2", "assert f(2) == 3", "assert f(0) == 5"]).encode()
HASH = sha256_bytes(TESTS)
NO_COMMA = {"instruction_id": "punctuation:no_comma", "kwargs": {}}
TITLE = {"instruction_id": "detectable_format:title", "kwargs": {}}


def prompt(domain: str, **fields: Any) -> Prompt:
    return Prompt(f"{domain}-1", [], fields.pop("answers", []), "", [1], domain, **fields)


MATH = prompt("math", answers=["7", r"\frac{1}{2}"])
CODE = prompt("code", task_type="code", code_asset_hash=HASH)
FORM = prompt("if", ifeval_spec=[NO_COMMA, TITLE])
PROGRAM = "t</think>```python\ndef f(x):\n    return x + 1\n```"


def finished(prompt: Prompt, text: str, reason: str = "stop") -> Finished:
    return Finished(text, 5, reason, prompt)


class FakePool:
    """Equal texts are equal; an answer without a comma satisfies everything."""

    def judge(self, pairs: list[tuple[str, str]]) -> list[Verdict]:
        return [
            Verdict(False, "timeout") if found == "9^9" else Verdict(found == gold) for found, gold in pairs
        ]

    def check(self, answers: list[tuple[str, Any]]) -> list[Checked]:
        fault = {"die": "died", "raise": "ZgcmError: The checker no_comma failed"}
        return [
            Checked([], fault[answer]) if answer in fault else Checked(["," not in answer] * len(spec))
            for answer, spec in answers
        ]


class FakeService:
    at_a_time = 2

    def __init__(self, score: float = 0.5) -> None:
        self.asked: list[dict[str, Any]] = []
        self.score = score

    def verify(self, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        if "down" in body["program"]:
            raise SandboxUnavailable("The sandbox does not answer")
        return {"score": self.score}


def made(service: FakeService | None = None) -> Judges:
    return Judges(Reward(), ["<|endoftext|>"], FakePool(), service)  # type: ignore[arg-type]


def score(*responses: Finished, service: FakeService | None = None, evaluating: bool = False) -> Scores:
    return made(service or FakeService()).score(responses, 8, evaluating=evaluating)


def test_each_domain_has_its_judge_and_order_is_kept() -> None:
    scores = score(
        finished(FORM, "t</think>a, b"),
        finished(MATH, r"t</think>\boxed{7}<|endoftext|>"),
        finished(CODE, PROGRAM),
        finished(MATH, r"t</think>\boxed{8}"),
        finished(FORM, "t</think>ab"),
    )
    assert scores.raw == [0.0, 1.0, 0.5, 0.0, 1.0] and not any(scores.not_judged)


@pytest.mark.parametrize(
    ("prompt", "text"), [(MATH, r"t</think>\boxed{7}"), (CODE, PROGRAM), (FORM, "t</think>ab")]
)
def test_what_is_cut_off_or_never_closes_its_thinking_earns_nothing(prompt: Prompt, text: str) -> None:
    service = FakeService(1.0)
    opened = text.replace("</think>", "")
    scores = score(finished(prompt, text, "length"), finished(prompt, opened), service=service)
    assert scores.raw == [0.0, 0.0] and not service.asked
    with pytest.raises(ZgcmError, match="did not finish"):
        score(finished(prompt, text, "abort"))


def test_what_no_judge_answered_says_why() -> None:
    scores = score(
        finished(MATH, r"t</think>\boxed{9^9}"),
        finished(FORM, "t</think>die"),
        finished(CODE, "t</think>```python\n#" + "é" * (300 << 10) + "\n```"),
    )
    assert scores.raw == [0.0, 0.0, 0.0]
    assert scores.not_judged == ["timeout", "died", "program_too_long"]


def test_infrastructure_is_never_a_wrong_answer() -> None:
    with pytest.raises(SandboxUnavailable):
        score(finished(CODE, PROGRAM), finished(CODE, PROGRAM.replace("x + 1", "'down'")))
    with pytest.raises(ZgcmError, match="checker of instructions failed") as raised:
        score(finished(FORM, "t</think>raise"))
    assert raised.value.where == "sample_id if-1"
    with pytest.raises(ZgcmError, match="No judge for this domain"):
        score(finished(prompt("poetry"), "t</think>x"))
    with pytest.raises(ZgcmError, match="No judge for this domain"):
        made(None).score([finished(CODE, PROGRAM)], 8, evaluating=False)


def test_code_is_asked_once_a_program_and_an_evaluation_wants_every_test() -> None:
    service = FakeService(0.75)
    assert score(*[finished(CODE, PROGRAM)] * 3, service=service).raw == [0.75] * 3
    (asked,) = service.asked
    assert (asked["max_tests"], asked["selection_seed"]) == (8, HASH)
    named = prompt("code", task_type="code", code_asset_hash=HASH, prompt_hash="p")
    assert score(finished(named, PROGRAM), service=service, evaluating=True).raw == [0.0]
    assert (service.asked[-1]["max_tests"], service.asked[-1]["selection_seed"]) == (64, "p")
    assert score(finished(CODE, PROGRAM), service=FakeService(1.0), evaluating=True).raw == [1.0]


def response(tokens: int, reason: str = "stop") -> Response:
    return Response([1] * tokens, [0.0] * tokens, reason, 0)


STAGE = {
    "kind": "rl",
    "domain": "mixed",
    "steps": 1,
    "prompts": {"kind": "files", "train": "a", "valid": "b"},
    "reward": {"length_penalty": {"start": 0, "end": 10, "max": 0.5}},
}


def test_the_length_penalty_is_of_mathematics_and_curves_are_by_domain() -> None:
    stage = RLStage.model_validate(STAGE)
    prompts = [MATH, CODE, MATH]
    groups = [[response(10), response(10)], [response(10), response(6, "length")], [response(2), response(2)]]
    raw = [[1.0, 0.0], [0.5, 0.0], [1.0, 1.0]]
    assert shape(prompts, raw, groups, stage) == [[0.5, 0.0], [0.5, 0.0], [0.9, 0.9]]
    assert by_domain(prompts, groups, raw) == {
        "code": {"mean_raw_reward": 0.25, "responses": 2, "mean_tokens": 8, "truncated": 0.5},
        "math": {"mean_raw_reward": 0.75, "responses": 4, "mean_tokens": 6, "truncated": 0.0},
    }
    stats = statistics(prompts, groups, raw, {"timeout": 3}, domain="mixed")
    assert stats["eval/domain/code/raw_correct"] == 0.25 and stats["eval/domain/math/completions"] == 4
    assert stats["eval/not_judged/timeout"] == 3 and stats["eval/raw_correct"] == pytest.approx(3.5 / 6)
    alone = statistics([MATH], groups[:1], raw[:1], {}, domain="math")
    assert not [key for key in alone if key.startswith(("eval/domain", "eval/not_judged"))]


def test_a_group_of_shares_teaches_by_their_spread() -> None:
    """Mathematics: 1 and 0.95 are both right. Constraints and tests: 0.5 is not 1."""
    for domain, reason in (("math", "zero_variance_group"), ("if", None), ("code", None)):
        lengths = [1, 2]
        assert reject_reason([1.0, 0.5], lengths, group_size=2, max_tokens=9, domain=domain) == reason


@pytest.fixture
def tests_directory(tmp_path: Path) -> Path:
    write_assets(tmp_path / "tests", {HASH: TESTS})
    return tmp_path / "tests"


def with_tests(directory: Path, **sandbox: Any) -> RLStage:
    files = {"kind": "files", "train": "a", "valid": "b", "assets": str(directory)}
    reward = {"workers": 1, "verify_timeout": 60.0, "sandbox": {"test_timeout": 10.0, "slots": 2, **sandbox}}
    return RLStage.model_validate({**STAGE, "prompts": files, "reward": reward})


def test_tests_are_checked_before_anything_starts(tests_directory: Path, tmp_path: Path) -> None:
    stage = with_tests(tests_directory)
    assert assets_of(stage, [CODE, MATH], tmp_path) == tests_directory
    other = prompt("code", task_type="code", code_asset_hash="0" * 64)
    with pytest.raises(ZgcmError, match="Tests of prompts are missing"):
        assets_of(stage, [CODE, other], tmp_path)
    with pytest.raises(ZgcmError, match="No list of tests"):
        assets_of(stage, [prompt("code", task_type="code_stdio", code_asset_hash=HASH)], tmp_path)
    (tests_directory / HASH[:2] / f"{HASH}.json.gz").write_bytes(b"damaged")
    with pytest.raises(ZgcmError, match="cannot be read"):
        assets_of(stage, [CODE], tmp_path)
    (tests_directory / "manifest.json").unlink()
    with pytest.raises(ZgcmError, match=r"No tests.*manifest"):
        assets_of(stage, [CODE], tmp_path)
    with pytest.raises(ZgcmError, match="Prompts of code have no tests"):
        assets_of(RLStage.model_validate(STAGE), [CODE], tmp_path)


def test_demo_tests_are_written_to_the_run(tmp_path: Path) -> None:
    demo = {"kind": "demo", "train": 7, "valid": 4}
    stage = RLStage.model_validate({**STAGE, "prompts": demo})
    from zgcm.rl import demo as generated

    rows = [*generated.rows(stage, "train"), *generated.rows(stage, "valid")]
    assert [Counter(row["domain"] for row in rows)[name] for name in ("math", "code", "if")] == [5, 3, 3]
    code = [
        prompt("code", task_type=row["task_type"], code_asset_hash=row["code_asset_hash"])
        for row in rows
        if row["domain"] == "code"
    ]
    root = assets_of(stage, code, tmp_path)
    assert root == tmp_path / "tests" and (root / "manifest.json").is_file()


@pytest.mark.slow
def test_a_mixed_batch_with_the_real_judges(tests_directory: Path, tmp_path: Path) -> None:
    stage = with_tests(tests_directory)
    responses = [
        finished(CODE, PROGRAM),
        finished(MATH, r"t</think>\boxed{0.5}"),
        finished(FORM, "t</think><<A>> b, c"),
        finished(CODE, PROGRAM, "length"),
        finished(CODE, "t</think>```python\ndef f(x): return {1: 2, 2: 3, 0: 5}[x]\n```"),
        finished(CODE, "t</think>```python\nimport os\nos._exit(0)\n```"),
    ]
    with judges(stage, [CODE, MATH, FORM], [], tmp_path) as real:
        first = real.score(responses, 8, evaluating=False)
        again = real.score(responses, 8, evaluating=True)
        assert real.service is not None and real.service.process is not None
        pid = real.service.process.pid
    assert first.raw == [pytest.approx(2 / 3), 1.0, 0.5, 0.0, 1.0, 0.0]
    assert again.raw == [0.0, 1.0, 0.5, 0.0, 1.0, 0.0]
    assert not any(first.not_judged) and real.take_retries() == 0
    assert not Path(f"/proc/{pid}").exists()


def test_the_sandboxs_defaults_are_the_published_ones() -> None:
    assert Sandbox().model_dump(include={"max_tests", "test_timeout", "memory_mb"}) == {
        "max_tests": 8,
        "test_timeout": 2.0,
        "memory_mb": 1024,
    }
