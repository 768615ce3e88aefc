"""What a jail is made of, and what a killed process leaves of it."""

import os
import tempfile
from pathlib import Path

import pytest

from zgcm.rl.sandbox import image


def test_only_what_nobody_uses_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned, used, fresh = (tmp_path / f"{image.PREFIX}{name}" for name in ("abandoned", "used", "fresh"))
    for directory in (abandoned, used, fresh):
        directory.mkdir()
        (directory / "python").touch()
    for directory in (abandoned, used):
        os.utime(directory, (0, 0))
    with image.locked(used):
        image.remove_abandoned()
    assert not abandoned.exists() and used.exists() and fresh.exists()
