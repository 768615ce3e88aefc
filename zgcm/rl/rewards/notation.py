r"""One spelling for the many ways to write the same mathematics: Unicode, plain ASCII, shorthand LaTeX.

>>> spelled("½ of √8 − 3·10^10")
'\\frac{1}{2} of \\sqrt{8} - 3\\cdot 10^{10}'
"""

import re
import unicodedata
from fractions import Fraction

_SYMBOLS = {
    **{"−": "-", "–": "-", "—": "-", "×": r"\times ", "÷": "/", "·": r"\cdot ", "⋅": r"\cdot ", "∗": "*"},
    **{"≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "±": r"\pm ", "∓": r"\mp "},
    **{"∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "°": r"^{\circ}"},
    **{"π": r"\pi ", "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "θ": r"\theta "},
    **{"λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ", "ω": r"\omega ", "ℝ": r"\mathbb{R}", "、": ","},
    **{"〈": r"\langle ", "〉": r"\rangle ", "⟨": r"\langle ", "⟩": r"\rangle "},
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n")
_END = r"(?![A-Za-z])"
"""Of a command, by TeX's rule: `\\dfrac19` and `x\\geq5` end theirs at the digit, and \\b does not."""
_SYNONYMS = (
    (rf"\\(?:d|t|c)frac{_END}", r"\\frac"),
    (r"\\frac\s*/", r"\\frac"),
    (rf"\\(?:leqslant|leqq|leq){_END}", r"\\le"),
    (rf"\\(?:geqslant|geqq|geq){_END}", r"\\ge"),
    (rf"\\neq{_END}", r"\\ne"),
    (rf"\\lt{_END}", "<"),
    (rf"\\gt{_END}", ">"),
    (r"<=", r"\\le "),
    (r">=", r"\\ge "),
    (rf"\\(?:lbrace|rbrace){_END}", lambda m: r"\{" if m[0] == r"\lbrace" else r"\}"),
    (rf"\\(?:lbrack|rbrack){_END}", lambda m: "[" if m[0] == r"\lbrack" else "]"),
    (rf"\\(?:lvert|rvert|vert){_END}", "|"),
    (rf"\\varnothing{_END}", r"\\emptyset"),
    (
        rf"\\(?:text(?:bf|it|rm|sf|tt|normal)|mathrm|mathbf|mathit|mathsf|bm|boldsymbol|mbox|hbox){_END}",
        r"\\text",
    ),
    (r"\\operatorname\*?\s*\{(\w+)\}", r"\\\1 "),
    (rf"\\Reals{_END}|\\R{_END}|\\bf R{_END}", r"\\mathbb{R}"),
    (r"\\begin\s*\{array\}\s*\{[^{}]*\}", r"\\begin{pmatrix}"),
    (r"\\end\s*\{array\}", r"\\end{pmatrix}"),
    (rf"\\degree{_END}", r"^{\\circ}"),
    (r"\^\s*\\circ\b", r"^{\\circ}"),
    (r"\\text\s*\{\s*(\^\{\\circ\}\s*[CF]?)\s*\}", r"\1"),
    (r"\\(?:left|right)\s*\.", ""),
    (
        rf"\\(?:left|right|bigl|bigr|Bigl|Bigr|biggl|biggr|big|Big|bigg|Bigg|displaystyle|textstyle|limits){_END}",
        "",
    ),
    (r"(?<=\d)\s*(?:\{,\}|,\\!|\\!,|\\,|\\:|\\;|\\ |~)\s*(?=\d{3}(?!\d))", ""),
    (r"(?<!\\)\\[,;:! ]|\\q?quad\b|~", " "),
    (r"\*\*", "^"),
    (r"(?<!\\)\binfinity\b|(?<!\\)\binf\b|(?<!\\)\boo\b", r"\\infty "),
    (r"(?<![\\A-Za-z])pi(?![A-Za-z])", r"\\pi "),
    (r"(?<![\\A-Za-z])(sin|cos|tan|cot|sec|csc|ln|log|arcsin|arccos|arctan|exp)(?=[\s(])", r"\\\1"),
    (r"(?<![\\A-Za-z])sqrt(?=[\s({])", r"\\sqrt"),
    (r"√", r"\\sqrt"),
    (r"(?<=[\w)}])\s*\*\s*(?=[\w(\\{])", r"\\cdot "),
)


def spelled(text: str) -> str:
    """LaTeX of an answer: math delimiters, spacing and sizes gone, one command for each notion, every
    argument in braces, no thousands separators."""
    text = with_caret(text)
    text = re.sub(r"[¼½¾⅐-⅞]", _vulgar_fraction, text)
    text = unicodedata.normalize("NFKC", text)
    for symbol, command in _SYMBOLS.items():
        text = text.replace(symbol, command)
    text = re.sub(r"^([^$]*)(?<!\\)\$(?=\s*[-\d.])([^$]*)$", r"\1\\$\2", text)  # one alone opens no formula
    text = re.sub(r"(?<!\\)\$|\\\(|\\\)|(?<!\\)\\\[|(?<!\\)\\\]|\*\*(?=\S.*\*\*)", "", text)
    for pattern, replacement in _SYNONYMS:
        text = re.sub(pattern, replacement, text)
    text = _braced_arguments(text)
    text = re.sub(r"(?<![\d.])\.(?=\d)", "0.", text)
    text = re.sub(r"(\d+)\.(\d*)\s*(?:\\(?:overline|bar|dot)\s*\{?(\d+)\}?)", _recurring, text)
    text = re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?!\w)", r"\1\\times 10^{\2}", text)
    text = re.sub(r"(?<![\d/.^_{])(\d+)\s+(\d+)\s*/\s*(\d+)(?![\d.])", r"\1\\frac{\2}{\3}", text)
    text = re.sub(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?![\d ])", lambda m: m[0].replace(" ", ""), text)
    return _without_thousands(" ".join(text.split())).strip().rstrip(".。;").strip()


def with_caret(text: str) -> str:
    """`m²` as `m^{2}`."""
    return re.sub(r"([⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ]+)", lambda m: "^{" + m[1].translate(_SUPERSCRIPTS) + "}", text)


def _vulgar_fraction(match: re.Match[str]) -> str:
    value = Fraction(unicodedata.numeric(match[0])).limit_denominator(10)
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _recurring(match: re.Match[str]) -> str:
    whole, fixed, repeated = match[1], match[2], match[3]
    nines = 10 ** len(fixed) * (10 ** len(repeated) - 1)
    value = int(whole + fixed + repeated) - int(whole + fixed)
    return rf"\frac{{{value}}}{{{nines}}}"


def _braced_arguments(text: str) -> str:
    r"""`\frac12`, `\sqrt2`, `\sqrt(2)`, `x^10`, `x^(n+1)` with braces round every argument."""
    argument = r"\s*(\{|[0-9A-Za-z]|\\[A-Za-z]+)"
    text = re.sub(rf"\\frac{argument}", lambda m: r"\frac" + _brace(m[1]), text)
    pieces, position = [], 0
    for match in re.finditer(r"\\frac(?=\{)", text):  # the second argument, after the first one's end
        end = matching(text, match.end())
        if end is None or match.start() < position:
            continue
        second = re.compile(r"\s*([0-9A-Za-z]|\\pi)").match(text, end + 1)
        if second:
            pieces += [text[position : end + 1], "{" + second[1] + "}"]
            position = second.end()
    text = "".join(pieces) + text[position:]
    text = re.sub(r"\\sqrt\s*([0-9]+|[A-Za-z](?![A-Za-z]))", _root_argument, text)
    text = re.sub(r"\^\s*([+-]?\d+(?:\.\d+)?)", r"^{\1}", text)
    for command in (r"\\sqrt\s*", r"\^\s*"):
        text = _parentheses_to_braces(text, command)
    return re.sub(r"_\s*\{(\w)\}", r"_\1", text)


def _brace(argument: str) -> str:
    return argument if argument == "{" else "{" + argument + "}"


def _root_argument(match: re.Match[str]) -> str:
    r"""TeX takes one digit; a person who writes `√12` or `\sqrt12` means all of them."""
    return rf"\sqrt{{{match[1]}}}"


def _parentheses_to_braces(text: str, command: str) -> str:
    for match in reversed(list(re.finditer(command + r"(?=\()", text))):
        end = matching(text, match.end())
        if end is not None:
            text = text[: match.end()] + "{" + text[match.end() + 1 : end] + "}" + text[end + 1 :]
    return text


def matching(text: str, opening: int) -> int | None:
    """Place of the bracket that closes the one at `opening`; any kind of bracket closes any, as in [0, 1)."""
    depth = 0
    for position in range(opening, len(text)):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    return None


def _without_thousands(text: str) -> str:
    """`1,234.5` is a number outside brackets; inside them (`(1,200)`) a comma separates."""
    pattern = re.compile(r"(?<![\d.,(\[{])\d{1,3}(?:,\d{3})+(?![\d,])")
    return pattern.sub(lambda m: m[0].replace(",", "") if _depth(text, m.start()) == 0 else m[0], text)


def _depth(text: str, end: int) -> int:
    return sum(text.count(c, 0, end) for c in "([{") - sum(text.count(c, 0, end) for c in ")]}")


def split(text: str, separator: str) -> list[str]:
    """Split where the pattern matches outside every bracket."""
    depths, depth = [], 0
    for character in text:
        depth -= character in ")]}"
        depths.append(depth)
        depth += character in "([{"
    parts, start = [], 0
    for match in re.finditer(separator, text):
        if match.end() > match.start() >= start and depths[match.start()] == 0:
            parts.append(text[start : match.start()].strip())
            start = match.end()
    return [*parts, text[start:].strip()]
