"""Lines of a raw shard that are no record: filed away and counted; too many of them fail the shard."""

from collections import Counter
from collections.abc import Callable

from zgcm.errors import ZgcmError
from zgcm.records import Record
from zgcm.records.badlines import BadLine

NAMED = 5
"""Bad lines that the error names."""


class Rejects:
    """Called with each bad line; writes it by `write`."""

    def __init__(self, write: Callable[[Record], None]) -> None:
        self._write = write
        self._first: list[BadLine] = []
        self.reasons: Counter[str] = Counter()

    def __call__(self, bad: BadLine) -> None:
        self.reasons[bad.refused.reason] += 1
        if len(self._first) < NAMED:
            self._first.append(bad)
        self._write(bad.record())

    @property
    def count(self) -> int:
        return self.reasons.total()

    def check(self, lines: int, limit: float, key: str) -> None:
        """Raises ZgcmError when more than `limit` of all `lines` are bad: the first bad line's own error, and
        how many there are."""
        if self.count <= limit * lines:
            return
        error = self._first[0].error()
        others = "; ".join(f"{bad.place} {bad.refused.reason}" for bad in self._first[1:])
        more = f" (also {others}{', ...' if self.count > NAMED else ''})" if others else ""
        raise ZgcmError(
            error.what, where=error.where,
            found=f"{error.found or self._first[0].refused.reason}; "
            f"bad lines: {self.count:,} of {lines:,}{more}",
            expected=f"{error.expected or 'a record'}; at most {limit:.3%} bad lines ({key})",
            hint=f"{error.hint}; or raise {key}, and bad lines are filed away",
        )  # fmt: skip
