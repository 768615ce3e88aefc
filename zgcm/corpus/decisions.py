"""A trace of an agent as samples of a Markov decision process: state -> next action, one a decision.

    [system, user, call 1, result 1, call 2, result 2, answer]  ->  three samples
        system, user                               -> call 1
        system, user, call 1, result 1             -> call 2
        system, user, call 1, ..., result 2        -> answer

A sample is a conversation whose last turn is the action. Turns of the assistant inside its state have
`weight: 0`, so that their tokens are context and the loss is on the action alone.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from zgcm.config.corpus import Decisions
from zgcm.corpus.messages import Message, messages_of, messages_text
from zgcm.corpus.pipeline import Settings
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import length_bucket, stamp_text_digest
from zgcm.tokens.text import CONTEXT, OBSERVING, answering_turns

TRACES = ("messages", "trajectory")


def split_trace(sample: Sample, options: Decisions, settings: Settings) -> Iterator[Sample]:
    """The samples of a cleaned trace, in its order; a record without decisions stays as it is.

    Sample k is called `TRACE#k`; its data name `trace_id`, `step` (from 0), `steps` and `previous` (the id of
    the decision before, or null). `text`, by which duplicates are found, is the transition alone: what the
    agent saw last, and its action. Whole states of one trace resemble each other too much to be compared.
    """
    messages = messages_of(sample.data, *TRACES)
    turns = answering_turns(messages)
    if not turns:
        yield sample
        return
    shared = {key: value for key, value in sample.data.items() if key not in (*TRACES, "text", "text_sha256")}
    for step, turn in enumerate(turns):
        state = _window(messages, turns, step, options.window)
        state = [_context(message, options.observation_chars) for message in state]
        conversation = [*state, messages[turn]]
        transition = conversation[_seen_last(state) :]
        data: dict[str, Any] = {
            **shared,
            "messages": conversation,
            "text": messages_text(transition),
            "trace_id": sample.source_id,
            "step": step,
            "steps": len(turns),
            "previous": f"{sample.source_id}#{step - 1}" if step else None,
        }
        yield _labelled(sample, f"{sample.source_id}#{step}", data, settings)


def _window(messages: list[Message], turns: list[int], step: int, window: int | None) -> list[Message]:
    """The state before a decision: what comes before the first one (instructions, the task), then the last
    `window` decisions with what followed each, all of them without a window."""
    first, turn = turns[0], turns[step]
    begin = turns[max(0, step - window)] if window is not None else first
    return [*messages[:first], *messages[begin:turn]]


def _context(message: Message, observation_chars: int | None) -> Message:
    """A message as part of a state: never learned, and a long observation without its middle."""
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        return {**message, "weight": CONTEXT}
    if observation_chars is None or role not in OBSERVING or not isinstance(content, str):
        return message
    return {**message, "content": cut_middle(content, observation_chars)}


def cut_middle(text: str, limit: int) -> str:
    """At most `limit` characters of a text, from its beginning and its end (errors stand at the end), with a
    line between them that says how many are missing."""
    if len(text) <= limit:
        return text
    head = (limit + 1) // 2
    tail = limit - head
    return f"{text[:head]}\n[{len(text) - limit} characters cut]\n{text[len(text) - tail :]}"


def _seen_last(state: list[Message]) -> int:
    """Where the last thing seen begins: behind the last turn of the assistant."""
    return max((index + 1 for index, item in enumerate(state) if item.get("role") == "assistant"), default=0)


def _labelled(trace: Sample, name: str, data: dict[str, Any], settings: Settings) -> Sample:
    """The sample with the trace's decision and labels, and lengths of its own: of the whole conversation."""
    tokens = max(1, (len(messages_text(data["messages"])) + 3) // 4)
    sample = replace(
        trace,
        source_id=name,
        data=data,
        text_fields=("text",),
        metrics={**trace.metrics, "turns": float(len(data["messages"])), "estimated_tokens": float(tokens)},
        buckets={**trace.buckets, "length": length_bucket(tokens, settings["length_buckets"])},
    )
    stamp_text_digest(sample, settings)
    return sample
