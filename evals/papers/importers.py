"""Open reviews as PeerRead and NLPeer lay them out: rows as bioreview-bench writes them, with free text cut into concerns.

Their reviewers named no categories, and a severity only by a heading: a concern is `other` and `minor` unless the text says.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evals.errors import LabError
from evals.review.parse import none_in, parse, severity_of
from evals.schema.reviews import UNKNOWN

LINE_NUMBERS = re.compile(r"^\d{1,4}(?: \d{3})?$\n?", re.M)
"""Of manuscripts, which the readers of PDFs left in the text."""
HEADING = re.compile(
    r"^[ \t#*\-–•\d.()]*(?P<name>(?:[A-Z][\w/&-]*[ ]?(?:(?:of|and|for|to the|in)[ ])?){0,3}(?:strengths?|pros|weakness(?:es)?|cons"
    r"|summary|discussion|comments?|concerns?|issues|points|questions?|suggestions?|typos|limitations|revisions?|contributions?|novelty|clarity))"
    r"[*_ \t]*(?::[*_]*|$)",
    re.I | re.M,
)
PRAISE = re.compile(r"strength|\bpros\b|summary(?! of weak)|contribution", re.I)
TELLS = re.compile(
    r"^(?:In )?th(?:is|e) (?:paper|work|manuscript|article|study|submission|authors?)\b.{0,60}?"
    r"\b(?:present|propos|introduc|describ|investigat|stud(?:y|ies)|address|report|appl(?:y|ies))",
    re.I,
)
"""How a paragraph begins that says what the paper is about."""
FEWEST_WORDS = 5
REFERENCE = re.compile(r"^\[\d+\]")
ITEM = re.compile(r"^\s*(?:[-*•–]+|\(?\d{1,2}[.)])\s+(?=\S)", re.M)


def peerread(file: Path) -> dict[str, Any]:
    """Return the row of VENUE/train|dev|test/reviews/ID.json, its text from parsed_pdfs/ID.pdf.json beside.

    A text without a recommendation is a rebuttal, a decision or a question, not a review.
    """
    found, venue = json.loads(file.read_text(encoding="utf-8")), file.parents[2].name
    paper = file.parents[1] / "parsed_pdfs" / f"{file.stem}.pdf.json"
    parsed = (json.loads(paper.read_text(encoding="utf-8")).get("metadata") or {}) if paper.is_file() else {}
    parts = ((each.get("heading"), each.get("text") or "") for each in parsed.get("sections") or ())
    texts = [(name or "", text) for name, each in parts if (text := LINE_NUMBERS.sub("", each).strip())]
    return {
        "id": f"peerread:{venue}/{file.stem}",
        "source": f"peerread-{venue}",
        "title": found.get("title") or parsed.get("title"),
        "abstract": found.get("abstract") or parsed.get("abstractText"),
        "sections": [{"name": name, "text": text} for name, text in texts],
        "editorial_decision": {True: "accept", False: "reject"}.get(found.get("accepted"), "unknown"),
        "reviews": [
            {"main": each.get("comments")}
            for each in found.get("reviews") or ()
            if each.get("RECOMMENDATION") is not None and not each.get("is_meta_review")
        ],
    }


def nlpeer(file: Path) -> dict[str, Any]:
    """Return the row of DATASET/data/PAPER/vN/reviews.json, its text from paper.itg.json, licence from meta.json beside."""
    version, paper, dataset = file.parent, file.parents[1].name, file.parents[3].name
    meta = json.loads((version / "meta.json").read_text(encoding="utf-8"))
    sections: list[tuple[str, list[str]]] = [("", [])]
    for node in json.loads((version / "paper.itg.json").read_text(encoding="utf-8"))["nodes"]:
        if node["ntype"] in ("title", "abstract", "heading"):
            sections.append((node["content"] if node["ntype"] == "heading" else node["ntype"], []))
        elif node["ntype"] in ("paragraph", "list_item", "formula"):
            sections[-1][1].append(node["content"])
    texts = [(name, "\n".join(filter(None, each))) for name, each in sections]
    return {
        "id": f"nlpeer:{dataset}/{paper}/{version.name}",
        "family": f"{dataset}/{paper}".lower(),
        "source": f"nlpeer-{dataset.lower()}",
        "title": meta.get("title"),
        "abstract": meta.get("abstract") or dict(texts).get("abstract"),
        "sections": [each for each in texts if each[0] not in ("title", "abstract")],
        "licence": meta.get("license"),
        "reviews": [each.get("report") for each in json.loads(file.read_text(encoding="utf-8"))],
    }


LAYOUTS: Mapping[str, tuple[str, Callable[[Path], dict[str, Any]]]] = {
    "peerread": ("**/reviews/*.json", peerread),
    "nlpeer": ("**/data/*/v*/reviews.json", nlpeer),
}
"""Where the reviews of each paper stand below the folder that is named, and what makes a row of such a file."""


def laid_out(folder: Path, layout: str) -> Iterator[tuple[Path, dict[str, Any] | str]]:
    """Yield the file of each reviewed paper with its row, or what is wrong with it; LabError if there is none."""
    pattern, row_of = LAYOUTS[layout]
    files = sorted(folder.glob(pattern))
    if not files:
        raise LabError(f"{folder} holds no {pattern}, as {layout} lays reviews out; name the folder of its data.")
    for file in files:
        try:
            row = row_of(file)
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            yield file, f"is not laid out as in {layout} ({type(error).__name__}: {str(error)[:80]})"
            continue
        reviews = enumerate(row.pop("reviews"), start=1)
        row["concerns"] = [{**each, "reviewer_num": n} for n, report in reviews for each in concerns_of(report or {})]
        yield file, row


def concerns_of(report: Mapping[str, str | None]) -> Iterator[dict[str, str]]:
    """Yield the concerns of a review, its fields by name: the items of lists, else paragraphs.

    Fields and parts on strengths and what the paper is about are left out, and paragraphs that praise or begin so.
    """
    for field, text in report.items():
        parts = [field.replace("_", " "), *HEADING.split(text or "")]
        for name, part in zip(parts[::2], parts[1::2], strict=False):
            if PRAISE.search(name) or PRAISE.search(field.replace("_", " ")):
                continue
            heard = next((found for word in name.split() if (found := severity_of(word)) != UNKNOWN), UNKNOWN)
            listed = parse("", part).concerns if len(ITEM.findall(part)) > 1 else ()
            said = [(each.text, each.category, each.severity) for each in listed]
            paragraphs = (" ".join(each.split()) for each in re.split(r"\n\s*\n", ITEM.sub("", part, count=1)))
            for text, category, severity in said or [(each, UNKNOWN, UNKNOWN) for each in paragraphs]:
                if not (
                    none_in(text) or TELLS.match(text) or REFERENCE.match(text) or len(text.split()) < FEWEST_WORDS
                ):
                    severity = next((each for each in (severity, heard) if each != UNKNOWN), "minor")
                    category = "other" if category == UNKNOWN else category
                    yield {"concern_text": text, "category": category, "severity": severity}
