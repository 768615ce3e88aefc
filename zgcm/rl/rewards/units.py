"""What a quantity counts: words of a unit, read as powers of known units, or kept as words.

>>> unit("square kilometers per hour").factor
Fraction(2500, 9)
>>> contradict(unit("cm"), unit("apples")), contradict(unit("cm of rope"), unit("cm"))
(True, False)
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction

_SIZES: dict[str, dict[str, str]] = {
    "length": {
        **{"mm": "1/1000", "cm": "1/100", "dm": "1/10", "m": "1", "km": "1000"},
        **{"inch": "127/5000", "foot": "381/1250", "yard": "1143/1250", "mile": "201168/125"},
    },
    "time": {"ms": "1/1000", "s": "1", "min": "60", "h": "3600", "day": "86400", "week": "604800"},
    "calendar": {"month": "1", "year": "12", "decade": "120", "century": "1200"},
    "mass": {
        **{"mg": "1/1000", "g": "1", "kg": "1000", "t": "1000000"},
        **{"ounce": "45359237/1600000", "pound": "45359237/100000", "lb": "45359237/100000"},
    },
    "sterling": {"gbp": "1"},
    "dollars": {"dollar": "1", "cent": "1/100"},
    "yuan": {"元": "1", "角": "1/10"},
    "angle": {"degree": "1"},
    "percent": {"percent": "1"},
}
_VOLUMES = {"ml": "1/1000000", "l": "1/1000"}
_MONEY = frozenset({"dollars", "yuan", "sterling"})
_NAMES = {
    **{"millimeter": "mm", "centimeter": "cm", "decimeter": "dm", "meter": "m", "kilometer": "km"},
    **{"millimetre": "mm", "centimetre": "cm", "metre": "m", "kilometre": "km"},
    **{"inche": "inch", "in": "inch", "feet": "foot", "ft": "foot", "yd": "yard", "mi": "mile"},
    **{"millisecond": "ms", "sec": "s", "second": "s", "minute": "min", "hour": "h", "hr": "h"},
    **{"wk": "week", "yr": "year"},
    **{"gram": "g", "gm": "g", "kilogram": "kg", "kilo": "kg", "milligram": "mg", "ton": "t", "tonne": "t"},
    **{"oz": "ounce", "£": "gbp"},
    **{"liter": "l", "litre": "l", "milliliter": "ml", "millilitre": "ml"},
    **{"usd": "dollar", "$": "dollar", "buck": "dollar", "¢": "cent", "rmb": "元", "cny": "元", "yuan": "元"},
    **{"¥": "元", "€": "euro", "eur": "euro", "deg": "degree", "percentage": "percent"},
    **{"c": "celsius", "f": "fahrenheit", "k": "kelvin", "rad": "radian"},
    **{"people": "person", "men": "man", "women": "woman", "children": "child", "kid": "child"},
    **{"buses": "bus", "gas": "gas", "gases": "gas", "viruses": "virus", "bonuses": "bonus"},
    **{"tomatoes": "tomato", "potatoes": "potato", "mangoes": "mango", "heroes": "hero"},
    **{"mice": "mouse", "geese": "goose", "teeth": "tooth", "dice": "die", "vertices": "vertex"},
    **{"leaves": "leaf", "loaves": "loaf", "knives": "knife", "shelves": "shelf", "wolves": "wolf"},
    **{"厘米": "cm", "米": "m", "千米": "km", "公里": "km", "毫米": "mm", "分米": "dm"},
    **{"克": "g", "千克": "kg", "公斤": "kg", "吨": "t", "升": "l", "毫升": "ml", "度": "degree"},
    **{"秒": "s", "秒钟": "s", "分钟": "min", "小时": "h", "时": "h", "天": "day", "日": "day"},
    **{"周": "week", "星期": "week", "月": "month", "个月": "month", "年": "year"},
    **{"块": "元", "块钱": "元", "美元": "dollar", "美分": "cent"},
}
"""Singular, small letters. `inche`: what is left of a plural without its s."""
ABBREVIATIONS = ("m", "g", "h", "s", "l", "t", "in", "ft", "yd", "mi", "oz", "lb", "yr", "ms")
"""Units only after a number and a space: `5m` is a product, `5 m` a length."""
_ONE_WORD = {"mph": "mile/h", "kph": "km/h", "kmh": "km/h", "kmph": "km/h", "mps": "m/s"}
_POWERS = {"square": 2, "squared": 2, "sq": 2, "cubic": 3, "cubed": 3, "cu": 3}
_SAYS_NOTHING = {
    *("of", "in", "the", "a", "an", "is", "are", "total", "altogether", "all", "about", "approximately"),
    *("exactly", "only", "different", "distinct", "possible", "unit", "way", "arrangement", "combination"),
    *("possibility", "outcome", "choice", "method", "个"),
}
"""Words that tell one thing from no other: `20 ways` is `20 different arrangements`."""
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
BARE = sorted(
    name
    for name in {*_VOLUMES, *_NAMES, *_ONE_WORD, *(name for names in _SIZES.values() for name in names)}
    if (len(name) > 1 and name not in ABBREVIATIONS) or name == "¢"
)[::-1]
"""Spellings that are a unit right after a number; a longer one before its beginning."""


@dataclass(frozen=True)
class Unit:
    words: frozenset[str] = frozenset()
    """Singular, known ones by their short name, with power; `/h` for per hour. Empty: a pure number."""
    dimensions: tuple[tuple[str, int], ...] | None = ()
    """(kind, power) of each kind; None when a word is unknown."""
    factor: Fraction = Fraction(1)
    """Of its kinds' base units."""


