"""What an evaluation must be before a marker says so."""

from typing import Any

import pytest

from zgcm.config.rl import Sampling
from zgcm.errors import ZgcmError
from zgcm.rl.evaluation import audit
from zgcm.rl.prompts import Prompt
from zgcm.rl.trajectory import Response

SAMPLING = Sampling(n_samples=2, temperature=0.7)
RIGHT = [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


PROMPTS = [Prompt(name, [], [], "", [1], "code") for name in "abc"]


def audited(
    raw: list[list[float]] = RIGHT, versions: tuple[int, ...] = (5, 5), domain: str = "code"
) -> dict[str, Any]:
    groups = [[Response([1], [0.0], "stop", version) for version in versions] for _ in PROMPTS]
    return audit(PROMPTS, groups, raw, 5, SAMPLING, domain=domain)


def test_of_code_it_counts() -> None:
    assert audited() == {
        "rows": 3,
        "unique_task_ids": 3,
        "correct": 3,
        "score": 0.5,
        "valid": True,
        "temperature": 0.7,
    }
    assert audited(domain="math") == {}


def test_what_is_no_evaluation() -> None:
    with pytest.raises(ZgcmError, match="passes or fails"):
        audited([[1.0, 0.5], *RIGHT[1:]])
    for domain in ("code", "math", "if"):
        with pytest.raises(ZgcmError, match=r"Another version.*version 4"):
            audited(versions=(5, 4), domain=domain)
        with pytest.raises(ZgcmError, match="3 responses"):
            audited(versions=(5,), domain=domain)
    assert audited([[0.5, 0.25]] * 3, domain="if") == {}, "shares are no broken verdicts there"
