"""Steps for instructions and their answers."""

from zgcm.corpus.messages import messages_of, messages_text, said_by
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.posttrain import copy_absent, trains_on_messages

_TEMPLATES = ("as an ai language model", "i cannot assist with", "here is the requested response")


def normalize_instruction_schema(sample: Sample, settings: Settings) -> None:
    copy_absent(sample, instruction="prompt", output="response")
    if trains_on_messages(sample):
        return
    if isinstance(sample.data.get("prompt"), str) and isinstance(sample.data.get("response"), str):
        sample.text_fields = ("prompt", "response")
    elif isinstance(sample.data.get("messages"), list):
        sample.data["text"] = messages_text(messages_of(sample.data))
        sample.text_fields = ("text",)


def validate_instruction_pair(sample: Sample, settings: Settings) -> None:
    if messages := messages_of(sample.data):
        if not {"user", "assistant"} <= {message.get("role") for message in messages}:
            sample.drop("incomplete_instruction_messages")
        return
    prompt, response = sample.string("prompt").strip(), sample.string("response").strip()
    if not prompt or not response:
        sample.drop("incomplete_instruction_pair")
    elif prompt.casefold() == response.casefold():
        sample.drop("prompt_response_identical")


def filter_instruction_templates(sample: Sample, settings: Settings) -> None:
    messages = messages_of(sample.data)
    response = said_by(messages, "assistant") if messages else sample.string("response")
    if any(template in response.casefold() for template in _TEMPLATES):
        sample.review("generic_model_template")


def bucket_instruction(sample: Sample, settings: Settings) -> None:
    turns = [item for item in messages_of(sample.data) if item.get("role") != "system"]
    sample.buckets["task"] = str(sample.first("task", "category") or "general")
    sample.buckets["risk"] = str(sample.data.get("risk_category") or "normal")
    sample.buckets["turns"] = "multi" if len(turns) > 2 else "single"


STEPS: list[Step] = [
    normalize_instruction_schema,
    validate_instruction_pair,
    filter_instruction_templates,
    bucket_instruction,
]
