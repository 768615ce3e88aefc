"""Lines that are no record: where they are, why, and what they look like. Cleaning files them away."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zgcm.errors import ZgcmError
from zgcm.records.lines import Line, Part, line_number
from zgcm.records.parse import Refused

RAW_BYTES = 2000
"""Of a bad line that are shown; the rest is only counted."""
REJECTED = "rejected"
"""The decision about a line that is no record."""


@dataclass(frozen=True)
class BadLine:
    """A line, or a row of a parquet file, that is no record."""

    path: Path
    number: int
    offset: int | None
    """Of its first byte in the (decompressed) file; parquet rows have none."""
    size: int
    raw: bytes
    """Its first RAW_BYTES bytes."""
    refused: Refused

    @property
    def place(self) -> str:
        return f"{self.path}:{self.number}:{self.refused.column}"

    def error(self) -> ZgcmError:
        refused = self.refused
        return ZgcmError(
            refused.what, where=self.place, found=refused.found, expected=refused.expected, hint=refused.hint
        )

    def record(self) -> dict[str, Any]:
        """Its line in `{shard}.rejected.jsonl`. `raw` holds the bytes, those beyond ASCII as \\xHH escapes,
        a backslash as two."""
        refused = self.refused
        return {
            "decision": REJECTED,
            "reasons": [refused.reason],
            "file": str(self.path),
            "line": self.number,
            "column": refused.column,
            "offset": self.offset,
            "detail": f"{refused.what}: {refused.found}" if refused.found else refused.what,
            "bytes": self.size,
            "raw": escaped(self.raw),
        }


def bad_line(path: Path, part: Part, line: Line, refused: Refused) -> BadLine:
    number = line_number(path, part, line)
    return BadLine(path, number, line.offset, line.size, line.data[:RAW_BYTES], refused)


def escaped(raw: bytes) -> str:
    """Bytes as ASCII, read back by `text.encode().decode("unicode_escape").encode("latin-1")`."""
    return raw.decode("latin-1").encode("unicode_escape").decode()
