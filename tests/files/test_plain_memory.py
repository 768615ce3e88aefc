"""Streaming: four times the input, the same memory."""

import subprocess
import sys

import pytest
from plain_texts import texts

from zgcm.records import write_records

CODE = """
import resource, sys
from zgcm.tokens import index
index.CHUNK_CHARACTERS = 500_000
from zgcm.cli import verbs
from zgcm.cli.app import app
app(sys.argv[1:], standalone_mode=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
MEGABYTES = 6
ALLOWED_MB = 15
"""Growth that allocators may cause; holding the input would add three times 6 MB, several times over."""


def peak_mb(*arguments: object) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CODE, *map(str, arguments)], capture_output=True, text=True, check=True
    )
    return int(done.stdout.splitlines()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["index", "clean"])
def test_memory_does_not_grow_with_the_input(tmp_path, tokenizer, verb):
    some = texts(500)
    size = sum(len(text.encode()) for text in some)
    options = {
        "index": ("--tokenizer", tokenizer),
        "clean": ("--category", "general_text", "--stage", "pretrain"),
    }[verb]
    peaks = []
    for factor in (1, 4):
        path = tmp_path / f"{factor}.jsonl"
        rows = ({"text": text} for _ in range(factor * MEGABYTES * 1_000_000 // size) for text in some)
        write_records(path, rows)
        peaks.append(peak_mb(verb, path, "--output", tmp_path / f"out{factor}", *options))
    assert peaks[1] - peaks[0] < ALLOWED_MB
