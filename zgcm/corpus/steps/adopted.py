"""What records that are clean already still need: a text to compare by, and its digest. Nothing is judged."""

from zgcm.corpus.messages import messages_of, messages_text
from zgcm.corpus.pipeline import Settings, Step
from zgcm.corpus.sample import Sample
from zgcm.corpus.steps.common import stamp_text_digest


def require_adopted_text(sample: Sample, settings: Settings) -> None:
    """Conversations get a `text` of all that is said, by which duplicates are found; `messages` are trained
    on."""
    if not sample.text() and (messages := messages_of(sample.data)):
        sample.data[sample.text_fields[0]] = messages_text(messages)
    if not sample.text():
        sample.drop("empty_text")


STEPS: list[Step] = [require_adopted_text, stamp_text_digest]
