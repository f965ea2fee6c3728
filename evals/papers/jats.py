"""XML to a paper: JATS, the format of PubMed Central and most publishers, and TEI as GROBID writes it.

Sub-articles (decision letters and author responses among them) are never read: they hold the answer. They are named in
a note, as is all else that is left out.
"""

import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from html.entities import html5
from itertools import zip_longest
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder

from defusedxml.common import EntitiesForbidden
from defusedxml.ElementTree import DefusedXMLParser

from evals.errors import UnreadableArticle
from evals.papers.outline import MARKS, NEAR, UNNAMED, Block, Outline, outline_of, role_of, script_text, tidy
from evals.schema import Figure, Reference, Section

_WORDS = tomllib.loads(Path(__file__).with_name("formulas.toml").read_text(encoding="utf-8"))
UNSEEN = str.maketrans({"\u2061": " ", "\u2062": "", "\u2063": "", "\u2064": "+"})
WHOLE = re.compile(r"[-−+±]?[\w.′*]+|\([^()]*\)|\S")
"""What needs no parentheses in a fraction or a power."""


def _operand(text: str) -> str:
    text = re.sub(r"^([-−+±]) ", r"\1", " ".join(text.split()))
    return text if not text or WHOLE.fullmatch(text) else f"({text})"


def _with_scripts(base: str, *scripts: tuple[str, str]) -> str:
    """Return a base with its indices and powers; an empty one is left out."""
    return base + "".join(mark + _operand(text) for mark, text in scripts if text.strip())


def mathml_text(math: Element) -> str:
    """Return a <math> element as text.

    >>> from xml.etree.ElementTree import fromstring as xml
    >>> mathml_text(xml("<math><mfrac><mi>a</mi><mrow><mi>b</mi><mo>+</mo><mn>1</mn></mrow></mfrac></math>"))
    'a/(b+1)'
    """
    return " ".join(_linear_form(math).translate(UNSEEN).split())


def _linear_form(element: Element) -> str:
    parts = [_linear_form(each) for each in element if each.tag not in ("annotation", "annotation-xml", "mphantom")]
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
            return _with_scripts(_operand(base), ("_", second))
        case "msup" | "mover":
            return _with_scripts(_operand(base), ("^", second))
        case "msubsup" | "munderover":
            return _with_scripts(_operand(base), ("_", second), ("^", third))
        case "mmultiscripts":
            at = next((n for n, each in enumerate(element) if each.tag == "mprescripts"), len(parts))
            before, after = (zip("_^" * len(parts), each, strict=False) for each in (parts[at + 1 :], parts[1:at]))
            return _with_scripts("", *before) + _with_scripts(_operand(base), *after)
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
        return _with_scripts("", (token, _argument(tokens)))
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
        return _with_scripts(base, (_WORDS["stacked"][name], script))
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


DEEPEST = 120
"""Elements inside each other; articles have about 20."""
MOST_ELEMENTS = 1_000_000


class _LocalNames(TreeBuilder):
    """Builds a tree with names without prefixes and refuses one that is deeper or larger than any article."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.depth, self.elements = name, 0, 0

    def start(self, tag: str, attrs: dict[str, str]) -> Element:
        self.depth += 1
        self.elements += 1
        if self.depth > DEEPEST or self.elements > MOST_ELEMENTS:
            raise UnreadableArticle(
                f"{self.name} has more than {DEEPEST} elements inside each other or more than"
                f" {MOST_ELEMENTS:,} in all, which no article needs; give the publisher's own XML file."
            )
        return super().start(tag.rpartition("}")[2], {key.rpartition("}")[2]: value for key, value in attrs.items()})

    def end(self, tag: str) -> Element:
        self.depth -= 1
        return super().end(tag.rpartition("}")[2])


def tree_of(data: bytes, name: str) -> Element:
    """Return the root element of an XML document, names without prefixes.

    UnreadableArticle for XML that is not well-formed (with line and column), declares entities, is in
    an encoding that is not known, or is nested beyond any article.
    """
    parser = DefusedXMLParser(target=_LocalNames(name))
    told = "Download it again, or give the PDF."
    parser.parser.UseForeignDTD(True)  # so that an entity which the document type would declare is no error
    parser.entity = defaultdict(str, {entity.rstrip(";"): character for entity, character in html5.items()})
    try:
        parser.feed(data)
        return parser.close()
    except EntitiesForbidden as error:
        raise UnreadableArticle(
            f"{name} declares the XML entity {error.name!r}, which can make a small file huge or name other"
            " files; nothing of it is read. Article XML needs no entities of its own: take the DOCTYPE's"
            " declarations out, or give the publisher's original file."
        ) from None
    except (ParseError, LookupError) as error:
        raise UnreadableArticle(f"{name} is not well-formed XML: {error}. {told}") from None


WORDS = tomllib.loads(Path(__file__).with_name("jats.toml").read_text(encoding="utf-8"))
SKIPPED, PLACES, SPACED, ARTICLE_TYPES = (
    frozenset(WORDS[name]) for name in ("skipped", "places", "spaced", "article_types")
)
SUMMARY, STATEMENT = (re.compile(WORDS[name], re.I) for name in ("summary", "statement"))
FLOATS = ("fig", "table-wrap")
SUPPLEMENTS = ("supplementary-material", "media")
FORMULAS = ("disp-formula", "inline-formula", "chem-struct")
PICTURE = "[formula]"
"""What stands in the text for a formula that is a picture."""


def text_of(element: Element, *, without_title: bool = False) -> str:
    """Return an element's paragraphs with blank lines between; headings below it are lines of their own."""
    return "\n\n".join(filter(None, _blocks(element, is_top=without_title)))


