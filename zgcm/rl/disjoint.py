"""Training prompts that repeat an evaluation prompt: the same question, or a run of 13 words in common.

Words are those of the corpus's decontamination (zgcm.corpus.shingles). A run in more than half of a file's
prompts of one domain is a template round every question and proves nothing, nor do runs that overlap it.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from zgcm.corpus.decontaminate import DIFFERENT_WORDS
from zgcm.corpus.shingles import gram_hashes, word_hashes, words
from zgcm.errors import ZgcmError
from zgcm.rl.prompts import Prompt

GRAM = 13
"""Words in a row that make two prompts the same."""
TEMPLATE_FROM = 4
"""Prompts of a domain from which on a common run counts as a template."""


@dataclass(frozen=True)
class Overlap:
    train: Prompt
    valid: Prompt
    run: str
    """The first words that they share; empty when the whole question is the same."""


def check_disjoint(train: Sequence[Prompt], valid: Sequence[Prompt]) -> None:
    """No validation prompt may be trained on, whatever its sample_id. Raises ZgcmError that names the first
    pair of rows and says how many training prompts are concerned."""
    found = overlaps(train, valid)
    if not found:
        return
    first = found[0]
    shared = f"{GRAM} words in a row: {first.run}" if first.run else "the same question"
    more = f"; {len(found)} training prompts in all" if len(found) > 1 else ""
    raise ZgcmError(
        "An evaluation prompt is in the training set",
        where=first.valid.named(),
        found=f"{shared}; in the training set at {first.train.named()}{more}",
        hint="remove the rows from one of the two files, or set prompts.overlap: drop",
    )


def overlaps(train: Sequence[Prompt], valid: Sequence[Prompt]) -> list[Overlap]:
    """The training prompts that repeat an evaluation prompt, in order, each with the first one it repeats."""
    held: dict[str, Prompt] = {}
    for prompt in valid:
        held.setdefault(question(prompt), prompt)
    sides = [[_Runs(prompt) for prompt in side] for side in (train, valid)]
    templates = [_templates(side) for side in sides]
    owners: dict[int, int] = {}
    for place, prompt in enumerate(valid):
        template = templates[0][prompt.domain] | templates[1][prompt.domain]
        for gram in sides[1][place].outside(template):
            owners.setdefault(gram, place)
    found = []
    for prompt, runs in zip(train, sides[0], strict=True):
        if (same := held.get(question(prompt))) is not None:
            found.append(Overlap(prompt, same, ""))
            continue
        shared = runs.outside(templates[0][prompt.domain] | templates[1][prompt.domain])
        start = next((start for gram, start in shared.items() if gram in owners), None)
        if start is not None:
            other = valid[owners[runs.grams[start]]]
            found.append(Overlap(prompt, other, runs.text(start)))
    return found


def question(prompt: Prompt) -> str:
    """All that is said, case and white space aside; the system prompt is no part of a question."""
    said = [message["content"] for message in prompt.messages if message["role"] != "system"]
    return "\n".join(" ".join(text.casefold().split()) for text in said)


class _Runs:
    """The runs of GRAM words of what the user says, punctuation and case aside."""

    def __init__(self, prompt: Prompt) -> None:
        said = [message["content"] for message in prompt.messages if message["role"] == "user"]
        self.domain = prompt.domain
        self.words = words("\n".join(said))
        self.grams: list[int] = gram_hashes(word_hashes(self.words), GRAM).tolist()

    def outside(self, template: set[int]) -> dict[int, int]:
        """Runs, each with its first place, that hold no word of the template and more than a few words."""
        covered: set[int] = set()
        for place, gram in enumerate(self.grams):
            if gram in template:
                covered.update(range(place - GRAM + 1, place + GRAM))
        found: dict[int, int] = {}
        for place, gram in enumerate(self.grams):
            different = len(set(self.words[place : place + GRAM]))
            if place not in covered and different >= DIFFERENT_WORDS:
                found.setdefault(gram, place)
        return found

    def text(self, start: int) -> str:
        return b" ".join(self.words[start : start + GRAM]).decode()


def _templates(side: list[_Runs]) -> dict[str, set[int]]:
    """Domain -> runs in more than half of its prompts, where there are some."""
    sizes = Counter(runs.domain for runs in side)
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    for runs in side:
        counts[runs.domain].update(set(runs.grams))
    found: dict[str, set[int]] = defaultdict(set)
    for name, size in sizes.items():
        if size >= TEMPLATE_FROM:
            found[name] = {gram for gram, count in counts[name].items() if count > size / 2}
    return found
