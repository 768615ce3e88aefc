"""The files that hold records. `files` is the door; `lines`, `parse` and `rows` stand behind it."""

from zgcm.records.files import (
    FORMATS,
    open_records,
    parse_lines,
    read_checked,
    read_numbered,
    read_records,
    record_format,
    record_sha256,
    training_text,
    write_records,
)
from zgcm.records.parse import Record

__all__ = [
    "FORMATS",
    "Record",
    "open_records",
    "parse_lines",
    "read_checked",
    "read_numbered",
    "read_records",
    "record_format",
    "record_sha256",
    "training_text",
    "write_records",
]
