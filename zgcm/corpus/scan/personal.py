"""Personal data: mail and network addresses, telephone, identity-card and bank-card numbers.

Libraries decide: phonenumbers (numbering plans), python-stdnum (check digits), ipaddress (ranges). Addresses
reserved for examples (example.com, 192.0.2.0/24) count as well: a corpus masks real ones with them.
"""

import functools
import ipaddress
import re

from zgcm.corpus.scan.detector import (
    NO_TERM,
    NO_TERM_AFTER,
    NOT_AFTER,
    NOT_BEFORE,
    Detector,
    Match,
    Span,
    whole,
)

GENERIC_DOMAINS = frozenset({
    "ai", "app", "asia", "biz", "blog", "cloud", "club", "com", "company", "dev", "edu", "email", "eu",
    "example", "gov", "group", "info", "int", "io", "live", "ltd", "me", "mil", "net", "online", "org",
    "shop", "site", "store", "tech", "top", "uk", "vip", "wang", "work", "xyz"
})  # fmt: skip
"""Of mail addresses, beside the two letters of every country: `a@self.weight` in code is no address."""
CARD_NETWORKS = (
    ("3[47]", (15,)), ("3(?:0[0-5]|[68])", (14,)), ("35(?:2[89]|[3-8])", (16,)), ("4", (13, 16, 19)),
    ("5[1-5]|2(?:22[1-9]|2[3-9]|[3-6]|7[01]|720)", (16,)), ("6(?:011|4[4-9]|5)", (16,)),
    ("62|9558", (16, 17, 18, 19)),
)  # fmt: skip
"""Issuer prefixes and lengths (ISO/IEC 7812): American Express, Diners Club, JCB, Visa, Mastercard,
Discover, UnionPay. Without them one in ten numbers of the right length has the right check digit."""
_NETWORKS = tuple((re.compile(prefix), lengths) for prefix, lengths in CARD_NETWORKS)

EMAIL = re.compile(
    r"(?<![0-9A-Za-z._%+\-])[0-9A-Za-z][0-9A-Za-z._%+\-]{0,63}@(?:[0-9A-Za-z][0-9A-Za-z\-]{0,62}\.){1,8}"
    r"([A-Za-z]{2,24})(?![0-9A-Za-z(_])"
)
IPV4 = re.compile("[0-9]" + NOT_AFTER + r"[0-9]{0,2}(?:\.[0-9]{1,3}){3}" + NOT_BEFORE)
IPV6 = re.compile(
    r"[23](?<![0-9A-Za-z:.].)[0-9A-Fa-f]{3}:(?:[0-9A-Fa-f]{0,4}:){1,6}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z:])"
)
"""Global unicast addresses begin with 2 or 3 (2000::/3); slices and times of day do not look like that."""
CHINESE_ID = re.compile(
    "[1-9]" + NOT_AFTER + r"[0-9]{5} ?(?:18|19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01]) ?"
    r"[0-9]{3}[0-9Xx](?![0-9A-Za-z_])"
)
SSN = re.compile("[0-9]" + NOT_AFTER + r"[0-9]{2}-[0-9]{2}-[0-9]{4}" + NOT_BEFORE)
CARD = re.compile(
    "[2-69]" + NOT_AFTER + NO_TERM
    + r"(?:[0-9]{12,18}|[0-9]{3}([ \-])(?:[0-9]{4}\1){2}[0-9]{4}(?:\1?[0-9]{1,3})?"
    r"|(?<=3)[0-9]{3}([ \-])[0-9]{6}\2[0-9]{4,5})" + NOT_BEFORE + NO_TERM_AFTER
)  # fmt: skip
IBAN = re.compile(
    r"(?<![0-9A-Za-z])[A-Z]{2}[0-9]{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?(?![0-9A-Za-z])"
)
PHONE_ABROAD = re.compile(r"(?<![0-9A-Za-z+])\+[1-9](?:[ .\-]?\(?[0-9]\)?){6,14}(?![0-9A-Za-z])")
PHONE_CHINESE = re.compile(
    "[(01]" + NOT_AFTER + NO_TERM
    + r"(?:(?<=1)[3-9][0-9]([ \-]?)[0-9]{4}\1[0-9]{4}"
    r"|(?:(?<=0)|(?<=\()0)[1-9][0-9]{1,2}[)\-] ?[2-9][0-9]{2,3}[ \-]?[0-9]{4})"
    + NOT_BEFORE + NO_TERM_AFTER
)  # fmt: skip
"""Mobile numbers, and landlines with their area code set off."""
CHINESE_HINT = r"1[3-9][0-9][ \-]?[0-9]{4}[ \-]?[0-9]{4}|0[1-9][0-9]{1,2}[)\-] ?[2-9][0-9]{2}"
PHONE_AMERICAN = re.compile(
    "[(2-9]"
    + NOT_AFTER
    + r"(?:(?<=\()[2-9]|(?<=[2-9]))[0-9]{2}[).\-] ?[2-9][0-9]{2}[.\-][0-9]{4}"
    + NOT_BEFORE
)


