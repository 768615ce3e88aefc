"""From a decoded completion to the answer that a reward may look at (as published)."""

from collections.abc import Iterable

THINK_END = "</think>"


def visible_answer(completion: str, special_tokens: Iterable[str] = ()) -> str | None:
    """Text after the last `</think>`, `<answer>` tags and special tokens removed, trimmed; None when empty.

    A completion that never closes its thinking has no visible answer. The opening tag is not needed: the
    generation prompt supplies it. `special_tokens` are removed because completions are decoded with them
    (`</think>` is one itself), and `\\boxed{4}<|endoftext|>` must not be read as part of the answer.
    """
    _, closed, answer = completion.rpartition(THINK_END)
    if not closed:
        return None
    for tag in ("<answer>", "</answer>", *special_tokens):
        answer = answer.replace(tag, "")
    return answer.strip() or None


def last_boxed(text: str) -> str | None:
    r"""Content of the last complete `\boxed{...}` (or `\fbox{...}`), braces balanced; None without one.

    >>> last_boxed(r"first \boxed{4}, no: \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    """
    end = len(text)
    while (start := max(text.rfind(r"\boxed{", 0, end), text.rfind(r"\fbox{", 0, end))) >= 0:
        opening = text.index("{", start)
        depth = 0
        for position in range(opening, len(text)):
            escaped = text[position - 1] == "\\"
            depth += {"{": 1, "}": -1}.get(text[position], 0) * (not escaped)
            if depth == 0:
                return text[opening + 1 : position].strip()
        end = start
    return None
