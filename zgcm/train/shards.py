"""Whether the files of a mix shard are the ones that its manifest describes.

A run's directory, and the index cache in it, is named by the digests that manifests state. So a .bin that was
rewritten behind its manifest's back would meet the index of the old one; it is refused here.
"""

from pathlib import Path
from typing import Any

import numpy as np

from zgcm.errors import ZgcmError
from zgcm.io import sha256_file
from zgcm.layout import PACKED_PARTS

ENDS = (".bin", ".idx")


def check_files(manifest: Path, report: dict[str, Any], prefix: Path, packed: bool) -> None:
    """Presence, size and, where a file is younger than the manifest, content. Raises ZgcmError.

    Content is otherwise not read: a 7B corpus has terabytes of it.
    """
    for part, facts in described(report, prefix, packed).items():
        for end in ENDS:
            path = part.with_name(part.name + end)
            if not path.is_file():
                raise ZgcmError(
                    "A mix shard is missing",
                    where=str(path),
                    hint="let the workflow make it: remove the manifest beside it, repeat your command",
                )
        check_size(part.with_name(part.name + ".bin"), facts)
        for end in ENDS:
            check_content(part.with_name(part.name + end), facts[f"{end[1:]}_sha256"], manifest)


def described(report: dict[str, Any], prefix: Path, packed: bool) -> dict[Path, dict[str, Any]]:
    """Prefix of each .bin/.idx pair of a shard -> what the manifest says of it."""
    if not packed:
        return {prefix: report}
    return {prefix.with_name(f"{prefix.name}_{part}"): report["parts"][part] for part in PACKED_PARTS}


def check_size(path: Path, facts: dict[str, Any]) -> None:
    if "tokens" not in facts or "dtype" not in facts:
        return
    expected = facts["tokens"] * np.dtype(facts["dtype"]).itemsize
    if (found := path.stat().st_size) != expected:
        raise ZgcmError(
            "A mix shard is not the one that its manifest describes",
            where=str(path),
            found=f"{found:,} bytes",
            expected=f"{expected:,} bytes ({facts['tokens']:,} tokens of {facts['dtype']})",
            hint="let the workflow make it anew: remove the manifest beside it, repeat your command",
        )


def check_content(path: Path, digest: str, manifest: Path) -> None:
    """The workflow writes the manifest last; a younger file was written by something else, or copied."""
    if path.stat().st_mtime_ns <= manifest.stat().st_mtime_ns:
        return
    if sha256_file(path) != digest:
        raise ZgcmError(
            "A file was rewritten after its manifest, so its old index would be used for new tokens",
            where=str(path),
            hint=f"remove {manifest} and make the shard again, or restore the file",
        )
