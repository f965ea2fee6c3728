"""Formulas in MathML and TeX to one line of text: fractions with /, powers with ^, indices with _."""

import re
import tomllib
from html.entities import html5
from pathlib import Path
from xml.etree.ElementTree import Element

_WORDS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text(encoding="utf-8"))
UNSEEN = str.maketrans({"\u2061": " ", "\u2062": "", "\u2063": "", "\u2064": "+"})
WHOLE = re.compile(r"[-−+±]?[\w.′*]+|\([^()]*\)|\S")
"""What needs no parentheses in a fraction or a power."""


def _operand(text: str) -> str:
    text = re.sub(r"^([-−+±]) ", r"\1", " ".join(text.split()))
    return text if not text or WHOLE.fullmatch(text) else f"({text})"


def _scripted(base: str, *scripts: tuple[str, str]) -> str:
    """Return a base with its indices and powers; an empty one is left out."""
    return base + "".join(mark + _operand(text) for mark, text in scripts if text.strip())


def mathml_text(math: Element) -> str:
    """Return a <math> element as text.

    >>> from xml.etree.ElementTree import fromstring as xml
    >>> mathml_text(xml("<math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac></math>"))
    'a/(b+1)'
    """
    return " ".join(_drawn(math).translate(UNSEEN).split())


def _drawn(element: Element) -> str:
    parts = [_drawn(each) for each in element if each.tag not in ("annotation", "annotation-xml", "mphantom")]
    base, second, third, *_ = [*parts, "", "", ""]
    match element.tag:
        case "mspace":
            return " "
        case "mfrac":
            return f"{_operand(base)}/{_operand(second)}"
        case "msqrt":
            return f"√{_operand(''.join(parts))}"
        case "mroot":
            return f"{_operand(base)}^(1/{_operand(second)})"
        case "mover" if len(base) == 1 and (accent := _WORDS["accents"].get(second.strip())):
            return base + accent
        case "msub" | "munder":
            return _scripted(_operand(base), ("_", second))
        case "msup" | "mover":
            return _scripted(_operand(base), ("^", second))
        case "msubsup" | "munderover":
            return _scripted(_operand(base), ("_", second), ("^", third))
        case "mmultiscripts":
            at = next((n for n, each in enumerate(element) if each.tag == "mprescripts"), len(parts))
            before, after = (zip("_^" * len(parts), each, strict=False) for each in (parts[at + 1 :], parts[1:at]))
            return _scripted("", *before) + _scripted(_operand(base), *after)
        case "mfenced":
            marks = "".join((element.get("separators", ",")).split())
            inner = "".join(f"{part}{marks[n : n + 1] or marks[-1:]}" for n, part in enumerate(parts[:-1]))
            return element.get("open", "(") + inner + "".join(parts[-1:]) + element.get("close", ")")
        case "mtable":
            return "; ".join(parts)
        case "mtr" | "mlabeledtr":
            return ", ".join(parts)
    text = element.text or ""
    for before, part in zip(["", *parts], parts, strict=False):
        is_name = text[-1:].isalpha() and part[:1].isalpha() and any(len(x) > 1 and x.isalpha() for x in (before, part))
        text += f" {part}" if is_name else part
    return text


TEX_DOCUMENT = re.compile(r"\\begin\s*\{document\}(.*?)\\end\s*\{document\}", re.S)
TEX_TOKEN = re.compile(r"\\[A-Za-z]+\*?|\\.|\s+|[^\\]", re.S)


def tex_text(source: str) -> str:
    r"""Return a formula in TeX as text, without the document around it; a command that is not known keeps its name.

    >>> tex_text(r"\begin{document}$$E = \frac{1}{2} k x^{2}$$\end{document}")
    'E = 1/2 k x^2'
    """
    document = TEX_DOCUMENT.search(source)
    tokens = TEX_TOKEN.findall(re.sub(r"(?<!\\)%.*", "", document[1] if document else source))
    try:
        return " ".join(_group(tokens[::-1], end="").translate(UNSEEN).replace("^°", "°").split())
    except RecursionError:
        return " ".join(source.split())


def _group(tokens: list[str], end: str) -> str:
    """Return the text up to the token `end` and take it off `tokens`, of which the last is read first."""
    text = ""
    while tokens and tokens[-1] != end:
        text += _item(tokens) if tokens[-1] != "}" else tokens.pop()[1:]
    if tokens:
        tokens.pop()
    return text


def _item(tokens: list[str]) -> str:
    """Return the text of the next token, with its arguments."""
    while tokens and tokens[-1].isspace():
        if len(tokens) > 1 and tokens[-2] in "^_":
            tokens.pop()
            continue
        return tokens.pop()
    if not tokens or tokens[-1] == "}":
        return ""
    token = tokens.pop()
    name = token.strip("\\*") if token[0] == "\\" and token[1:2].isalpha() else ""
    if token == "{":
        return _group(tokens, "}")
    if token in ("^", "_"):
        return _scripted("", (token, _argument(tokens)))
    if name in _WORDS["fractions"]:
        return f"{_operand(_argument(tokens))}/{_operand(_argument(tokens))}"
    if name == "sqrt":
        root = _group(tokens, "]")[1:] if tokens and tokens[-1] == "[" else ""
        return f"{_operand(_argument(tokens))}^(1/{root})" if root else f"√{_operand(_argument(tokens))}"
    if name in _WORDS["tex_accents"]:
        base = _argument(tokens)
        return base + _WORDS["tex_accents"][name] if len(base) == 1 else f" {name.removeprefix('wide')}({base})"
    if name in _WORDS["stacked"]:
        script, base = _argument(tokens), _argument(tokens)
        return _scripted(base, (_WORDS["stacked"][name], script))
    if name in _WORDS["with_argument"]:
        kind = _argument(tokens)
        if name == "begin" and kind in ("array", "tabular"):
            _argument(tokens)
        return " "
    if name in ("left", "right") and tokens and tokens[-1] == ".":
        tokens.pop()
    if name:
        return "" if name in _WORDS["dropped"] else _WORDS["tex"].get(name) or html5.get(f"{name};", name)
    return _WORDS["signs"].get(token, token[-1])


def _argument(tokens: list[str]) -> str:
    while tokens and tokens[-1].isspace():
        tokens.pop()
    return _item(tokens)
