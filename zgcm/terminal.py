"""Tables and sentences for a terminal, no wider than it is. Into a file or a pipe a row is one line.

print(*aligned([("stage", "steps"), ("sft", "200")], right={1}), sep="\\n")
"""

import shutil
import textwrap
from collections.abc import Collection, Sequence

GAP = 2
UNBOUNDED = 1_000_000
INDENT = "    "


def room() -> int:
    """Characters of a line: $COLUMNS, else the terminal's."""
    return shutil.get_terminal_size((UNBOUNDED, 24)).columns


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Cells under their headings, the first row; columns in `right` to the right.

    Columns for which there is no room come below in a table of their own, with the first column again. Where
    one is still too wide, its cells are broken into lines.
    """
    lines: list[str] = []
    for block in _blocks([max(map(len, column)) for column in zip(*rows, strict=True)]):
        lines += [""] * bool(lines)
        for row in rows:
            cells = [_broken(row[at], width) for at, width in block.items()]
            for part in range(max(map(len, cells))):
                here = [cell[part] if part < len(cell) else "" for cell in cells]
                padded = [
                    text.rjust(width) if at in right else text.ljust(width)
                    for text, (at, width) in zip(here, block.items(), strict=True)
                ]
                lines.append((" " * GAP).join(padded).rstrip())
    return lines


def noted(lines: Sequence[str], notes: Sequence[str]) -> list[str]:
    """Each line with its note behind it, or indented below it where there is no room."""
    found = []
    for line, note in zip(lines, notes, strict=True):
        whole = f"{line}{' ' * GAP}{note}".rstrip()
        found += [whole] if len(whole) <= room() else [*wrapped(line.rstrip()), *wrapped(note, INDENT)]
    return found


def wrapped(text: str, first: str = "") -> list[str]:
    """Each line of a text, broken where the terminal ends; `first` indents it, and the rest is indented."""
    return [
        part
        for line in text.splitlines()
        for part in textwrap.wrap(
            line, room(), initial_indent=first, subsequent_indent=INDENT,
            break_long_words=False, break_on_hyphens=False,
        )
        or [""]
    ]  # fmt: skip


def _blocks(widths: list[int]) -> list[dict[int, int]]:
    """Columns and their widths that stand side by side, block by block."""
    most = room()
    blocks = [{0: min(widths[0], most)}]
    for at, width in list(enumerate(widths))[1:]:
        if len(blocks[-1]) > 1 and sum(blocks[-1].values()) + GAP * len(blocks[-1]) + width > most:
            blocks.append({0: blocks[0][0]})
        blocks[-1][at] = min(width, max(most - blocks[-1][0] - GAP, 1)) if len(blocks[-1]) == 1 else width
    return blocks


def _broken(cell: str, width: int) -> list[str]:
    return textwrap.wrap(cell, width, break_on_hyphens=False) or [""] if len(cell) > width else [cell]