NO_UNIT = Unit()


def unit(words: str, power: int = 1) -> Unit:
    """Of the words after a number. `power` is that of the last one: the 2 of `\\text{m}^2`."""
    text = re.sub(r"[a-z]+", lambda word: _ONE_WORD.get(word[0], word[0]), words.lower())
    text = re.sub(r"\bper\b|每", "/", text.replace("per cent", "percent"))
    text = text.replace("平方", " square ").replace("立方", " cubic ")
    found: set[str] = set()
    kinds: dict[str, int] = {}
    factor, known = Fraction(1), True
    above, *below = map(_tokens, text.split("/"))
    parts = [*above, *((name, -exponent) for part in below for name, exponent in part)]
    for place, (name, exponent) in enumerate(parts):
        exponent *= power if place == len(parts) - 1 else 1
        found.add(("/" if exponent < 0 else "") + name + ("" if abs(exponent) == 1 else f"^{abs(exponent)}"))
        size = _size(name)
        if size is None:
            known = False
            continue
        kind, of_kind, value = size
        kinds[kind] = kinds.get(kind, 0) + of_kind * exponent
        factor *= value**exponent
    of_money = len(kinds) > 1 and _MONEY & kinds.keys()  # what wages are per may be left out
    dimensions = tuple(sorted((kind, number) for kind, number in kinds.items() if number))
    return Unit(frozenset(found), dimensions if known and not of_money else None, factor)


def _size(name: str) -> tuple[str, int, Fraction] | None:
    if name in _VOLUMES:
        return "length", 3, Fraction(_VOLUMES[name])
    for kind, names in _SIZES.items():
        if name in names:
            return kind, 1, Fraction(names[name])
    return None


def _tokens(text: str) -> list[tuple[str, int]]:
    """(short name, power) of each word that says something."""
    tokens: list[tuple[str, int]] = []
    exponent = 1
    for word in re.findall(r"[^\W\d_]+\^?\d?|[$¢£€¥]", text):
        if word in _POWERS and word.endswith("ed"):  # meters squared
            tokens = [*tokens[:-1], *((name, _POWERS[word]) for name, _ in tokens[-1:])]
        elif word in _POWERS:
            exponent = _POWERS[word]
        else:
            name = _short(word.rstrip("^23"))
            power = int(word[-1]) if word[-1] in "23" else exponent
            tokens += [(name, power)] if name not in _SAYS_NOTHING else []
            exponent = 1
    return tokens


def _short(word: str) -> str:
    if word.startswith("个") and word not in _NAMES:
        word = word[1:] or word
    if word in _NAMES or word in _SAYS_NOTHING or _size(word):
        return _NAMES.get(word, word)
    for plural, singular in (("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("sses", "ss")):
        if word.endswith(plural):
            return word.removesuffix(plural) + singular
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if word.endswith("ie"):  # cookies became cooky
        word = word[:-2] + "y"
    return _NAMES.get(word, word)


def joined(one: Unit, other: Unit) -> Unit:
    """Of a quantity with words after its unit: `90° clockwise`, `$5 per hour`."""
    if one.words >= other.words or other.words >= one.words:
        return max(one, other, key=lambda each: len(each.words))
    return Unit(one.words | other.words, None, Fraction(1))


def pound_as(one: Unit, other: Unit) -> Unit:
    """The first with the word pound, a weight or money, read as the other side means it (lb or £)."""
    if "pound" not in one.words and "/pound" not in one.words:
        return one
    for meant in ("gbp", "lb"):
        if meant in other.words or f"/{meant}" in other.words:
            words = frozenset(word.replace("pound", meant) for word in one.words)
            return Unit(words, None, Fraction(1)) if meant == "gbp" else replace(one, words=words)
    return one


def contradict(one: Unit, other: Unit) -> bool:
    """Whether two quantities count different things. A missing unit contradicts none, nor do more words
    about the same: `5 red apples` may be `5 apples`, and is not `5 green apples`."""
    if not one.words or not other.words:
        return False
    if one.dimensions is not None and other.dimensions is not None:
        return one.dimensions != other.dimensions
    texts = ["".join(sorted(each.words)) for each in (one, other)]
    if any(map(_CHINESE.search, texts)):  # no spaces between words; and nobody translates here
        return all(map(_CHINESE.search, texts)) and texts[0] not in texts[1] and texts[1] not in texts[0]
    return not (one.words <= other.words or other.words <= one.words)
