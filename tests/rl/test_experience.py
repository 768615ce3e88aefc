"""The line that a step leaves in `reward.jsonl`."""

from collections import Counter
from dataclasses import replace

from zgcm.rl.advantages import digest
from zgcm.rl.experience import Judged, step_record
from zgcm.rl.trajectory import Response, Trajectory

GROUPS = [[Response([5, 6], [-1.0, -2.0], "stop", 0), Response([7], [-0.5], "stop", 0)]]
BATCH = [Trajectory([1], [5, 6], [-1.0, -2.0], 0.75), Trajectory([1], [7], [-0.5], -0.75)]
JUDGED = Judged([[1.0, 0.0]], [[1.0, 0.0]], Counter(), [None], BATCH)


def test_another_advantage_alone_is_another_line() -> None:
    line = step_record(1, GROUPS, JUDGED)
    assert line["advantages_digest"] == digest([0.75, -0.75])
    for other in (
        [BATCH[0], replace(BATCH[1], advantage=-0.7500001)],
        [replace(BATCH[0], advantage=-0.75), replace(BATCH[1], advantage=0.75)],
    ):
        changed = step_record(1, GROUPS, replace(JUDGED, batch=other))
        assert {key for key in line if line[key] != changed[key]} == {"advantages_digest"}


def test_a_step_without_anything_to_learn_from_has_no_digest() -> None:
    nothing = replace(JUDGED, left_out=["zero_variance_group"], batch=[])
    assert step_record(1, GROUPS, nothing)["advantages_digest"] is None