def one_line(element: Element | None) -> str:
    """Return the text of an element in one line, "" for None."""
    if element is None:
        return ""
    return " ".join(tidy(_formula(element) if element.tag in FORMULAS else _inline(element)).split())


def _blocks(element: Element, *, is_top: bool = False) -> Iterator[str]:
    """Give the paragraphs below an element, in order; the heading of a part is a paragraph, lists stand behind theirs."""
    if element.tag in SUPPLEMENTS:
        yield _supplement(element)
    elif element.tag not in PLACES or (element.text or "").strip():
        yield one_line(element)
        for each in _lists(element):
            yield from _blocks(each)
    else:
        for child in element:
            if child.tag == "title" and not is_top:
                yield one_line(child)
            elif child.tag == "list-item":
                yield "- " + " ".join(_blocks(child))
            elif child.tag not in ("title", *SKIPPED):
                yield from _blocks(child)


def _lists(element: Element) -> Iterator[Element]:
    for child in element:
        yield from (child,) if child.tag == "list" else _lists(child)


# ---- inside a line ----------------------------------------------------------------------------

BRACKETED = re.compile(r"([,;–-]?)\s*\[(.*?)\]")
IN_BRACKETS = re.compile(r"[\[(](?:[\d\s,;–-]*[,;–-]\s*)?$")


def _inline(element: Element, before: str = "") -> str:
    """Return the text of an element, without what stands apart. `before`: the text that it follows."""
    text, last = element.text or "", ""
    is_formula = element.tag in (*FORMULAS, "alternatives")
    best = next((tag for tag in ("math", "tex-math", "textual-form") if element.find(tag) is not None), "")
    for child in element:
        space = " " if child.tag in SPACED else ""
        near = (before + text[-NEAR:])[-NEAR:]
        if child.tag in ("math", "tex-math", "textual-form"):
            text += _alternative(child) if child.tag == best else ""
        elif child.tag in FORMULAS:
            text += space + _formula(child) + space
        elif child.tag == "inline-graphic" and not is_formula:
            text += PICTURE
        elif child.tag in ("sup", "sub", "xref"):
            text += _script_text(child, near)
        elif child.tag == "name":
            text += ", " * text[-1:].isalnum() + _person(child)
        elif child.tag == "element-citation":
            text += _reference(child, child).text
        elif child.tag in SUPPLEMENTS:
            text += f" {_supplement(child)} "
        elif child.tag not in SKIPPED and child.tag != "list":
            part = _inline(child, near)
            if child.tag == last == "named-content" and text[-1:].isalpha() and part[:1].isalpha():
                part = f" {part}"  # genus and species
            text += space + part + space
        text, last = text + (child.tail or ""), "" if child.tail else child.tag
    return text


def _alternative(element: Element) -> str:
    if element.tag == "math":
        return mathml_text(element)
    return tex_text(element.text or "") if element.tag == "tex-math" else _inline(element)


def _formula(element: Element) -> str:
    """Return a formula with its number; what is a picture alone is named so."""
    drawn = _inline(element).strip() or ("" if element.find(".//math") is not None else PICTURE)
    return " ".join(filter(None, (drawn, one_line(element.find("label")))))


def _supplement(element: Element) -> str:
    return " ".join(f"{one_line(element.find('label'))} {_inline(element)}".split())


