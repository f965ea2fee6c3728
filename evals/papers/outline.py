"""Headings, paragraphs and captions in their order, put together to sections, figures and references; Markdown and plain text."""

import html
import re
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from html.entities import html5
from pathlib import Path
from typing import Literal

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from evals.errors import UnreadableArticle
from evals.io import encoding_of
from evals.schema import Figure, PageStart, Reference, Section

NUMBER = re.compile(r"^\s*(?:\d+(?:\.\d+)*|[IVX]+)[.):]?\s+(?:\|\s+)?")
_PATTERNS = tomllib.loads(Path(__file__).with_name("sections.toml").read_text(encoding="utf-8"))
ROLES = {role: re.compile(pattern, re.I) for role, pattern in _PATTERNS.items()}
"""What sections are for, by how they are called."""


def plain_name(name: str) -> str:
    """Return a section's name without its number and final punctuation: "2.1 Mice." -> "Mice"."""
    return NUMBER.sub("", name.strip()).strip(" .:–—-\t")


def role_of(name: str) -> str:
    """Return what a section is for; "other" if its name does not tell.

    >>> [role_of(name) for name in ("2. Patients and methods", "RESULTS AND DISCUSSION", "Resulting cohort")]
    ['methods', 'results', 'other']
    """
    plain = plain_name(name)
    return next((role for role, pattern in ROLES.items() if pattern.fullmatch(plain)), "other")


CAPTION = re.compile(
    r"(?P<label>(?:(?:Supplementary|Supplemental|Extended Data)\s+)?(?P<word>Figure|Fig\.?|Table|Scheme)"
    r"\s+(?:S\s?)?[A-Z]?\d+[A-Za-z]?)\s*[.:|–—]\s*(?P<text>\S.*)",
    re.S | re.I,
)
LONGEST_ABSTRACT = 3000
"""Characters; a longer one may be wrong."""
KEYWORDS = re.compile(r"(?:key ?words?|index terms)\b", re.I)
LONG_PARAGRAPH = 60
"""Words from which a paragraph before the first heading is taken for the abstract."""
FRONT, UNNAMED = "Front matter", "Main text"


@dataclass(frozen=True)
class Block:
    """A piece of a paper; `level` counts for headings alone, 1 = section, `page` from 1."""

    kind: Literal["heading", "paragraph", "figure"]
    text: str
    level: int = 1
    page: int | None = None
    figure: Figure | None = None
    starts: tuple[PageStart, ...] = ()


@dataclass(frozen=True)
class Outline:
    """A paper taken apart; no format but JATS gives more than title, abstract, sections, figures and references."""

    title: str
    abstract: str
    sections: tuple[Section, ...]
    abstract_pages: tuple[PageStart, ...] = ()
    figures: tuple[Figure, ...] = ()
    references: tuple[Reference, ...] = ()
    doi: str = ""
    subjects: tuple[str, ...] = ()
    published_date: date | None = None
    notes: tuple[str, ...] = ()


def caption_of(text: str, page: int | None = None) -> Figure | None:
    """Return the figure or table that a paragraph is the caption of, None if it is running text.

    "Figure 2. Growth." is one, "Figure 2 shows growth." is not.
    """
    match = CAPTION.match(text.strip())
    if match is None:
        return None
    kind: Literal["figure", "table"] = "table" if match["word"].lower().startswith("table") else "figure"
    return Figure(label=" ".join(match["label"].split()), kind=kind, caption=match["text"], page=page)


