r"""A written quantity: a value and what it counts. `5\text{ cm}`, `\$18`, `12.5\%`, `45^\circ`, `15元`."""

import re
from dataclasses import dataclass
from fractions import Fraction

from zgcm.rl.rewards.units import ABBREVIATIONS, BARE, NO_UNIT, Unit, contradict, joined, pound_as, unit
from zgcm.rl.rewards.words import plain

_SCALES = {
    "hundred": 2,
    "thousand": 3,
    "million": 6,
    "billion": 9,
    "trillion": 12,
    "百": 2,
    "千": 3,
    "万": 4,
    "亿": 8,
}
_BARE = "|".join(map(re.escape, BARE))
_POWER = r"(?:\^\{?([23])\}?)?"
_KNOWN = rf"(?:(?:sq|cu|square|cubic)\b\.?\s+)?(?:{'|'.join(ABBREVIATIONS)}|L|{_BARE})"
_PARTS = re.compile(r"(\d+(?:\.\d+)?)(\s*)([A-Za-z]+|[\u4e00-\u9fff]+)(?:\s*(?:,\s*)?(?:and\s+)?)")
_SUFFIXES = (
    re.compile(r"(?P<value>.*[^\s\\])\s*\\?%"),
    re.compile(r"(?P<value>.*\S)\s*\^\{\\circ\}(?:\s*\\?(?:text\s*\{)?\s*(?P<scale>[CF])\s*\}?)?"),
    re.compile(rf"(?P<value>.*[\w)}}\]])\s*\\text\s*\{{(?P<unit>[^{{}}]*)\}}\s*{_POWER}"),
    re.compile(rf"(?P<value>.*[\d)}}\]])\s+(?P<unit>[A-Za-z]{{3,}}[A-Za-z /.-]*){_POWER}"),
    re.compile(
        rf"(?P<value>-?[\d.]+)\s+(?P<unit>(?:{_KNOWN}(?:\^\{{?[23]\}}?)?(?:\s*/\s*| per ))*{_KNOWN}){_POWER}"
    ),
    re.compile(
        rf"(?P<value>.*[\d)}}\]])\s*(?P<unit>(?:{_BARE})(?:(?:/| per )[a-z]+)?|m/[smh]){_POWER}", re.I
    ),
    re.compile(rf"(?P<value>.*[\d)}}])\s*(?P<unit>[\u4e00-\u9fff]+){_POWER}"),
)
_CURRENCY = re.compile(r"(?:US)?\s*\\(\$)|([€£¥])|(?<![A-Za-z])(USD|RMB|CNY|EUR|GBP)\s*(?=[\d.\\-])")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?(?:\s*(?:\\text\s*\{\s*)?([ap])\.?\s?m\.?\s*\}?)?", re.I)
OTHER_NUMBER = re.compile(
    r"^(?:squared|cubed)|\b(?:factorial|plus|minus|negative|over|below|point\s|half|halves"
    r"|(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth|millionth)s?\b|tens\b)"
    r"|\b(?:base|binary|octal|hexadecimal)\b|进制|(?<![a-z^])\d|半|分之|次方|的平方"
)
"""Words after a number that make another one of it."""
DEGREE, RADIAN, PERCENT = map(unit, ("degree", "radian", "percent"))
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")


@dataclass(frozen=True)
class Quantity:
    value: str
    unit: Unit = NO_UNIT


def clock(text: str) -> tuple[int, int, str] | None:
    """Hour, minute and half of the day ("a", "p", "" when not said) of `3:30 p.m.`, `3 PM`, `3:30`."""
    match = _CLOCK.fullmatch(text)
    return (int(match[1]), int(match[2] or 0), (match[3] or "").lower()) if match else None


def quantity(text: str) -> Quantity:
    """Value and unit of a spelled answer. `5m` is five times m, `5 m` five metres."""
    currency = _CURRENCY.search(text)
    if currency is None:
        return _with_suffix(text)
    rest = _with_suffix(_CURRENCY.sub("", text).strip())
    return Quantity(rest.value, joined(unit(currency[currency.lastindex or 0]), rest.unit))


