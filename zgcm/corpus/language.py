"""A cheap guess at a text's language: its script, and for Latin script its commonest little words.

For a first look at a dataset, not for filtering: no model, no more than the first thousand characters. `code`
is text with the marks of programs, `und` is what nothing tells.
"""

import re
from collections import Counter

LOOKED_AT = 1000
"""Characters of the beginning that are looked at."""
_SCRIPTS = {
    "ja": "[\u3040-\u30ff]",
    "ko": "[\uac00-\ud7af\u1100-\u11ff]",
    "zh": "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]",
    "ru": "[\u0400-\u04ff]",
    "ar": "[\u0600-\u06ff]",
    "he": "[\u0590-\u05ff]",
    "el": "[\u0370-\u03ff]",
    "hi": "[\u0900-\u097f]",
    "th": "[\u0e00-\u0e7f]",
    "latin": "[A-Za-z\u00c0-\u024f]",
}
_OF_SCRIPT = {name: re.compile(pattern) for name, pattern in _SCRIPTS.items()}
_UKRAINIAN = re.compile("[\u0404\u0406\u0407\u0454\u0456\u0457\u0490\u0491]")
_WORD = re.compile(r"[a-z\u00e0-\u024f']+")
CODE_MARKS = "{};=<>()[]"
CODE_SHARE = 0.06
"""Part of the characters that are brackets, semicolons and the like, from which a text is a program."""
KANA_SHARE = 0.1
"""Japanese mixes kana with the characters it shares with Chinese; Chinese has none."""
WORDS_NEEDED = 0.06
"""Part of the words that must be a language's little words."""
LITTLE_WORDS = {
    "en": "the of and to in is that it for was with as be on are this you have not by",
    "de": "der die und das ist nicht ein zu den mit sich auf für von dem eine auch es im werden",
    "fr": "le la les et des est une du que dans pour qui pas sur au par plus avec ce il",
    "es": "el los las que y del una con por para es lo como más pero su al se no está",
    "pt": "o os as que e do da em um uma não para com por mais dos ao é se foi",
    "it": "il lo gli di che è un una per non con del della sono si come anche più nel alla",
    "nl": "het een van en dat niet is op te zijn met voor aan er maar om ook naar bij deze",
    "pl": "i w nie na się że z do to jest jak o po co ale od przez tak za dla",
    "tr": "ve bir bu da de için ile çok olarak daha ne gibi olan kadar sonra en var ama ki mi",
    "vi": "và của là có được trong không cho một các người này với những đã khi từ để đến như",
    "id": "yang dan di dengan untuk dari ini itu tidak dalam pada adalah akan ke juga oleh atau ada",
}
_LITTLE: dict[str, list[str]] = {}
"""Little word -> languages."""
for _language, _words in LITTLE_WORDS.items():
    for _word in _words.split():
        _LITTLE.setdefault(_word, []).append(_language)


def language_of(text: str) -> str:
    """ISO 639-1 code, `code`, or `und`."""
    text = text[:LOOKED_AT]
    if sum(map(text.count, CODE_MARKS)) >= CODE_SHARE * len(text) and any(map(str.isalpha, text)):
        return "code"
    if text.isascii():
        return _by_little_words(text)
    counts = {name: len(pattern.findall(text)) for name, pattern in _OF_SCRIPT.items()}
    if not any(counts.values()):
        return "und"
    if counts["ja"] and counts["ja"] >= KANA_SHARE * (counts["ja"] + counts["zh"]):
        counts["ja"] += counts.pop("zh")
    script = max(counts, key=lambda name: counts[name])
    if script == "latin":
        return _by_little_words(text)
    return "uk" if script == "ru" and _UKRAINIAN.search(text) else script


def _by_little_words(text: str) -> str:
    words = _WORD.findall(text.lower())
    if not words:
        return "und"
    hits = Counter(language for word in words if word in _LITTLE for language in _LITTLE[word])
    best = max(LITTLE_WORDS, key=lambda name: hits[name])
    return best if hits[best] >= WORDS_NEEDED * len(words) else "und"
