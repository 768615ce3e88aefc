r"""A written quantity: a value and what it counts. `5\text{ cm}`, `\$18`, `12.5\%`, `45^\circ`, `15元`."""

import re
from dataclasses import dataclass

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
_DIMENSIONS: dict[str, dict[str, str]] = {
    "length": {
        **{"mm": "1/1000", "cm": "1/100", "dm": "1/10", "m": "1", "km": "1000"},
        **{"inch": "127/5000", "foot": "381/1250", "yard": "1143/1250", "mile": "201168/125"},
    },
    "time": {"s": "1", "min": "60", "h": "3600", "day": "86400", "week": "604800"},
    "mass": {
        **{"mg": "1/1000", "g": "1", "kg": "1000", "t": "1000000"},
        **{"ounce": "45359237/1600000", "pound": "45359237/100000"},
    },
    "money": {"dollar": "1", "cent": "1/100", "元": "1", "角": "1/10"},
    "area": {"cm^2": "1/10000", "m^2": "1", "km^2": "1000000"},
    "volume": {"cm^3": "1/1000000", "ml": "1/1000000", "l": "1/1000", "m^3": "1"},
    "speed": {"m/s": "1", "km/h": "5/18"},
    "angle": {"degree": "1"},
    "percent": {"percent": "1"},
}
_NAMES = {
    **{"millimeter": "mm", "centimeter": "cm", "decimeter": "dm", "meter": "m", "kilometer": "km"},
    **{"millimetre": "mm", "centimetre": "cm", "metre": "m", "kilometre": "km", "sec": "s", "second": "s"},
    **{"minute": "min", "hour": "h", "hr": "h", "gram": "g", "kilogram": "kg", "liter": "l", "litre": "l"},
    **{"inches": "inch", "feet": "foot"},
    **{"milliliter": "ml", "usd": "dollar", "deg": "degree", "kmph": "km/h", "km/hr": "km/h"},
    **{
        "厘米": "cm",
        "米": "m",
        "千米": "km",
        "公里": "km",
        "毫米": "mm",
        "分米": "dm",
        "克": "g",
        "千克": "kg",
    },
    **{
        "平方厘米": "cm^2",
        "平方米": "m^2",
        "立方厘米": "cm^3",
        "小时": "h",
        "分钟": "min",
        "秒": "s",
        "天": "day",
    },
    **{"吨": "t", "升": "l", "毫升": "ml", "度": "degree"},
}
_UNITS = {
    unit: (dimension, factor) for dimension, units in _DIMENSIONS.items() for unit, factor in units.items()
}
_LONG_FIRST = sorted({*_UNITS, *_NAMES, "mph"}, key=len, reverse=True)
_BARE = "|".join(re.escape(unit) for unit in _LONG_FIRST if len(unit) > 1)
_POWER = r"(?:\^\{?([23])\}?)?"
_SUFFIXES = (
    re.compile(r"(?P<value>.*[^\s\\])\s*\\?%"),
    re.compile(r"(?P<value>.*\S)\s*\^\{\\circ\}(?:\s*\\?(?:text\{)?[CF]\}?)?"),
    re.compile(rf"(?P<value>.*[\w)}}\]])\s*\\text\s*\{{(?P<unit>[^{{}}]*)\}}\s*{_POWER}"),
    re.compile(rf"(?P<value>.*[\d)}}\]])\s+(?P<unit>[A-Za-z]{{3,}}[A-Za-z /.-]*){_POWER}"),
    re.compile(rf"(?P<value>-?[\d.]+)\s+(?P<unit>[mghslt]){_POWER}"),
    re.compile(
        rf"(?P<value>.*[\d)}}\]])\s*(?P<unit>{_BARE}){_POWER}",
        re.I,
    ),
    re.compile(rf"(?P<value>.*[\d)}}])\s*(?P<unit>[\u4e00-\u9fff]+){_POWER}"),
)
_CURRENCY = re.compile(r"(?:USD|US|RMB|[€£¥])\s*(?=[\d.])")
_CLOCK = re.compile(r"(\d{1,2})(?::(\d{2}))?(?:\s*(?:\\text\s*\{\s*)?([ap])\.?\s?m\.?\s*\}?)?", re.I)
_NO_UNIT = re.compile(
    r"\b(?:squared|cubed|factorial|plus|minus|negative|over|below|point\s|half|halves"
    r"|(?:third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth|millionth)s?\b)"
    r"|(?<![a-z])\d|半|分之|次方|的平方"
)
"""Words after a number that make another one of it."""
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)")


