"""Which checkpoint a run resumes from."""

import pytest

from zgcm.rundir.manifest import NAME, write_manifest
from zgcm.train import checkpoints


@pytest.fixture
def directory(tmp_path):
    for iteration in (3, 6, 9):
        save(tmp_path, iteration)
    return tmp_path


def save(directory, iteration):
    path = checkpoints.checkpoint_path(directory, iteration)
    path.mkdir()
    (path / "weights").write_bytes(b"weights of %d" % iteration)
    write_manifest(path, iteration=iteration)


def test_the_newest_is_taken(directory):
    assert checkpoints.latest_whole(directory)[0] == 9


def test_without_a_manifest_it_does_not_count(directory):
    (directory / "iter_0000009" / NAME).unlink()
    assert checkpoints.latest_whole(directory)[0] == 6


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_a_damaged_one_is_set_aside_with_a_message(directory, damage, capsys):
    weights = directory / "iter_0000009" / "weights"
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(b"weights" if damage == "truncated" else b"weights of 8")
    assert checkpoints.latest_whole(directory)[0] == 6
    message = capsys.readouterr().err
    assert "iter_0000009/weights" in message
    assert "damaged_iter_0000009_1" in message
    assert (directory / "damaged_iter_0000009_1").is_dir()


def test_none_left(tmp_path):
    save(tmp_path, 3)
    (tmp_path / "iter_0000003" / "weights").write_bytes(b"")
    assert checkpoints.latest_whole(tmp_path) is None


def test_pruning_keeps_the_recent_and_the_chosen(directory):
    for iteration in (12, 15):
        save(directory, iteration)
    checkpoints.prune(directory, keep_recent=2, keep_every=6, reach=0)
    assert checkpoints.complete_iterations(directory) == [6, 12, 15]


def test_a_link_to_another_run_is_no_copy(directory, tmp_path):
    linked = checkpoints.link_initial(tmp_path / "run" / "initial", directory / "iter_0000006")
    assert (linked / checkpoints.TRACKER).read_text() == "6"
    assert (linked / "iter_0000006").is_symlink()
    assert checkpoints.link_initial(linked, directory / "iter_0000006") == linked


def test_pruning_keeps_one_from_before_a_possible_spike(directory):
    for iteration in (12, 15):
        save(directory, iteration)
    checkpoints.prune(directory, keep_recent=1, keep_every=None, reach=5)
    assert checkpoints.complete_iterations(directory) == [9, 15]


def test_one_that_a_rewind_can_reach_is_there_after_every_save(tmp_path):
    for iteration in range(4, 60, 4):
        save(tmp_path, iteration)
        checkpoints.prune(tmp_path, keep_recent=1, keep_every=None, reach=8)
        kept = checkpoints.complete_iterations(tmp_path)
        assert len(kept) <= 2
        assert kept[0] == 4 or kept[0] <= iteration + 1 - 8


def test_what_a_later_decision_leaves_out_is_passed_over_and_then_removed(directory):
    def before_seven(iteration, facts):
        return facts["iteration"] < 7

    assert checkpoints.latest_whole(directory, before_seven)[0] == 6
    checkpoints.discard(directory, before_seven)
    assert checkpoints.complete_iterations(directory) == [3, 6]


def test_what_killed_saves_left_is_removed_and_nothing_else(directory):
    (directory / "iter_0000009" / NAME).unlink()
    (directory / "damaged_iter_0000012_1").mkdir()
    checkpoints.remove_incomplete(directory)
    left = sorted(path.name for path in directory.iterdir())
    assert left == ["damaged_iter_0000012_1", "iter_0000003", "iter_0000006"]
