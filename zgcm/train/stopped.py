"""`stopped.json`: why a run refuses further attempts, until a person removes the file."""

from pathlib import Path

from zgcm.errors import ZgcmError
from zgcm.io import read_json, write_json

NAME = "stopped.json"


def write(run: Path, reason: ZgcmError) -> None:
    write_json(run / NAME, reason.as_dict())


def read(path: Path) -> ZgcmError:
    """The reason in a `stopped.json`. Raises ZgcmError when it says none."""
    reason = read_json(path)
    parts = {name: str(reason.get(name, "")) for name in ("where", "found", "expected", "hint")}
    return ZgcmError(str(reason["what"]), **parts)


def check(run: Path) -> None:
    """Raises ZgcmError when the run was stopped."""
    path = run / NAME
    if not path.exists():
        return
    raise ZgcmError(
        "This run was stopped and refuses further attempts: " + read(path).paragraph().rstrip("."),
        where=str(path),
        hint=f"mend the cause, then remove the file and repeat the command: rm {path}",
    )
