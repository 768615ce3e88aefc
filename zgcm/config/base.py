"""What every section of a recipe shares: strict keys, and the mark that keeps a key out of identity.

A recipe's key is part of a stage's identity unless it is declared with `execution(...)`. Execution keys
(nodes, threads, log intervals, ...) change how a step runs, never what it makes, so changing one makes
nothing stale.
"""

import ipaddress
import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator

Seed = Annotated[int, Field(ge=0, lt=2**31)]
"""numpy and torch take 32 bits, and each rank adds its number."""
Place = Annotated[str, Field(min_length=1)]
"""A path. The empty one would be the current directory."""
Decay = Annotated[float, Field(gt=0, lt=1)]
"""Of an exponential average: 1 or more never forgets, and divides by 0 in Adam's correction."""


def _reachable(url: str) -> str:
    """A request can be sent there: a scheme, a host, at most a port and a path."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = parts.scheme in ("http", "https") and parts.port != 0
        if ":" in host:
            ipaddress.IPv6Address(host)
        elif not re.fullmatch(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?", host):
            known = False
    except ValueError:  # a port beyond 65,535 or no number, an open bracket
        known = False
    if known and url.isascii() and url.isprintable() and not set(url) & set(" \\?#@\"'<>"):
        return url
    raise ValueError(f"found {url[:80]!r}; expected http://HOST:PORT or https://HOST:PORT of a service")


Url = Annotated[str, AfterValidator(_reachable)]
Count = Annotated[int, Field(gt=0, le=100_000)]
"""Of machines, processes or files: more is a slip of the hand, and every one of them would be listed."""
LARGEST = 2**63 - 1
"""What numpy, torch and JSON's readers take."""


class Section(BaseModel):
    """A part of a recipe: unknown keys are refused, values are read-only once validated.

    Types are strict: a number in quotes, `true` for 1 or 32.0 for 32 is a mistake, not a number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)

    @field_validator("*")
    @classmethod
    def _in_64_bits(cls, value: Any) -> Any:
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
        for number in inside:
            if isinstance(number, int) and abs(number) > LARGEST:
                raise ValueError(f"expected a whole number of 64 bits, at most {LARGEST}")
        return value


def execution(default: Any = ..., **constraints: Any) -> Any:
    """A field that never decides a result. Same arguments as pydantic's Field."""
    return Field(default, json_schema_extra={"identity": False}, **constraints)


def is_execution(field: Any) -> bool:
    extra = field.json_schema_extra
    return isinstance(extra, dict) and extra.get("identity") is False


def semantic(value: Any) -> Any:
    """The plain data of a section, execution keys left out, keys with None left out. Feeds `recipe_id`."""
    if isinstance(value, Section):
        return {
            name: semantic(getattr(value, name))
            for name, field in type(value).model_fields.items()
            if not is_execution(field) and getattr(value, name) is not None
        }
    if isinstance(value, dict):
        return {key: semantic(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [semantic(item) for item in value]
    return value
