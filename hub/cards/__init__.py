"""Cards: Jinja templates filled in from records, front matter, licences, and card.md, which a publisher writes and every card keeps."""

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import jinja2
import yaml
from markdown_it import MarkdownIt
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from evals.errors import LabError
from evals.io import notice_text, write_whole

TEMPLATES = Path(__file__).parent / "templates"


def address() -> str | None:
    """Return where Assay is published: ASSAY_URL, else the first Project-URL of the installed package; None if unknown."""
    if named := os.environ.get("ASSAY_URL"):
        return named
    with suppress(PackageNotFoundError):  # a Space holds the files, and no package is installed there
        return next((each.split(", ")[1] for each in metadata("assay").get_all("Project-URL") or ()), None)
    return None


@cache
def environment() -> jinja2.Environment:
    """Return where templates are looked for and kept compiled; a place without a value is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )
    made.filters |= {"cell": cell, "repr": repr}
    return made


def render(template: str, **values: object) -> str:
    """Return a template filled in; a place without a value is an error, as it is none for `RepoCard.from_template`."""
    return environment().get_template(template).render(address=address(), **values)


def cell(text: object) -> str:
    """Return something as it can stand in a Markdown table."""
    return " ".join(str(text).split()).replace("|", "\\|")


def about(repo: str = "", repo_type: str = "", tag: str | None = None, licence: str | None = None) -> str:
    """Return the paragraph of a card on who published it, under what, whom to ask, how to cite it, and where Assay is.

    Without `repo` it names none, as the cards do that are written before they are published.
    """
    owner, _, name = repo.partition("/")
    page = f"https://huggingface.co/{repo_type}s/{repo}"
    known = {"page": page, "owner": owner, "name": name, "tag": tag, "licence": licence} if repo else {}
    return render("about.md", **known).strip()


FRONT_MATTER = re.compile(r"\A\s*---\r?\n(?P<yaml>.*?)\r?\n---\s*(?:\r?\n|\Z)", re.DOTALL)


def read_front_matter(text: str) -> dict[str, Any] | None:
    """Return the front matter of a card, None if it has none; ValueError if it is no mapping."""
    match = FRONT_MATTER.match(text)
    if match is None:
        return None
    try:
        found = yaml.safe_load(match["yaml"])
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not isinstance(found or {}, dict):
        raise ValueError("it is no list of keys and values")
    return found or {}


def known_front_matter(text: str) -> dict[str, Any]:
    """Return the front matter of a card, empty where there is none that can be read."""
    try:
        return read_front_matter(text) or {}
    except ValueError:
        return {}


def body_of(text: str) -> str:
    """Return a card without its front matter."""
    return FRONT_MATTER.sub("", text, count=1)


KNOWN = yaml.safe_load(Path(__file__).with_name("licences.yaml").read_text(encoding="utf-8"))
HUB_IDS = frozenset(each for group, ids in KNOWN.items() if group != "duties" for each in ids)


@dataclass(frozen=True)
class Source:
    """Something that a publication is made from; `licence` None = nobody has recorded one."""

    name: str
    licence: str | None


def suggest_licence(base: Source, data: Iterable[Source]) -> str:
    """Return the licence that what is made from these can have: the base's, or "other".

    >>> suggested(Source("b", "apache-2.0"), [Source("d", "mit")])
    'apache-2.0'
    >>> suggested(Source("b", "apache-2.0"), [Source("d", None)])
    'other'
    """
    is_known = base.licence in HUB_IDS and base.licence not in KNOWN["others"]
    if base.licence and is_known and all(each.licence in KNOWN["permissive"] for each in data):
        return base.licence
    return "other"


def conflicts(licence: str, sources: Iterable[Source]) -> list[str]:
    """Return what speaks against giving something made from `sources` this licence, in sentences."""
    found = []
    for source in sources:
        theirs = source.licence
        start = f"{source.name} is under {theirs}, "
        if theirs in KNOWN["no_derivatives"]:
            found.append(start + "which allows no work made from it")
        elif licence in (theirs, "other"):
            continue
        elif theirs in KNOWN["own_terms"]:
            found.append(start + f"whose terms go over to what is made from it, so the licence cannot be {licence}")
        elif theirs in KNOWN["non_commercial"] and licence not in KNOWN["non_commercial"]:
            found.append(start + f"which allows no commercial use, and {licence} does")
        elif theirs in KNOWN["share_alike"]:
            found.append(start + f"which wants what is made from it under the same licence, not {licence}")
    return found


def licence_text(licence: str | None) -> str | None:
    """Return the text of Assay's own licence, the Apache License 2.0, for what is published under it; None for others."""
    return notice_text("LICENSE") if licence == "apache-2.0" else None