def _script_text(element: Element, before: str) -> str:
    """Return a power or an index with its sign, and the mark of a citation or footnote apart from what is before it."""
    text = _inline(element)
    plain, last, is_sup = " ".join(text.split()), before[-1:], element.tag == "sup"
    kinds = {each.get("ref-type", "bibr") for each in element.iter("xref")}
    if not plain or not last:
        return text
    if kinds:
        plain = BRACKETED.sub(lambda mark: (mark[1] or ",") + mark[2], plain).strip(",; ()")
        is_near = last.isalnum() or last in "%.,;:)]”’\"'" or before.rstrip()[-1:].isdigit()
        is_mark = MARKS.fullmatch(plain) is not None
        is_cited = is_near and is_mark and plain[0].isdigit() and not kinds.isdisjoint(WORDS["marks"])
        if is_sup or element.find("sup") is not None:
            is_cited = is_mark or (last.isdigit() and bool(plain))
        if last.isalpha() and not is_cited and re.match(r"[A-Z][a-z]{2}", plain):
            return f" {text}"  # an author behind a word
        return f"{' ' * (not last.isspace())}[{plain}]" if is_cited and not IN_BRACKETS.search(before) else text
    return text if element.tag == "xref" else script_text(text, before, is_index=not is_sup)


# ---- the article ------------------------------------------------------------------------------


def read_jats(data: bytes, name: str) -> Outline:
    """Return the article of a JATS file; UnreadableArticle if there is none in it."""
    root = tree_of(data, name)
    articles = [root] if root.tag == "article" else root.findall(".//article")
    if not articles:
        raise UnreadableArticle(
            f"{name} is XML without an <article> (its root is <{root.tag}>); accepted is JATS, as PubMed"
            " Central and publishers offer it for download."
        )
    return outline_of_jats(articles)


def outline_of_jats(articles: list[Element]) -> Outline:
    """Return the first of the articles of a file; notes name the others."""
    article = articles[0]
    meta = article.find("front/article-meta")
    meta = Element("article-meta") if meta is None else meta
    title = ": ".join(
        filter(None, (one_line(meta.find(f"title-group/{part}")) for part in ("article-title", "subtitle")))
    )
    abstract = _abstract(meta, article.get("lang", ""))
    if abstract is not None and (own := abstract.find("title")) is not None and role_of(one_line(own)) == "abstract":
        abstract.remove(own)
    subjects = (one_line(each) for each in meta.findall("article-categories//subject"))
    found = Outline(
        title=title,
        abstract="" if abstract is None else text_of(abstract),
        doi={each.get("pub-id-type"): one_line(each) for each in meta.findall("article-id")}.get("doi", ""),
        subjects=tuple(dict.fromkeys(each for each in subjects if each and each.lower() not in ARTICLE_TYPES)),
        published_date=_date(meta),
        sections=tuple(_sections(article)),
        figures=tuple(_figures(article)),
        references=tuple(_references(article)),
    )
    return replace(found, notes=tuple(_notes(articles, abstract, found)))


def _abstract(meta: Element, language: str) -> Element | None:
    """Return the abstract without a type, in the article's language; else the longest that is no summary beside one."""
    plain = [each for each in meta.findall("abstract") if not SUMMARY.search(_kind(each))]
    untyped = [each for each in plain if not each.get("abstract-type")]
    ours = [each for each in untyped if each.get("lang", language) == language]
    return max(ours or untyped or plain, key=lambda each: len(text_of(each)), default=None)


def _kind(element: Element) -> str:
    """Return what kind of abstract, letter or note an element says it is, in words."""
    types = (element.get(name) for name in ("abstract-type", "article-type", "response-type"))
    title = one_line(element.find("title")) if element.tag == "abstract" else ""
    return re.sub(r"[-_\s]+", " ", next(filter(None, types), "") or title).strip()


