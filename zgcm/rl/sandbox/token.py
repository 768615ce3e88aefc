"""The secret that a client shows: from a file of mode 0600, or from a variable."""

import os
import stat
from pathlib import Path

from zgcm.errors import ZgcmError

CHARACTERS = 32
VARIABLE = "ZGCM_CODE_SANDBOX_TOKEN"


def read(file: Path | None) -> str:
    """Raises ZgcmError when there is none, it is short, or others may read its file."""
    where = str(file) if file else f"${VARIABLE}"
    if file is not None:
        mode = stat.S_IMODE(file.stat().st_mode) if file.is_file() else None
        if mode != 0o600:
            raise ZgcmError(
                "A token's file must be its owner's alone", where=where,
                found="no file" if mode is None else f"mode {mode:04o}", expected="mode 0600",
                hint=f"(umask 077; openssl rand -hex 32 > {file})",
            )  # fmt: skip
    token = file.read_text(errors="replace").strip() if file else os.environ.get(VARIABLE, "").strip()
    if len(token) < CHARACTERS or not token.isascii() or not token.isprintable():
        raise ZgcmError(
            "No token" if not token else "The token is too short, or not plain text", where=where,
            found=f"{len(token)} characters", expected=f"at least {CHARACTERS} printable ASCII characters",
            hint="openssl rand -hex 32",
        )  # fmt: skip
    return token
