"""Constraints: verdicts, what is refused before training, and failures that are no wrong answers."""

import json
import subprocess
import sys
from typing import Any

import pytest

from zgcm.errors import ZgcmError
from zgcm.rl.completion import visible_answer
from zgcm.rl.rewards import instruction


def constraint(name: str, **kwargs: Any) -> dict[str, Any]:
    return {"instruction_id": name, "kwargs": kwargs}


SENTENCES = constraint("length_constraints:number_sentences", relation="at least", num_sentences=3)


@pytest.mark.parametrize(
    ("answer", "spec", "verdict"),
    [
        ("no commas here", constraint("punctuation:no_comma"), True),
        ("one, two", constraint("punctuation:no_comma"), False),
        ("a b c d", constraint("length_constraints:number_words", relation="at least", num_words=4), True),
        ("a b c", constraint("length_constraints:number_words", relation="at least", num_words=4), False),
        ("One. Two! Three?", SENTENCES, True),
        ("Dr. Smith met Mr. Jones at 5 p.m. They left.", SENTENCES, False),
        ('{"a": 1}', constraint("detectable_format:json_format"), True),
        ("{a: 1}", constraint("detectable_format:json_format"), False),
        ("[" * 60_000, constraint("detectable_format:json_format"), False),
        ('{"a":' * 20_000, constraint("detectable_format:json_format"), False),
        ("the cat sat", constraint("keywords:existence", keywords=["cat"]), True),
        ("the cat sat", constraint("keywords:forbidden_words", forbidden_words=["cat"]), False),
        ("this is a small text in english", constraint("change_case:english_lowercase"), True),
        ("Dies ist ein deutscher Satz.", constraint("language:response_language", language="de"), True),
        ("This is an English sentence.", constraint("language:response_language", language="de"), False),
        ("* a\n* b", constraint("detectable_format:number_bullet_lists", num_bullets=2), True),
        ('"quoted"', constraint("startend:quotation"), True),
        (
            "SEE the BIG dog",
            constraint(
                "change_case:capital_word_frequency", capital_relation="at least", capital_frequency=2
            ),
            True,
        ),
    ],
)
def test_verdicts(answer: str, spec: dict[str, Any], verdict: bool) -> None:
    instruction.check_spec("row 1", [spec])
    assert instruction.satisfied(answer, [spec]) == [verdict]


NOTHING_ASKED = [
    constraint("punctuation:no_comma"),
    constraint("keywords:forbidden_words", forbidden_words=["sea"]),
    constraint("length_constraints:number_words", relation="less than", num_words=100),
    constraint("length_constraints:number_sentences", relation="less than", num_sentences=5),
    constraint("language:response_language", language="de"),
]


@pytest.mark.parametrize(
    ("completion", "earned"),
    [
        ("t</think>.", 5 / 6),  # as docs/rl.md admits: form, not sense
        ("t</think> <|endoftext|>", 0.0),
        ("t</think><answer> </answer>", 0.0),
        ("t</think>", 0.0),
        (".", 0.0),
    ],
)
def test_an_answer_that_says_nothing_earns_what_it_avoids_and_none_earns_nothing(
    completion: str, earned: float
) -> None:
    spec = [*NOTHING_ASKED, constraint("keywords:existence", keywords=["lake"])]
    answer = visible_answer(completion, ["<|endoftext|>"])
    assert instruction.fraction(instruction.satisfied(answer, spec)) == earned


def test_fraction_and_null_arguments() -> None:
    spec = [
        {"instruction_id": "punctuation:no_comma", "kwargs": {"num_words": None}},
        constraint("keywords:existence", keywords=["sea"]),
    ]
    verdicts = instruction.satisfied("a lake", spec)
    assert verdicts == [True, False] and instruction.fraction(verdicts) == 0.5
    assert instruction.satisfied(None, spec) == [False, False]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (None, "non-empty list"),
        ([], "non-empty list"),
        (["punctuation:no_comma"], "instruction_id"),
        ([{"instruction_id": "punctuation:no_comma"}], "kwargs"),
        ([constraint("punctuation:no_semicolon")], "Unknown instruction.*no_semicolon"),
        ([constraint("punctuation:no_comma", words=3)], "does not accept its arguments"),
        ([constraint("keywords:existence", keywords="sea")], "keywords of .* is a list"),
        ([constraint("keywords:existence")], "at random.*keywords"),
        ([constraint("length_constraints:number_words", num_words=3)], "at random.*relation"),
        ([constraint("length_constraints:number_words", num_words=3, relation="about")], "does not accept"),
    ],
)
def test_a_bad_spec_is_refused_with_its_row(spec: Any, message: str) -> None:
    with pytest.raises(ZgcmError, match=message) as caught:
        instruction.check_spec("p.jsonl:3", spec)
    assert caught.value.where == "p.jsonl:3"


def test_a_checker_that_raises_is_no_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __init__(self, name: str) -> None: ...
        def build_description(self) -> None: ...
        def get_instruction_args(self) -> None: ...
        def check_following(self, answer: str) -> bool:
            raise ZeroDivisionError(answer)

    monkeypatch.setattr(instruction, "registry", lambda _: {"x": Broken})
    with pytest.raises(ZgcmError, match="ZeroDivisionError"):
        instruction.satisfied("a", [constraint("x")])


@pytest.mark.slow
def test_every_process_says_the_same() -> None:
    """Language detection draws random numbers, and importing the registry must not reach for the network."""
    code = (
        "import json, socket; socket.socket.connect = None\n"
        "from zgcm.rl.rewards import instruction as i\n"
        "text = 'no la casa es'\n"
        "spec = [{'instruction_id': 'language:response_language', 'kwargs': {'language': language}}\n"
        "        for language in ('es', 'it', 'pt')]\n"
        "print(json.dumps(i.satisfied(text, spec)))"
    )
    spec = [constraint("language:response_language", language=language) for language in ("es", "it", "pt")]
    here = instruction.satisfied("no la casa es", spec)
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(there.stdout) == here
