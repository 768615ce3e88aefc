"""Evaluations that are gone, of versions that training has passed, and the policies to make them from."""

from pathlib import Path
from typing import TYPE_CHECKING

from zgcm.errors import ZgcmError
from zgcm.rl import markers, recover
from zgcm.rl.experience import policy_directory
from zgcm.rundir.manifest import is_complete

if TYPE_CHECKING:
    from zgcm.rl.prepare import Run


def missing(run: "Run") -> list[int]:
    """Versions before the newest recover point without a marker. Raises ZgcmError when the policy of one is
    gone too: only training passes by it again."""
    reached = recover.newest_step(run.directory)
    found = [
        version
        for version in run.stage.evaluation_versions()
        if version < reached and markers.read_marker(run.directory, version) is None
    ]
    for version in found:
        if not is_complete(policy_of(run, version)):
            later = recover.later_than(run.directory, version)
            raise ZgcmError(
                "The evaluation of a version that training has passed is missing, and so is its policy",
                where=str(markers.marker_path(run.directory, version)),
                expected=str(policy_directory(run.directory, version)),
                hint="put one of them back; or remove the recover points beyond it and repeat the command, "
                f"which trains these steps again to the same result: rm -r {' '.join(map(str, later))}",
            )
    return found


def policy_of(run: "Run", version: int) -> Path:
    """Version 0 is the policy that the stage starts from; others are there as far as they were saved."""
    return run.policy if version == 0 else policy_directory(run.directory, version)