def _notes(articles: list[Element], abstract: Element | None, found: Outline) -> Iterator[str]:
    """Give what was left out of an article, in sentences."""
    article, *others = articles
    abstracts = (
        each for tag in ("abstract", "trans-abstract") for each in article.findall(f"front/article-meta/{tag}")
    )
    beside = [each for each in abstracts if each is not abstract]
    if beside:
        names = (_kind(each) or each.get("lang") or "without a type" for each in beside)
        yield f"{len(beside)} more abstract{'s' * (len(beside) > 1)} left out ({', '.join(names)})"
    texts = [found.title, found.abstract, *(each.text for each in found.sections)]
    texts += [part for each in found.figures for part in (each.caption, each.content)]
    if pictures := sum(text.count(PICTURE) for text in texts):
        yield f"{pictures} formula{'s are pictures' if pictures > 1 else ' is a picture'}, {PICTURE} in the text"
    if tables := [
        each.label or "without a number" for each in found.figures if each.kind == "table" and not each.content
    ]:
        yield f"{len(tables)} table{'s hold' if len(tables) > 1 else ' holds'} no cells, only a picture ({', '.join(tables)})"
    parts = [each for each in article if each.tag in ("sub-article", "response")]
    if parts:
        kinds = Counter(" ".join(filter(None, (_kind(each) or each.tag, each.get("lang")))) for each in parts)
        told = ", ".join(f"{count} × {kind}" if count > 1 else kind for kind, count in kinds.items())
        yield f"not read: {told} in the same file"
    if others:
        titles = "; ".join(one_line(each.find("front//article-title"))[:80] or "without a title" for each in others[:5])
        yield f"the first of {len(articles)} articles in the file is read; not read: {titles}{'; …' * (len(others) > 5)}"


def _date(meta: Element) -> date | None:
    """Return the earliest date of publication of those that say most; a missing month or day counts as the first."""
    found: list[tuple[int, date]] = []
    for each in meta.findall("pub-date"):
        parts = [one_line(each.find(name)) for name in ("year", "month", "day")]
        numbers = [int(part) if part.isascii() and part.isdigit() else 1 for part in parts]
        if parts[0]:
            try:
                found.append((parts.count(""), date(*numbers)))
            except ValueError:
                continue
    return min(found)[1] if found else None


def _name(element: Element) -> str:
    """Return the title of a part, else what its type or element is called."""
    names = WORDS["names"]
    types = (element.get(f"{kind}-type") or "" for kind in ("sec", "notes", "fn"))
    return one_line(element.find("title")) or next(
        (names[each] for each in (*types, element.tag) if each in names), UNNAMED
    )


def _sections(article: Element) -> Iterator[Section]:
    """Give the sections of body and back in order, each with all that is below it, and the statements of the front matter."""
    statements: list[Element] = []
    seen: set[str] = set()
    for part in ("body", "back"):
        place = article.find(part)
        if place is None:
            continue
        loose: list[str] = []
        for child in place:
            if child.tag == "fn-group" and child.find("title") is None:
                statements += child
            elif child.tag in WORDS["sections"]:
                if loose and child.tag != "app-group":
                    yield Section(name=UNNAMED, text="\n\n".join(loose))
                    loose = []
                for each in child.findall("app") if child.tag == "app-group" else (child,):
                    text = text_of(each, without_title=True)
                    seen.add(text)
                    if text:
                        yield Section(name=_name(each), text=text)
            elif part == "body" and child.tag not in FLOATS and (text := text_of(child)):
                loose.append(text)
        if loose:
            yield Section(name=UNNAMED, text="\n\n".join(loose))
    for path in WORDS["statements"]:
        statements += article.findall(path)
    found: dict[str, list[str]] = {}
    for each in statements:
        name, text = _statement(each)
        if text and text not in seen:
            found.setdefault(name, []).append(text)
    yield from (Section(name=name, text="\n\n".join(texts)) for name, texts in found.items())


FUNDER = re.compile(r"(?:(?:https?://)?(?:dx\.)?doi\.org/)?10\.13039/\d+\s*")


def _statement(element: Element) -> tuple[str, str]:
    """Return the name and text of what the front matter says of data, money, interests and the like; "" for what is none."""
    if element.tag == "custom-meta":
        name = one_line(element.find("meta-name")).replace("-", " ")
        is_statement = role_of(name) == "statement" or STATEMENT.search(name)
        return name[:1].upper() + name[1:], one_line(element.find("meta-value")) if is_statement else ""
    if element.tag == "funding-group":
        awards = (
            ": ".join(
                filter(None, (", ".join(map(one_line, each.findall(part))) for part in ("funding-source", "award-id")))
            )
            for each in element.findall("award-group")
        )
        told = (one_line(each) for each in element if each.tag != "award-group")
        text = "\n\n".join(filter(None, ("; ".join(filter(None, awards)), *told)))
        return WORDS["names"]["funding-group"], FUNDER.sub("", text).strip()
    if element.tag == "fn" and element.get("fn-type") in WORDS["no_statements"]:
        return "", ""
    return _name(element), f"{one_line(element.find('label'))} {text_of(element, without_title=True)}".strip()


