import pytest

from zgcm.rl.completion import last_boxed, visible_answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("7+8=15</think>The answer is 85<|endoftext|>", "The answer is 85"),
        ("a</think>b</think> c ", "c"),
        ("</think><answer> 4 </answer>", "4"),
        ("</THINK>4", None),
        ("never closed 4", None),
        ("work</think>  <|endoftext|>", None),
        ("", None),
    ],
)
def test_visible_answer(completion: str, answer: str | None) -> None:
    assert visible_answer(completion, ["<|endoftext|>"]) == answer


@pytest.mark.parametrize(
    ("text", "boxed"),
    [
        (r"\boxed{4} no \boxed{5}", "5"),
        (r"\boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{4} and an open \boxed{5", "4"),
        (r"\fbox{7}", "7"),
        ("no box", None),
        (r"\boxed{}", ""),
    ],
)
def test_last_boxed(text: str, boxed: str | None) -> None:
    assert last_boxed(text) == boxed
