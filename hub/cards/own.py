"""card.md: what a publisher writes about their own work. Every card of the folder holds it, and no publication drops it."""

import hashlib
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import yaml
from markdown_it import MarkdownIt
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from evals.errors import LabError
from evals.io import write_whole
from hub.cards.lint import FRONT_MATTER, body_of, known_front_matter

OWN = "card.md"
MARK = "<!-- as Assay wrote it, sha256 {} -->\n"
MARKED = re.compile(re.escape(MARK).replace(r"\{\}", "([0-9a-f]{64})") + r"\Z")
"""Last line of a card that was written into a folder: tells whether somebody has edited it since."""
AT_THE_END = re.compile(r"(?i)citation|acknowledg|funding|licen[cs]e")
"""Headings of sections that stand behind those of the card; others stand before them."""


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class OwnKeys(BaseModel):
    """The front matter of card.md."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    authors: Texts = ()
    contact: str | None = None
    language: Texts = ()
    license: str | None = None
    license_name: str | None = None
    license_link: str | None = None
    tags: Texts = ()


class OwnCard(OwnKeys):
    """card.md: its front matter, its text before the first heading, and its sections in order."""

    body: str = ""


KEYS = tuple(OwnKeys.model_fields)


def read_own(folder: Path) -> OwnCard:
    """Return card.md of a folder, an empty one where there is none.

    LabError, with the line, for front matter that is no YAML or holds other keys than `KEYS`.
    """
    file = folder / OWN
    try:
        text = file.read_text(encoding="utf-8-sig") if file.is_file() else ""
    except UnicodeDecodeError as error:
        raise LabError(f"{file}: is not UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8.") from None
    match = FRONT_MATTER.match(text)
    if match is None and text.lstrip().startswith("---"):
        raise LabError(
            f"{file}, line 1: the front matter has no end. Close it with a second line of three dashes. {_accepted()}"
        )
    first = text[: match.start("yaml")].count("\n") + 1 if match else 1
    try:
        front = yaml.safe_load(match["yaml"]) or {} if match else {}
        if not isinstance(front, dict):
            raise LabError(f"{file}, line {first}: the front matter does not hold keys with values. {_accepted()}")
        return OwnCard(**OwnKeys.model_validate(front).model_dump(), body=body_of(text).strip())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise LabError(
            f"{file}, line {first + (mark.line if mark else 0)}: no valid YAML: {problem}. {_accepted()}"
        ) from None
    except ValidationError as error:
        (key, *_), what = error.errors()[0]["loc"], error.errors()[0]
        lines = text.splitlines()
        line = next((number for number, each in enumerate(lines, 1) if each.startswith(f"{key}:")), first)
        told = "is no key of it" if what["type"] == "extra_forbidden" else f"{what['msg']}, got {what['input']!r}"
        raise LabError(f"{file}, line {line}: {key!r}: {told}. {_accepted()}") from None


def _accepted() -> str:
    return (
        f"It takes {', '.join(KEYS)}; all else is Markdown below the front matter, in sections such as ## Intended use."
    )


def add_own(card: str, own: OwnCard) -> str:
    """Return a card with what the publisher wrote.

    Authors, contact and the first text stand below the title. A section that the card has too begins with the publisher's
    words; the others come before the card's sections, citation and licence behind them.
    """
    if own == OwnCard():
        return card
    front = known_front_matter(card)
    named = {name: getattr(own, name) for name in ("license", "license_name", "license_link") if getattr(own, name)}
    named |= {"language": [*own.language]} if own.language else {}
    named |= {"tags": [*dict.fromkeys((*(front.get("tags") or ()), *own.tags))]} if own.tags else {}
    (_, opening), *sections = _sections(body_of(card))
    (_, intro), *mine = _sections(own.body)
    by = " · ".join(
        [f"**By** {', '.join(own.authors)}"] * bool(own.authors) + [f"**Contact:** {own.contact}"] * bool(own.contact)
    )
    title, _, rest = opening.strip().partition("\n")
    theirs = {_same(heading): at for at, (heading, _) in enumerate(sections)}
    before: list[tuple[str, str]] = []
    after: list[tuple[str, str]] = []
    for heading, text in mine:
        if text.lstrip().startswith("@"):  # BibTeX
            text = f"```bibtex\n{text.strip()}\n```"
        if (at := theirs.get(_same(heading))) is not None:
            sections[at] = (sections[at][0], f"{text.strip()}\n\n{sections[at][1].strip()}\n")
        else:
            (after if AT_THE_END.match(heading) else before).append((heading, text))
    told = [f"{title}\n", *filter(None, (by, intro.strip(), rest.strip()))]
    told += [f"## {heading}\n\n{text.strip()}" for heading, text in (*before, *sections, *after)]
    data = yaml.safe_dump(front | named, sort_keys=False, allow_unicode=True)
    return f"---\n{data}---\n\n" + "\n\n".join(each.strip() for each in told) + "\n"


def _same(heading: str) -> str:
    return heading.strip().casefold().replace("license", "licence")


def _sections(text: str) -> list[tuple[str, str]]:
    """Return the text before the first heading of the second level under "", then each section; code is no heading."""
    lines = text.splitlines()
    starts = [
        token.map[0]
        for token in MarkdownIt().parse(text)
        if token.type == "heading_open" and token.tag == "h2" and token.level == 0 and token.map
    ]
    found = [("", "\n".join(lines[: starts[0] if starts else len(lines)]))]
    for start, end in pairwise([*starts, len(lines)]):
        found.append((lines[start].lstrip("# ").strip(), "\n".join(lines[start + 1 : end])))
    return found


def foreign_line(file: Path, card: str) -> int | None:
    """Return the first line of a card, from 1, that writing it anew would lose; None where a person has changed nothing.

    `card` is the card as it would be written now. It is 1 for a changed card whose every line the new one has, too.
    """
    if not file.is_file():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    known = {*card.splitlines(), ""}
    if is_unedited(text) or text.strip() == card.strip():
        return None
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if line not in known and not line.startswith(MARK[:20])), 1)


def is_unedited(text: str) -> bool:
    """Whether a card ends with Assay's mark and is as it was written."""
    match = MARKED.search(text)
    return match is not None and _checksum(text[: match.start()]) == match[1]


def unmarked(text: str) -> str:
    """Return a card without Assay's mark."""
    return MARKED.sub("", text)


def write_card(file: Path, card: str) -> None:
    """Write a card with Assay's mark; LabError, and nothing is written, where that would drop what a person wrote."""
    if line := foreign_line(file, card):
        raise LabError(
            f"{file}, line {line}: somebody edited this card, or another version wrote it, and that would be lost from this line on."
            f" Put what you wrote into {OWN} beside it, which every card keeps, and remove {file.name}."
        )
    write_whole(file, marked(card))


def marked(card: str) -> str:
    """Return a card with Assay's mark as its last line."""
    card = unmarked(card).rstrip("\n") + "\n"
    return card + MARK.format(_checksum(card))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
