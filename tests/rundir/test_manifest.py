"""Complete means: the manifest is there and every byte is as it says."""

import pytest

from zgcm.errors import ZgcmError
from zgcm.rundir import manifest


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.bin").write_bytes(b"abc")
    (tmp_path / "b.bin").write_bytes(b"")
    manifest.write_manifest(tmp_path, iteration=3)
    return tmp_path


def test_round_trip(directory):
    facts = manifest.verify_manifest(directory)
    assert facts["iteration"] == 3
    assert set(facts["files"]) == {"sub/a.bin", "b.bin"}


def test_the_digest_depends_on_content_only(directory, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "b.bin").write_bytes(b"")
    (other / "sub").mkdir()
    (other / "sub" / "a.bin").write_bytes(b"abc")
    assert manifest.write_manifest(other) == manifest.verify_manifest(directory)["digest"]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: (d / "sub" / "a.bin").write_bytes(b"abd"),
        lambda d: (d / "sub" / "a.bin").write_bytes(b"ab"),
        lambda d: (d / "sub" / "a.bin").unlink(),
    ],
)
def test_damage_names_the_file(directory, damage):
    damage(directory)
    with pytest.raises(ZgcmError, match=r"a\.bin"):
        manifest.verify_manifest(directory)


def test_no_manifest_means_incomplete(directory):
    (directory / manifest.NAME).unlink()
    assert not manifest.is_complete(directory)
    with pytest.raises(ZgcmError, match="Incomplete"):
        manifest.verify_manifest(directory)


def test_debris_of_a_killed_writer_is_not_listed(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"a")
    clean = manifest.write_manifest(tmp_path)
    (tmp_path / ".manifest.json.4711.tmp").write_bytes(b"half")
    assert manifest.write_manifest(tmp_path) == clean
