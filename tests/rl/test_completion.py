import pytest

from zgcm.rl.completion import last_boxed, python_program, visible_answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("7+8=15</think>The answer is 85<|endoftext|>", "The answer is 85"),
        ("a</think>b</think> c ", "c"),
        ("</think><answer> 4 </answer>", "4"),
        ("</THINK>4", None),
        ("never closed 4", None),
        ("<think>a <answer>3</answer></think>b <answer>4</answer>", "b 4"),
        ("a</think>4<|endoftext|><|endoftext|>", "4"),
        ("a</think>4<|end", "4<|end"),
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
        (r"\boxed{x = \boxed{3}}", "3"),
        (r"\boxed {8}", "8"),
        (r"so \boxed 5", "5"),
        (r"\boxed{a\\}", r"a\\"),
        (r"\boxed{3}, or is it \boxed{4}? It is \boxed{3}", "3"),
        ("no box", None),
        (r"\boxed{}", ""),
    ],
)
def test_last_boxed(text: str, boxed: str | None) -> None:
    assert last_boxed(text) == boxed


@pytest.mark.parametrize(
    ("answer", "program"),
    [
        ("```python\nprint(1)\n```", "print(1)"),
        ("```Python\nprint(1)\n```\nthen\n```py\nprint(2)\n```", "print(2)"),
        ("```python3 title=a\nprint(1)\n```", "print(1)"),
        ("```\nprint(1)\n```", "print(1)"),
        ("~~~py\nprint(1)\n~~~", "print(1)"),
        ("  ```py\n    print(1)\n  ```", "    print(1)"),
        # what another language's fence holds is no Python
        ("```cpp\nint main() {}\n```", None),
        ("```python\nprint(1)\n```\nin C:\n```c\nputs(1)\n```", "print(1)"),
        # an output block after the program
        ("```python\nprint(1)\n```\nprints\n```\n1\n```", "print(1)"),
        ("```text\n1 2\n```\n```\nprint(1)\n```", "print(1)"),
        # never closed: the program is what follows the fence
        ("Here:\n```python\nprint(1)\n", "print(1)"),
        ("```python\nprint(1)\n```\n```python\nprint(2)", "print(2)"),
        # backticks inside the program
        ('```python\ns = """\nuse ```x``` here\n"""\n```', 's = """\nuse ```x``` here\n"""'),
        ("````python\ns = '```'\n```\n````", "s = '```'\n```"),
        ("```python print(1)```", "print(1)"),
        ("```print(1)```", "print(1)"),
        ("print(1)\n", "print(1)"),
        ("```python\n```", None),
        ("   ", None),
    ],
)
def test_python_program(answer: str, program: str | None) -> None:
    assert python_program(answer) == program
