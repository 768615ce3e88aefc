"""The one error a user sees: what went wrong, where, what was found and expected, and what to do next."""

from typing import Any


class ZgcmError(Exception):
    """A problem the user can act on; the command line prints it as one paragraph and exits with 1.

    `where` is a file, `file:line:column`, or a recipe key's path.
    """

    def __init__(
        self, what: str, *, where: str = "", found: str = "", expected: str = "", hint: str = ""
    ) -> None:
        self.what, self.where, self.found, self.expected, self.hint = what, where, found, expected, hint
        super().__init__(self.paragraph())

    def paragraph(self) -> str:
        """One paragraph, parts in a fixed order, empty parts left out."""
        parts = [self.what.rstrip(".")]
        parts += [
            f"{label}: {text.rstrip('.')}"
            for label, text in (
                ("at", self.where),
                ("found", self.found),
                ("expected", self.expected),
                ("to do", self.hint),
            )
            if text
        ]
        return ". ".join(parts) + "."

    def __reduce__(self) -> Any:
        """Whole through process boundaries; an exception's own way would keep the paragraph alone."""
        return _again, (self.what, self.where, self.found, self.expected, self.hint)

    def as_dict(self) -> dict[str, str]:
        """For `--json`."""
        names = ("what", "where", "found", "expected", "hint")
        return {name: text for name in names if (text := getattr(self, name))}


def _again(what: str, where: str, found: str, expected: str, hint: str) -> ZgcmError:
    return ZgcmError(what, where=where, found=found, expected=expected, hint=hint)
