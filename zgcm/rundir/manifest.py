"""A directory is complete iff its manifest exists: written last, with sizes and SHA-256 of every file."""

from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.io import canonical_json, is_temporary, read_json, sha256_bytes, sha256_file, write_json

NAME = "manifest.json"
AGAIN = "restore the directory, or run the step that makes it again"


def write_manifest(directory: Path, **facts: Any) -> str:
    """List every file below `directory` and write the manifest. Returns the digest of the listing.

    Debris of a killed writer is no part of it: the digest, which run ids build on, would depend on the kill.
    """
    files = {
        str(path.relative_to(directory)): {"bytes": path.stat().st_size, "sha256": sha256_file(path)}
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path != directory / NAME and not is_temporary(path)
    }
    listing = sha256_bytes(canonical_json(files))
    write_json(directory / NAME, {**facts, "files": files, "digest": listing})
    return listing


def is_complete(directory: Path) -> bool:
    return (directory / NAME).is_file()


def verify_manifest(directory: Path) -> dict[str, Any]:
    """Check sizes and checksums and return the manifest. Raises ZgcmError naming the first damaged file, and
    for a list of files that is not the one that was written."""
    if not is_complete(directory):
        raise ZgcmError(
            "Incomplete directory: it has no manifest",
            where=str(directory),
            hint="run the step that makes it again",
        )
    manifest = read_json(directory / NAME)
    if sha256_bytes(canonical_json(manifest["files"])) != manifest["digest"]:
        raise ZgcmError(
            "The manifest was changed after it was written", where=str(directory / NAME),
            found=f"digest {str(manifest['digest'])[:64]}", expected="that of its list of files", hint=AGAIN,
        )  # fmt: skip
    for name, expected in manifest["files"].items():
        path = directory / name
        found = path.stat().st_size if path.is_file() else None
        if found != expected["bytes"]:
            size = "missing" if found is None else f"{found} bytes"
            raise ZgcmError(
                "Damaged file", where=str(path), found=size, expected=f"{expected['bytes']} bytes", hint=AGAIN
            )
        if sha256_file(path) != expected["sha256"]:
            raise ZgcmError(
                "Damaged file: its checksum differs from the manifest", where=str(path), hint=AGAIN
            )
    return manifest
