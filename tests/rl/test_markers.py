import json
from pathlib import Path

import pytest

from zgcm.errors import ZgcmError
from zgcm.rl import markers


@pytest.mark.parametrize(
    ("version", "resumed", "name"),
    [
        (0, False, "baseline"),
        (10, False, "periodic"),
        (10, True, "resume_catchup"),
        (177, False, "final"),
        (177, True, "final_catchup"),
    ],
)
def test_phase(version: int, resumed: bool, name: str) -> None:
    assert markers.phase(version, 177, resumed=resumed) == name


def test_marker_form(tmp_path: Path) -> None:
    stats = {"eval/raw_correct": 0.5, "eval/n__count": 8, "eval/nan": float("nan")}
    markers.write_marker(tmp_path, 6, phase="periodic", samples_per_row=4, stats=stats)
    marker = json.loads((tmp_path / "evaluations" / "version_006.json").read_text())
    assert marker.pop("completed_at")
    assert marker == {
        "schema": "zgcm-math-eval-v1",
        "phase": "periodic",
        "model_version": 6,
        "run_id": tmp_path.name,
        "samples_per_row": 4,
        "reward_semantics": "raw_binary_correctness",
        "stats": {"eval/raw_correct": 0.5, "eval/model_version": 6},
    }
    assert markers.read_marker(tmp_path, 6)["model_version"] == 6
    assert markers.read_marker(tmp_path, 7) is None


def test_a_marker_of_code_has_the_published_fields(tmp_path: Path) -> None:
    """But for `dump_dir`: there is no dump."""
    facts = {"rows": 2, "unique_task_ids": 2, "correct": 1, "score": 0.5, "valid": True, "temperature": 1.0}
    stats = {"eval/raw_correct": 0.5}
    marker = markers.write_marker(
        tmp_path, 51, phase="periodic", samples_per_row=1, stats=stats, domain="code", facts=facts
    )
    published = {"phase", "model_version", "rows", "unique_task_ids", "correct", "score", "valid", "metric",
                 "max_tests_per_problem", "temperature", "stats", "completed_at", "schema"}  # fmt: skip
    assert published <= marker.keys() and marker["schema"] == "zgcm-code-eval-v1"
    assert (marker["metric"], marker["max_tests_per_problem"]) == ("all_tests_pass_at_1", 64)
    assert facts.items() <= marker.items()


def test_another_versions_marker_is_refused(tmp_path: Path) -> None:
    markers.write_marker(tmp_path, 6, phase="periodic", samples_per_row=4, stats={"eval/raw_correct": 0.5})
    markers.marker_path(tmp_path, 6).rename(markers.marker_path(tmp_path, 7))
    with pytest.raises(ZgcmError, match="model_version 6"):
        markers.read_marker(tmp_path, 7)


def test_another_runs_marker_is_refused(tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        stats = {"eval/raw_correct": 0.5}
        markers.write_marker(tmp_path / name, 6, phase="periodic", samples_per_row=4, stats=stats)
    markers.marker_path(tmp_path / "theirs", 6).replace(markers.marker_path(tmp_path / "mine", 6))
    with pytest.raises(ZgcmError) as caught:
        markers.read_marker(tmp_path / "mine", 6)
    assert (caught.value.found, caught.value.expected) == ("run_id 'theirs'", "'mine'")
    marker = json.loads(markers.marker_path(tmp_path / "mine", 6).read_text())
    del marker["run_id"]
    markers.marker_path(tmp_path / "mine", 6).write_text(json.dumps(marker))
    with pytest.raises(ZgcmError, match="run_id None"):
        markers.read_marker(tmp_path / "mine", 6)


def test_no_statistics_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZgcmError):
        markers.write_marker(tmp_path, 0, phase="baseline", samples_per_row=4, stats={"a__count": 1})


def test_publish_links_and_removes_what_is_stale(tmp_path: Path) -> None:
    run, declared = tmp_path / "run", tmp_path / "evaluations"
    for version in (0, 6):
        markers.write_marker(run, version, phase="periodic", samples_per_row=4, stats={"a": 1.0})
    declared.mkdir()
    (declared / "version_010.json").write_text("{}")
    for _ in range(2):  # a second success changes nothing
        markers.publish(run, (0, 6), declared)
        assert sorted(path.name for path in declared.iterdir()) == ["version_000.json", "version_006.json"]
    assert (declared / "version_006.json").samefile(markers.marker_path(run, 6))


def test_publish_needs_every_marker(tmp_path: Path) -> None:
    with pytest.raises(ZgcmError, match="missing"):
        markers.publish(tmp_path / "run", (0,), tmp_path)
    assert not list(tmp_path.iterdir())


def test_gate_markers(tmp_path: Path) -> None:
    markers.write_gate(tmp_path, 0, transport="object_store")
    markers.write_gate(tmp_path, 4, transport="object_store")
    first = json.loads((tmp_path / "preflight" / "weight_sync_gate_version_000.json").read_text())
    resumed = json.loads((tmp_path / "preflight" / "weight_sync_gate_resume_version_004.json").read_text())
    assert first["schema"] == "zgcm-weight-sync-gate-v1" and first["optimizer_step"] is False
    assert resumed["schema"] == "zgcm-resume-weight-sync-gate-v1" and resumed["recovery_version"] == 4