def outline_of(blocks: Sequence[Block], title: str = "") -> Outline:
    """Return the sections of a paper in its order; names may repeat, captions are figures of their own.

    What stands before the first heading is the abstract, if it is long and there is no other, and authors and
    addresses; without a heading it is all there is. Headings right below Abstract are its parts up to the one that says
    again what one of them does; an abstract ends with its keywords.
    """
    parts: list[tuple[str, list[Block]]] = [("", [])]
    figures: list[Figure] = []
    for block in blocks:
        figure = block.figure or (caption_of(block.text, block.page) if block.kind == "paragraph" else None)
        if figure is not None:
            figures.append(figure)
        elif block.kind == "heading" and block.level <= 1:
            parts.append((block.text.strip(), []))
        elif block.text.strip():
            parts[-1][1].append(replace(block, text=block.text.strip()))
    (_, front), *named = parts
    found: dict[str, list[Block]] = {}
    for role in ("abstract", "references"):
        places = [place for place, (name, _) in enumerate(named) if role_of(name) == role]
        if role == "references":  # a column of a table may be called so, too
            places.sort(key=lambda place: -len(named[place][1]))
        if places:
            found[role] = named.pop(places[0])[1]
    abstract = found.get("abstract")
    if abstract == []:
        below = _parts_of_abstract(named)
        abstract = [each for name, members in below for each in (Block("heading", name, 2), *members)]
        named = named[len(below) :]
    elif abstract:
        is_end = (n for n, each in enumerate(abstract) if n and KEYWORDS.match(each.text))
        end = next(is_end, len(abstract)) + 1
        abstract, rest = abstract[:end], abstract[end:]
        if any(len(each.text.split()) >= LONG_PARAGRAPH for each in rest):
            named.insert(0, (UNNAMED, rest))
        else:
            front = [*front, *rest]
    if abstract:  # addresses of the authors may be printed between its heading and its text
        lead = next((n for n, each in enumerate(abstract) if "@" not in each.text or _is_prose(each.text)), 0)
        front, abstract = [*front, *abstract[:lead]], abstract[lead:]
    if abstract is None:
        abstract = [each for each in front if named and len(each.text.split()) >= LONG_PARAGRAPH]
        if sum(len(each.text) for each in abstract) > LONGEST_ABSTRACT:  # a paper without headings
            at = front.index(abstract[0])
            front, abstract, rest = front[:at], abstract[:1], front[at + 1 :]
            named.insert(0, (UNNAMED, rest))
        page = front[0].page if front else None
        front = [replace(each, page=page) for each in front if each not in abstract] if abstract else front
    whole = _section("", abstract)
    sections = [(FRONT if named else UNNAMED, front), *named]
    return Outline(
        title=title,
        abstract=whole.text,
        abstract_pages=whole.pages,
        sections=tuple(_section(name, members) for name, members in sections if members),
        figures=tuple(figures),
        references=tuple(Reference(text=each.text) for each in found.get("references", ())),
    )


def _is_prose(text: str) -> bool:
    """Return whether a paragraph ends as a sentence does, or is long."""
    return text.endswith((".", "?", "!")) or len(text.split()) >= LONG_PARAGRAPH


def _parts_of_abstract(named: Sequence[tuple[str, list[Block]]]) -> Sequence[tuple[str, list[Block]]]:
    """Return the first of the sections, up to an Introduction or one that is for the same as one before; none if they are long."""
    roles = [role_of(name) for name, _ in named]
    end = next(
        (
            n
            for n, (name, _) in enumerate(named)
            if n and (plain_name(name).lower() == "introduction" or (roles[n] != "other" and roles[n] in roles[:n]))
        ),
        0,
    )
    length = sum(len(each.text) for _, members in named[:end] for each in members)
    return named[:end] if length <= LONGEST_ABSTRACT else ()


def _section(name: str, members: Sequence[Block]) -> Section:
    """Return paragraphs as a section that knows where each stands; headings below it are paragraphs of their own."""
    length, places = 0, list[PageStart]()
    for each in members:
        starts = each.starts or (() if each.page is None else (PageStart(at=0, page=each.page),))
        is_heading = each.kind == "heading"
        places += [start.model_copy(update={"at": start.at + length, "is_heading": is_heading}) for start in starts]
        length += len(each.text) + 2
    return Section(name=name, text="\n\n".join(each.text for each in members), pages=tuple(places))


# ---- Markdown and plain text ---------------------------------------------------------------------


MEGABYTE = 1_000_000
LARGEST_PDF, LARGEST_TEXT = 100, 20
"""Megabytes of a PDF or an Office file, and of a text or XML file."""


def check_size(size: int, name: str, start: bytes) -> None:
    """Raise UnreadableArticle if a file of `size` bytes that begins with `start` is too large."""
    is_pdf = b"%PDF-" in start or start.startswith(b"PK\x03\x04")
    allowed = LARGEST_PDF if is_pdf else LARGEST_TEXT
    if size > allowed * MEGABYTE:
        raise UnreadableArticle(
            f"{name} has {size / MEGABYTE:.1f} MB; a {'PDF or Office file' if is_pdf else 'text or XML file'} may have"
            f" up to {allowed} MB. Give the article without its supplementary files, or save it with smaller images."
        )


CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
MOST_CONTROLS = 0.01
"""Share of control characters above which a file is no text."""


def decode_text(data: bytes, name: str) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 or 32 with a byte order mark, lines ended by line feeds.

    UnreadableArticle for another encoding (a wrong guess would turn µ and ± into other signs
    without a word), for a file that is no text, and for one that is empty.
    """
    encoding = encoding_of(data[:4])
    text = data.decode(encoding, "replace")
    if len(CONTROL.findall(text)) > MOST_CONTROLS * len(text):
        raise UnreadableArticle(
            f"{name} holds control characters throughout and is no text; give the paper as PDF, JATS XML,"
            " Markdown or plain text."
        )
    try:
        data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnreadableArticle(
            f"{name} is not {encoding.removesuffix('-SIG')}: byte {error.start} is"
            f" 0x{data[error.start]:02x}. Save it as UTF-8 (in an editor: Save with encoding; or"
            " `iconv -f WINDOWS-1252 -t UTF-8`) and give it again."
        ) from None
    if not text.strip():
        raise UnreadableArticle(f"{name} is empty; give a file that holds the text of a paper.")
    return CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n\n"))


TAGS = (
    "a|abbr|article|b|big|blockquote|body|br|button|center|cite|code|dd|del|div|dl|dt|em|figcaption|figure"
    "|font|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|label|li|main|mark|meta|nav|object|ol|p|pre|q|s"
    "|noscript|script|section|small|span|strike|strong|style|sub|sup|svg|table|tbody|td|tfoot|th|thead|tr|tt|u|ul|video|wbr"
)
TAG = re.compile(rf"</?(?:{TAGS})(?:\s[^<>]*)?/?>", re.I)
UNSEEN = re.compile(
    r"<(?P<open>script|style|noscript)\b[^<>]*>|</(?P<close>script|style|noscript)\s*>|<!(?=--)|-->", re.I
)
BREAK = re.compile(r"<(?:br|hr)(?:\s[^<>]*)?/?>|</(?:p|div|li|tr|h[1-6]|blockquote|section)\s*>", re.I)
ITEM = re.compile(r"<li(?:\s[^<>]*)?>", re.I)
RAISED = re.compile(r"<(?P<tag>su[pb])(?:\s[^<>]*)?>(?P<text>[^<>]*)</(?P=tag)\s*>", re.I)
ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
INVISIBLE = str.maketrans({"\u00ad": "", "\u200b": "", "\ufeff": "", "\u00a0": " ", "\x00": ""})
SPACES = re.compile(r"[^\S\n]+")
BLANK_LINES = re.compile(r"\n{3,}")


def without_markup(text: str) -> str:
    """Return text without HTML: tags by name go, scripts go with what is in them, entities are read.

    >>> without_markup("10<sup>6</sup> cells, <i>p</i> &lt; 0.05, if n < 5 and k > 3")
    '10^6 cells, p < 0.05, if n < 5 and k > 3'
    """
    if "<" in text:
        text = RAISED.sub(_script_in, _visible_text(text))
        text = TAG.sub("", ITEM.sub("\n- ", BREAK.sub("\n", text)))
    if "&" in text:  # html.unescape alone would read the beginning of an unknown entity
        text = ENTITY.sub(lambda e: html.unescape(e[0]) if e[0][1] == "#" or e[0][1:] in html5 else e[0], text)
    return tidy(text)


def _script_in(found: re.Match[str]) -> str:
    before = TAG.sub("", found.string[max(0, found.start() - NEAR) : found.start()])
    return script_text(found["text"], before, is_index=found["tag"].lower() == "sub")


NEAR = 200
"""Characters before a mark that tell what it is."""
MARKS = re.compile(r"(?:\d[\d,;\s–-]*)?\d[a-z]?(?!\d)|[a-z](?:\s*,\s*[a-z])*", re.I)
"""What marks a citation or a footnote: 5, 5–7, 5,6, a."""
EXPONENT = re.compile(r"[-−–+]?\s?[^\W_]")
SIGNED = re.compile(r"[-−–+]\s?\d")
TEN = re.compile(r"(?<![\d.,])10$")
NO_BASE = re.compile(r"(?<![\d.,])(?!10+$)\d{2,}$|\b[a-z]{4,}$")
"""A number or word that nobody raises to a power: n = 24, mice."""
ORDINAL = re.compile(r"st|nd|rd|th", re.I)


def script_text(text: str, before: str, *, is_index: bool = False) -> str:
    """Return what stands as superscript or index behind `before`, with its sign or brackets where it would join a number.

    >>> [before + raised(text, before) for before, text in (("10", "5"), ("n = 24", "5"), ("n = 24", "5–7"), ("cm", "2"))]
    ['10^5', 'n = 24 [5]', 'n = 24 [5–7]', 'cm2']
    """
    plain, last = " ".join(text.split()), before[-1:]
    if not plain or not last:
        return text
    inner = plain.strip("()[] ")
    if not is_index and inner != plain and inner[:1].isdigit() and MARKS.fullmatch(inner):
        return f" [{inner}]"
    if not is_index and plain[0].isdigit() and MARKS.fullmatch(plain):
        is_single = plain.isdigit() and last not in ".,;:"
        if NO_BASE.search(before) if is_single else not TEN.search(before):
            return f" [{plain}]"
    is_power = (last.isdigit() and EXPONENT.match(plain)) or (last.isalnum() and SIGNED.match(plain))
    if (is_power and not ORDINAL.fullmatch(plain)) or (not is_index and last in ")]" and plain.isdigit()):
        return ("_" if is_index else "^") + plain
    return text


def _visible_text(text: str) -> str:
    """Return text without scripts, styles and comments, read once; what is never closed is kept."""
    kept: list[str] = []
    at, inside = 0, ""
    for mark in UNSEEN.finditer(text):
        opened = (mark["open"] or ("--" if mark[0] == "<!" else "")).lower()
        closed = (mark["close"] or ("--" if mark[0] == "-->" else "")).lower()
        if not inside and opened:
            kept.append(text[at : mark.start()])
            at, inside = mark.start(), opened
        elif inside and closed == inside:
            at, inside = mark.end(), ""
    return " ".join([*kept, text[at:]])


def tidy(text: str) -> str:
    """Return text with single spaces, no spaces at line ends, at most one blank line, nothing unseen."""
    text = SPACES.sub(" ", text.translate(INVISIBLE))
    lines = (line.strip() for line in text.split("\n"))
    return BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()


LONGEST_HEADING, LONGEST_TITLE = 12, 40
"""Words."""
ENDS = (".", ",", ";", ":", "?", "!")
NUMBERED = re.compile(r"(?P<number>\d+(?:\.\d+)*)\.?\s+(?:\|\s+)?[A-Z(]")
ABSTRACT = re.compile(r"(?:abstract|summary)\s*[.:—–-]\s*(?=\S)", re.I)


def read_plain(text: str) -> Outline:
    """Return the title (the first lines, if they read like one) and the sections of a plain text."""
    paragraphs = [part.strip("\n") for part in re.split(r"\n\s*\n", without_markup(text))]
    paragraphs = [part for part in paragraphs if part.strip()]
    title = " ".join(paragraphs.pop(0).split()) if paragraphs and is_title(paragraphs[0]) else ""
    blocks: list[Block] = []
    for part in paragraphs:
        lines = part.split("\n")  # headings on lines of their own come off its start
        while lines and (level := heading_level(lines[0])) is not None:
            blocks.append(Block("heading", plain_name(lines.pop(0)), level))
        rest = ""
        for line in (each.strip() for each in lines):
            if rest.endswith("-") and rest[-2:-1].isalpha() and line[:1].isalnum():
                rest = (rest[:-1] if line[0].islower() else rest) + line
                continue
            is_item = re.match(r"(?:[-*•]|\d+[.)])\s", line)
            rest += ("\n" if is_item else " ") + line if rest else line
        if opening := ABSTRACT.match(rest):
            blocks.append(Block("heading", "Abstract"))
            rest = rest[opening.end() :]
        if rest:
            blocks.append(Block("paragraph", rest))
    return outline_of(blocks, title)


def is_title(first: str) -> bool:
    """Tell whether the first paragraph of a text reads like its title."""
    is_other = role_of(first) != "other" or first.startswith(("- ", "* "))
    return len(first.split()) <= LONGEST_TITLE and not first.rstrip().endswith(".") and not is_other


def heading_level(line: str) -> int | None:
    """Return 1 for a section's heading, 2 or more for one below, None for running text.

    >>> [heading_level(line) for line in ("METHODS", "2.1 Mice", "Mice were fed.")]
    [1, 2, None]
    """
    line = line.strip()
    if not line or len(line.split()) > LONGEST_HEADING:
        return None
    if role_of(line) != "other" and not line.endswith((".", ",", ";")):
        return 1 if line[:1].isupper() or NUMBER.match(line) else None
    if line.endswith(ENDS) or not any(letter.isalpha() for letter in line):
        return None
    numbered = NUMBERED.match(line)
    if numbered:
        return numbered["number"].count(".") + 1
    letters = [letter for letter in line if letter.isalpha()]
    return 1 if len(letters) > 3 and all(letter.isupper() for letter in letters) else None


ATTRIBUTES = re.compile(r"\s*\{[#.][^{}]*\}$")
"""What pandoc writes behind a heading: {#sec:intro .unnumbered}."""
FRONT_MATTER = re.compile(r"\A---\n(?P<yaml>.*?)\n(?:---|\.\.\.)\s*\n", re.S)


def read_markdown(text: str) -> Outline:
    """Return the title (front matter, else the one heading above all others) and the sections."""
    title = abstract = ""
    if front := FRONT_MATTER.match(text):
        text = text[front.end() :]
        with suppress(yaml.YAMLError, RecursionError):
            document = yaml.safe_load(front["yaml"])
            told = document if isinstance(document, dict) else {}
            values = [told.get(name) or "" for name in ("title", "abstract")]
            title, abstract = ("" if isinstance(each, list | dict | set) else tidy(str(each)) for each in values)
    title, blocks = with_title(_blocks(MarkdownIt("commonmark").enable("table").parse(text)), title)
    before = [Block("heading", "Abstract"), Block("paragraph", abstract)] if abstract else []
    return outline_of([*before, *blocks], title)


def with_title(blocks: Sequence[Block], title: str = "") -> tuple[str, list[Block]]:
    """Return the title and the other blocks, their highest headings at level 1, without numbers.

    Without a title it is the first heading, if that is the first of all and stands before a section, or above all others.
    """
    rest = list(blocks)
    headings = [block for block in rest if block.kind == "heading"]
    if not title and headings and role_of(headings[0].text) == "other":
        first, *others = headings
        opens = rest[0] is first and any(role_of(each.text) != "other" for each in others)
        if opens or all(first.level < each.level for each in others):
            rest.remove(first)
            title, headings = first.text, others
    top = min((each.level for each in headings), default=1)
    return title, [
        replace(each, text=plain_name(each.text), level=each.level - top + 1) if each.kind == "heading" else each
        for each in rest
    ]


def _blocks(tokens: Sequence[Token]) -> list[Block]:
    found: list[Block] = []
    item, cells, row = "", list[str](), list[str]()
    for index, token in enumerate(tokens):
        if token.type == "list_item_open":
            item = "- "
        elif token.type in ("fence", "code_block"):
            found.append(Block("paragraph", token.content.strip()))
        elif token.type == "html_block":
            found.append(Block("paragraph", without_markup(token.content)))
        elif token.type == "tr_close":
            cells.append(" | ".join(row))
            row = []
        elif token.type == "table_close":
            found.append(Block("paragraph", "\n".join(cells)))
            cells = []
        elif token.type == "inline":
            opener = tokens[index - 1]
            if opener.type in ("th_open", "td_open"):
                row.append(_text(token))
                continue
            found += _inline(token, opener, item)
            item = ""
    return [block for block in found if block.text or block.figure]


def _inline(token: Token, opener: Token, item: str) -> list[Block]:
    figures = [
        Block("figure", "", figure=Figure(label="", kind="figure", caption=tidy(child.content)))
        for child in token.children or ()
        if child.type == "image" and child.content.strip()
    ]
    text = _text(token)
    if opener.type == "heading_open":
        return [Block("heading", ATTRIBUTES.sub("", text), int(opener.tag[1:])), *figures]
    return [*figures, Block("paragraph", item + text if text else "")]


def _text(token: Token) -> str:
    """Return what a reader sees of a line: link texts, code, no marks."""
    seen = ("text", "code_inline", "html_inline")
    breaks = ("softbreak", "hardbreak")
    children = token.children or ()
    return without_markup("".join(c.content if c.type in seen else " " if c.type in breaks else "" for c in children))