def _with_suffix(text: str) -> Quantity:
    if percent := re.fullmatch(r"百分之\s*(.+)", text):
        return Quantity(percent[1], unit("percent"))
    for index, pattern in enumerate(_SUFFIXES):
        match = pattern.fullmatch(text)
        if match is None:
            continue
        value = match["value"].strip()
        if index == 0:
            return Quantity(value, unit("percent"))
        if index == 1:
            plain = _TRIGONOMETRY.search(value)
            return Quantity(text) if plain else Quantity(value, unit(f"degree {match['scale'] or ''}"))
        words = re.sub(r"[{}]", "", match["unit"])
        if OTHER_NUMBER.search(words.lower().strip()):
            break
        value, words = _scaled(value, words)
        before = _with_suffix(value)
        return Quantity(before.value, joined(before.unit, unit(words, int(match[3] or 1))))
    return Quantity(text)


def _scaled(value: str, words: str) -> tuple[str, str]:
    """`2 million dollars`: the value times its scale, and the words left."""
    words = words.strip().rstrip(".").lower()
    for scale, zeros in _SCALES.items():
        scaled = re.match(rf"{scale}s?(?![a-z])", words)
        if scaled and not words.startswith(("千米", "千克")):  # 5千米 are 5 km, not 5000 m
            return rf"({value})\cdot 10^{{{zeros}}}", words[scaled.end() :].strip()
    if words.startswith("dozen"):
        return rf"({value})\cdot 12", words[5:].strip()
    return value, words


def compound(text: str) -> Quantity | None:
    """`1 hour 30 minutes` as 90 minutes: plain numbers of ever smaller units of a kind, none as large as the
    unit before it. None for everything else, lists (`3 ft, 5 ft`) too."""
    text = plain(text)
    parts = _PARTS.findall(text) if re.fullmatch(rf"(?:{_PARTS.pattern}){{2,5}}", text) else []
    if not parts or any(word in ABBREVIATIONS and not space for _, space, word in parts):
        return None
    units = [unit(word) for _, _, word in parts]
    sizes = [Fraction(number) * each.factor for (number, _, _), each in zip(parts, units, strict=True)]
    if not units[0].dimensions or any(each.dimensions != units[0].dimensions for each in units):
        return None
    if any(size >= larger.factor for size, larger in zip(sizes[1:], units, strict=False)):
        return None
    return Quantity(str(sum(sizes) / units[-1].factor), units[-1])


def readings(found: Quantity, gold: Quantity) -> list[tuple[str, str]]:
    """Pairs of values of which one must be equal. Empty when the units contradict each other."""
    found, gold = (
        Quantity(item.value, pound_as(item.unit, side.unit)) for item, side in ((found, gold), (gold, found))
    )
    one, other = found.unit, gold.unit
    pairs = [(found.value, gold.value)]
    if {one, other} == {DEGREE, RADIAN} or any(
        {DEGREE, NO_UNIT} == {one, other} and r"\pi" in item.value for item in (found, gold)
    ):
        in_radians = [
            rf"({item.value})\cdot\frac{{\pi}}{{180}}" if item.unit == DEGREE else item.value
            for item in (found, gold)
        ]
        return [(in_radians[0], in_radians[1]), *(pairs if NO_UNIT in (one, other) else [])]
    if contradict(one, other):
        return []
    if one.words and other.words and one.factor != other.factor and one.dimensions is not None:
        return [(_in_base(found), _in_base(gold))]
    if {one, other} == {PERCENT, NO_UNIT}:
        shares = [
            rf"\frac{{{item.value}}}{{100}}" if item.unit == PERCENT else item.value for item in (found, gold)
        ]
        pairs.append((shares[0], shares[1]))
    return pairs


def _in_base(item: Quantity) -> str:
    return rf"({item.value})\cdot ({item.unit.factor})"
