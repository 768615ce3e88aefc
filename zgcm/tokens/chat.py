"""Conversations as text and as pieces: the template's own special tokens apart from what people wrote.

    render([{"role": "user", "content": "Hi"}], directory, add_generation_prompt=True)

The template is the tokenizer directory's chat_template.jinja, run in the same environment as Hugging Face's
`apply_chat_template`. A piece is text (str) or a special token (int). Text inside a message that looks like a
special token stays text: `pieces` hides it while the template runs, so no message can forge a turn.
"""

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zgcm.errors import ZgcmError
from zgcm.tokens.text import CONTEXT, Message, answering_turns

if TYPE_CHECKING:
    import jinja2

Piece = str | int
Tools = list[dict[str, Any]] | None

NONCHARACTERS = [chr(0xFDD0 + index) for index in range(32)]
"""Unicode reserves these for a program's inner use; they stand for the first letters of hidden tokens."""


@dataclass(frozen=True)
class Document:
    """A document or a rendered conversation as pieces. `learned` are half-open ranges of piece indices, None
    for a plain document, of which everything is learned."""

    pieces: list[Piece]
    learned: list[tuple[int, int]] | None = None


def render(
    messages: Sequence[Message],
    directory: Path,
    *,
    tools: Tools = None,
    add_generation_prompt: bool = False,
    enable_thinking: bool = True,
) -> str:
    """The text of a conversation by the directory's template.

    `enable_thinking` decides how the generation prompt ends. Earlier reasoning is kept, also by templates
    that drop it by default (GLM's `clear_thinking`). Raises ZgcmError with the template's own complaint.
    """
    template = _template(directory)
    try:
        return template.render(
            messages=messages,
            tools=tools,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=enable_thinking,
            clear_thinking=False,
        )
    except Exception as error:  # a template reaches into whatever a record holds
        raise ZgcmError(
            "The chat template refuses a conversation", where=str(directory / "chat_template.jinja"),
            found=str(error) or type(error).__name__,
            hint="correct the messages: roles system, user, assistant, tool; text content",
        ) from error  # fmt: skip


def assistant_spans(
    messages: Sequence[Message], directory: Path, *, tools: Tools = None
) -> tuple[str, list[tuple[int, int]]]:
    """The rendered text and, for each assistant turn that answers a user or a tool, the half-open range of
    characters to be learned: from the end of the generation prompt to the end of the turn. A turn with
    `weight: 0` is context: it is not learned.

    Thinking is on iff the turn has a string `reasoning_content`. Raises ZgcmError when the
    template is not prefix-stable, for then the model would be trained on prompts it never sees.
    """
    whole = render(messages, directory, tools=tools)
    spans = []
    for index in answering_turns(messages):
        message = messages[index]
        if message.get("weight") == CONTEXT:
            continue
        thinking = isinstance(message.get("reasoning_content"), str)
        prompt = render(
            messages[:index], directory, tools=tools, add_generation_prompt=True, enable_thinking=thinking
        )
        is_last = index + 1 == len(messages)
        through = whole if is_last else render(messages[: index + 1], directory, tools=tools)
        if not (whole.startswith(through) and through.startswith(prompt)):
            raise ZgcmError(
                "The chat template is not prefix-stable: a later turn changes how an earlier one is rendered",
                where=str(directory / "chat_template.jinja"), found=f"turn {index} differs",
                expected="prompt + turn = beginning of the whole conversation", hint="use another template",
            )  # fmt: skip
        spans.append((len(prompt), len(through)))
    return whole, spans


def conversation_pieces(
    messages: Sequence[Message], directory: Path, added_tokens: dict[str, int], *, tools: Tools = None
) -> Document:
    """Pieces of a conversation and which of them are learned. Only the template makes special tokens.

    Raises ZgcmError when a learned range does not begin and end at a special token, since then its tokens
    could merge with their neighbours.
    """
    hiding = _hiding(tuple(added_tokens))
    text, spans = assistant_spans(hiding.hide(messages), directory, tools=hiding.hide(tools))
    pieces: list[Piece] = []
    piece_at, position = {}, 0
    for part in hiding.pattern.split(text):
        piece_at[position] = len(pieces)
        position += len(part)
        if part in added_tokens:
            pieces.append(added_tokens[part])
        elif part:
            pieces.append(hiding.reveal(part))
    piece_at[position] = len(pieces)
    try:
        learned = [(piece_at[start], piece_at[end]) for start, end in spans]
    except KeyError as error:
        raise ZgcmError(
            "A turn of the chat template does not begin and end at a special token",
            where=str(directory / "chat_template.jinja"), found=repr(text[: error.args[0]][-40:]),
            hint="use a template whose generation prompt and turns end with one",
        ) from error  # fmt: skip
    return Document(pieces, learned)


@dataclass(frozen=True)
class _Hiding:
    """Replaces the first letter of special tokens found in messages, keeping every length, and back."""

    pattern: re.Pattern[str]
    substitutes: dict[str, str]

    def hide(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.pattern.sub(self._substitute, value)
        if isinstance(value, dict):
            return {key: self.hide(item) for key, item in value.items()}
        return [self.hide(item) for item in value] if isinstance(value, list | tuple) else value

    def reveal(self, text: str) -> str:
        for letter, substitute in self.substitutes.items():
            text = text.replace(substitute, letter)
        return text

    def _substitute(self, match: re.Match[str]) -> str:
        return self.substitutes[match[0][0]] + match[0][1:]


@functools.cache
def _hiding(tokens: tuple[str, ...]) -> _Hiding:
    longest_first = sorted(tokens, key=lambda token: (-len(token), token))
    pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")
    letters = sorted({token[0] for token in tokens})
    return _Hiding(pattern, dict(zip(letters, NONCHARACTERS, strict=False)))


@functools.cache
def _template(directory: Path) -> "jinja2.Template":
    """Compiled once a process, as transformers does: sandboxed, block lines trimmed, non-ASCII JSON kept."""
    from jinja2 import TemplateError, TemplateSyntaxError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    filters: dict[str, Callable[..., Any]] = environment.filters
    filters["tojson"] = to_json
    environment.globals["raise_exception"] = raise_exception
    path = directory / "chat_template.jinja"
    try:
        return environment.from_string(path.read_text())
    except FileNotFoundError as error:
        raise ZgcmError(
            "The tokenizer has no chat template",
            where=str(path),
            hint="bring it along, or use another tokenizer",
        ) from error
    except TemplateSyntaxError as error:
        raise ZgcmError(
            "Not a chat template", where=f"{path}:{error.lineno}", found=str(error.message), hint="correct it"
        ) from error
    except UnicodeDecodeError as error:
        raise ZgcmError(
            "Not a chat template", where=str(path), found=str(error), hint="restore it, or correct it"
        ) from error
