"""What a failed save is called."""

import os


def test_a_save_that_failed_for_want_of_room_says_so(tmp_path):
    """torch's own words are a riddle, and no Exception."""
    from torch.distributed.checkpoint.api import CheckpointException, _wrap_exception

    from zgcm.train.publish import no_room

    for words in ("[enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598", os.strerror(28)):
        try:
            raise RuntimeError(words)
        except RuntimeError as error:
            wrapped = CheckpointException("write", {0: _wrap_exception(error)})
        found = no_room(wrapped, tmp_path / "iter_0000006")
        assert found is not None
        assert found.what.startswith("The disk is full; this checkpoint was not saved")
    assert no_room(CheckpointException("write", {0: _wrap_exception(ValueError("other"))}), tmp_path) is None
