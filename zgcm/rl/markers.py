"""Version-anchored evaluation markers and the weight-sync gate's marker (as published).

The truth lies in the run directory; a workflow's declared files are links to it, made only at success.
"""

import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import fsync_directory, read_json, write_json

MEANINGS: dict[str, dict[str, Any]] = {
    "math": {"reward_semantics": "raw_binary_correctness"},
    "if": {"domain": "if", "reward_semantics": "fraction_of_explicit_constraints_satisfied"},
    "code": {
        "domain": "code",
        "reward_semantics": "all_tests_pass",
        "metric": "all_tests_pass_at_1",
        "max_tests_per_problem": 64,
    },
    "mixed": {"domain": "mixed", "reward_semantics": "mean_over_domains_each_with_its_own"},
}
"""Domain -> what a marker says of its rewards. Its schema is `zgcm-DOMAIN-eval-v1`."""
GATE_SCHEMA = "zgcm-weight-sync-gate-v1"
RESUME_GATE_SCHEMA = "zgcm-resume-weight-sync-gate-v1"
RAW_REWARD = "eval/raw_correct"
COMPLETIONS = "eval/completions"
PHASES = ("baseline", "resume_catchup", "periodic", "final", "final_catchup")


def phase(version: int, steps: int, *, resumed: bool) -> str:
    """Name of an evaluation. `resumed`: the process started at this version, so its turn had been missed."""
    if version == 0:
        return "baseline"
    if version == steps:
        return "final_catchup" if resumed else "final"
    return "resume_catchup" if resumed else "periodic"


def marker_path(run: Path, version: int) -> Path:
    return run / "evaluations" / f"version_{version:03d}.json"


def read_marker(run: Path, version: int) -> dict[str, Any] | None:
    """The marker of a version; None: not evaluated yet. Raises ZgcmError for another version's or run's."""
    path = marker_path(run, version)
    if not path.exists():
        return None
    marker = read_json(path)
    for key, mine in (("model_version", version), ("run_id", run.name)):
        if marker.get(key) != mine or not marker.get("stats"):
            raise ZgcmError(
                "Not the marker of this run and version",
                where=str(path),
                found=f"{key} {marker.get(key)!r}" if marker.get("stats") else "no statistics",
                expected=repr(mine),
                hint="remove the file and repeat the command: it evaluates again, or says what that takes",
            )
    return marker


def write_marker(
    run: Path,
    version: int,
    *,
    phase: str,
    samples_per_row: int,
    stats: Mapping[str, float],
    domain: str = "math",
    facts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write a marker (temporary file, rename), with `facts` as they are. Of the statistics it keeps finite
    scalars and drops keys that end with `__count`."""
    kept = {
        key: value
        for key, value in stats.items()
        if not key.endswith("__count") and isinstance(value, int | float) and math.isfinite(value)
    }
    if not kept:
        raise ZgcmError("An evaluation without statistics", where=str(marker_path(run, version)))
    marker = {
        "schema": f"zgcm-{domain}-eval-v1",
        "phase": phase,
        "model_version": version,
        "run_id": run.name,
        "samples_per_row": samples_per_row,
        **MEANINGS[domain],
        **(facts or {}),
        "stats": {**kept, "eval/model_version": version},
        "completed_at": now(),
    }
    write_json(marker_path(run, version), marker)
    return marker


def write_gate(run: Path, version: int, **facts: Any) -> None:
    """Record that a start's weight synchronisation was proved, before anything was evaluated or trained."""
    resumed = version > 0
    name = f"weight_sync_gate_{'resume_' if resumed else ''}version_{version:03d}.json"
    extra = {"recovery_version": version} if resumed else {}
    marker = {
        "schema": RESUME_GATE_SCHEMA if resumed else GATE_SCHEMA,
        "status": "passed",
        "model_version": version,
        "full_actor_weight_broadcast": True,
        "optimizer_step": False,
        "completed_at": now(),
    }
    write_json(run / "preflight" / name, {**marker, **extra, **facts})


def publish(run: Path, versions: Sequence[int], directory: Path) -> None:
    """Hard-link each version's marker into `directory`; files of other versions there are removed."""
    for version in versions:
        if read_marker(run, version) is None:
            raise ZgcmError("An evaluation is missing", where=str(marker_path(run, version)))
    targets = [directory / marker_path(run, version).name for version in versions]
    for version, target in zip(versions, targets, strict=True):
        link(marker_path(run, version), target)
    for path in directory.glob("version_*.json"):
        if path not in targets:
            path.unlink()


def link(source: Path, target: Path) -> None:
    """Make `target` another name of `source`, replacing what was there in one step."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    os.link(source, temporary)
    temporary.replace(target)
    # rename() of two names of one file does nothing and leaves both (POSIX)
    temporary.unlink(missing_ok=True)
    fsync_directory(target.parent)


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
