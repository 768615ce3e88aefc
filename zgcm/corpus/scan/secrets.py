"""Credentials: the patterns of detect-secrets' token plugins, and assignments to names that promise a secret.

The plugins for high entropy and for keywords are left out: on prose and code they report thousands of words.
"""

import functools
import re
from typing import Any

from zgcm.corpus.scan.detector import Check, Detector, Match, Span

ASSIGNED = re.compile(
    r"(?:api[_-]?key|secret(?:[_-]?access)?(?:[_-]?key)?|password|access[_-]?token)['\"]?\s*(?:[:=]|：)\s*"
    r"['\"]?([A-Za-z0-9_\-/.]{12,})",
    re.IGNORECASE,
)
"""The published pattern, which here also matches keys in quotes (JSON), `secret_key` and AWS's
`secret_access_key`. Full-width characters stand outside of brackets: Hyperscan sees bytes."""
ASSIGNED_CHINESE = re.compile(
    r"(?:密码|口令|密钥|令牌|访问凭证)['\"]?\s*(?:是|为|：|[:=])\s*['\"]?([A-Za-z0-9_\-/.!@#$%^&*+]{8,})"
)
_PREFIX_GROUPS = {"GitHubTokenDetector", "GitLabTokenDetector"}
"""Their patterns' first group is the token's prefix; everywhere else it is the secret."""
_FRAME = " \t\r\n\"'=:"
_TAIL = re.compile(r"[0-9A-Za-z_+/=\-]*")
_REST = re.compile(r"[0-9A-Za-z_\-/.!@#$%^&*+=~?]*")
"""What else a password may hold: a placeholder must cover it all."""
_END_OF_KEY = re.compile(r"-----END [A-Z0-9 ]+-----|Private-MAC: [0-9a-f]+")
_KEY_CHARS = 20_000
"""Longest private key to look for the end of: RSA with 16,384 bits takes 12,700 characters."""


def secret_detectors() -> list[Detector]:
    """Assignments first, then the plugins by name. Importing detect-secrets takes 0.2 s, hence not above."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    found = [
        Detector("secret", "assignment", ASSIGNED, _value),
        Detector("secret", "assignment_chinese", ASSIGNED_CHINESE, _letters_and_digits),
    ]
    classes: list[Any] = [*get_mapping_from_secret_type_to_class().values()]
    classes.sort(key=lambda plugin: plugin.__name__)
    for plugin in classes:
        # Addresses are personal data: zgcm.corpus.scan.personal finds them, IPv6 too.
        if issubclass(plugin, RegexBasedDetector) and plugin.__name__ != "IPPublicDetector":
            check = _check_of(plugin())
            found += [Detector("secret", plugin.__name__, pattern, check) for pattern in plugin.denylist]
    return found


def _check_of(plugin: Any) -> Check:
    name = type(plugin).__name__
    if name == "PrivateKeyDetector":
        return _key_block
    return functools.partial(_plugin, plugin, name not in _PREFIX_GROUPS)


def _plugin(plugin: Any, in_group: bool, match: Match) -> Span | None:
    """The span of a plugin's match, if the plugin itself accepts it (some look closer than their pattern)."""
    if not any(plugin.analyze_string(match[0])):
        return None
    if in_group and match.re.groups and match[1]:
        return match.span(1)
    start = match.start() + len(match[0]) - len(match[0].lstrip(_FRAME))
    end = match.start() + len(match[0].rstrip(_FRAME))
    # A pattern may end before its token does (JWT's leaves the signature); a placeholder must cover it all.
    tail = _TAIL.match(match.string, end)
    return start, tail.end() if tail else end


def _key_block(match: Match) -> Span:
    """From the header to the end of the block; the header alone where the block has no end."""
    limit = match.end() + _KEY_CHARS
    end = _END_OF_KEY.search(match.string, match.end(), limit)
    dashes = match.string.startswith("-----", match.start() - 5) and match.start() >= 5
    return match.start() - 5 * dashes, end.end() if end else match.end()


def _value(match: Match) -> Span:
    rest = _REST.match(match.string, match.end(1))
    return match.start(1), rest.end() if rest else match.end(1)


def _letters_and_digits(match: Match) -> Span | None:
    value = match[1]
    return match.span(1) if re.search("[0-9]", value) and re.search("[A-Za-z]", value) else None