def _figures(article: Element) -> Iterator[Figure]:
    for part in ("body", "back", "floats-group", "floats-wrap"):
        for element in (each for place in article.findall(part) for each in place.iter()):
            if element.tag not in FLOATS:
                continue
            caption = element.find("caption")
            told = [*(() if caption is None else caption), *element.findall("table-wrap-foot")]
            rows = [
                [cell for cell in row if cell.tag in ("td", "th")]
                for table in element.iter("table")
                for row in table.iter("tr")
            ]
            yield Figure(
                label=one_line(element.find("label")).rstrip("."),
                kind="figure" if element.tag == "fig" else "table",
                caption=" ".join(filter(None, map(_with_lists, told))),
                content="\n".join(" | ".join(map(_with_lists, row)) for row in rows),
            )


def _with_lists(element: Element) -> str:
    """Return a cell or a paragraph of a caption in one line, with the items of its lists."""
    return " ".join(
        " ".join([one_line(element), *(text for each in _lists(element) for text in _blocks(each))]).split()
    )


# ---- references -------------------------------------------------------------------------------

LABELLED = re.compile(r"(?:doi|pmid|pubmed|pmcid|pmc)\W*$", re.I)
PEOPLE = ("name", "string-name", "collab", "etal", "anonymous")
NO_AUTHORS = ("editor", "translator", "guest-editor", "compiler", "director", "reviewer")


def _references(article: Element) -> Iterator[Reference]:
    """Give the entries of the lists of references; an entry of several works is several."""
    places = (*article.findall("body"), *article.findall("back"))
    for ref in (ref for place in places for ref in place.iter("ref")):
        printed, marked = [*ref.iter("mixed-citation")], [*ref.iter("element-citation")]
        other = [each for each in ref.iter() if each.tag in ("nlm-citation", "citation")] or [ref]
        printed, marked = printed or marked or other, marked or printed or other
        for as_printed, parts in zip_longest(printed, marked):
            yield _reference(printed[-1] if as_printed is None else as_printed, marked[-1] if parts is None else parts)


def _reference(printed: Element, parts: Element) -> Reference:
    """Return an entry as printed, or composed of its parts where the citation has no signs of its own between them."""
    groups = [each for each in parts.iter("person-group") if each.get("person-group-type") not in NO_AUTHORS]
    people = (each for place in groups or [parts] for each in place.iter() if each.tag in PEOPLE)
    found = Reference(
        authors=", ".join(filter(None, map(_person, people))),
        year=one_line(parts.find(".//year")),
        title=next(filter(None, (one_line(parts.find(f".//{tag}")) for tag in WORDS["titles"])), ""),
        journal=one_line(parts.find(".//source")),
    )
    places = [printed, *printed.iter("person-group")]
    own = "".join((place.text or "") + "".join(each.tail or "" for each in place) for place in places)
    is_printed = any(map(str.isalnum, own)) or len(own.split()) > 1
    text = tidy(_printed_citation(printed)) if is_printed else _citation_text(printed, found)
    return found.model_copy(update={"text": " ".join(text.split())})


def _person(person: Element) -> str:
    names = (one_line(person.find(part)) for part in ("surname", "given-names"))
    return " ".join(filter(None, names)) or one_line(person) or ("et al." if person.tag == "etal" else "")


def _identifier(element: Element) -> str:
    kind = element.get("pub-id-type") or ""
    return one_line(element) if kind in ("", "other") else f"{kind}:{one_line(element)}"


def _printed_citation(cited: Element) -> str:
    """Return a citation as it is printed, its parts never grown together."""
    text, before = cited.text or "", ""
    for child in cited:
        if child.tag == "pub-id":
            text += " " + (one_line(child) if LABELLED.search(text) else _identifier(child))
        elif child.tag in ("sup", "sub", "xref"):
            text += _script_text(child, text[-NEAR:])
        elif child.tag not in ("label", *SKIPPED):
            part = _printed_citation(child)
            is_glued = text[-1:].isalnum() or (before and text[-1:] in ".?!")
            if child.tag not in WORDS["inline"] and is_glued and part[:1].isalnum():
                text += ", " if before in PEOPLE and child.tag in PEOPLE else " "
            text += part
        before = "" if (child.tail or "").strip() else child.tag
        text += child.tail or ""
    return text


