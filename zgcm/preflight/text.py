"""Made-up text with something to learn: a Markov chain in which each word has four successors."""

from pathlib import Path

import numpy as np

from zgcm.tokens.indexed import token_dtype, write_indexed

EOD = 0
MOST_WORDS = 4096  # of a larger vocabulary; 20 steps could not show a model more
LONGEST = 1 << 22  # tokens; the trainer reads a shorter text again from its beginning
DOCUMENT = 512


def write_text(prefix: Path, vocabulary: int, tokens: int) -> None:
    """Write `prefix`.bin and .idx with about so many tokens. Same arguments, same bytes."""
    words = min(vocabulary, MOST_WORDS)
    random = np.random.default_rng(0)
    follow = random.integers(1, words, (words, 4))
    documents = min(tokens, LONGEST) // DOCUMENT + 1
    text = np.zeros((documents, DOCUMENT), dtype=np.int64)
    text[:, 0] = random.integers(1, words, documents)
    for position in range(1, DOCUMENT - 1):
        text[:, position] = follow[text[:, position - 1], random.integers(0, 4, documents)]
    with write_indexed(prefix, token_dtype(vocabulary)) as (writer, _):
        writer.append(text.reshape(-1), np.full(documents, DOCUMENT))