def unknown(sources: Iterable[Source]) -> list[str]:
    """Return the names of the sources whose licence nobody has recorded."""
    return [each.name for each in sources if each.licence in (None, "unknown")]


def duty(licence: str | None) -> str | None:
    """Return what a licence asks of those who pass on work made from it; None where we know none."""
    return next((words for start, words in KNOWN["duties"].items() if (licence or "").startswith(start)), None)


OWN = "card.md"
MARK = "<!-- as Assay wrote it, sha256 {} -->\n"
MARKED = re.compile(re.escape(MARK).replace(r"\{\}", "([0-9a-f]{64})") + r"\Z")
"""Last line of a card that was written into a folder: tells whether somebody has edited it since."""
AT_THE_END = re.compile(r"(?i)citation|acknowledg|funding|licen[cs]e")
"""Headings of sections that stand behind those of the card; others stand before them."""


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_list)]


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
NO_OWN = OwnCard()


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
            f"{file}, line 1: the front matter has no end. Close it with a second line of three dashes. {_accepted_keys()}"
        )
    first = text[: match.start("yaml")].count("\n") + 1 if match else 1
    try:
        front = yaml.safe_load(match["yaml"]) or {} if match else {}
        if not isinstance(front, dict):
            raise LabError(f"{file}, line {first}: the front matter does not hold keys with values. {_accepted_keys()}")
        return OwnCard(**OwnKeys.model_validate(front).model_dump(), body=body_of(text).strip())
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise LabError(
            f"{file}, line {first + (mark.line if mark else 0)}: no valid YAML: {problem}. {_accepted_keys()}"
        ) from None
    except ValidationError as error:
        (key, *_), what = error.errors()[0]["loc"], error.errors()[0]
        lines = text.splitlines()
        line = next((number for number, each in enumerate(lines, 1) if each.startswith(f"{key}:")), first)
        told = "is no key of it" if what["type"] == "extra_forbidden" else f"{what['msg']}, got {what['input']!r}"
        raise LabError(f"{file}, line {line}: {key!r}: {told}. {_accepted_keys()}") from None


def _accepted_keys() -> str:
    return (
        f"It takes {', '.join(KEYS)}; all else is Markdown below the front matter, in sections such as ## Intended use."
    )


def add_own(card: str, own: OwnCard) -> str:
    """Return a card with what the publisher wrote.

    Authors, contact and the first text stand below the title. A section that the card has too begins with the publisher's
    words; the others come before the card's sections, citation and licence behind them.
    """
    if own == NO_OWN:
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


def without_mark(text: str) -> str:
    """Return a card without Assay's mark."""
    return MARKED.sub("", text)


def write_card(file: Path, card: str) -> None:
    """Write a card with Assay's mark; LabError, and nothing is written, where that would drop what a person wrote."""
    if line := foreign_line(file, card):
        raise LabError(
            f"{file}, line {line}: somebody edited this card, or another version wrote it, and that would be lost from this line on."
            f" Put what you wrote into {OWN} beside it, which every card keeps, and remove {file.name}."
        )
    write_whole(file, with_mark(card))


def with_mark(card: str) -> str:
    """Return a card with Assay's mark as its last line."""
    card = without_mark(card).rstrip("\n") + "\n"
    return card + MARK.format(_checksum(card))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