@dataclass(frozen=True)
class Quantity:
    value: str
    unit: str = ""
    """Empty for a pure number; else a known unit's short name, or the words as written, singular."""

    @property
    def dimension(self) -> str:
        return _UNITS[self.unit][0] if self.unit in _UNITS else ""


def clock(text: str) -> tuple[int, int, str] | None:
    """Hour, minute and half of the day ("a", "p", "" when not said) of `3:30 p.m.`, `3 PM`, `3:30`."""
    match = _CLOCK.fullmatch(text)
    return (int(match[1]), int(match[2] or 0), (match[3] or "").lower()) if match else None


def quantity(text: str) -> Quantity:
    """Value and unit of a spelled answer. `5m` is five times m, `5 m` five metres."""
    text = _CURRENCY.sub("", text)
    if percent := re.fullmatch(r"百分之\s*(.+)", text):
        return Quantity(percent[1], "percent")
    for index, pattern in enumerate(_SUFFIXES):
        match = pattern.fullmatch(text)
        if match is None:
            continue
        value = match["value"].strip()
        if index == 0:
            return Quantity(value, "percent")
        if index > 1 and _NO_UNIT.search(match["unit"].lower()):
            break
        if index == 1:
            return Quantity(text) if _TRIGONOMETRY.search(value) else Quantity(value, "degree")
        return _measured(value, match["unit"], match[3] or "")
    return Quantity(text)


def _measured(value: str, words: str, power: str) -> Quantity:
    words = words.strip().rstrip(".").lower()
    for scale, zeros in _SCALES.items():
        scaled = re.match(rf"{scale}s?(?![a-z])", words)
        if scaled and not words.startswith(("千米", "千克")):  # 5千米 are 5 km, not 5000 m
            value, words = rf"({value})\cdot 10^{{{zeros}}}", words[scaled.end() :].strip()
            break
    if words.startswith("dozen"):
        value, words = rf"({value})\cdot 12", words[5:].strip()
    exponent = power
    for word, number in (("square", "2"), ("cubic", "3"), ("sq", "2")):
        if re.match(rf"{word}\b", words):
            exponent, words = number, words[len(word) :].strip(" .")
    unit = _NAMES.get(words, words)
    if unit not in _UNITS and unit.endswith("s"):
        unit = _NAMES.get(unit[:-1], unit[:-1])
    if exponent:
        unit = f"{unit}^{exponent}"
    return Quantity(value, unit)


def readings(found: Quantity, gold: Quantity) -> list[tuple[str, str]]:
    """Pairs of values of which one must be equal. Empty when the units contradict each other."""
    if found.unit == gold.unit:
        return [(found.value, gold.value)]
    if found.dimension and gold.dimension:
        if found.dimension != gold.dimension:
            return []
        return [(_in_base(found), _in_base(gold))]
    pairs = [(found.value, gold.value)]
    for one, other, flipped in ((found, gold, False), (gold, found, True)):
        extra = []
        if one.unit == "percent" and not other.unit:
            extra.append((rf"\frac{{{one.value}}}{{100}}", other.value))
        if one.unit == "degree" and r"\pi" in other.value:
            extra.append((rf"({one.value})\cdot\frac{{\pi}}{{180}}", other.value))
        pairs += [(b, a) for a, b in extra] if flipped else extra
    return pairs


def _in_base(item: Quantity) -> str:
    return rf"({item.value})\cdot ({_UNITS[item.unit][1]})"