def _citation_text(cited: Element, found: Reference) -> str:
    """Return the parts of a citation as authors (date). Title. Journal volume(issue):pages. What else there is. Identifiers."""
    parts = {each.tag: one_line(each) for each in cited}
    when = " ".join(parts[name] for name in ("year", "month", "season", "day") if parts.get(name))
    pages = "–".join(parts[name] for name in ("fpage", "lpage") if parts.get(name))
    pages = pages or parts.get("elocation-id", "") or parts.get("page-range", "")
    where = parts.get("volume", "") + (f"({issue})" if (issue := parts.get("issue")) else "")
    journal = " ".join(filter(None, (found.journal, ":".join(filter(None, (where, pages))))))
    told = [" ".join(filter(None, (found.authors, f"({when})" if when else ""))), found.title, journal]
    for each in cited:
        if each.tag == "person-group" and each.get("person-group-type") in NO_AUTHORS:
            told.append(f"{', '.join(filter(None, map(_person, each)))} ({each.get('person-group-type')})")
        elif each.tag not in WORDS["composed"] and (text := one_line(each)) not in told:
            told.append(text)
    text = " ".join(part if part[-1] in ".?!" else f"{part}." for part in told if part)
    return " ".join([text, *(_identifier(each) for each in cited.iter("pub-id"))])


# ---- TEI, as GROBID writes it --------------------------------------------------------------------


def read_tei(data: bytes, name: str) -> Outline:
    """Return title, abstract, sections, figures, tables and references; UnreadableArticle if there is no text in it.

    A heading with a number of two parts or more (`<head n="2.1">`) stands below the section before it.
    """
    root = tree_of(data, name)
    header, text = root.find("teiHeader"), root.find("text")
    if header is None and text is None:
        raise UnreadableArticle(
            f"{name} is TEI without <teiHeader> and <text>; give what GROBID's processFulltextDocument wrote."
        )
    header, text = (Element("none") if each is None else each for each in (header, text))
    blocks = [Block("heading", "Abstract"), *_tei_blocks(header.find("profileDesc/abstract"))]
    for part in ("body", "back"):
        for div in (each for each in text.findall(f"{part}//div") if each.find("listBibl") is None):
            blocks += _tei_blocks(div)
    blocks += [Block("figure", "", figure=_figure(each)) for each in text.iter("figure")]
    found = outline_of(
        [each for each in blocks if each.text or each.figure], one_line(header.find(".//titleStmt/title"))
    )
    doi = next((one_line(each) for each in header.iter("idno") if (each.get("type") or "").upper() == "DOI"), "")
    cited = tuple(map(_tei_reference, text.iter("biblStruct")))
    return replace(found, doi=doi, references=cited)


def _tei_blocks(part: Element | None) -> Iterator[Block]:
    for each in part if part is not None else ():
        if each.tag == "head":
            yield Block("heading", one_line(each), 1 + (each.get("n") or "").rstrip(".").count("."))
        elif each.tag == "div" and part is not None and part.tag == "abstract":
            yield from (Block("paragraph", block.text) for block in _tei_blocks(each))
        elif each.tag in ("p", "formula", "list", "note"):
            yield Block("paragraph", one_line(each))


def _figure(figure: Element) -> Figure:
    rows = [[one_line(cell) for cell in row.iter("cell")] for row in figure.iter("row")]
    is_table = figure.get("type") == "table"
    label = one_line(figure.find("label"))
    return Figure(
        label=f"{'Table' if is_table else 'Figure'} {label}"
        if label[:1].isdigit()
        else label or one_line(figure.find("head")),
        kind="table" if is_table else "figure",
        caption=one_line(figure.find("figDesc")),
        content="\n".join(map(" | ".join, rows)),
    )


def _tei_reference(cited: Element) -> Reference:
    people = ([*each.findall("surname"), *each.findall("forename")] for each in cited.iter("persName"))
    names = [" ".join(map(one_line, person)) for person in people]
    title = next((each for level in "am" for each in cited.iter("title") if each.get("level") == level), None)
    journal = next((each for each in cited.iter("title") if each.get("level") == "j"), None)
    date = next(cited.iter("date"), None)
    raw = next((each for each in cited.iter("note") if each.get("type") == "raw_reference"), None)
    parts = {"authors": ", ".join(names), "title": one_line(title), "journal": one_line(journal)}
    parts["year"] = (date.get("when") or one_line(date))[:4] if date is not None else ""
    return Reference(text=one_line(raw) or ". ".join(filter(None, parts.values())), **parts)
