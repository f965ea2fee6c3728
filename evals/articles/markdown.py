"""Markdown to a paper: headings give the sections, pictures and captions the figures."""

import re
from collections.abc import Sequence

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from evals.articles.markup import tidy, without_markup
from evals.articles.outline import Block, outline_of
from evals.articles.plain import Titled
from evals.articles.roles import plain_name, role_of
from evals.schema import Figure

FRONT_MATTER = re.compile(r"\A---\n(?P<yaml>.*?)\n(?:---|\.\.\.)\s*\n", re.S)


def read_markdown(text: str) -> Titled:
    """Return the title (front matter, else the one heading above all others) and the sections."""
    title, body = _front_matter(text)
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    blocks = _blocks(tokens)
    levels = [block.level for block in blocks if block.kind == "heading"]
    if not title and levels and _is_title(blocks, levels):
        first = next(block for block in blocks if block.kind == "heading")
        blocks.remove(first)
        title = first.text
        levels = levels[1:]
    top = min(levels, default=1)
    lifted = [
        Block("heading", plain_name(each.text), each.level - top + 1)
        if each.kind == "heading"
        else each
        for each in blocks
    ]
    return Titled(title, outline_of(lifted))


def _is_title(blocks: Sequence[Block], levels: Sequence[int]) -> bool:
    """Whether the first heading is the paper's title: first of all, named like no section, above others."""
    first = next(block for block in blocks if block.kind == "heading")
    above = len(levels) == 1 or first.level < min(levels[1:])
    named = [each for each in blocks if each.kind == "heading" and role_of(each.text) != "other"]
    is_lone = blocks[0] is first and bool(named) and named[0] is not first
    return role_of(first.text) == "other" and (above or is_lone)


def _front_matter(text: str) -> tuple[str, str]:
    """Return the title of YAML front matter ("" if there is none) and the text behind it."""
    match = FRONT_MATTER.match(text)
    if match is None:
        return "", text
    try:
        document = yaml.safe_load(match["yaml"])
    except yaml.YAMLError:
        return "", text[match.end() :]
    title = document.get("title") if isinstance(document, dict) else None
    return tidy(str(title or "")), text[match.end() :]


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
    """Return a heading or paragraph and the pictures in it."""
    figures = [
        Block("figure", "", figure=Figure(label="", kind="figure", caption=tidy(child.content)))
        for child in token.children or ()
        if child.type == "image" and child.content.strip()
    ]
    text = _text(token)
    if opener.type == "heading_open":
        return [Block("heading", text, int(opener.tag[1:])), *figures]
    return [*figures, Block("paragraph", item + text if text else "")]


def _text(token: Token) -> str:
    """Return what a reader sees of a line: link texts, code, no marks."""
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline", "html_inline"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append(" ")
    return without_markup("".join(parts))
