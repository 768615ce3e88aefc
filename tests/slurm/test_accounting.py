"""The same with Slurm's accounting database, which most clusters have."""

from pathlib import Path

from tests.slurm.cluster import attempts, finish, result, slurm, start, training, workspace
from tests.slurm.conftest import slurm_lab


def test_cancelled_with_accounting(undisturbed: tuple[list[str], bytes], tmp_path: Path) -> None:
    root = workspace(tmp_path / "stage")
    with slurm_lab(tmp_path / "lab", "--accounting"):
        process = start(root)
        slurm("scancel", training(root))
        finish(process, root)
        ended = slurm("sacct", "--noheader", "--allocations", "--parsable2", "--format=jobid,state")
    assert result(root) == undisturbed
    first, second = (attempt["slurm_job_id"] for attempt in attempts(root))
    states = dict(line.split("|") for line in ended.splitlines())
    assert states[first].startswith("CANCELLED") and states[second] == "COMPLETED"
