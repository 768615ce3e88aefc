"""The template against transformers' rendering, what is learned, and that messages cannot forge turns."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zgcm.errors import ZgcmError
from zgcm.tokens.chat import assistant_spans, conversation_pieces, render
from zgcm.tokens.tokenizer import tokenizer_facts

USER = {"role": "user", "content": "What is 1+2?"}
THOUGHT = {"role": "assistant", "content": "3", "reasoning_content": "1+2=3"}
PLAIN = {"role": "assistant", "content": "3"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": "é"}}}],
}
TOOLS = [{"type": "function", "function": {"name": "add", "description": 'naïve "sum"'}}]

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
questions = st.builds(lambda t, r: {"role": r, "content": t}, texts, st.sampled_from(["user", "tool"]))
answers = st.one_of(
    st.builds(lambda t: {"role": "assistant", "content": t}, texts),
    st.builds(lambda t, r: {"role": "assistant", "content": t, "reasoning_content": r}, texts, texts),
)
system = st.lists(st.builds(lambda t: {"role": "system", "content": t}, texts), max_size=1)
turns = st.lists(st.tuples(questions, answers), min_size=1, max_size=3)
conversations = st.builds(lambda s, pairs: s + [m for pair in pairs for m in pair], system, turns)


def test_the_published_form(tokenizer_directory):
    def prompt(thinking):
        return render([USER], tokenizer_directory, add_generation_prompt=True, enable_thinking=thinking)

    assert prompt(True) == "<|user|>What is 1+2?<|assistant|><think>"
    assert prompt(False) == "<|user|>What is 1+2?<|assistant|></think>"
    thought = "<|user|>What is 1+2?<|assistant|><think>1+2=3</think>3<|endoftext|>"
    assert render([USER, THOUGHT], tokenizer_directory) == thought
    assert (
        render([USER, PLAIN], tokenizer_directory)
        == "<|user|>What is 1+2?<|assistant|></think>3<|endoftext|>"
    )
    called = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": "é"}}</tool_call>'
    assert render([USER, CALL], tokenizer_directory).endswith(f"<|assistant|></think>{called}<|endoftext|>")
    as_text = {**CALL, "tool_calls": [{"name": "add", "arguments": '{"a": 1, "b": "é"}'}]}
    assert render([USER, as_text], tokenizer_directory) == render([USER, CALL], tokenizer_directory)


@pytest.mark.parametrize("options", [{}, {"add_generation_prompt": True}, {"tools": TOOLS}])
@pytest.mark.parametrize("thinking", [True, False])
def test_renders_as_transformers_does(tokenizer_directory, options, thinking):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(tokenizer_directory)
    system = {"role": "system", "content": " Be\n brief. \n"}
    result = {"role": "tool", "content": "3\n"}
    for messages in ([USER], [system, USER, THOUGHT, USER, PLAIN], [USER, CALL, result, THOUGHT]):
        expected = theirs.apply_chat_template(messages, tokenize=False, enable_thinking=thinking, **options)
        assert render(messages, tokenizer_directory, enable_thinking=thinking, **options) == expected


@settings(max_examples=60)
@given(messages=conversations)
def test_prefix_stable_and_all_assistant_turns_are_learned(tokenizer_directory, messages):
    text, spans = assistant_spans(messages, tokenizer_directory)
    answered = [message for message in messages if message["role"] == "assistant"]
    assert len(spans) == len(answered)
    for (start, end), turn in zip(spans, answered, strict=True):
        reasoning = turn.get("reasoning_content")
        head, body = ("</think>", "") if reasoning is None else ("<think>", f"{reasoning}</think>")
        assert text[start:end] == f"{body}{turn['content']}<|endoftext|>"
        assert text[:start].endswith(f"<|assistant|>{head}")


def test_turns_of_weight_zero_are_context(tokenizer_directory):
    """What a decision sample has before its action."""
    messages = [USER, {**THOUGHT, "weight": 0}, {"role": "tool", "content": "3"}, PLAIN]
    text, spans = assistant_spans(messages, tokenizer_directory)
    assert [text[start:end] for start, end in spans] == ["3<|endoftext|>"]
    unmarked = [USER, THOUGHT, *messages[2:]]
    learned = assistant_spans(unmarked, tokenizer_directory)
    assert learned[0] == text and learned[1][1:] == spans


def test_an_assistant_that_answers_nobody_is_not_learned(tokenizer_directory):
    greeting = [{"role": "system", "content": "x"}, PLAIN, USER, PLAIN]
    text, spans = assistant_spans(greeting, tokenizer_directory)
    assert len(spans) == 1
    assert spans[0][1] == len(text)


def test_pieces_spell_the_rendering(tokenizer_directory):
    added = tokenizer_facts(tokenizer_directory)["added_tokens"]
    names = {number: text for text, number in added.items()}
    document = conversation_pieces([USER, THOUGHT], tokenizer_directory, added)
    spelled = "".join(piece if isinstance(piece, str) else names[piece] for piece in document.pieces)
    assert spelled == render([USER, THOUGHT], tokenizer_directory)
    ((start, end),) = document.learned
    assert document.pieces[start:end] == ["1+2=3", added["</think>"], "3", added["<|endoftext|>"]]


@settings(max_examples=60)
@given(data=st.data())
def test_messages_cannot_forge_special_tokens(tokenizer_directory, data):
    added = tokenizer_facts(tokenizer_directory)["added_tokens"]
    forged = data.draw(
        st.lists(st.sampled_from([*added, "a", "<", "|>", "<|<think>"]), max_size=6).map("".join)
    )
    honest = [USER, {**THOUGHT, "content": "z"}, USER, PLAIN]
    attack = [
        {**USER, "content": forged},
        {**THOUGHT, "content": forged, "reasoning_content": forged},
        USER,
        PLAIN,
    ]
    expected, found = (conversation_pieces(m, tokenizer_directory, added) for m in (honest, attack))
    special = [[piece for piece in d.pieces if isinstance(piece, int)] for d in (expected, found)]
    assert special[0] == special[1]
    assert found.pieces.count(forged) == (3 if forged else 0)
    if forged:
        assert expected.learned == found.learned


def test_templates_that_look_ahead_are_refused(write_template):
    directory = write_template(
        "{% for m in messages %}{{ '<|user|>' if loop.last else '<|system|>' }}{{ m.content }}{% endfor %}"
    )
    with pytest.raises(ZgcmError, match="not prefix-stable"):
        assistant_spans([USER, PLAIN, USER, PLAIN], directory)


def test_turns_that_end_in_plain_text_are_refused(write_template):
    directory = write_template(
        "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ ';' }}{% endfor %}"
        "{{ 'assistant:' if add_generation_prompt }}"
    )
    added = tokenizer_facts_of(directory)
    with pytest.raises(ZgcmError, match="does not begin and end at a special token"):
        conversation_pieces([USER, PLAIN], directory, added)


def tokenizer_facts_of(directory):
    from zgcm.io import read_json

    return read_json(directory / "manifest.json")["added_tokens"]


def test_the_templates_complaint_is_passed_on(tokenizer_directory):
    with pytest.raises(ZgcmError, match="unknown role narrator"):
        render([{"role": "narrator", "content": "x"}], tokenizer_directory)
    with pytest.raises(ZgcmError, match="content must be a string"):
        render([{"role": "user", "content": 3}], tokenizer_directory)


def test_a_directory_without_template(tmp_path):
    with pytest.raises(ZgcmError, match="no chat template"):
        render([USER], tmp_path)


def test_a_template_of_glms_shape_keeps_earlier_reasoning(write_template):
    """Drops reasoning before the last turn unless told not to; its turns have no end token of their own."""
    directory = write_template(
        "{%- for m in messages -%}{%- if m.role == 'user' -%}<|user|>{{ m.content }}"
        "{%- else -%}{{ '<|assistant|>\\n' }}"
        "{%- if m.reasoning_content is string and ((clear_thinking is defined and not clear_thinking)"
        " or loop.last) -%}<think>{{ m.reasoning_content }}</think>{%- else -%}</think>{%- endif -%}"
        "{{ m.content }}{%- endif -%}{%- endfor -%}"
        "{%- if add_generation_prompt -%}"
        "{{ '<|assistant|>\\n' }}{{ '<think>' if enable_thinking else '</think>' }}{%- endif -%}"
    )
    text, spans = assistant_spans([USER, THOUGHT, USER, THOUGHT], directory)
    assert [text[start:end] for start, end in spans] == ["1+2=3</think>3"] * 2
    added = tokenizer_facts_of(directory)
    document = conversation_pieces([USER, THOUGHT, USER, PLAIN], directory, added)
    assert [document.pieces[a:b] for a, b in document.learned] == [["1+2=3", added["</think>"], "3"], ["3"]]
