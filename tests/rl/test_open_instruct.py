"""Checkers of a checkout of Open-Instruct: a small package of ours in its layout, preflight, identity."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bandit import prepare, prompt_rows
from typer.testing import CliRunner

from zgcm import identity
from zgcm.cli import app, verbs  # noqa: F401 - registers the verbs
from zgcm.config.load import load_recipe
from zgcm.config.rl import RLStage
from zgcm.errors import ZgcmError
from zgcm.rl.prompts import validate
from zgcm.rl.rewards.pool import verifier_pool
from zgcm.rl.rewards.registry import Checkout, registry
from zgcm.rl.rewards.router import judges
from zgcm.rl.rewards.score import Finished

CHECKERS = """
import time
from open_instruct.IFEvalG import instructions_util

class Checker:
    def __init__(self, name):
        self.arguments = None
    def build_description(self):
        return ""
    def get_instruction_args(self):
        return self.arguments

class Sentences(Checker):
    def build_description(self, *, count=None):
        self.arguments = {"count": count or 3}
    def check_following(self, value):
        return instructions_util.count(value) == self.arguments["count"]

class Trouble(Checker):
    def check_following(self, value):
        while value.startswith("hang"):
            time.sleep(1)
        return 1 / (value != "raise") > 0
"""
FILES = {
    "instructions.py": CHECKERS,
    "instructions_registry.py": "from open_instruct.IFEvalG import instructions\n"
    'INSTRUCTION_DICT = {"new:sentences": instructions.Sentences, "new:trouble": instructions.Trouble}\n',
    "instructions_util.py": "import nltk\nnltk.download('punkt')\n"
    "def _get_sentence_tokenizer():\n    return nltk.data.load('tokenizers/punkt/english.pickle')\n"
    "def count(value):\n    return len(_get_sentence_tokenizer().tokenize(value))\n",
}
TWO = {"instruction_id": "new:sentences", "kwargs": {"count": 2}}
TROUBLE = {"instruction_id": "new:trouble", "kwargs": {}}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    checkers = tmp_path / "clone" / "open_instruct" / "IFEvalG"
    checkers.mkdir(parents=True)
    (checkers.parent / "__init__.py").write_text("raise RuntimeError('the rest is not needed')\n")
    for name, text in FILES.items():
        (checkers / name).write_text(text)
    return Checkout.of(tmp_path / "clone")


def row(place: int, *spec: dict[str, Any]) -> dict[str, Any]:
    return prompt_rows("train", 9)[place] | {"domain": "if", "answers": [], "ifeval_spec": list(spec)}


def test_it_is_loaded_from_its_path_alone(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = sys.modules["open_instruct"] = type(sys)("open_instruct")
    try:
        path = list(sys.path)
        assert list(registry(checkout)) == ["new:sentences", "new:trouble"]
        assert sys.path == path and sys.modules["open_instruct"] is theirs
        assert not [name for name in sys.modules if name.startswith("open_instruct.")]
    finally:
        del sys.modules["open_instruct"]
    assert "punctuation:no_comma" in registry(), "lm-eval's are still there"


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"instruction_id": "punctuation:no_comma", "kwargs": {}}, "Unknown instruction.*no_comma"),
        ({"instruction_id": "new:sentences", "kwargs": {"words": 2}}, "does not accept its arguments"),
        ({"instruction_id": "new:sentences", "kwargs": {}}, "at random.*count"),
    ],
)
def test_every_row_is_checked_before_training(
    checkout: Checkout, constraint: dict[str, Any], message: str
) -> None:
    rows = [("p.jsonl:1", row(0, TWO)), ("p.jsonl:2", row(1, TWO, constraint))]
    with pytest.raises(ZgcmError, match=message) as caught:
        validate(rows, lambda _: [1], domain="if", max_prompt_tokens=9, checkout=checkout)
    assert caught.value.where == "p.jsonl:2"


def test_another_content_none_and_a_broken_one_are_refused(checkout: Checkout, tmp_path: Path) -> None:
    with pytest.raises(ZgcmError, match="no registry of Open-Instruct"):
        registry(Checkout(tmp_path / "nowhere", ""))
    with (checkout.checkers / "instructions.py").open("a") as file:
        file.write("import a_package_that_nobody_has\n")
    with pytest.raises(ZgcmError, match="of another content") as caught:
        registry(checkout)
    changed = Checkout.of(checkout.directory)
    assert (caught.value.found, caught.value.expected) == (changed.sha256, checkout.sha256)
    with pytest.raises(ZgcmError, match=r"cannot be loaded.*a_package_that_nobody_has"):
        registry(changed)
    assert not [name for name in sys.modules if name.startswith("open_instruct")]


@pytest.mark.slow
def test_a_stage_judges_with_them_within_its_deadline(checkout: Checkout, tmp_path: Path) -> None:
    keys = {"checkout": str(checkout.directory), "sha256": checkout.sha256}
    stage = RLStage.model_validate(
        {"kind": "rl", "domain": "if", "steps": 1, "prompts": {"kind": "files", "train": "a", "valid": "b"}}
        | {"reward": {"open_instruct": keys, "verify_timeout": 3.0}}
    )
    rows = [("p.jsonl:1", row(0, TWO, TROUBLE))]
    (prompt,) = validate(rows, lambda _: [1], domain="if", max_prompt_tokens=9, checkout=checkout)

    def finished(text: str) -> Finished:
        return Finished(f"x</think>{text}", 5, "stop", prompt)

    with judges(stage, [prompt], [], tmp_path) as judging:
        scores = judging.score([*map(finished, ("One. Two.", "One.", "hang"))], 9, evaluating=False)
        assert scores.raw == [1.0, 0.5, 0.0] and scores.not_judged == ["", "", "timeout"]
        with pytest.raises(ZgcmError, match="ZeroDivisionError") as caught:
            judging.score([finished("raise")], 9, evaluating=False)
    assert caught.value.where.startswith("p.jsonl:1")


@pytest.mark.slow
def test_by_hand(checkout: Checkout, tmp_path: Path) -> None:
    file = tmp_path / "c.jsonl"

    def score(*texts: str) -> Any:
        rows = [{**row(0, TWO, TROUBLE), "completion": f"x</think>{text}"} for text in texts]
        file.write_text("".join(json.dumps(one) + "\n" for one in rows))
        options = ["--open-instruct", str(checkout.directory), "--timeout", "3", "--workers", "1"]
        return CliRunner().invoke(app, ["reward", "if", str(file), *options])

    assert checkout.sha256 in score("One. Two.", "One.", "hang").stderr
    rows = [json.loads(line) for line in (tmp_path / "c.rewards.jsonl").read_text().splitlines()]
    assert [(line["reward"], line["reason"]) for line in rows] == [
        (1.0, "all satisfied"),
        (0.5, "not satisfied: new:sentences"),
        (0.0, "not judged: timeout"),
    ]
    before = (tmp_path / "c.rewards.jsonl").read_bytes()
    error = score("One. Two.", "raise").exception
    assert isinstance(error, ZgcmError) and "checker of instructions failed" in str(error)
    assert (tmp_path / "c.rewards.jsonl").read_bytes() == before


def test_the_content_is_identity_and_the_path_is_not(
    checkout: Checkout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandit.make_policy", lambda *_, **__: None)

    def recipe_id(**keys: str) -> str:
        given = {"length_penalty": None, **({"open_instruct": keys} if keys else {})}
        prepare(tmp_path, domain="if", reward=given)
        return identity.recipe_id(load_recipe([tmp_path / "recipe.yaml"]), "rl", "rl_math")

    one = recipe_id(checkout="a", sha256=checkout.sha256)
    assert one == recipe_id(checkout="b", sha256=checkout.sha256)
    assert len({one, recipe_id(checkout="a", sha256="0" * 64), recipe_id()}) == 3
    with pytest.raises(ZgcmError, match="only instructions are checked with it"):
        prepare(tmp_path, reward={"open_instruct": {"checkout": "a", "sha256": "0" * 64}})
        load_recipe([tmp_path / "recipe.yaml"])


@pytest.mark.slow
def test_a_verifier_that_cannot_start_says_how_to_see_why(checkout: Checkout) -> None:
    wrong = Checkout(checkout.directory, "0" * 64)
    with (
        verifier_pool(1, 3.0, domains=["if"], checkout=wrong) as pool,
        pytest.raises(ZgcmError, match="does not start") as caught,
    ):
        pool.check([("a", [TWO])])
    command = caught.value.hint.removeprefix("try: python ").split()
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True)
    assert "of another content" in done.stderr
