"""A number for the code of each step; part of what decides a result (see identity)."""

# Raise a step's number when a change of code changes its results; everything after it becomes stale.
VERSIONS = {
    "raw": 1,
    "clean": 3,
    "fingerprint": 2,
    "minhash": 1,
    "decontaminate": 2,
    "tokenizer": 2,
    "index": 2,
    "mix": 3,
    "train": 2,
    "adopt": 1,
    "export": 1,
    "pass_rates": 5,
    "difficulty": 2,
    "rl": 7,
}
