"""From a decoded completion to the answer that a reward may look at: as published, and mended where that
misreads what the model plainly meant (docs/rl.md, "What counts as the answer")."""

import re
from collections.abc import Iterable

THINK_END = "</think>"
_BOX = re.compile(r"(?P<box>\\(?:boxed|fbox)\s*\{)|\\boxed\s*(?P<bare>[0-9A-Za-z])|\\.|[{}]", re.S)
_FENCE = re.compile(r"[ \t]*(?P<marks>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)")
_ONE_LINE_FENCE = re.compile(r"```(?:(?i:python3?|py3?)[ \t]+)?(?P<body>[^`\n]+)```")
_PYTHON = ("python", "python3", "py", "py3")


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
    r"""Content of the last complete `\boxed{...}`, `\fbox{...}` or `\boxed 5`; None without one.

    >>> last_boxed(r"first \boxed{4}, no: \boxed{\frac{1}{2}}")
    '\\frac{1}{2}'
    """
    boxes = boxed_spans(text)
    return boxes[-1][2] if boxes else None


def boxed_spans(text: str) -> list[tuple[int, int, str]]:
    r"""(start, end, trimmed content) of every complete box, in order of start: a nested one comes last.

    One pass: a model that repeats an open `\\boxed{` for 60,000 tokens costs milliseconds.
    """
    spans = []
    open_boxes: list[tuple[int, int] | None] = []  # (start, start of content); None for other braces
    for match in _BOX.finditer(text):
        if match["bare"]:
            spans.append((match.start(), match.end(), match["bare"]))
        elif match["box"]:
            open_boxes.append((match.start(), match.end()))
        elif match[0] == "{":
            open_boxes.append(None)
        elif match[0] == "}" and open_boxes and (box := open_boxes.pop()):
            spans.append((box[0], match.end(), text[box[1] : match.start()].strip()))
    return sorted(spans)


def python_program(answer: str) -> str | None:
    """The program of a visible answer: the last block fenced as Python, else the last without a language,
    else (no fence at all) the whole answer. None when every block is in another language.

    A fence closes on a line of its own, so a program may hold backticks; one that never closes ends with the
    answer. A block after the program that has no language is mostly its output: hence Python blocks first.
    """
    blocks = _fenced_blocks(answer)
    if not blocks:
        one_line = _ONE_LINE_FENCE.findall(answer)
        return (one_line[-1] if one_line else answer).strip() or None
    for languages in (_PYTHON, ("",)):
        programs = [body for language, body in blocks if language in languages and body.strip()]
        if programs:
            return programs[-1].strip("\n").rstrip()
    return None


def _fenced_blocks(answer: str) -> list[tuple[str, str]]:
    """(language in small letters, body) of each fenced block."""
    blocks: list[tuple[str, str]] = []
    marks, language, body = "", "", [""]
    for line in answer.splitlines():
        fence = _FENCE.fullmatch(line)
        if not marks and fence:
            marks, language, body = fence["marks"], (fence["info"].split() or [""])[0].lower(), []
        elif marks and fence and fence["marks"].startswith(marks) and not fence["info"].strip():
            blocks.append((language, "\n".join(body)))
            marks = ""
        elif marks:
            body.append(line)
    if marks:
        blocks.append((language, "\n".join(body)))
    return blocks
