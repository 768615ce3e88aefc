"""Whether two tokenizers mean the same by an id: weights trained with one, data made with the other."""

from pathlib import Path

from zgcm.io import read_json

SHOWN = 3


def disagreements(weights: Path, recipe: Path) -> list[str]:
    """Tokens of the weights' tokenizer.json that the recipe's lacks or has under another id, a few in words.

    The recipe's may have more tokens: new special tokens are a usual reason to train on.
    """
    theirs, ours = ids(weights), ids(recipe)
    odd = [token for token, number in theirs.items() if ours.get(token) != number]
    said = [
        f"{token!r} is {theirs[token]}, in the recipe's {ours.get(token, 'nothing')}" for token in odd[:SHOWN]
    ]
    return said + ([f"and {len(odd) - SHOWN:,} more"] if len(odd) > SHOWN else [])


def ids(path: Path) -> dict[str, int]:
    """Token -> id, added tokens too."""
    tokenizer = read_json(path)
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    return {**tokenizer["model"]["vocab"], **added}