def personal_detectors() -> list[Detector]:
    """The stricter first: where findings overlap, the earlier detector's stays."""
    return [
        Detector("id_card", "chinese_id", CHINESE_ID, _chinese_id, r"[0-9]{6} ?[0-9]{8} ?[0-9]{3}"),
        Detector("id_card", "us_ssn", SSN, _ssn),
        Detector("bank_card", "card", CARD, _card, r"[0-9]{4}[ \-]?[0-9]{4,6}[ \-]?[0-9]{4}"),
        Detector("bank_card", "iban", IBAN, _iban),
        Detector("email", "email", EMAIL, _email, r"[0-9A-Za-z._%+\-]@[0-9A-Za-z\-]+\.[0-9A-Za-z]"),
        Detector("ip", "ipv4", IPV4, _ip),
        Detector("ip", "ipv6", IPV6, _ip),
        Detector("phone", "phone_abroad", PHONE_ABROAD, functools.partial(_phone, None)),
        Detector("phone", "phone_chinese", PHONE_CHINESE, functools.partial(_phone, "CN"), CHINESE_HINT),
        Detector("phone", "phone_american", PHONE_AMERICAN, functools.partial(_phone, "US")),
    ]


def _email(match: Match) -> Span | None:
    domain = match[1].lower()
    return match.span() if domain in GENERIC_DOMAINS or domain in _countries() else None


@functools.cache
def _countries() -> frozenset[str]:
    from phonenumbers import SUPPORTED_REGIONS

    return frozenset(region.lower() for region in SUPPORTED_REGIONS)


_VERSION = re.compile(r"(?:version|release|版本|\bv)[ :]{0,2}$", re.IGNORECASE)


def _ip(match: Match) -> Span | None:
    """Addresses, but no version numbers."""
    if not _is_reachable(match[0]):
        return None
    is_version = _VERSION.search(match.string, max(0, match.start() - 12), match.start())
    return None if is_version else match.span()


@functools.lru_cache(maxsize=4096)
def _is_reachable(text: str) -> bool:
    """Whether it is an address that can be reached from everywhere, or one of documentation."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.is_multicast:
        return False
    return address.is_global or any(address in block for block in _EXAMPLES)


_EXAMPLES = tuple(
    map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"))
)


def _chinese_id(match: Match) -> Span | None:
    from stdnum.cn import ric

    return match.span() if ric.is_valid(match[0]) else None


def _ssn(match: Match) -> Span | None:
    from stdnum.us import ssn

    return match.span() if ssn.is_valid(match[0]) else None


def _card(match: Match) -> Span | None:
    from stdnum import luhn

    digits = match[0].replace(" ", "").replace("-", "")
    issued = any(prefix.match(digits) and len(digits) in lengths for prefix, lengths in _NETWORKS)
    return match.span() if issued and luhn.is_valid(digits) else None


def _iban(match: Match) -> Span | None:
    """Words in capitals may follow: shorter pieces are tried, group by group."""
    from stdnum import iban

    text = match[0]
    while text:
        if iban.is_valid(text):
            return match.start(), match.start() + len(text)
        text = text.rpartition(" ")[0]
    return None


def _phone(region: str | None, match: Match) -> Span | None:
    import phonenumbers

    try:
        number = phonenumbers.parse(match[0], region)
    except phonenumbers.NumberParseException:
        return None
    valid = (
        phonenumbers.is_valid_number_for_region(number, region)
        if region
        else phonenumbers.is_valid_number(number)
    )
    return whole(match) if valid else None
